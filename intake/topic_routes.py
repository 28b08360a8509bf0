"""Routes from an MQTT topic to the stream and topic of its readings; a container's number is compacted on the way."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from cargo.vocabulary.trade_codes import is_container, is_ilu, is_imo, stored_number
from intake.decoders.decoder_port import Decoder
from landfall.access.mqtt_filters import topic_pattern

ROUTES_MAX = 131_072
REMEMBERED_BYTES_MAX = 256
"""Maximum length of a remembered topic, bytes. A longer one is parsed each time: else endless topics of 64 KiB would fill the memory."""
_TOPIC = re.compile(
    r"landfall/(?:containers/(?P<container>[A-Za-z0-9. -]{1,24})/reading"
    r"|ships/(?P<ship>[A-Za-z0-9-]{1,24})/(?P<kind>location|environment|noon))"
)
_KINDS = ("location", "environment", "noon")
READINGS = "landfall/containers/+/reading"
SUBSCRIPTIONS = (READINGS, *(f"landfall/ships/+/{kind}" for kind in _KINDS))
"""Topic filters to subscribe to at a broker."""


def gateway_filters(ship: str = "") -> tuple[str, ...]:
    """Return what a gateway may publish unless it is given other filters: readings, and the reports of sensors of `ship`, by IMO number."""
    return READINGS, *(f"landfall/ships/{ship}/{kind}" for kind in _KINDS if ship)


class TopicRoute(msgspec.Struct, frozen=True, gc=False):
    """Destination of the readings of one MQTT topic; `number_valid` is False when the container's or ship's check digit is wrong.

    With `decode`, the decoded messages determine the destination. `refusal`: why no sensor of this node may publish there."""

    stream: str
    topic: str
    number_valid: bool
    decode: Decoder | None = None
    refusal: str = ""


class Routes:
    """Routes by MQTT topic, in a cache of at most ROUTES_MAX of them, none for long topics; a full cache is cleared."""

    def __init__(self, decoders: Iterable[tuple[str, Decoder]] = (), ships: Collection[str] | None = None) -> None:
        """`decoders`: MQTT topic filters, each with the decoder for messages on its topics; our own topics need none.

        `ships`: those, by IMO number, whose sensors may publish here (None: any)."""
        self._ships = ships
        self._decoders = [(topic_pattern(one), TopicRoute("", "", True, decode)) for one, decode in decoders]
        self._known: dict[bytes, TopicRoute | None] = {}

    def route(self, mqtt_topic: bytes) -> TopicRoute | None:
        """Return the route of readings on `mqtt_topic`; None when it is none of ours. A wrong check digit is marked, never refused."""
        try:
            return self._known[mqtt_topic]
        except KeyError:
            others = (route for pattern, route in self._decoders if pattern.fullmatch(mqtt_topic))
            found = self._own(mqtt_topic) or next(others, None)
            if len(mqtt_topic) <= REMEMBERED_BYTES_MAX:
                if len(self._known) >= ROUTES_MAX:
                    self._known.clear()
                self._known[mqtt_topic] = found
            return found

    def _own(self, mqtt_topic: bytes) -> TopicRoute | None:
        match = _TOPIC.fullmatch(mqtt_topic.decode("utf-8", "replace"))
        if match is None:
            return None
        if container := match["container"]:
            number = stored_number(container)
            known = is_container(number) or is_ilu(number)
            return TopicRoute("containers", number, known) if number.replace("-", "").isalnum() else None
        ship = match["ship"]
        refusal = "" if self._ships is None or ship in self._ships else f"no sensor of this node speaks for ship {ship}"
        return TopicRoute("ships", f"{ship}.{match['kind']}", is_imo(ship), refusal=refusal)
