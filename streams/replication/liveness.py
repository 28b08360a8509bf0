"""Check that the peer is still there: pings on their own schedule, never behind data."""

from __future__ import annotations

import math
from collections.abc import Callable

from streams.config.roles import Pace
from streams.replication.sync_messages import Ping, Pong

OPENING_S = 15.0
"""Maximum time for a peer to send Hello and its Digests, added to the silence after which a peer counts as dead, seconds."""
_SMOOTHING = 0.2


class Liveness:
    """Times of one session, in monotonic seconds. `at_ms` returns the time to report with each ping, UTC ms."""

    def __init__(self, pace: Pace, now_s: float, at_ms: Callable[[], int]) -> None:
        self._pace = pace
        self._at_ms = at_ms
        self._opened_at_s = self._heard_at_s = now_s
        self._pinged_at_s = now_s
        self._stamp = 0
        self._asked: tuple[int, float] | None = None
        self.rtt_s: float | None = None

    def heard(self, now_s: float) -> None:
        """Note that something came from the peer."""
        self._heard_at_s = now_s

    def ping(self, now_s: float) -> Ping | None:
        """Return the ping that is due; None when none is."""
        if now_s - self._pinged_at_s < self._pace.ping_every_s:
            return None
        return self.ping_now(now_s)

    def ping_now(self, now_s: float) -> Ping:
        """Return a ping before it is due: at the start, to measure the link's round trip."""
        self._pinged_at_s = now_s
        self._stamp += 1
        return Ping(self._stamp, self._at_ms())

    def ask(self, now_s: float) -> Ping | None:
        """Return a ping that the peer must answer before it counts as alive; None while an earlier one is unanswered."""
        if self._asked is not None:
            return None
        ping = self.ping_now(now_s)
        self._asked = ping.stamp, now_s
        return ping

    @property
    def asked(self) -> bool:
        """Whether an answer to `ask` is missing."""
        return self._asked is not None

    def pong(self, pong: Pong, now_s: float) -> None:
        """Handle the peer's answer, which is one more measurement of the round trip."""
        if self._asked is not None and pong.stamp >= self._asked[0]:
            self._asked = None
        if pong.stamp == self._stamp:
            rtt_s = now_s - self._pinged_at_s
            self.rtt_s = rtt_s if self.rtt_s is None else self.rtt_s + _SMOOTHING * (rtt_s - self.rtt_s)

    def dead(self, now_s: float) -> bool:
        """Return whether the peer has been silent for too long, or has not answered `ask` in that time."""
        return now_s - self._waits_since_s() >= self._pace.dead_after_s

    def opening_late(self, now_s: float) -> bool:
        """Return whether a peer that has not reported what it has had enough time for that."""
        return now_s - self._opened_at_s >= OPENING_S + self._pace.dead_after_s

    def hold(self) -> None:
        """Ignore silence until `go_on`: this side itself receives nothing in the meantime."""
        self._opened_at_s = self._heard_at_s = math.inf

    def go_on(self, now_s: float) -> None:
        """Count the peer's silence from now."""
        self._opened_at_s = self._heard_at_s = now_s

    def wake_s(self) -> float:
        """Return the time of the next check."""
        return min(self._pinged_at_s + self._pace.ping_every_s, self._waits_since_s() + self._pace.dead_after_s)

    def _waits_since_s(self) -> float:
        return self._heard_at_s if self._asked is None else min(self._heard_at_s, self._asked[1])
