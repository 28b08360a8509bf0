"""How many bytes of records each peer may bring: so much a day, saved up while it brings less.

So a peer that comes home brings what gathered meanwhile at once, and one that floods is soon at so much a day. What is beyond it is not
lost: its bringer keeps it, and others may bring it. Alerts and what else is of their lane have as much of their own: they wait for no
readings.
"""

from __future__ import annotations

from collections.abc import Mapping

from streams.config.roles import Lane, Role

DAY_S = 86_400.0
SAVED_DAYS = 10
"""Of so many days an allowance is saved up; when this node starts, it is."""
BYTES_PER_DAY: Mapping[Role, int] = {"ship": 2_000_000_000, "customer": 2_000_000_000, "port": 20_000_000_000, "hq": 200_000_000_000}
"""By default: 24,000 boxes with a reading a minute make some 350 MB a day; a port passes on many ships', headquarters all."""


class Allowances:
    """What is left to each peer of one node, in memory: between two starts of it. Call it from the one thread that drives the sessions."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, bool], tuple[float, float]] = {}

    def left(self, node: str, lane: Lane, per_day: int, now_s: float) -> float:
        """How many bytes `node` may bring now in this lane; what it began with the last of them it may bring whole, so it can be less than
        none. `per_day`: how many are added in a day; `now_s`: monotone seconds.
        """
        kept = node, lane == Lane.ALERTS
        most = float(per_day * SAVED_DAYS)
        left, at_s = self._left.get(kept, (most, now_s))
        left = min(most, left + per_day * (now_s - at_s) / DAY_S)
        self._left[kept] = left, now_s
        return left

    def spend(self, node: str, lane: Lane, bytes_: int) -> None:
        """`node`, which has been asked for what is left to it, brings so many bytes; less than none: such as were not kept after all."""
        kept = node, lane == Lane.ALERTS
        left, at_s = self._left[kept]
        self._left[kept] = left - bytes_, at_s
