"""Limit on the cores that a thread's work may take: work in the background leaves them to work with priority."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CORES = os.cpu_count() or 1
_here = threading.local()


def cores() -> int:
    """Return the number of cores this thread may share its work among."""
    return 1 if getattr(_here, "alone", False) else _CORES


def give_way() -> None:
    """Wait, in the background, while work with priority runs; otherwise do nothing. Called between two pieces of long work."""
    wait: Callable[[], object] | None = getattr(_here, "give_way", None)
    if wait is not None:
        wait()


@contextmanager
def one_core(wait: Callable[[], object] | None = None) -> Iterator[None]:
    """Limit this thread's work in the context to one core, however much there is to do, and call `wait` wherever it can give way."""
    before = getattr(_here, "alone", False), getattr(_here, "give_way", None)
    _here.alone, _here.give_way = True, wait
    try:
        yield
    finally:
        _here.alone, _here.give_way = before
