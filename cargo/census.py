"""How many of a gateway's boxes speak, how many are silent, and which of these fell silent together: told again only by boxes that changed,
so that of thousands that fall silent each costs hardly more than one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cargo.lost import GROUP_WINDOW_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
CLASSES_MAX = 8
"""So many classes of boxes that speak alike often (each minute, hourly, daily) are kept apart."""
ROWS_MIN = 16


@dataclass(frozen=True, slots=True)
class Line:
    """One box of a gateway, times UTC ms. `counts`: it is aboard and not told as lost; `heard_at_ms`: when it was last heard; `base_ms`:
    since when it is silent as far as it goes itself; `calm_ms`, `storm_ms`: its interval out of storms and in one, and the shortest silence
    that misses it; `on_deck`; `struck`: it told of a blow with its last message."""

    counts: bool
    on_deck: bool
    struck: bool
    heard_at_ms: int
    base_ms: int
    calm_ms: tuple[int, int]
    storm_ms: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Count:
    """Of the gateway's other boxes that speak as often: how many have missed nothing, and how many are silent; how many of the silent stand
    on deck in one neighbourhood with the box that asks, each beside one that fell silent together with it; whether one of these, or the
    box itself, was struck."""

    heard: int
    silent: int
    together: int
    struck: bool


class Census:
    """The boxes of one gateway. `line(number)` says how a box stands (None: it is no longer there) and is asked once for each box of which
    `changed` was said; `near(number)` gives the boxes of the stacks around, and always gives the same."""

    def __init__(self, numbers: Iterable[str], line: Callable[[str], Line | None], near: Callable[[str], Iterable[str]]) -> None:
        self._line, self._near = line, near
        self._changed = dict.fromkeys(numbers)
        self._row_of: dict[str, int] = {}
        self._numbers: list[str] = []
        self._flags: Flags = np.zeros((3, ROWS_MIN), np.bool_)
        self._times: Ints = np.zeros((6, ROWS_MIN), np.int64)
        self._clusters: dict[int, _Clusters] = {}

    def changed(self, number: str) -> None:
        """This box stands otherwise now, or has come to this gateway, or left it."""
        self._changed[number] = None

    def count(self, number: str, at_ms: int, like_ms: float, floor_ms: int, *, storm: bool) -> Count:
        """How those others stand at `at_ms` whose interval is no longer than `like_ms`; nobody's silence began before `floor_ms`."""
        self._bring_up()
        counts, on_deck, struck = self._flags
        heard_at, base = self._times[0], self._times[1]
        interval, missed = self._times[4:6] if storm else self._times[2:4]
        like = counts & (interval <= like_ms)
        silent = like & (at_ms - np.maximum(base, floor_ms) >= missed)
        row, total = self._row_of[number], int(np.count_nonzero(like))
        clusters = self._clusters_of(total)
        clusters.follow(silent & on_deck, heard_at, struck, self._beside)
        together, blow = clusters.with_row(row, self._beside)
        quiet = int(np.count_nonzero(silent)) - bool(silent[row])
        return Count(total - bool(like[row]) - quiet, quiet, together, blow or bool(struck[row]))

    def _bring_up(self) -> None:
        for number in self._changed:
            row = self._row_of.setdefault(number, len(self._numbers))
            if row == len(self._numbers):
                self._numbers.append(number)
                if row == self._flags.shape[1]:
                    self._flags = np.hstack([self._flags, np.zeros_like(self._flags)])
                    self._times = np.hstack([self._times, np.zeros_like(self._times)])
            line = self._line(number)
            if line is None:
                self._flags[:, row] = False
            else:
                self._flags[:, row] = (line.counts, line.on_deck, line.struck)
                self._times[:, row] = (line.heard_at_ms, line.base_ms, *line.calm_ms, *line.storm_ms)
        self._changed.clear()

    def _clusters_of(self, total: int) -> _Clusters:
        """Those of the boxes that speak as often: `total` tells the classes apart, and a wrong guess only costs time."""
        clusters = self._clusters.pop(total, None) or _Clusters()
        self._clusters[total] = clusters
        if len(self._clusters) > CLASSES_MAX:
            del self._clusters[next(iter(self._clusters))]
        return clusters

    def _beside(self, row: int) -> list[int]:
        return [self._row_of[number] for number in self._near(self._numbers[row]) if number in self._row_of]


class _Clusters:
    """Which silent boxes fell silent together, as a forest of rows that grows as boxes fall silent and is planted anew when one of them
    speaks."""

    def __init__(self) -> None:
        self._silent: Flags = np.zeros(0, np.bool_)
        self._heard_at_ms: Ints = np.zeros(0, np.int64)
        self._struck: Flags = np.zeros(0, np.bool_)
        self._parent: dict[int, int] = {}
        self._size: dict[int, int] = {}
        self._blow: dict[int, bool] = {}

    def follow(self, silent: Flags, heard_at_ms: Ints, struck: Flags, beside: Callable[[int], list[int]]) -> None:
        """These rows are silent now, last heard then."""
        more = len(silent) - len(self._silent)
        known = np.pad(self._silent, (0, more))
        before = np.pad(self._heard_at_ms, (0, more)), np.pad(self._struck, (0, more))
        if np.any(known & (~silent | (before[0] != heard_at_ms) | (before[1] != struck))):
            self._parent, self._size, self._blow = {}, {}, {}
            known = np.zeros_like(silent)
        self._silent, self._heard_at_ms, self._struck = silent, heard_at_ms.copy(), struck.copy()
        for row in np.flatnonzero(silent & ~known).tolist():
            self._parent[row], self._size[row], self._blow[row] = row, 1, bool(struck[row])
            for mate in self._mates(row, beside):
                self._join(row, mate)

    def with_row(self, row: int, beside: Callable[[int], list[int]]) -> tuple[int, bool]:
        """How many others are together with this row, silent or not, and whether one of them was struck."""
        within = row in self._parent
        roots = {self._root(one) for one in ([row] if within else self._mates(row, beside))}
        return sum(self._size[root] for root in roots) - within, any(self._blow[root] for root in roots)

    def _mates(self, row: int, beside: Callable[[int], list[int]]) -> list[int]:
        heard_at_ms = self._heard_at_ms
        return [mate for mate in beside(row) if mate in self._parent and abs(heard_at_ms[mate] - heard_at_ms[row]) <= GROUP_WINDOW_MS]

    def _root(self, row: int) -> int:
        while self._parent[row] != row:
            self._parent[row] = self._parent[self._parent[row]]
            row = self._parent[row]
        return row

    def _join(self, row: int, mate: int) -> None:
        small, large = sorted((self._root(row), self._root(mate)), key=self._size.__getitem__)
        if small != large:
            self._parent[small] = large
            self._size[large] += self._size.pop(small)
            self._blow[large] |= self._blow.pop(small)
