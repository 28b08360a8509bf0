"""Quota of record bytes that each peer may bring: a daily amount, saved up while the peer brings less.

A peer that returns can thereby bring at once what gathered in the meantime, and a peer that floods is soon limited to the daily amount.
Records beyond the quota are not lost: the peer keeps them, and others may bring them. The alerts lane has a quota of its own of the same
size, so that alerts do not wait for readings.
"""

from __future__ import annotations

from collections.abc import Mapping

from streams.config.roles import Lane, Role

DAY_S = 86_400.0
SAVED_DAYS = 10
"""Maximum number of days for which an allowance is saved up. It is full when this node starts."""
BYTES_PER_DAY: Mapping[Role, int] = {"ship": 2_000_000_000, "customer": 2_000_000_000, "port": 20_000_000_000, "hq": 200_000_000_000}
"""Default daily allowance of each role, bytes. 24,000 boxes with a reading a minute make some 350 MB a day. A port passes on the records of
many ships, headquarters all records."""


class Allowances:
    """Remaining allowance of each peer of one node, in memory, since the node started. Call it from the one thread that drives the
    sessions."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, bool], tuple[float, float]] = {}

    def left(self, node: str, lane: Lane, per_day: int, now_s: float) -> float:
        """Return how many bytes `node` may bring now in this lane. It may be negative: a block begun with the last of them may come whole.
        `per_day`: bytes added in a day; `now_s`: monotonic seconds."""
        kept = node, lane == Lane.ALERTS
        most = float(per_day * SAVED_DAYS)
        left, at_s = self._left.get(kept, (most, now_s))
        left = min(most, left + per_day * (now_s - at_s) / DAY_S)
        self._left[kept] = left, now_s
        return left

    def spend(self, node: str, lane: Lane, bytes_: int) -> None:
        """Subtract `bytes_`, which `node` brings, from its remaining allowance. A negative number adds bytes that were not kept after all.
        `left` has been called for `node` before."""
        kept = node, lane == Lane.ALERTS
        left, at_s = self._left[kept]
        self._left[kept] = left - bytes_, at_s
