"""Several columns at once, on as many cores as there are: numpy, Arrow and pcodec let go of the interpreter while they work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_CORES = os.cpu_count() or 1

ROWS_MIN = 32_768
"""Of fewer rows threads cost more than they save."""


def each(tasks: Iterable[Callable[[], T]], rows: int) -> list[T]:
    """What the tasks return, in their order. They run one after another when there are few rows."""
    if rows < ROWS_MIN or _CORES == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(_CORES, "codec") as pool:
        return list(pool.map(lambda task: task(), tasks))
