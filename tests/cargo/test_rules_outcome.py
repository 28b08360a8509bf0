"""Goal: what the rules tell depends on what was measured alone: not on the order within the lateness, on repeats, or on restarts."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.rules.climate_limits import Climate
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Entry
from tests.support.sea import HOUR_MS, MINUTE_MS, START_MS, number

QUAY = WatchSettings(WatchPlace("port-jptyo", port="JPTYO"))
BOX = number(1)
SIGNALS: dict[str, st.SearchStrategy[Value]] = {
    "supply_c": st.sampled_from([4.0, 6.9, 9.0, 12.5, -1.0]),
    "setpoint_c": st.sampled_from([4.0, 4.0, 4.0, -18.0]),
    "return_c": st.sampled_from([-18.0, -10.0, 5.0]),
    "power_on": st.booleans(),
    "defrosting": st.sampled_from([False, False, True]),
    "door_open": st.booleans(),
    "humidity_pct": st.sampled_from([60.0, 95.0]),
    "shock_g": st.sampled_from([0.5, 5.0, 13.0, 20.0]),
    "tilt_deg": st.sampled_from([1.0, 60.0]),
}


def booking(version: int, **limits: Any) -> Entry:
    """The box's booking at -18 °C from the beginning, with these limits."""
    asked = Climate(**limits) if limits else msgspec.UNSET
    value = Booking("B1", "a", "b", "fish", "JPTYO", "SGSIN", -18.0, containers=(BookedContainer(BOX, START_MS, None),), limits=asked)
    return Entry("booking", "B1", version, START_MS, "clerk", value)


@st.composite
def told(draw: st.DrawFn) -> list[Heard]:
    """Up to a dozen readings of one box, a second to some hours apart."""
    rows, at_ms = [], START_MS
    for gap_ms in draw(st.lists(st.sampled_from([1_000, 4_000, 7_000, 20 * MINUTE_MS, HOUR_MS, 5 * HOUR_MS]), min_size=1, max_size=12)):
        at_ms += gap_ms
        signals = draw(st.fixed_dictionaries({}, optional=SIGNALS))
        rows.append(Heard(BOX, "TRK", at_ms, at_ms, at_ms, signals))
    return rows


def outcome(rows: list[Heard], restarts: frozenset[int] = frozenset()) -> list[MadeRecord]:
    """All the quay's watch tells of them, taken down before the readings numbered in `restarts`."""
    state, made = WatchState(QUAY), WatchOutcome()
    made.add(learn(state, [booking(1, humidity_pct=(50, 90), above_c=2.5)]))
    for at, row in enumerate(rows):
        if at in restarts:
            state = from_snapshot(snapshot_of(state), QUAY)
        made.add(step(state, [row]))
    made.add(advance(state, max(row.order_at_ms for row in rows) + QUAY.lateness_ms))
    return [*made.events, *made.alerts]


@settings(max_examples=60, deadline=None)
@given(rows=told(), delays=st.lists(st.integers(0, 9_000), min_size=12, max_size=12), again=st.sets(st.integers(0, 11)), cut=st.data())
def test_order_repeats_and_restarts_change_nothing(rows: list[Heard], delays: list[int], again: set[int], cut: st.DataObject) -> None:
    """Each reading takes up to 9 s to arrive, some arrive twice, and the watch is taken up from its snapshot wherever it likes."""
    arrived = [msgspec.structs.replace(row, received_at_ms=row.received_at_ms + delay) for row, delay in zip(rows, delays, strict=False)]
    arrived += [msgspec.structs.replace(row, received_at_ms=row.received_at_ms + 500) for at, row in enumerate(arrived) if at in again]
    arrived.sort(key=lambda row: row.received_at_ms)
    restarts = cut.draw(st.frozensets(st.integers(0, len(arrived))))
    assert outcome(arrived, restarts) == outcome(rows)


def test_a_tracker_that_reports_daily_is_measured_by_its_own_interval() -> None:
    """Goal: its watch knows how often it speaks; the same box, had it spoken every hour, would have been silent."""
    hourly = [Heard(number(2), "OTHER", at, at, at, {"humidity_pct": 60.0}) for at in range(START_MS, START_MS + 49 * HOUR_MS, HOUR_MS)]
    for before, told in (range(0, 48, 24), [48 * HOUR_MS]), (range(5), []):
        damp = [Heard(BOX, "TRK", at, at, at, {"humidity_pct": 95.0}) for at in (START_MS + hour * HOUR_MS for hour in (*before, 48))]
        rows = sorted([*hourly, *damp], key=lambda row: (row.order_at_ms, row.topic))
        state = WatchState(QUAY)
        learn(state, [booking(1, humidity_pct=(50, 90), humidity_lasts_ms=20 * HOUR_MS)])
        made = step(state, rows)
        made.add(advance(state, rows[-1].order_at_ms + QUAY.lateness_ms))
        assert [one.at_ms - START_MS for one in made.alerts if one.body["rule"] == "humidity"] == told


def test_much_is_told_in_what_the_property_compares() -> None:
    """Every rule but those of the sea speaks on a quay."""
    bad: dict[str, Value] = {"setpoint_c": 4.0, "supply_c": 9.0, "power_on": False, "humidity_pct": 95.0, "shock_g": 13.0}
    rows = [Heard(BOX, "TRK", START_MS, START_MS, START_MS, {"tilt_deg": 1.0})]
    for hour in range(1, 7):
        at_ms = START_MS + hour * HOUR_MS
        rows.append(Heard(BOX, "TRK", at_ms, at_ms, at_ms, {**bad, "tilt_deg": 60.0}))
    raised = {made.body["rule"] for made in outcome(rows) if made.body.get("state") == "raised"}
    assert raised == {"temperature", "setpoint", "power_off", "humidity", "shock", "tilt"}


def test_a_booking_s_new_limits_hold_from_the_next_reading_on() -> None:
    """Goal: no restart; a snapshot keeps them; a later version takes them back."""
    state = WatchState(QUAY)
    learn(state, [booking(1)])
    assert state.terms_of(BOX, START_MS)[1].humidity_pct == (0.0, 100.0)
    learn(state, [booking(2, humidity_pct=(50, 90), band_lasts_ms=0)])
    again = from_snapshot(snapshot_of(state), QUAY)
    for watch in (state, again):
        booked_c, limits = watch.terms_of(BOX, START_MS)
        assert (booked_c, limits.humidity_pct, limits.band_lasts_ms) == (-18.0, (50, 90), 0)
        assert watch.terms_of(BOX, START_MS - 1) == (None, QUAY.limits)
    learn(state, [booking(3)])
    assert state.terms_of(BOX, START_MS)[1] == QUAY.limits
