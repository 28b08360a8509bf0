"""Goal: whatever befalls her boxes, what a ship's watch tells depends on what was measured alone: not on order, repeats or restarts."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.sea import HOUR_MS, MINUTE_MS, SECOND_MS, START_MS, Sea, fall, settings

SAILS_MS = START_MS + HOUR_MS
STORM_MS = SAILS_MS + HOUR_MS
STORM_ENDS_MS = STORM_MS + 20 * MINUTE_MS
END_MS = STORM_ENDS_MS + 8 * HOUR_MS
FOR_EVER = 1 << 62
BOXES = 15
Fate = Literal["well", "falls", "slides", "silent", "found", "down", "warm", "dark", "open", "dies in port", "cut off", "tells on"]
FATES: tuple[Fate, ...] = get_args(Fate)
Fates = dict[int, tuple[Fate, int]]


def befallen(fates: Fates) -> tuple[Sea, list[Heard]]:
    """A ship of few boxes in a storm; to each of `fates` it happens so many seconds into it."""
    silent: dict[int, list[tuple[int, int]]] = {}
    sea = Sea(BOXES, storms=[(STORM_MS, STORM_ENDS_MS)], gateways=1, sails_ms=SAILS_MS, silent=silent)
    more: list[Heard] = []
    for at, (fate, second) in fates.items():
        at_ms = STORM_MS + 10 * MINUTE_MS + second * SECOND_MS
        if fate in ("falls", "slides", "silent", "found", "cut off"):
            silent[at] = [(at_ms, at_ms + HOUR_MS if fate == "found" else FOR_EVER)]
        elif fate == "dies in port":
            silent[at] = [(SAILS_MS - MINUTE_MS, FOR_EVER)]
        more += happens(sea, at, fate, at_ms)
    return sea, sea.readings(END_MS, more)


def happens(sea: Sea, at: int, fate: Fate, at_ms: int) -> list[Heard]:
    """What the box says of it, beside or in place of its regular readings."""
    if fate == "falls":
        return fall(sea, at, at_ms - 3 * SECOND_MS, fell_ms=2_500)
    if fate == "slides":
        return [sea.says(at, at_ms - 1, shock_g=6.5)]
    if fate in ("cut off", "tells on"):
        words = range(3 if fate == "cut off" else 12)
        on = [
            sea.says(at, at_ms + 5_000 * word, motion=False, **({"again_in_s": 5} if word <= 7 else {})) for word in (n + 1 for n in words)
        ]
        return [sea.says(at, at_ms - 1, shock_g=6.5, again_in_s=5), *on]
    if fate == "down":
        upright = sea.says(at, STORM_MS - 5 * MINUTE_MS, tilt_deg=1.0)
        return [upright, *fall(sea, at, at_ms, fell_ms=600), *(sea.says(at, at_ms + n * MINUTE_MS, tilt_deg=80.0) for n in range(1, 9))]
    if fate == "open":
        return [sea.says(at, at_ms, door_open=True), sea.says(at, at_ms + HOUR_MS, door_open=False)]
    said: dict[Fate, dict[str, Value]] = {"warm": {"setpoint_c": 4.0, "supply_c": 9.0}, "dark": {"power_on": False}}
    return [sea.says(at, at_ms + n * 30 * MINUTE_MS, **said[fate]) for n in range(12)] if fate in said else []


def outcome(sea: Sea, rows: list[Heard], restarts: frozenset[int] = frozenset()) -> list[MadeRecord]:
    """All that her watch tells of them, taken down and taken up again from its snapshot before the readings numbered in `restarts`."""
    state, made, first = WatchState(settings()), WatchOutcome(), 0
    made.add(learn(state, sea.entries()))
    for at in [*sorted(restarts), len(rows)]:
        made.add(step(state, rows[first:at]))
        state, first = from_snapshot(snapshot_of(state), state.settings), at
    made.add(advance(state, END_MS + state.settings.lateness_ms))
    return [*made.events, *made.alerts]


@tried(max_examples=12, deadline=None)
@given(
    fates=st.dictionaries(st.integers(0, BOXES - 1), st.tuples(st.sampled_from(FATES), st.integers(0, 90)), max_size=8),
    delays=st.lists(st.integers(0, 9_000), min_size=1, max_size=50),
    again=st.sets(st.integers(0, 200)),
    cut=st.data(),
)
def test_order_repeats_and_restarts_change_nothing(fates: Fates, delays: list[int], again: set[int], cut: st.DataObject) -> None:
    """Each reading takes up to 9 s to arrive, some arrive twice, and the watch is taken up from its snapshot wherever it likes."""
    sea, rows = befallen(fates)
    arrived = [msgspec.structs.replace(row, received_at_ms=row.received_at_ms + delays[at % len(delays)]) for at, row in enumerate(rows)]
    arrived += [
        msgspec.structs.replace(row, received_at_ms=row.received_at_ms + 500) for at, row in enumerate(arrived) if at % 201 in again
    ]
    arrived.sort(key=lambda row: row.received_at_ms)
    restarts = cut.draw(st.frozensets(st.integers(0, len(arrived)), max_size=40))
    assert outcome(sea, arrived, restarts) == outcome(sea, rows)


def test_every_rule_of_the_sea_speaks_in_what_the_property_compares() -> None:
    """A stack falls, one beside it is down, and each other fate befalls one box."""
    fates: Fates = {0: ("falls", 0), 1: ("slides", 1), 2: ("found", 2), 4: ("down", 5), 11: ("open", 0), 10: ("silent", 40)}
    fates |= {7: ("warm", 0), 8: ("dark", 0), 5: ("dies in port", 0)}
    made = outcome(*befallen(fates))
    raised = {record.body["rule"] for record in made if record.body.get("state") == "raised"}
    wanted = {"lost_container", "incident", "stack_down", "late", "silent", "temperature", "power_off", "door_open", "shock"}
    assert raised >= wanted, wanted - raised
