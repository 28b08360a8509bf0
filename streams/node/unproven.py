"""Who comes in a known peer's name and does not prove to be it: told in `exceptions`, each name once in a while however often they come."""

from __future__ import annotations

import math
from collections.abc import Callable

from streams.clock import Clock

TOLD_EVERY_S = 3_600.0
"""So long a name is not told again."""


class Unproven:
    """For the door of one node. Remembers as many names as it is given: those of the settings, never those that strangers make up."""

    def __init__(self, clock: Clock, report: Callable[..., None]) -> None:
        self._clock, self._report = clock, report
        self._told: dict[str, tuple[float, int]] = {}

    def refused(self, peer: str, problem: str, address: str) -> None:
        """Somebody at `address` (host) has come as `peer`, and was turned away for `problem`. What is not told is counted for the next."""
        now_s = self._clock.monotonic_s()
        told_s, untold = self._told.get(peer, (-math.inf, 0))
        if now_s - told_s < TOLD_EVERY_S:
            self._told[peer] = told_s, untold + 1
            return
        self._told[peer] = now_s, 0
        reason = "somebody comes in a known node's name and does not prove to be it"
        self._report(reason, "turned away", peer=peer, problem=problem, address=address, untold_since_last=untold)
