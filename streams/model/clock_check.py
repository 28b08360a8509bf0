"""Whether a node's own clock is right: steps of it, and whether its peers' clocks confirm it. What deletes by age asks this first."""

from __future__ import annotations

import msgspec

from streams.model.clock import Clock

APART_MS_MAX = 86_400_000
"""Largest difference between two clocks that confirm one another, ms."""
COUNTS_S_MAX = 7 * 86_400.0
"""Maximum age of a peer's time that still confirms the clock, seconds."""
REBOOTED_MS_MAX = 45 * 86_400_000
"""How far a clock may be ahead of its last confirmed time after the machine was started again, ms."""
STEP_MS_MAX = 5 * 60_000
"""Largest change of wall time minus boot time that is no step, ms."""


class LastConfirmed(msgspec.Struct, frozen=True):
    """A confirmation as it is kept on disk: by a peer's time `peer_at_ms` (UTC ms), received `peer_s` seconds after the machine's start
    `boot_id`. `confirmed_at_ms`: the clock's newest time that it confirmed, UTC ms.
    """

    boot_id: str
    peer_s: float
    peer_at_ms: int
    confirmed_at_ms: int


class ClockCheck:
    """Compares `clock` with the times that peers report. Peers report from the event loop; any thread may ask.

    A peer's time is carried on by boot seconds, so a clock that steps away is unconfirmed at once, and until a peer's next message.
    It does not say which of two clocks is wrong.
    """

    def __init__(self, clock: Clock, boot_id: str = "", last: LastConfirmed | None = None) -> None:
        """`boot_id`: the id of this start of the machine, empty where it is unknown. `last`: what an earlier process kept.

        A time that was kept since this start of the machine is carried on as a peer's. One from before confirms the clock until a peer
        reports its time: up to REBOOTED_MS_MAX ahead of it.
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
        """Note that it is `at_ms` (UTC ms) by the clock of peer `node`; 0: the peer runs a release that does not report its time."""
        if at_ms:
            self._reported[node] = (at_ms, self._clock.boot_s())

    def confirmed_ms(self) -> int | None:
        """Return the time (UTC ms) where a peer's time of the last COUNTS_S_MAX is within APART_MS_MAX of it; else None.

        Until a peer reports its time, the last time confirmed before the machine's start counts instead.
        """
        now_ms = self._clock.now_ms()
        if not self._reported and self._before_ms is not None:
            return now_ms if -APART_MS_MAX <= now_ms - self._before_ms <= REBOOTED_MS_MAX else None
        return now_ms if self._confirmed_by(now_ms) else None

    def last_confirmed(self) -> LastConfirmed | None:
        """Return what to keep on disk: the newest time of a peer that confirms the clock now; None where none does."""
        now_ms = self._clock.now_ms()
        confirming = self._confirmed_by(now_ms)
        if not confirming:
            return None
        peer_s, peer_at_ms = max(confirming)
        return LastConfirmed(self._boot_id, peer_s, peer_at_ms, now_ms)

    def contradicted(self) -> bool:
        """Return whether peers have reported their times lately, and none of them confirms this clock."""
        return bool(self._counting()) and self.confirmed_ms() is None

    def _confirmed_by(self, now_ms: int) -> list[tuple[float, int]]:
        """The peers' times that confirm `now_ms`: boot seconds when they were received, and UTC ms."""
        now_s = self._clock.boot_s()
        return [(at_s, at_ms) for at_ms, at_s in self._counting() if abs(now_ms - at_ms - round((now_s - at_s) * 1000)) <= APART_MS_MAX]

    def _counting(self) -> list[tuple[int, float]]:
        """The times that peers reported in the last COUNTS_S_MAX."""
        now_s = self._clock.boot_s()
        return [(at_ms, at_s) for at_ms, at_s in list(self._reported.values()) if now_s - at_s <= COUNTS_S_MAX]


class CheckedClock:
    """A wall clock under check: it reports its steps, and whether it is doubted. Not for fleet clocks, which may jump. From any thread.

    A step is a change of its time minus the machine's boot time.
    """

    def __init__(self, clock: Clock, check: ClockCheck) -> None:
        self._clock, self._check = clock, check
        self._offset_ms = self._measured_ms()
        self._believed_offset_ms: int | None = self._offset_ms

    def now_ms(self) -> int:
        """As the clock's."""
        return self._clock.now_ms()

    def early_ms(self) -> int:
        """As the clock's."""
        return self._clock.early_ms()

    def asked(self) -> bool:
        """As the clock's."""
        return self._clock.asked()

    def monotonic_s(self) -> float:
        """As the clock's."""
        return self._clock.monotonic_s()

    def boot_s(self) -> float:
        """As the clock's."""
        return self._clock.boot_s()

    def step_ms(self) -> int:
        """Return by how many ms the clock has stepped since the last step found (negative: back), 0 for STEP_MS_MAX or less.

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
        """Return whether the clock was doubted, or has stepped, and since then neither a peer's time confirmed it nor it stepped back."""
        offset_ms, believed_ms = self._measured_ms(), self._believed_offset_ms
        if believed_ms is not None and abs(offset_ms - believed_ms) <= STEP_MS_MAX:
            return False
        if self._check.confirmed_ms() is None:
            return True
        self._believed_offset_ms = offset_ms
        return False

    def was_ahead(self, received_at_ms: int) -> bool:
        """As the clock's."""
        return self._clock.was_ahead(received_at_ms)

    def _measured_ms(self) -> int:
        return self._clock.now_ms() - round(self._clock.boot_s() * 1000)
