"""Whether the peer is still there: pings on their own schedule, never behind data."""

from __future__ import annotations

from collections.abc import Callable

from streams.policy import Pace
from streams.session.messages import Ping, Pong

OPENING_S = 15.0
"""How long a peer may take to say Hello and its Digests, beyond the silence that means death."""
_SMOOTHING = 0.2


class Liveness:
    """Times of one session, in monotone seconds. `at_ms`: the time to report with each ping, UTC ms."""

    def __init__(self, pace: Pace, now_s: float, at_ms: Callable[[], int]) -> None:
        self._pace = pace
        self._at_ms = at_ms
        self._heard_at_s = now_s
        self._pinged_at_s = now_s
        self._stamp = 0
        self.rtt_s: float | None = None

    def heard(self, now_s: float) -> None:
        """Something came from the peer."""
        self._heard_at_s = now_s

    def ping(self, now_s: float) -> Ping | None:
        """The ping that is due, if one is."""
        if now_s - self._pinged_at_s < self._pace.ping_every_s:
            return None
        return self.ping_now(now_s)

    def ping_now(self, now_s: float) -> Ping:
        """A ping before it is due: at the start, to learn the link's round trip."""
        self._pinged_at_s = now_s
        self._stamp += 1
        return Ping(self._stamp, self._at_ms())

    def pong(self, pong: Pong, now_s: float) -> None:
        """The peer's answer: one more measure of the round trip."""
        if pong.stamp == self._stamp:
            rtt_s = now_s - self._pinged_at_s
            self.rtt_s = rtt_s if self.rtt_s is None else self.rtt_s + _SMOOTHING * (rtt_s - self.rtt_s)

    def dead(self, now_s: float) -> bool:
        """Whether the peer has been silent for too long."""
        return now_s - self._heard_at_s >= self._pace.dead_after_s

    def opening_s(self) -> float:
        """How long a peer may take until it has said what it has."""
        return OPENING_S + self._pace.dead_after_s

    def wake_s(self) -> float:
        """When to look again."""
        return min(self._pinged_at_s + self._pace.ping_every_s, self._heard_at_s + self._pace.dead_after_s)
