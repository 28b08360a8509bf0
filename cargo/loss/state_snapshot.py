"""Snapshot of a watch's memory, written and read in parts: the whole of it is never in memory twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from cargo.errors import BadEntry
from cargo.loss.container_state import Box
from cargo.loss.event_time import DeviceClock
from cargo.loss.watch_state import WatchMemory, WatchSettings, WatchState
from cargo.vocabulary.registry_entries import LoadList, Stowed

VERSION = 11
PART_ENTRIES = 512
"""Number of boxes, devices, or places of a load list in one part: half a MiB, of 30 for a large ship."""


class _Call(msgspec.Struct, frozen=True):
    """A load list without the boxes aboard."""

    ship: str
    port: str
    call: int
    load: tuple[str, ...]
    discharge: tuple[str, ...]
    departs_at_ms: int


class _Head(msgspec.Struct):
    """First part of a snapshot; `memory` is without its boxes, its load lists (`calls`), and the devices of its clock."""

    version: int
    place: str
    memory: WatchMemory
    calls: list[_Call]


class _Part(msgspec.Struct, omit_defaults=True):
    """Some of the boxes, devices, or places of load lists."""

    boxes: dict[str, Box] = {}
    devices: dict[str, DeviceClock] = {}
    aboard: dict[str, tuple[Stowed, ...]] = {}


def snapshot_of(state: WatchState) -> Iterator[bytes]:
    """Yield the snapshot, as JSON in parts without a line break: the watch of `from_snapshot` continues exactly as this one would.

    The watch must not step meanwhile."""
    clock = msgspec.structs.replace(state.memory.clock, devices={})
    rest = msgspec.structs.replace(state.memory, clock=clock, boxes={}, lists={})
    lists = state.memory.lists
    calls = [_Call(one.ship, one.port, one.call, one.load, one.discharge, one.departs_at_ms) for one in lists.values()]
    yield msgspec.json.encode(_Head(VERSION, state.settings.place.log_topic, rest, calls))
    for id_, listed in lists.items():
        for at in range(0, len(listed.aboard), PART_ENTRIES):
            yield msgspec.json.encode(_Part(aboard={id_: listed.aboard[at : at + PART_ENTRIES]}))
    boxes, devices = iter(state.memory.boxes.items()), iter(state.memory.clock.devices.items())
    while some := dict(islice(boxes, PART_ENTRIES)):
        yield msgspec.json.encode(_Part(boxes=some))
    while known := dict(islice(devices, PART_ENTRIES)):
        yield msgspec.json.encode(_Part(devices=known))


def from_snapshot(parts: Iterable[bytes], settings: WatchSettings) -> WatchState:
    """Return the watch of a snapshot.

    Raises BadEntry when it is no snapshot, or of another version or another place: start again from the log."""
    given = iter(parts)
    try:
        head = msgspec.json.decode(next(given, b""), type=_Head)
        if head.version != VERSION or head.place != settings.place.log_topic:
            found, wanted = f"version {head.version} of {head.place}", f"{VERSION} of {settings.place.log_topic}"
            raise BadEntry(f"this snapshot is {found}, not {wanted}", hint="rebuild the watch from the log", code="snapshot_of_another")
        memory, part = head.memory, msgspec.json.Decoder(_Part)
        aboard: dict[str, list[Stowed]] = {}
        for data in given:
            more = part.decode(data)
            memory.boxes.update(more.boxes)
            memory.clock.devices.update(more.devices)
            for id_, stowed in more.aboard.items():
                aboard.setdefault(id_, []).extend(stowed)
        for one in head.calls:
            boxes = aboard.pop(f"{one.ship}/{one.call}", [])
            listed = msgspec.convert({**msgspec.structs.asdict(one), "aboard": boxes}, type=LoadList)
            memory.lists[listed.id] = listed
    except msgspec.MsgspecError as problem:
        raise BadEntry(
            f"this snapshot does not read: {problem}", hint="rebuild the watch from the log", code="snapshot_unreadable"
        ) from problem
    return WatchState(settings, memory)
