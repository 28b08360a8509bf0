"""What the load lists in force say of each box, kept between requests: lists are large, and change at calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cargo.vocabulary.registry_entries import LoadList
from cargo.vocabulary.slots import Slot


@dataclass(frozen=True, slots=True)
class Stowing:
    """A list's facts about a box: whether it carries a tracker, is a reefer, and stands below deck."""

    tracker: bool = True
    reefer: bool = False
    below_deck: bool = False


UNLISTED = Stowing()
"""Facts assumed of a box that no list in force names."""
LISTS_MAX = 256
"""Maximum number of lists that are kept."""
Fields = dict[str, Any]


class Stowages:
    """The lists of the port that each ship left last and of the one that it leaves next. Safe from any thread."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], dict[str, Stowing]] = {}
        self._lock = threading.Lock()

    def stowed(self, heads: list[Fields], values: Callable[[list[str]], list[Fields]], now_at_ms: int) -> dict[str, Stowing]:
        """Return by box what the lists in force say, of rows of `Sight.list_heads`; a coming list counts before the last one.

        `values`: the rows of `Sight.list_values` for ids, asked for those that are not kept.
        """
        wanted = _in_force(heads, now_at_ms)
        with self._lock:
            kept = self._kept
        missing = [id_ for id_, version in wanted if (id_, version) not in kept]
        if missing:
            found = {(row["id"], row["version"]): _stowings(row["value"]) for row in values(missing)}
            kept = kept | found
            with self._lock:
                self._kept = dict([*self._kept.items(), *found.items()][-LISTS_MAX:])
        stowed: dict[str, Stowing] = {}
        for key in wanted:
            stowed |= kept.get(key, {})
        return stowed


def _in_force(heads: list[Fields], now_at_ms: int) -> list[tuple[str, int]]:
    """Return id and version of each ship's last list by departure, and after it of its next."""
    by_ship: dict[str, list[Fields]] = {}
    for head in sorted(heads, key=lambda head: (head["ship"], head["call"])):
        by_ship.setdefault(head["ship"], []).append(head)
    wanted = []
    for lists in by_ship.values():
        left = [head for head in lists if head["departs_at_ms"] <= now_at_ms]
        coming = [head for head in lists if head["departs_at_ms"] > now_at_ms]
        wanted += [(head["id"], head["version"]) for head in (*left[-1:], *coming[:1])]
    return wanted


def _stowings(value: Any) -> dict[str, Stowing]:
    boxes = msgspec.convert(value, LoadList).aboard
    return {box.container: Stowing(box.tracker, box.is_reefer, bool(box.slot) and not Slot.parse(box.slot).on_deck) for box in boxes}
