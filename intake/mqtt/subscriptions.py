"""SUBSCRIBE and UNSUBSCRIBE at an endpoint that publishes one topic: the node's requests to devices (`cargo/rules/storm_mode.py`).
Sans-I/O.

MQTT 3.1.1 and 5, sections 3.8 to 3.11. The endpoint grants only that topic, named in full, at QoS 0: a missed request is repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cargo.rules.storm_mode import REQUEST_TOPIC
from intake.mqtt.packet_properties import Property, PropertySet, Reason, Violation, read_properties, text_of
from intake.mqtt.packets import ControlPacket, PacketType, packet

TOPIC = REQUEST_TOPIC.encode()
_FLAGS = 0x02
_GRANTED, _REFUSED_311 = 0x00, 0x80
_PACKET_ID_ZERO = b"\0\0"
_FILTER = re.compile(rb"(?:(?:\+|[^+#/]*)/)*(?:\+|#|[^+#/]*)")
"""Pattern of a topic filter, MQTT 4.7.1: `+` is a whole level, `#` the whole of the last."""
_OF_SUBSCRIBE = PropertySet(
    "a SUBSCRIBE",
    frozenset({Property.USER}),
    {
        Property.SUBSCRIPTION_IDENTIFIER: (
            Reason.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
            "subscription identifiers are not offered here",
        )
    },
)
_OF_UNSUBSCRIBE = PropertySet("an UNSUBSCRIBE", frozenset({Property.USER}))


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription of a client to the requests.

    `keeps_flag` (MQTT 5, Retain As Published): they come with the RETAIN flag that they have."""

    keeps_flag: bool = False


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Result of a SUBSCRIBE: the answer, what was granted in it (None: nothing), and whether the last request is to be sent now."""

    answer: bytes
    granted: Subscription | None = None
    say_now: bool = False


def subscribe(v5: bool, asked: ControlPacket, before: Subscription | None) -> Subscribed:
    """Return the result of a SUBSCRIBE by a client whose subscription was `before`. Raises Violation when it can not be read."""
    codes, granted, say_now = bytearray(), None, False
    packet_id, filters = _filters(v5, asked, options_bytes=1)
    for name, options in filters:
        _check_options(v5, options)
        codes.append(_code(v5, name))
        if name == TOPIC:
            granted = Subscription(keeps_flag=bool(options & 0x08))
            handling = options >> 4
            say_now = handling == 0 or (handling == 1 and before is None)
    return Subscribed(packet(PacketType.SUBACK << 4, packet_id + (b"\0" if v5 else b"") + bytes(codes)), granted, say_now)


def unsubscribe(v5: bool, asked: ControlPacket, before: Subscription | None) -> tuple[bytes, bool]:
    """Return the answer to an UNSUBSCRIBE, and whether the subscription ends by it. Raises Violation when it can not be read."""
    packet_id, filters = _filters(v5, asked, options_bytes=0)
    names = [name for name, _ in filters]
    codes = bytes(Reason.SUCCESS if name == TOPIC and before else Reason.NO_SUBSCRIPTION_EXISTED for name in names)
    return packet(PacketType.UNSUBACK << 4, packet_id + (b"\0" + codes if v5 else b"")), TOPIC in names


def request_packet(v5: bool, payload: bytes, flagged: bool) -> bytes:
    """Return the PUBLISH at QoS 0 of `payload`; `flagged`: with RETAIN."""
    body = len(TOPIC).to_bytes(2, "big") + TOPIC + (b"\0" if v5 else b"") + payload
    return packet(PacketType.PUBLISH << 4 | flagged, body)


def _code(v5: bool, name: bytes) -> int:
    if name == TOPIC:
        return _GRANTED
    if not v5:
        return _REFUSED_311
    if name.startswith(b"$share/"):
        return Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if b"+" in name or b"#" in name:
        return Reason.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    return Reason.NOT_AUTHORIZED


def _check_options(v5: bool, options: int) -> None:
    if options & (0xC0 if v5 else 0xFC) or options & 0x03 == 3 or options & 0x30 == 0x30:
        raise Violation(Reason.PROTOCOL_ERROR, f"subscription options 0x{options:02x}")


def _filters(v5: bool, asked: ControlPacket, options_bytes: int) -> tuple[bytes, list[tuple[bytes, int]]]:
    body, at = asked.body, 2
    if asked.head & 0x0F != _FLAGS:
        raise Violation(Reason.MALFORMED_PACKET, f"flags 0x{asked.head & 0x0F:x} in a SUBSCRIBE or UNSUBSCRIBE")
    if v5:
        _, at = read_properties(body, at, len(body), _OF_SUBSCRIBE if options_bytes else _OF_UNSUBSCRIBE)
    filters = list(_names(body, at, options_bytes))
    if not filters or body[:2] == _PACKET_ID_ZERO:
        raise Violation(Reason.PROTOCOL_ERROR, "a SUBSCRIBE or UNSUBSCRIBE without a filter or a packet identifier")
    return body[:2], filters


def _names(body: bytes, at: int, options_bytes: int) -> Iterator[tuple[bytes, int]]:
    while at < len(body):
        end = at + 2 + int.from_bytes(body[at : at + 2], "big")
        name = body[at + 2 : end]
        if end + options_bytes > len(body) or not text_of(name) or not _FILTER.fullmatch(name):
            raise Violation(Reason.MALFORMED_PACKET, "a topic filter that does not read")
        yield name, body[end] if options_bytes else 0
        at = end + options_bytes
