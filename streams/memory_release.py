"""Giving back memory: what is free goes from this process to the system, which the libraries that used it would keep for later."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc (malloc_trim(3)); other systems' libraries have none, and keep less."""
_OPTION = getattr(ctypes.CDLL(None), "mallopt", None)
_ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""
ARENAS = 2
_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
LARGE_BYTES = 256 << 10
"""From this size on what is freed goes back to the system at once. Left to itself glibc raises that to the size of what was freed last, and
a log's columns then leave holes between what stays."""

_spares = False


class _Unwanted(MetaPathFinder):
    """Finds nothing, and lets nobody else find what is not wanted in this process."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """See MetaPathFinder. Raises ModuleNotFoundError for what is not wanted."""
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is not loaded in this process", name=name)


def spare_memory() -> None:
    """For a process that is to be small, before it does anything else.

    Threads take their memory from the same ARENAS, Arrow's too: else each keeps what the largest work that it ever did took. What is large
    goes back at once: a ship's node over 24,000 boxes takes 45 MiB less, and reading a log 6 % more processor time. And pandas is not
    loaded: Arrow would do so with the first array it makes, where it is installed, and it takes some 55 MiB.
    """
    global _spares
    _spares = True
    if _OPTION is not None:
        _OPTION(_ARENA_MAX, ARENAS)
        _OPTION(_MMAP_THRESHOLD, LARGE_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    sys.meta_path.insert(0, _Unwanted(frozenset({"pandas"})))


def spares() -> bool:
    """Whether this process is one that is to be small."""
    return _spares


def release_arrow() -> None:
    """What Arrow does not use any more. Takes some milliseconds where that is a hundred MiB."""
    pa.default_memory_pool().release_unused()


def release() -> None:
    """That, and what numpy and Python do not use any more, in all threads: as after work that took much and does not come again soon."""
    release_arrow()
    if _TRIM is not None:
        _TRIM(0)


_LARGE = threading.Lock()


@contextmanager
def large_work(give_back: Callable[[], None] | None = None) -> Iterator[None]:
    """For work of seconds that takes much memory for a while, in a thread of its own: one in this process at a time, and what it took is
    given back before the next (`give_back`: by this, else by `release`). Not for what others wait long for."""
    with _LARGE:
        try:
            yield
        finally:
            (give_back or release)()
