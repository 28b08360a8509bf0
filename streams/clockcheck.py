"""Whether a node's own clock agrees with its peers' clocks: what deletes by age asks this first."""

from __future__ import annotations

from streams.clock import Clock

APART_MS_MAX = 86_400_000
"""Largest difference between two clocks that confirm one another, ms."""
COUNTS_S_MAX = 7 * 86_400.0
"""Maximum age of a peer's time that still confirms the clock, seconds."""


class ClockCheck:
    """Compares `clock` with the times that peers report. Peers report from the event loop; any thread may ask.

    A peer's time is carried on by monotonic seconds, so a clock that steps away is unconfirmed at once, and until a peer's next message.
    It does not say which of two clocks is wrong.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reported: dict[str, tuple[int, float]] = {}

    def now_ms(self) -> int:
        """Return the time to report to peers, UTC ms."""
        return max(0, self._clock.now_ms())

    def heard(self, node: str, at_ms: int) -> None:
        """Note that it is `at_ms` (UTC ms) by the clock of peer `node`; 0: the peer runs a release that does not report its time."""
        if at_ms:
            self._reported[node] = (at_ms, self._clock.monotonic_s())

    def confirmed_ms(self) -> int | None:
        """Return the time (UTC ms) where a peer's time of the last COUNTS_S_MAX is within APART_MS_MAX of it; else None."""
        now_ms = self._clock.now_ms()
        return now_ms if any(abs(now_ms - at_ms) <= APART_MS_MAX for at_ms in self._peers_ms()) else None

    def contradicted(self) -> bool:
        """Return whether peers have reported their times lately, and none of them confirms this clock."""
        return bool(self._peers_ms()) and self.confirmed_ms() is None

    def _peers_ms(self) -> list[int]:
        """What it is now by the clock of each peer that reported its time lately, UTC ms."""
        now_s = self._clock.monotonic_s()
        reported = list(self._reported.values())
        return [at_ms + round((now_s - at_s) * 1000) for at_ms, at_s in reported if now_s - at_s <= COUNTS_S_MAX]
