"""Giving back memory: what is free goes from this process to the system, which the libraries that used it would keep for later."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc (malloc_trim(3)); other systems' libraries have none, and keep less."""
_OPTION = getattr(ctypes.CDLL(None), "mallopt", None)
_ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""
ARENAS = 2


def share_arenas() -> None:
    """From now on threads take their memory from the same ARENAS, Arrow's too: else each keeps what the largest work that it ever did took.
    To be said before they are started."""
    if _OPTION is not None:
        _OPTION(_ARENA_MAX, ARENAS)
    pa.set_memory_pool(pa.system_memory_pool())


def release_arrow() -> None:
    """What Arrow does not use any more. Takes some milliseconds where that is a hundred MiB."""
    pa.default_memory_pool().release_unused()


def release() -> None:
    """That, and what numpy and Python do not use any more, in all threads: as after work that took much and does not come again soon."""
    release_arrow()
    if _TRIM is not None:
        _TRIM(0)
