"""Counts of a gateway's boxes: those that report, those that are silent, and the silent ones that fell silent together.

Only boxes that changed are updated, so each of thousands that fall silent costs hardly more than one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cargo.loss.loss_classifier import GROUP_MIN, GROUP_WINDOW_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
CLASSES_MAX = 8
"""Maximum number of classes of boxes with a similar interval (each minute, hourly, daily)."""
ROWS_MIN = 16


@dataclass(frozen=True, slots=True)
class CensusBox:
    """One box of a gateway, times UTC ms.

    `counts`: it is aboard and not reported lost; `heard_at_ms`: when it was last heard; `base_ms`: since when it is silent by its own
    messages, without time in which no node listened; `calm_ms`, `storm_ms`: its interval out of storms and in one, and the shortest silence
    that misses it; `on_deck`; `struck`: its last report was of a blow; `lost`: it is reported lost."""

    counts: bool
    on_deck: bool
    struck: bool
    heard_at_ms: int
    base_ms: int
    calm_ms: tuple[int, int]
    storm_ms: tuple[int, int]
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Counts of the gateway's other boxes that report as often as the box of the query.

    `heard`: have missed nothing. `silent`: the others. `together`: silent boxes on deck in one neighbourhood with the box of the query.
    Each stands next to one that fell silent together with it; that one may be reported lost. `struck`: whether one of these, or the box
    itself, was struck. `felt`: of the neighbourhood, including the lost, at least half were struck, and they are a group. `elsewhere`:
    silent boxes in other such neighbourhoods."""

    heard: int
    silent: int
    together: int
    struck: bool
    felt: bool = False
    elsewhere: int = 0


class Census:
    """Census of the boxes of one gateway.

    `line(number)` returns the state of a box (None: it is no longer there) and is called once for each box passed to `changed`.
    `near(number)` returns the boxes of the stacks around, always the same."""

    def __init__(self, numbers: Iterable[str], line: Callable[[str], CensusBox | None], near: Callable[[str], Iterable[str]]) -> None:
        self._line, self._near = line, near
        self._changed = dict.fromkeys(numbers)
        self._row_of: dict[str, int] = {}
        self._numbers: list[str] = []
        self._flags: Flags = np.zeros((4, ROWS_MIN), np.bool_)
        self._times: Ints = np.zeros((6, ROWS_MIN), np.int64)
        self._clusters: dict[int, _Clusters] = {}

    def changed(self, number: str) -> None:
        """Mark a box as changed: it has a new state, or has come to this gateway, or left it."""
        self._changed[number] = None

    def count(self, number: str, at_ms: int, like_ms: float, floor_ms: int, *, storm: bool) -> Count:
        """Return the counts at `at_ms` of the others whose interval is no longer than `like_ms`; no silence began before `floor_ms`."""
        self._bring_up()
        counts, on_deck, struck, lost = self._flags
        heard_at, base = self._times[0], self._times[1]
        interval, missed = self._times[4:6] if storm else self._times[2:4]
        like = counts & (interval <= like_ms)
        silent = like & (at_ms - np.maximum(base, floor_ms) >= missed)
        row, total = self._row_of[number], int(np.count_nonzero(like))
        clusters = self._clusters_of(int(np.count_nonzero(like | lost)))
        clusters.follow((silent | lost) & on_deck, silent & on_deck, heard_at, struck, self._adjacent_rows)
        quiet = int(np.count_nonzero(silent)) - bool(silent[row])
        cluster = clusters.with_row(row, self._adjacent_rows)
        blow = cluster.blows > 0 or bool(struck[row])
        return Count(total - bool(like[row]) - quiet, quiet, cluster.silent, blow, cluster.felt, cluster.elsewhere)

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
                self._flags[:, row] = (line.counts, line.on_deck, line.struck, line.lost)
                self._times[:, row] = (line.heard_at_ms, line.base_ms, *line.calm_ms, *line.storm_ms)
        self._changed.clear()

    def _clusters_of(self, total: int) -> _Clusters:
        """Return the clusters of the boxes that speak as often, and of the lost ones.

        `total` distinguishes the classes; a wrong guess only costs time."""
        clusters = self._clusters.pop(total, None) or _Clusters()
        self._clusters[total] = clusters
        if len(self._clusters) > CLASSES_MAX:
            del self._clusters[next(iter(self._clusters))]
        return clusters

    def _adjacent_rows(self, row: int) -> list[int]:
        return [self._row_of[number] for number in self._near(self._numbers[row]) if number in self._row_of]


