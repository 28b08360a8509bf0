"""Goal: a watch's snapshot is written and taken up in small parts, however many boxes she carries, and all of it comes back."""

from __future__ import annotations

from cargo.errors import BadEntry
from cargo.loss.container_state import Box
from cargo.loss.event_time import DeviceClock
from cargo.loss.state_snapshot import PART_ENTRIES, from_snapshot, snapshot_of
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.registry_entries import LoadList, Stowed
from cargo.vocabulary.trade_codes import make_container
from tests.support.refusals import refusal
from tests.support.sea import SHIP, settings

BOXES, DEVICES = 2 * PART_ENTRIES + 1, PART_ENTRIES + 1


def test_many_boxes_and_devices_are_many_parts_and_all_come_back() -> None:
    state = WatchState(settings())
    for at in range(BOXES):
        state.memory.boxes[f"BOX{at:07}"] = Box.new(f"BOX{at:07}")
    for at in range(DEVICES):
        state.memory.clock.devices[f"TRK-{at:05}"] = DeviceClock(heard_at_ms=at + 1)
    parts = list(snapshot_of(state))
    assert len(parts) == 1 + 3 + 2
    assert all(len(part) < 2 * sum(map(len, parts)) / 5 and b"\n" not in part for part in parts)

    again = from_snapshot(parts, settings())
    assert again.memory == state.memory
    assert list(again.memory.boxes) == list(state.memory.boxes)
    assert list(again.memory.clock.devices) == list(state.memory.clock.devices)
    assert list(snapshot_of(state)) == parts, "writing it down changed the watch"


def test_a_load_list_is_many_parts_as_what_is_aboard_is() -> None:
    """One of 24,000 boxes in one part is 4 MiB, and twice that while it is written down."""
    state = WatchState(settings())
    stowed = tuple(Stowed(make_container("MSKU", at), f"001{at % 50:02}82", "22G1", "JPTYO", "SGSIN") for at in range(BOXES))
    load = tuple(one.container for one in stowed[:3])
    state.memory.lists = {
        f"{SHIP}/{call}": LoadList(SHIP, "JPTYO", call, stowed, load, (make_container("TAKU", 1),), call) for call in (2, 1)
    }
    parts = list(snapshot_of(state))
    assert len(parts) == 1 + 3 + 3
    assert all(len(part) < sum(map(len, parts)) / 4 for part in parts)

    again = from_snapshot(parts, settings())
    assert again.memory == state.memory
    assert list(again.memory.lists) == list(state.memory.lists)


def test_a_load_list_that_lacks_a_part_is_no_snapshot() -> None:
    state = WatchState(settings())
    one = Stowed(make_container("MSKU", 1), "0010182", "22G1", "JPTYO", "SGSIN")
    state.memory.lists = {f"{SHIP}/1": LoadList(SHIP, "JPTYO", 1, (one,), (one.container,), (), 1)}
    with refusal(BadEntry, "snapshot_unreadable"):
        from_snapshot(list(snapshot_of(state))[:1], settings())
