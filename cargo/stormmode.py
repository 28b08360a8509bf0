"""Storm mode: what a ship's node asks of devices that listen while she rolls hard, when it begins and ends, and how it is written.

Pure: when it is in force follows from the rolls alone, so a restart asks what was asked before, and two nodes of one ship ask the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from cargo.errors import Unreadable

REQUEST_TOPIC = "landfall/devices/interval"
"""The MQTT topic of requests: the same on every ship, as a device does not know which one it is on. Nobody but a node publishes there."""
INTERVAL_S_MAX = 24 * 3_600


@dataclass(frozen=True, slots=True)
class StormRules:
    """In force from a roll beyond `begins_deg` (either side) until none was beyond `ends_deg` for `calm_ms`; boxes then report every
    `interval_s`. A request holds for `holds_s` and is said again each `again_ms`, so that nobody who misses its end reports on for ever.
    """

    begins_deg: float = 10.0
    ends_deg: float = 8.0
    calm_ms: int = 30 * 60_000
    interval_s: int = 60
    holds_s: int = 30 * 60
    again_ms: int = 10 * 60_000


class Request(msgspec.Struct, frozen=True):
    """What is asked of devices: by the ship with this IMO number, at `at` (UTC ms), to report every `interval_s` for the next `holds_s`
    seconds; None: as usual again, at once. Later ones replace earlier ones."""

    ship: str
    at: int
    interval_s: int | None
    holds_s: int

    def __post_init__(self) -> None:
        if (self.interval_s is not None and not 1 <= self.interval_s <= INTERVAL_S_MAX) or not 0 <= self.holds_s <= INTERVAL_S_MAX:
            raise ValueError(f"seconds of a request are 1 to {INTERVAL_S_MAX}, not {self.interval_s} for {self.holds_s}")

    def to_bytes(self) -> bytes:
        """The MQTT payload: a JSON object of these fields."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Request:
        """The request in `payload`; fields it does not know are left out. Raises Unreadable when it is none."""
        try:
            return msgspec.json.decode(payload, type=cls)
        except msgspec.MsgspecError as problem:
            raise Unreadable(f"no request to devices: {problem}", hint="docs/storm-mode.md says how they are written") from problem


def storms_until_ms(rolls: Iterable[tuple[int, float]], rules: StormRules) -> int:
    """Until when (UTC ms, exclusive) storm mode is in force by these rolls: (UTC ms, degrees to either side), in order of time. 0: it never
    was, or it ended before the last of them."""
    until_ms = 0
    for at_ms, deg in rolls:
        if at_ms >= until_ms:
            until_ms = 0
        if deg > (rules.ends_deg if until_ms else rules.begins_deg):
            until_ms = at_ms + rules.calm_ms
    return until_ms


class Asking:
    """What to say to devices, and when: `due` is asked again and again."""

    def __init__(self, ship: str, rules: StormRules) -> None:
        self._ship, self._rules = ship, rules
        self._said: Request | None = None

    def due(self, rolls: Iterable[tuple[int, float]], now_ms: int) -> Request | None:
        """What is to be said now, at `now_ms` by the watch's time (UTC ms); None when all has been said. The first time it always says how
        things stand: what was said before a restart may be out of date."""
        rules, said = self._rules, self._said
        interval_s = rules.interval_s if now_ms < storms_until_ms(rolls, rules) else None
        unchanged = said is not None and said.interval_s == interval_s
        if said is not None and unchanged and (interval_s is None or now_ms - said.at < rules.again_ms):
            return None
        self._said = Request(self._ship, now_ms, interval_s, 0 if interval_s is None else rules.holds_s)
        return self._said
