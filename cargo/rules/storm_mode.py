"""Storm mode and roll calls: the requests of a ship's node to devices that listen while the ship rolls hard, their times, and their form.

Pure: storm mode follows from the rolls alone, and a call from the blows received. So a restart repeats the same requests, and two nodes of
one ship send the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from cargo.errors import BadEntry, CargoError

REQUEST_TOPIC = "landfall/devices/interval"
"""MQTT topic of requests: the same on every ship, because a device does not know which one it is on. Only a node publishes there."""
INTERVAL_S_MAX = 24 * 3_600
CALL_INTERVAL_MS, DRILL_INTERVAL_MS = 5_000, 10_000
"""Interval of answers of devices called by name, and of all devices in a drill, milliseconds."""
CALL_LASTS_MS, DRILL_LASTS_MS = 3 * 60_000, 60_000
"""Duration of a call and of a drill, milliseconds.

A drill counts from the roll that began the storm, which is processed up to 20 s later. In 40 s half the devices answered too seldom to
count as listening."""
DRILL_EVERY_MS = 6 * 3_600_000
"""Interval of drills, milliseconds. All devices are called as storm mode begins, and at each sixth hour (UTC) of it: this shows which
listen."""
AFTER_BLOW_MS, AFTER_BLOW_INTERVAL_MS, PROMISES_MS = 60_000, 5_000, 35_000
"""Duration of a listening device's own reports after a blow beyond SHOCK_G, their interval, and duration of its announcements,
milliseconds.

A device announces its next message. After the last announcement five more messages come, so that a message lost on the air does not look
like a broken promise."""
LISTENS_MS = 7 * 3_600_000
"""Time after its last answer for which a device counts as listening, milliseconds."""
CALLED_MAX = 500
"""Maximum number of devices called by name. Beyond it all devices are called, as often as in a drill."""


@dataclass(frozen=True, slots=True)
class StormRules:
    """Rules of storm mode: in force from a roll beyond `begins_deg` (either side) until none was beyond `ends_deg` for `calm_ms`.

    Boxes then report every `interval_s`. A request holds for `holds_s` and is repeated each `again_ms`, so that no device that misses its
    end reports for ever."""

    begins_deg: float = 10.0
    ends_deg: float = 8.0
    calm_ms: int = 30 * 60_000
    interval_s: int = 60
    holds_s: int = 30 * 60
    again_ms: int = 10 * 60_000


class RollCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to the devices of these containers (None: all) to report every `interval_s` for the next `holds_s` seconds.

    It applies whatever else is requested."""

    interval_s: int
    holds_s: int
    containers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.interval_s <= INTERVAL_S_MAX and 1 <= self.holds_s <= INTERVAL_S_MAX):
            raise CargoError(
                f"seconds of a roll call are 1 to {INTERVAL_S_MAX}, not {self.interval_s} for {self.holds_s}", code="seconds_invalid"
            )


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to devices of the ship with this IMO number, at `at` (UTC ms), to report every `interval_s` for the next `holds_s` seconds.

    `interval_s` None: as usual again, at once. `roll_call`: an additional roll call, if there is one. Later requests replace earlier
    ones."""

    ship: str
    at: int
    interval_s: int | None
    holds_s: int
    roll_call: RollCall | None = None

    def __post_init__(self) -> None:
        if (self.interval_s is not None and not 1 <= self.interval_s <= INTERVAL_S_MAX) or not 0 <= self.holds_s <= INTERVAL_S_MAX:
            raise CargoError(
                f"seconds of a request are 1 to {INTERVAL_S_MAX}, not {self.interval_s} for {self.holds_s}", code="seconds_invalid"
            )

    def to_bytes(self) -> bytes:
        """Return the MQTT payload: a JSON object of these fields."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Request:
        """Return the request in `payload`; unknown fields are left out. Raises BadEntry when it is none."""
        try:
            return msgspec.json.decode(payload, type=cls)
        except msgspec.MsgspecError as problem:
            raise BadEntry(
                f"no request to devices: {problem}", hint="see docs/reference/storm-mode.md", code="request_unreadable"
            ) from problem


def storm_span(rolls: Iterable[tuple[int, float]], rules: StormRules) -> tuple[int, int]:
    """Return since when and until when (UTC ms, exclusive) storm mode is in force; (0, 0): it never was, or ended before the last roll.

    `rolls`: (UTC ms, degrees to either side), in order of time."""
    since_ms = until_ms = 0
    for at_ms, deg in rolls:
        if at_ms >= until_ms:
            since_ms = until_ms = 0
        if deg > (rules.ends_deg if until_ms else rules.begins_deg):
            since_ms, until_ms = since_ms if until_ms else at_ms, at_ms + rules.calm_ms
    return since_ms, until_ms


class StormRequests:
    """Requests to devices, and their times: `due` is called repeatedly."""

    def __init__(self, ship: str, rules: StormRules) -> None:
        self._ship, self._rules = ship, rules
        self._said: Request | None = None

    def due(self, rolls: Iterable[tuple[int, float]], now_ms: int, called: Sequence[str] = ()) -> Request | None:
        """Return the request to send at `now_ms` by the watch's time (UTC ms), with these boxes `called`; None when there is nothing to
        send.

        `called`: from `cargo.loss.roll_call.to_call`. The first call always returns the current request, because one from before a restart
        may be out of date."""
        rules, said = self._rules, self._said
        since_ms, until_ms = storm_span(rolls, rules)
        interval_s = rules.interval_s if now_ms < until_ms else None
        roll_call = _call(called) or (_drill(since_ms, now_ms) if interval_s else None)
        unchanged = said is not None and said.interval_s == interval_s and _whom(said.roll_call) == _whom(roll_call)
        again_ms = DRILL_INTERVAL_MS if roll_call else rules.again_ms
        if said is not None and unchanged and ((interval_s is None and not roll_call) or now_ms - said.at < again_ms):
            return None
        self._said = Request(self._ship, now_ms, interval_s, 0 if interval_s is None else rules.holds_s, roll_call)
        return self._said


def _call(called: Sequence[str]) -> RollCall | None:
    if len(called) > CALLED_MAX:
        return RollCall(DRILL_INTERVAL_MS // 1_000, CALL_LASTS_MS // 1_000)
    return RollCall(CALL_INTERVAL_MS // 1_000, CALL_LASTS_MS // 1_000, tuple(called)) if called else None


def _drill(since_ms: int, now_ms: int) -> RollCall | None:
    left_ms = DRILL_LASTS_MS - min(now_ms - since_ms, now_ms % DRILL_EVERY_MS)
    return RollCall(DRILL_INTERVAL_MS // 1_000, left_ms // 1_000) if left_ms >= DRILL_INTERVAL_MS else None


def _whom(roll_call: RollCall | None) -> tuple[int, tuple[str, ...] | None] | None:
    """Return the interval and the devices of a roll call: a change of these needs a new request."""
    return (roll_call.interval_s, roll_call.containers) if roll_call else None
