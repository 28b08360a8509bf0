"""Wrong secrets that are shown at a door: counted, reported, and answered more slowly each time."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

from landfall.access.password_checks import Crowded
from streams.model.clock import Clock
from streams.model.metrics import Metrics

REPORTED_EVERY_S = 3_600.0
"""Minimum time between two reports of wrong secrets of one name from one address, seconds; between reports they are counted."""
REPORTS_MAX = 64
"""Maximum number of reports in REPORTED_EVERY_S, however many names strangers make up."""
NAME_CHARS_MAX = 100
"""Maximum number of characters of a name that are remembered and reported: no principal's is longer."""
REMEMBERED_MAX = 1_024
"""Maximum number of remembered pairs of name and address with a wrong secret: those that showed one last."""
SLOWED_S, SLOWED_S_MAX = 0.05, 2.0
"""Delay of the answer to a wrong secret for each earlier one from there, and its maximum, seconds."""
SLOWED_MAX = 64
"""Maximum number of answers that wait at one time; beyond, wrong secrets are answered at once, with a refusal of their own."""


class WrongSecrets:
    """Wrong secrets shown at one door, by the name that was given with them and the address they came from."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        report: Callable[..., None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        door: str = "the door",
    ) -> None:
        """Start with no wrong secret known. `door`: how reports call it."""
        self._clock, self._metrics, self._report, self._sleep, self._door = clock, metrics, report, sleep, door
        self._known: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        """Monotonic time of the last report and number of wrong secrets since then, by name and address."""
        self._reports_s = deque[float](maxlen=REPORTS_MAX)
        """Times of the last reports, monotonic seconds."""
        self._waiting = 0

    async def shown(self, name: str, address: str) -> None:
        """Count one more wrong secret by this name (empty: a token). Returns when it may be answered. Raises Crowded where too many
        wait."""
        self._metrics.count("secrets_wrong")
        now_s, name = self._clock.monotonic_s(), name[:NAME_CHARS_MAX]
        reported_s, since = self._known.pop((name, address), (-math.inf, 0))
        if now_s - reported_s >= REPORTED_EVERY_S and self._may_report(now_s):
            what = {"user": name} if name else {}
            details = {"address": address, "unreported_since": since, **what}
            self._report(f"somebody shows a wrong secret at {self._door}", "refused", code="secret_wrong", **details)
            reported_s, since = now_s, 0
        self._known[name, address] = reported_s, since + 1
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        if self._waiting >= SLOWED_MAX:
            raise Crowded
        self._waiting += 1
        try:
            await self._sleep(min(SLOWED_S * since, SLOWED_S_MAX))
        finally:
            self._waiting -= 1

    def _may_report(self, now_s: float) -> bool:
        """Return whether one more report may be made now; if so, count it."""
        if len(self._reports_s) == REPORTS_MAX and now_s - self._reports_s[0] < REPORTED_EVERY_S:
            return False
        self._reports_s.append(now_s)
        return True
