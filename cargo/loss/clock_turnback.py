"""Correction of a watch whose node's clock was ahead and is right again: the times ahead in its memory become the present time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from typing import Any

import msgspec

from cargo.loss.event_time import BELIEVED_AHEAD_MS, EventClock
from cargo.loss.packed_track import packed, unpacked
from cargo.loss.watch_state import WatchMemory, WatchState

_KNOWN = ("clock", "lists", "ports", "bookings", "terms", "size_types", "pending", "generations")
"""Fields that hold no time of a reading: entries of the registry may lie ahead."""


def turned_back(state: WatchState, at_ms: int) -> WatchState:
    """Return the watch as it continues at `at_ms` (UTC ms), to which the node's clock has gone back: `state` itself where nothing is ahead.

    Times more than BELIEVED_AHEAD_MS ahead become `at_ms`, samples of such times are left out, and the trusted clock is found again."""
    latest_ms = at_ms + BELIEVED_AHEAD_MS
    if not _is_ahead(state.memory, latest_ms):
        return state
    known = {name: getattr(state.memory, name) for name in _KNOWN}
    heard = msgspec.to_builtins(msgspec.structs.replace(state.memory, **_without(known)), builtin_types=(bytes,))
    memory = msgspec.convert(_clipped(heard, lambda ms: at_ms if ms > latest_ms else ms), WatchMemory, builtin_types=(bytes,))
    for name, value in known.items():
        setattr(memory, name, value)
    memory.clock = EventClock()
    memory.pending = [(min(turn_ms, at_ms), row) for turn_ms, row in memory.pending]
    heapify(memory.pending)
    return WatchState(state.settings, memory)


def _without(known: dict[str, Any]) -> dict[str, Any]:
    return {name: type(value)() for name, value in known.items()}


def _is_ahead(memory: WatchMemory, latest_ms: int) -> bool:
    clock = memory.clock
    times = [memory.settled_at_ms, clock.now_at_ms, clock.listened_at_ms, clock.resumes_at_ms, *(turn_ms for turn_ms, _ in memory.pending)]
    boxes = memory.boxes.values()
    return max(times) > latest_ms or any(max(box.newest_at_ms, box.heard_at_ms, box.listened_from_ms) > latest_ms for box in boxes)


def _clipped(value: Any, clip: Callable[[int], int]) -> Any:
    """Return `value`, of builtin types, with all its whole numbers clipped: a watch remembers no other numbers as large as a time."""
    if type(value) is dict:
        return {name: _track(part, clip) if name in ("rssi", "samples") else _clipped(part, clip) for name, part in value.items()}
    if type(value) in (list, tuple):
        return [_clipped(part, clip) for part in value]
    return clip(value) if type(value) is int else value


def _track(track: bytes, clip: Callable[[int], int]) -> bytes:
    return packed((at_ms, value) for at_ms, value in unpacked(track) if clip(at_ms) == at_ms)
