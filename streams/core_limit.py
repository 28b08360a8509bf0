"""How many cores a thread's work may take, and when it waits: what runs in the background leaves them to those who wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CORES = os.cpu_count() or 1
_here = threading.local()


def cores() -> int:
    """How many cores this thread may share its work among."""
    return 1 if getattr(_here, "alone", False) else _CORES


def give_way() -> None:
    """Called between two pieces of long work. In the background it waits while those who are to go first do; else it does nothing."""
    wait: Callable[[], object] | None = getattr(_here, "give_way", None)
    if wait is not None:
        wait()


@contextmanager
def one_core(wait: Callable[[], object] | None = None) -> Iterator[None]:
    """Within it, what this thread does takes one core, however much there is to do, and `wait` is called wherever it can give way."""
    before = getattr(_here, "alone", False), getattr(_here, "give_way", None)
    _here.alone, _here.give_way = True, wait
    try:
        yield
    finally:
        _here.alone, _here.give_way = before
