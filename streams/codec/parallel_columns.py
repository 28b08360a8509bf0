"""Processing of several columns at once, on all cores: numpy, Arrow and pcodec release the interpreter's lock while they work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from streams.core_limit import cores, give_way

T = TypeVar("T")

ROWS_MIN = 32_768
"""Number of rows below which threads cost more than they save."""


def each(tasks: Iterable[Callable[[], T]], rows: int) -> list[T]:
    """Run the tasks and return their results in order. They run one after another when there are few rows, or in the background, where they
    give way."""
    if rows < ROWS_MIN:
        return [task() for task in tasks]
    if cores() == 1:
        return [_giving_way(task) for task in tasks]
    with ThreadPoolExecutor(cores(), "codec") as pool:
        return list(pool.map(lambda task: task(), tasks))


def _giving_way(task: Callable[[], T]) -> T:
    give_way()
    return task()
