"""A measure of bulk input, as of a backlog: background work leaves the machine and its memory to it for a while."""

from __future__ import annotations

import math

BULK_BYTES = 1 << 20
"""Minimum size of a commit of other nodes' blocks that is part of a backlog, bytes."""
PAUSE_S = 2.0
"""Time without any part of a backlog after which the backlog is over, seconds."""
WAITS_S_MAX = 60.0
"""Maximum time after the beginning of a backlog for which background work waits for it, seconds. A backlog that never ends thus keeps
nothing undone.
"""


class Bulk:
    """The time when a backlog last came in. It is for one thread; seconds are the event loop's."""

    def __init__(self) -> None:
        self._began_s = self._last_s = -math.inf

    def came(self, bytes_: int, now_s: float) -> None:
        """Record that this many bytes are being made durable, or have been."""
        if bytes_ < BULK_BYTES:
            return
        if now_s - self._last_s > PAUSE_S:
            self._began_s = now_s
        self._last_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait until the backlog may be over, seconds; 0 when it is over, or was waited for."""
        return max(0.0, self._last_s + PAUSE_S - now_s) if now_s - self._began_s < WAITS_S_MAX else 0.0
