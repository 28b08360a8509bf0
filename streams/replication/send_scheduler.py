"""Schedule of a lane: which (stream, origin) has its turn next, and how long a (stream, origin) is left alone while nothing of it may go.

Whatever the number of streams, the cost of one message grows at most with the logarithm of that number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush

from streams.config.companion_streams import HEADS
from streams.replication.link_terms import Key


class Turns:
    """Queue of (stream, origin)s in order of arrival. Statements go first: the other end waits for them. `waiting`: length of the queue."""

    __slots__ = ("_heads", "_others", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self._heads: OrderedDict[Key, None] = OrderedDict()
        self._others: OrderedDict[Key, None] = OrderedDict()

    def __iter__(self) -> Iterator[Key]:
        yield from self._heads
        yield from self._others

    def add(self, key: Key) -> None:
        """Add `key` behind the others of its kind. A `key` that waits already keeps its place."""
        kind = self._heads if key[0].endswith(HEADS) else self._others
        if key not in kind:
            kind[key] = None
            self.waiting += 1

    def pop(self) -> Key:
        """Remove the next (stream, origin) and return it. Raises KeyError when none waits."""
        key, _ = (self._heads or self._others).popitem(last=False)
        self.waiting -= 1
        return key


class Asleep:
    """(stream, origin)s that wait for a time before anything of them may go. One may sleep for several reasons, and is woken at the end of
    each."""

    __slots__ = ("_ends", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, Key]] = []
        self._ends: set[tuple[float, Key]] = set()

    def __iter__(self) -> Iterator[Key]:
        return (key for _, key in self._heap)

    def add(self, key: Key, until_s: float) -> None:
        """Wake `key` at `until_s`."""
        if (until_s, key) not in self._ends:
            self._ends.add((until_s, key))
            heappush(self._heap, (until_s, key))

    def wake_s(self) -> float | None:
        """Return when the first is to be woken; None when all are awake."""
        return self._heap[0][0] if self._heap else None

    def woken(self, now_s: float) -> Iterator[Key]:
        """Yield those whose time is over, and remove each from the heap."""
        while self._heap and self._heap[0][0] <= now_s:
            end = heappop(self._heap)
            self._ends.discard(end)
            yield end[1]
