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
"""Function malloc_trim(3) of glibc; other systems' libraries have none, and keep less memory."""
_OPTION = getattr(ctypes.CDLL(None), "mallopt", None)
_ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""
ARENAS = 2
_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
LARGE_BYTES = 256 << 10
"""Size from which freed memory goes back to the system at once, bytes.

By default glibc raises it to the size of what was freed last. A log's columns then leave holes between the memory that stays in use.
"""

_spares = False


class _Unwanted(MetaPathFinder):
    """Finder that finds no module, and refuses modules that are not wanted in this process."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """See MetaPathFinder. Raises ModuleNotFoundError for what is not wanted."""
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is not loaded in this process", name=name)


def spare_memory() -> None:
    """Configure this process to use little memory. Called before the process does anything else.

    All threads, also Arrow's, take their memory from the same ARENAS: otherwise each keeps what its largest work ever took. Large memory
    goes back to the system at once: a ship's node over 24,000 boxes takes 45 MiB less, and reading a log takes 6 % more processor time.
    Pandas is not loaded: where it is installed, Arrow would load it with the first array it makes, and it takes some 55 MiB.
    """
    global _spares
    _spares = True
    if _OPTION is not None:
        _OPTION(_ARENA_MAX, ARENAS)
        _OPTION(_MMAP_THRESHOLD, LARGE_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    sys.meta_path.insert(0, _Unwanted(frozenset({"pandas"})))


def spares() -> bool:
    """Return whether this process was configured to use little memory."""
    return _spares


def release_arrow() -> None:
    """Release the memory that Arrow does not use any more. Takes some milliseconds for a hundred MiB."""
    pa.default_memory_pool().release_unused()


def release() -> None:
    """Release the memory that Arrow, numpy and Python do not use any more, in all threads.

    Called after work that took much memory and is not repeated soon.
    """
    release_arrow()
    if _TRIM is not None:
        _TRIM(0)


_LARGE = threading.Lock()


@contextmanager
def large_work(give_back: Callable[[], None] | None = None) -> Iterator[None]:
    """Run work of seconds that takes much memory for a while, in a thread of its own: one such block in this process at a time.

    Its memory is released before the next block, by `give_back` if given, otherwise by `release`. Not for work that others wait long for.
    """
    with _LARGE:
        try:
            yield
        finally:
            (give_back or release)()
