"""Much that comes in at once, as a backlog does: what runs in the background leaves it the machine, and the memory, for a while."""

from __future__ import annotations

import math

BULK_BYTES = 1 << 20
"""A commit of so many bytes of others' blocks is part of a backlog."""
PAUSE_S = 2.0
"""A backlog is over when nothing of it has come for so long."""
WAITS_S_MAX = 60.0
"""How long after a backlog began work in the background continues concurrently with it, seconds. A backlog that never ends thus keeps
nothing undone."""


class Bulk:
    """When a backlog has come in last. For one thread; seconds are the event loop's."""

    def __init__(self) -> None:
        self._began_s = self._last_s = -math.inf

    def came(self, bytes_: int, now_s: float) -> None:
        """So much is being made durable, or has been."""
        if bytes_ < BULK_BYTES:
            return
        if now_s - self._last_s > PAUSE_S:
            self._began_s = now_s
        self._last_s = now_s

    def wait_s(self, now_s: float) -> float:
        """How long to wait until it may be over; 0: it is, or was waited for."""
        return max(0.0, self._last_s + PAUSE_S - now_s) if now_s - self._began_s < WAITS_S_MAX else 0.0
