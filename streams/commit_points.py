"""Named commit points, so that tests can kill a process with SIGKILL between any two commits it makes."""

from __future__ import annotations

import os
import signal
from collections import Counter

CRASH_VARIABLE = "LANDFALL_CRASH_AT"
"""`NAME:N`: the process kills itself the N-th time it reaches the commit point NAME. Unset outside tests."""

_reached: Counter[str] = Counter()


def commit_point(name: str) -> None:
    """Mark the instant just after one commit and before the next. Does nothing unless `LANDFALL_CRASH_AT` names this very passage."""
    wanted = os.environ.get(CRASH_VARIABLE)
    if wanted is None:
        return
    _reached[name] += 1
    if wanted == f"{name}:{_reached[name]}":
        os.kill(os.getpid(), signal.SIGKILL)
