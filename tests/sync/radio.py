"""A satellite link as its owner is billed for it: every byte asked of the ship's purse as a metered socket asks, and counted apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from landfall.node.peers.link_budgets import ALERTS
from streams.link_budget.daily_budget import Budget, RemainingBudget

if TYPE_CHECKING:
    from tests.sync.afloat import Wired
    from tests.sync.nodes import Node

WINDOW_BYTES = 16 << 10
"""What a metered socket lets come in unasked."""
OPENING_BYTES = 24 << 10
"""With less than this left of a budget, a link is opened for alerts alone."""


class Radio:
    """What truly passed, by the day for which it was allowed. It outlives its ship's crashes, as the bill does."""

    def __init__(self, node: Node, budget: Budget) -> None:
        self._node, self._budget = node, budget
        self._day = ""
        self._released: set[Wired] = set()
        self.bytes: dict[str, int] = {}
        self.refused = 0

    def hold(self, purse: RemainingBudget, alerts: bool) -> bool:
        """Whether a link may be opened."""
        return self._asked(purse.hold(WINDOW_BYTES, alerts))

    def sends(self, end: Wired, purse: RemainingBudget, bytes_: int) -> bool:
        """Whether so many bytes may go out; they have gone then."""
        if not self._asked(purse.ahead(bytes_, _for_alerts(end))):
            self._spent(end, purse)
            return False
        purse.passed(bytes_)
        self._bill(bytes_, end)
        return True

    def came(self, end: Wired, purse: RemainingBudget, bytes_: int) -> bool:
        """So many bytes have come in; whether the link may go on."""
        purse.passed(bytes_)
        self._bill(bytes_, end)
        if not self._asked(purse.ahead(0, _for_alerts(end))):
            self._spent(end, purse)
            return False
        return True

    def closed(self, end: Wired, purse: RemainingBudget) -> None:
        """The link is gone, and what was on its way with it."""
        if end not in self._released:
            self._released.add(end)
            purse.release(WINDOW_BYTES, _for_alerts(end))

    def died(self, end: Wired) -> None:
        """The ship's node died: nobody tells her purse, and what is on its way to her comes all the same."""
        if end not in self._released:
            self._released.add(end)
            self._bill(end.other.in_flight_bytes, end)

    def _spent(self, end: Wired, purse: RemainingBudget) -> None:
        self.refused += 1
        self._released.add(end)
        purse.release(WINDOW_BYTES, _for_alerts(end))
        purse.passed(WINDOW_BYTES)
        self._bill(end.other.in_flight_bytes, end)

    def _asked(self, allowed: bool) -> bool:
        if allowed:
            self._day = datetime.fromtimestamp(self._node.now_ms() / 1000, UTC).strftime("%Y-%m-%d")
        return allowed

    def _bill(self, bytes_: int, end: Wired) -> None:
        total = self.bytes[self._day] = self.bytes.get(self._day, 0) + bytes_
        if bytes_ and not _for_alerts(end):
            limit = self._budget.bytes_per_day - self._budget.reserve_bytes
            charged = self._budget.charge(total)
            assert charged <= limit, f"{self._node.me.node} has spent {charged} bytes on {self._day}, of {limit}"
            leased = self._node.disk.leases.get(self._day, 0)
            assert charged <= leased, f"{self._node.me.node} has spent {charged} bytes on {self._day}, and leased {leased}"


def _for_alerts(end: Wired) -> bool:
    return end.policy.streams == (ALERTS,)