def _felt(blows: int, of: int) -> bool:
    return blows >= GROUP_MIN and 2 * blows >= of


@dataclass(frozen=True, slots=True)
class _ClusterCounts:
    """Number of other silent rows together with a row, and how many of all these were struck; the rest as in `Count`."""

    silent: int
    blows: int
    felt: bool
    elsewhere: int


class _Clusters:
    """Groups of boxes that fell silent together, as a forest of rows.

    It grows as boxes fall silent, and is rebuilt when one of them reports."""

    def __init__(self) -> None:
        self._known: Flags = np.zeros(0, np.bool_)
        self._silent: Flags = np.zeros(0, np.bool_)
        self._heard_at_ms: Ints = np.zeros(0, np.int64)
        self._struck: Flags = np.zeros(0, np.bool_)
        self._parent: dict[int, int] = {}
        self._size: dict[int, int] = {}
        self._silents: dict[int, int] = {}
        self._blows: dict[int, int] = {}

    def follow(self, members: Flags, silent: Flags, heard_at_ms: Ints, struck: Flags, adjacent: Callable[[int], list[int]]) -> None:
        """Follow these rows as members, last heard at `heard_at_ms`; those in `silent` are silent, the others are reported lost."""
        more = len(members) - len(self._known)
        known, before = np.pad(self._known, (0, more)), np.pad(self._silent, (0, more))
        if np.any(known & (~members | (np.pad(self._heard_at_ms, (0, more)) != heard_at_ms) | (np.pad(self._struck, (0, more)) != struck))):
            self._parent, self._size, self._silents, self._blows = {}, {}, {}, {}
            known = np.zeros_like(members)
        self._known, self._silent, self._heard_at_ms, self._struck = members, silent, heard_at_ms.copy(), struck.copy()
        for row in np.flatnonzero(known & (before != silent)).tolist():
            self._silents[self._root(row)] += 1 if silent[row] else -1
        for row in np.flatnonzero(members & ~known).tolist():
            self._parent[row], self._size[row] = row, 1
            self._silents[row], self._blows[row] = int(silent[row]), int(struck[row])
            for mate in self._mates(row, adjacent):
                self._join(row, mate)

    def with_row(self, row: int, adjacent: Callable[[int], list[int]]) -> _ClusterCounts:
        """Return the counts of the rows together with this row, whether it is silent or not."""
        within = row in self._parent
        roots = {self._root(member) for member in ([row] if within else self._mates(row, adjacent))}
        silent = sum(self._silents[root] for root in roots) - (within and bool(self._silent[row]))
        blows, whole = (sum(counts[root] for root in roots) for counts in (self._blows, self._size))
        elsewhere = sum(self._silents[root] for root, size in self._size.items() if root not in roots and _felt(self._blows[root], size))
        return _ClusterCounts(silent, blows, _felt(blows, whole), elsewhere)

    def _mates(self, row: int, adjacent: Callable[[int], list[int]]) -> list[int]:
        heard_at_ms = self._heard_at_ms
        return [mate for mate in adjacent(row) if mate in self._parent and abs(heard_at_ms[mate] - heard_at_ms[row]) <= GROUP_WINDOW_MS]

    def _root(self, row: int) -> int:
        while self._parent[row] != row:
            self._parent[row] = self._parent[self._parent[row]]
            row = self._parent[row]
        return row

    def _join(self, row: int, mate: int) -> None:
        small, large = sorted((self._root(row), self._root(mate)), key=self._size.__getitem__)
        if small != large:
            self._parent[small] = large
            for counts in (self._size, self._silents, self._blows):
                counts[large] += counts.pop(small)
