"""Check of a node's own clock: it finds steps, and whether the clocks of peers confirm the time. Deletion by age asks this check first."""

from __future__ import annotations

import msgspec

from streams.model.clock import Clock

APART_MS_MAX = 86_400_000
"""Largest difference between two clocks that confirm one another, ms."""
COUNTS_S_MAX = 7 * 86_400.0
"""Maximum age of a peer's time that still confirms the clock, seconds."""
REBOOTED_MS_MAX = 45 * 86_400_000
"""Maximum lead of a clock over its last confirmed time after the machine was started again, ms."""
STEP_MS_MAX = 5 * 60_000
"""Largest change of wall time minus boot time that is no step, ms."""


class LastConfirmed(msgspec.Struct, frozen=True):
    """A confirmation as stored on disk: a peer's time `peer_at_ms` (UTC ms), received `peer_s` seconds after the machine's start `boot_id`.
    `confirmed_at_ms` is the newest time of the clock that the peer confirmed, UTC ms."""

    boot_id: str
    peer_s: float
    peer_at_ms: int
    confirmed_at_ms: int


class ClockCheck:
    """Comparison of `clock` with the times that peers report. Peers report from the event loop; any thread may ask.

    A peer's time is extrapolated by boot seconds. A clock that steps away is therefore unconfirmed at once, until a peer's next message.
    The check does not find which of two clocks is wrong.
    """

    def __init__(self, clock: Clock, boot_id: str = "", last: LastConfirmed | None = None) -> None:
        """Start with `last`, the confirmation that an earlier process stored. `boot_id` is the id of this start of the machine, empty when
        unknown.

        A time stored since this start of the machine is extrapolated like a peer's time. A time from before it confirms the clock until a
        peer reports its time. The clock may then be up to REBOOTED_MS_MAX ahead of it.
        """
        self._clock, self._boot_id = clock, boot_id
        self._reported: dict[str, tuple[int, float]] = {}
        self._before_ms: int | None = None
        if last is not None and boot_id and last.boot_id == boot_id and last.peer_s <= clock.boot_s():
            self._reported[""] = (last.peer_at_ms, last.peer_s)
        elif last is not None:
            self._before_ms = last.confirmed_at_ms

    def now_ms(self) -> int:
        """Return the time to report to peers, UTC ms."""
        return max(0, self._clock.now_ms())

    def heard(self, node: str, at_ms: int) -> None:
        """Record that the clock of peer `node` shows `at_ms` (UTC ms). 0 means that the peer runs a release that does not report its
        time."""
        if at_ms:
            self._reported[node] = (at_ms, self._clock.boot_s())

    def confirmed_ms(self) -> int | None:
        """Return the time (UTC ms) when a peer's time of the last COUNTS_S_MAX is within APART_MS_MAX of it; otherwise None.

        Until a peer reports its time, the last time confirmed before the machine's start counts instead.
        """
        now_ms = self._clock.now_ms()
        if not self._reported and self._before_ms is not None:
            return now_ms if -APART_MS_MAX <= now_ms - self._before_ms <= REBOOTED_MS_MAX else None
        return now_ms if self._confirmed_by(now_ms) else None

    def last_confirmed(self) -> LastConfirmed | None:
        """Return the confirmation to store on disk: the newest time of a peer that confirms the clock now; None when no peer does."""
        now_ms = self._clock.now_ms()
        confirming = self._confirmed_by(now_ms)
        if not confirming:
            return None
        peer_s, peer_at_ms = max(confirming)
        return LastConfirmed(self._boot_id, peer_s, peer_at_ms, now_ms)

    def contradicted(self) -> bool:
        """Return whether peers have reported times in the last COUNTS_S_MAX, and none of them confirms this clock."""
        return bool(self._counting()) and self.confirmed_ms() is None

    def _confirmed_by(self, now_ms: int) -> list[tuple[float, int]]:
        """Return the peers' times that confirm `now_ms`: boot seconds when each was received, and UTC ms."""
        now_s = self._clock.boot_s()
        return [(at_s, at_ms) for at_ms, at_s in self._counting() if abs(now_ms - at_ms - round((now_s - at_s) * 1000)) <= APART_MS_MAX]

    def _counting(self) -> list[tuple[int, float]]:
        """Return the times that peers reported in the last COUNTS_S_MAX."""
        now_s = self._clock.boot_s()
        return [(at_ms, at_s) for at_ms, at_s in list(self._reported.values()) if now_s - at_s <= COUNTS_S_MAX]


class CheckedClock:
    """A wall clock under check, which reports its steps and whether it is doubted. Not for fleet clocks, which may jump. Safe from any
    thread.

    A step is a change of wall time minus the machine's boot time.
    """

    def __init__(self, clock: Clock, check: ClockCheck) -> None:
        self._clock, self._check = clock, check
        self._offset_ms = self._measured_ms()
        self._believed_offset_ms: int | None = self._offset_ms

    def now_ms(self) -> int:
        """Return the same as the underlying clock."""
        return self._clock.now_ms()

    def early_ms(self) -> int:
        """Return the same as the underlying clock."""
        return self._clock.early_ms()

    def asked(self) -> bool:
        """Return the same as the underlying clock."""
        return self._clock.asked()

    def monotonic_s(self) -> float:
        """Return the same as the underlying clock."""
        return self._clock.monotonic_s()

    def boot_s(self) -> float:
        """Return the same as the underlying clock."""
        return self._clock.boot_s()

    def step_ms(self) -> int:
        """Return the step of the clock since the last step found, ms (negative: back); 0 for STEP_MS_MAX or less.

        Smaller steps add up until they are found together.
        """
        offset_ms = self._measured_ms()
        stepped_ms = offset_ms - self._offset_ms
        if abs(stepped_ms) <= STEP_MS_MAX:
            return 0
        self._offset_ms = offset_ms
        return stepped_ms

    def doubt(self) -> None:
        """Doubt the clock until a peer's time confirms it."""
        self._believed_offset_ms = None

    def doubted(self) -> bool:
        """Return whether the clock was doubted or has stepped, and since then no peer's time has confirmed it and it has not stepped
        back."""
        offset_ms, believed_ms = self._measured_ms(), self._believed_offset_ms
        if believed_ms is not None and abs(offset_ms - believed_ms) <= STEP_MS_MAX:
            return False
        if self._check.confirmed_ms() is None:
            return True
        self._believed_offset_ms = offset_ms
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """Return the same as the underlying clock."""
        return self._clock.was_ahead(received_at_ms)

    def _measured_ms(self) -> int:
        return self._clock.now_ms() - round(self._clock.boot_s() * 1000)
