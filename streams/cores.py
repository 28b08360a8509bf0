"""How many cores a thread's work may take: what runs in the background leaves the others to those who wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CORES = os.cpu_count() or 1
_here = threading.local()


def cores() -> int:
    """How many cores this thread may share its work among."""
    return 1 if getattr(_here, "alone", False) else _CORES


@contextmanager
def one_core() -> Iterator[None]:
    """Within it, what this thread does takes one core, however much there is to do."""
    before, _here.alone = getattr(_here, "alone", False), True
    try:
        yield
    finally:
        _here.alone = before
