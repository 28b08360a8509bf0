"""Time as a parameter: wall time, the fleet's time, and seconds that never go back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

EARLY_MS_MAX = 5 * 60_000
"""A device's clock may be so far ahead of a true one and still be believed."""
FLEET_LAG_S = 1.0
"""A followed fleet clock hears within this wall time that time runs otherwise: until then it may be behind by as much fleet time."""
ASKED_AGAIN_S = 0.01
"""A fleet clock that was asked so short a time ago (of the wall) is not behind by more than devices may be ahead."""
UNANSWERED_S = 5.0
"""A fleet clock that did not answer is left alone for so long, for who asks may have waited for seconds."""


class Clock(Protocol):
    """What time it is. The demo and the tests pass clocks that run faster or stand still; operators run on `WallClock`."""

    def now_ms(self) -> int:
        """The fleet's time, integer UTC milliseconds: for records, ages and rules. May jump."""
        ...

    def early_ms(self) -> int:
        """How far ahead of `now_ms` a device may be and be believed: EARLY_MS_MAX, and what this clock itself may be behind."""
        ...

    def asked(self) -> bool:
        """Ask the clock that this one follows, now: for a message that is ahead of it. Whether it was asked; may block for seconds."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back and always run at the wall's speed: for time-outs, tokens and latencies."""
        ...

    def boot_s(self) -> float:
        """Seconds since the machine started, time in suspension included: no step of the wall clock changes them."""
        ...

    def doubted(self) -> bool:
        """Whether `now_ms` may be far from the truth (`streams.model.clock_check.CheckedClock`)."""
        ...

    def was_ahead(self, received_at_ms: int) -> bool:
        """Whether this clock was wrong when it gave a record this received time (UTC ms): it is more than EARLY_MS_MAX ahead of now."""
        ...


class WallClock:
    """The machine's own time: the fleet's time is the wall's."""

    def now_ms(self) -> int:
        """UTC milliseconds of the system clock."""
        return time.time_ns() // 1_000_000

    def early_ms(self) -> int:
        """EARLY_MS_MAX: the machine's clock is taken for true."""
        return EARLY_MS_MAX

    def asked(self) -> bool:
        """It follows no other."""
        return False

    def monotonic_s(self) -> float:
        """The system's monotonic clock, in seconds."""
        return time.monotonic()

    def boot_s(self) -> float:
        """The system's CLOCK_BOOTTIME, in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def doubted(self) -> bool:
        """Never: it is not checked here."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """By what it shows now."""
        return received_at_ms - self.now_ms() > EARLY_MS_MAX


@dataclass(frozen=True, slots=True)
class FleetTime:
    """How the fleet's time runs relative to the wall's: at `wall_at_ms` it was `fleet_at_ms`, running `speed` times as fast (0: paused).

    It goes no further than `stops_at_ms` (UTC ms; None: on and on) before its clock says so: followers never overtake it.
    `state`: why it runs so, as its clock has it (`running`, `paused`, `jumping`, `waiting`, `ended`).
    """

    wall_at_ms: int
    fleet_at_ms: int
    speed: float
    stops_at_ms: int | None = None
    state: str = "running"

    def at_ms(self, wall_ms: int) -> int:
        """The fleet's time in UTC ms when the wall's clock shows `wall_ms`."""
        at_ms = self.fleet_at_ms + round((wall_ms - self.wall_at_ms) * self.speed)
        return at_ms if self.stops_at_ms is None else min(at_ms, self.stops_at_ms)


class FleetClock:
    """A clock that follows `FleetTime`, replaced as a whole whenever the simulator pauses, jumps or changes speed. Safe from any thread."""

    def __init__(self, fleet_time: FleetTime, ask: Callable[[], FleetTime | None] = lambda: None) -> None:
        """`ask`: how the fleet's time runs at this moment; None when nobody answers. Called by `asked`, at most once in ASKED_AGAIN_S."""
        self._fleet_time = fleet_time
        self._ask = ask
        self._asked_s = -ASKED_AGAIN_S

    @property
    def fleet_time(self) -> FleetTime:
        """How time runs now."""
        return self._fleet_time

    def follow(self, fleet_time: FleetTime) -> None:
        """From now on time runs as `fleet_time` says."""
        self._fleet_time = fleet_time

    def now_ms(self) -> int:
        """The fleet's time, UTC milliseconds."""
        return self._fleet_time.at_ms(time.time_ns() // 1_000_000)

    def early_ms(self) -> int:
        """EARLY_MS_MAX, and the fleet time that passes until a change of speed is received."""
        return EARLY_MS_MAX + round(max(self._fleet_time.speed, 1.0) * FLEET_LAG_S * 1000)

    def asked(self) -> bool:
        """Follow what the clock behind it says now; False when it was asked a moment ago, or does not answer."""
        if time.monotonic() - self._asked_s < ASKED_AGAIN_S:
            return False
        fleet_time = self._ask()
        self._asked_s = time.monotonic()
        if fleet_time is None:
            self._asked_s += UNANSWERED_S
            return False
        self.follow(fleet_time)
        return True

    def monotonic_s(self) -> float:
        """The system's monotonic clock, in seconds: the wall's speed, whatever the fleet's."""
        return time.monotonic()

    def boot_s(self) -> float:
        """The system's CLOCK_BOOTTIME, in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def doubted(self) -> bool:
        """Never: the fleet's time may jump."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """Never: when a jump slows down, who follows it may have been hours of fleet time ahead for half a second."""
        return False


class StillClock:
    """A clock that stands still until it is moved: for tests and simulations."""

    def __init__(self, now_ms: int = 1_777_593_600_000) -> None:
        self.at_ms = now_ms
        self.at_s = 0.0

    def now_ms(self) -> int:
        """The time last set, UTC milliseconds."""
        return self.at_ms

    def early_ms(self) -> int:
        """EARLY_MS_MAX."""
        return EARLY_MS_MAX

    def asked(self) -> bool:
        """It follows no other."""
        return False

    def monotonic_s(self) -> float:
        """The monotone seconds last set."""
        return self.at_s

    def boot_s(self) -> float:
        """The same seconds: it is never suspended."""
        return self.at_s

    def doubted(self) -> bool:
        """Never."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """By the time last set."""
        return received_at_ms - self.at_ms > EARLY_MS_MAX

    def advance(self, seconds: float) -> None:
        """Both clocks move on by `seconds`."""
        self.at_s += seconds
        self.at_ms += round(seconds * 1000)
