"""Clocks as parameters: wall time, the fleet's time, and monotonic seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

EARLY_MS_MAX = 5 * 60_000
"""Maximum lead of a device's clock over a correct clock at which its time is still accepted, ms."""
FLEET_LAG_S = 1.0
"""Maximum wall time until a follower receives a change of the fleet's time, seconds. Until then its clock may be behind by the fleet time
that passes."""
ASKED_AGAIN_S = 0.01
"""Wall time after a request during which a fleet clock is not asked again, seconds: it is behind by no more than devices may be ahead."""
UNANSWERED_S = 5.0
"""Pause after a request that a fleet clock did not answer, seconds: the caller may already have waited for seconds."""


class Clock(Protocol):
    """Source of time. The demo and the tests pass clocks that run faster or stand still; operators run on `WallClock`."""

    def now_ms(self) -> int:
        """Return the fleet's time, integer UTC milliseconds: for records, ages and rules. It may jump."""
        ...

    def early_ms(self) -> int:
        """Return how many ms a device's time may be ahead of `now_ms` and still be accepted: EARLY_MS_MAX plus this clock's own possible
        lag."""
        ...

    def asked(self) -> bool:
        """Ask the clock that this one follows, because a message is ahead of it, and return whether it was asked. May block for seconds."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go back and always run at the wall's speed: for time-outs, tokens and latencies."""
        ...

    def boot_s(self) -> float:
        """Return the seconds since the machine started, suspended time included. Steps of the wall clock do not change them."""
        ...

    def doubted(self) -> bool:
        """Return whether `now_ms` may be far from the true time (`streams.model.clock_check.CheckedClock`)."""
        ...

    def was_ahead(self, received_at_ms: int) -> bool:
        """Return whether this clock was wrong when it gave a record this received time (UTC ms): the time is more than EARLY_MS_MAX ahead
        of now."""
        ...


class WallClock:
    """The machine's own clock: the fleet's time is the wall's."""

    def now_ms(self) -> int:
        """Return the system clock's time, UTC milliseconds."""
        return time.time_ns() // 1_000_000

    def early_ms(self) -> int:
        """Return EARLY_MS_MAX: the machine's clock is taken as correct."""
        return EARLY_MS_MAX

    def asked(self) -> bool:
        """Return False: this clock follows no other."""
        return False

    def monotonic_s(self) -> float:
        """Return the system's monotonic clock, in seconds."""
        return time.monotonic()

    def boot_s(self) -> float:
        """Return the system's CLOCK_BOOTTIME, in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def doubted(self) -> bool:
        """Return False: the clock is not checked here."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """Return whether this time (UTC ms) is more than EARLY_MS_MAX ahead of the system clock now."""
        return received_at_ms - self.now_ms() > EARLY_MS_MAX


def steady_ms(clock: Clock) -> Callable[[], int]:
    """Return a function that returns the time of `clock` as it shows it now, continued by boot time (UTC ms): no later step changes it."""
    offset_ms = clock.now_ms() - round(clock.boot_s() * 1000)
    return lambda: offset_ms + round(clock.boot_s() * 1000)


@dataclass(frozen=True, slots=True)
class FleetTime:
    """Relation of the fleet's time to the wall's: at wall time `wall_at_ms` it was `fleet_at_ms`, and it runs `speed` times as fast (0:
    paused).

    The time does not pass `stops_at_ms` (UTC ms; None: no limit) until its clock reports a new one, so that followers never overtake it.
    `state` is the reason that its clock reports (`running`, `paused`, `jumping`, `waiting`, `ended`).
    """

    wall_at_ms: int
    fleet_at_ms: int
    speed: float
    stops_at_ms: int | None = None
    state: str = "running"

    def at_ms(self, wall_ms: int) -> int:
        """Return the fleet's time in UTC ms when the wall's clock shows `wall_ms`."""
        at_ms = self.fleet_at_ms + round((wall_ms - self.wall_at_ms) * self.speed)
        return at_ms if self.stops_at_ms is None else min(at_ms, self.stops_at_ms)


class FleetClock:
    """A clock that follows a `FleetTime`, which is replaced as a whole when the simulator pauses, jumps or changes speed. Safe from any
    thread."""

    def __init__(self, fleet_time: FleetTime, ask: Callable[[], FleetTime | None] = lambda: None) -> None:
        """Start at `fleet_time`. `ask` returns the present FleetTime, or None without an answer; `asked` calls it at most once in
        ASKED_AGAIN_S."""
        self._fleet_time = fleet_time
        self._ask = ask
        self._asked_s = -ASKED_AGAIN_S

    @property
    def fleet_time(self) -> FleetTime:
        """Present relation of the fleet's time to the wall's."""
        return self._fleet_time

    def follow(self, fleet_time: FleetTime) -> None:
        """Follow `fleet_time` from now on."""
        self._fleet_time = fleet_time

    def now_ms(self) -> int:
        """Return the fleet's time, UTC milliseconds."""
        return self._fleet_time.at_ms(time.time_ns() // 1_000_000)

    def early_ms(self) -> int:
        """Return EARLY_MS_MAX plus the fleet time that passes until a change of speed is received, ms."""
        return EARLY_MS_MAX + round(max(self._fleet_time.speed, 1.0) * FLEET_LAG_S * 1000)

    def asked(self) -> bool:
        """Ask for the present FleetTime and follow it. Return False when the last request was a moment ago, or when there is no answer."""
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
        """Return the system's monotonic clock, in seconds, at the wall's speed whatever the fleet's."""
        return time.monotonic()

    def boot_s(self) -> float:
        """Return the system's CLOCK_BOOTTIME, in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def doubted(self) -> bool:
        """Return False: the fleet's time may jump."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """Return False: when a jump slows down, a follower may have been hours of fleet time ahead for half a second."""
        return False


class StillClock:
    """A clock that stands still until it is moved: for tests and simulations."""

    def __init__(self, now_ms: int = 1_777_593_600_000) -> None:
        self.at_ms = now_ms
        self.at_s = 0.0

    def now_ms(self) -> int:
        """Return the time last set, UTC milliseconds."""
        return self.at_ms

    def early_ms(self) -> int:
        """Return EARLY_MS_MAX."""
        return EARLY_MS_MAX

    def asked(self) -> bool:
        """Return False: this clock follows no other."""
        return False

    def monotonic_s(self) -> float:
        """Return the monotonic seconds last set."""
        return self.at_s

    def boot_s(self) -> float:
        """Return the monotonic seconds last set: the clock is never suspended."""
        return self.at_s

    def doubted(self) -> bool:
        """Return False."""
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """Return whether this time (UTC ms) is more than EARLY_MS_MAX ahead of the time last set."""
        return received_at_ms - self.at_ms > EARLY_MS_MAX

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds`."""
        self.at_s += seconds
        self.at_ms += round(seconds * 1000)
