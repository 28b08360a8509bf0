"""Goal: the fleet's rules raise each finding once, when it is news, by what the places themselves have heard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cargo.alerts.alert_log import AlertBook
from cargo.shore_rules.fleet_rules import MISSING_AT_DISCHARGE_MS, SILENT_MS
from cargo.vocabulary.registry_entries import Entry, parse_entry
from hq.analytics.fleet import WATCH_COLUMNS, FleetWatch
from hq.spark_rows import widen
from streams.model.identifiers import Origin
from streams.model.records import Batch, Record, to_batch
from tests.support.spark_fleet import BOXES, HOUR_MS, NOON_MS, PLACES, reading, registry

SHIP, OTHER, QUAY = "albatross", "petrel", "singapore"
WHERE = {**PLACES, OTHER: "ship/9074729"}
A, B = BOXES[:2]


def rows(node: str, *records: Record, stream: str = "containers") -> pa.Table:
    times = pa.array([record.device_at_ms for record in records], pa.int64())
    stamped = to_batch(records).append_column("offset", pa.array(np.arange(len(records))))
    stamped = stamped.append_column("received_at_ms", times).append_column("order_at_ms", times)
    return pa.Table.from_batches([widen(Batch(stream, Origin(node, 1), stamped))])


def found(watch: FleetWatch, *parts: pa.Table, entries: tuple[Entry, ...] = ()) -> list[tuple[str, str, str]]:
    """What comes to light by the columns that are read of the history after a restart: there are more in a micro-batch."""
    kept = pa.concat_tables(parts).select(list(WATCH_COLUMNS))
    return [(alert.topic, alert.rule, alert.state) for alert in watch.judge(kept, entries)]


def at(box: str, hours: float, **signals: Any) -> Record:
    return reading(box, NOON_MS + round(hours * HOUR_MS), **signals)


def through(box: str, first: int, last: float) -> list[Record]:
    """A reading every five hours, the last of them in hour `last`."""
    return [at(box, hours) for hours in (*range(first, round(last), 5), last)]


def load_list(*discharge: str) -> Entry:
    value = {"ship": "9321483", "port": "SGSIN", "call": 2, "aboard": [], "load": [], "discharge": discharge, "departs_at_ms": NOON_MS}
    return parse_entry(json.dumps(registry("load_list", "9321483/2", 1, value).body))


def sailed(hours: float) -> pa.Table:
    at_ms = NOON_MS + round(hours * HOUR_MS)
    body = {"event_id": "d", "event": "DEPA", "event_at_ms": at_ms, "place": "SGSIN", "ship": "9321483"}
    return rows(SHIP, Record("9321483.log", None, at_ms, {}, body), stream="events")


def test_a_jump_is_told_once_and_not_by_late_readings() -> None:
    watch = FleetWatch(WHERE)
    here, there = {"latitude_deg": 1.0, "longitude_deg": 104.0}, {"latitude_deg": 34.0, "longitude_deg": 152.0}
    assert found(watch, rows(SHIP, at(A, 0, **here))) == []
    assert found(watch, rows(SHIP, at(A, 2, **there))) == [(A, "impossible_speed", "raised")]
    assert found(watch, rows(SHIP, at(A, 3, **there))) == []
    assert found(watch, rows(SHIP, at(A, 1, **here))) == [], "late data raises no alarm"


def test_where_a_box_was_is_not_judged_by_a_time_nobody_knows() -> None:
    """A device whose clock is wrong is put in order by when it was received: hours of its positions may have come at once."""
    watch = FleetWatch(WHERE)
    here, there = {"latitude_deg": 1.0, "longitude_deg": 104.0}, {"latitude_deg": 34.0, "longitude_deg": 152.0}
    assert found(watch, rows(SHIP, at(A, 0, **here))) == []
    wrong = rows(SHIP, at(A, 2, **there))
    column = wrong.schema.get_field_index("device_at_ms")
    assert found(watch, wrong.set_column(column, wrong.schema.field(column), pa.array([NOON_MS + 50 * HOUR_MS]))) == []
    assert found(watch, rows(SHIP, at(A, 3, **here))) == []


@pytest.mark.parametrize("odd", [200.0, -1e300, float("inf"), float("nan")])
def test_a_place_that_is_none_on_the_globe_is_no_place(odd: float) -> None:
    """What a program appended, or another node brought: the box was heard, nobody knows where."""
    watch = FleetWatch(WHERE)
    here, there = {"latitude_deg": 1.0, "longitude_deg": 104.0}, {"latitude_deg": 34.0, "longitude_deg": 152.0}
    assert found(watch, rows(SHIP, at(A, 0, **here))) == []
    assert found(watch, rows(SHIP, at(A, 1, latitude_deg=odd, longitude_deg=104.0), at(A, 1.5, latitude_deg=1.0, longitude_deg=odd))) == []
    assert found(watch, rows(SHIP, at(A, 2, **there))) == [(A, "impossible_speed", "raised")]


def test_what_is_no_topic_is_not_judged() -> None:
    """No alert could be told of it."""
    watch, there = FleetWatch(WHERE), {"latitude_deg": 34.0, "longitude_deg": 152.0}
    odd = rows(SHIP, at(A, 0, latitude_deg=1.0, longitude_deg=104.0), at(A, 2, **there))
    for topic in ("a\nb", "", "x" * 201):
        assert found(watch, odd.set_column(odd.schema.get_field_index("topic"), "topic", pa.array([topic] * 2))) == []
    assert found(watch, odd) == [(A, "impossible_speed", "raised")]


def test_one_number_on_two_ships_is_told_and_a_box_that_changes_ship_is_not() -> None:
    watch = FleetWatch(WHERE)
    assert found(watch, rows(SHIP, at(A, 0), at(B, 0))) == []
    assert found(watch, rows(OTHER, at(A, 0.2), at(B, 0.2))) == []
    assert found(watch, rows(SHIP, at(A, 0.4)), rows(OTHER, at(B, 0.4))) == [(A, "two_ships", "raised")]


def test_a_silent_box_is_told_by_the_time_of_its_own_ship_alone() -> None:
    watch = FleetWatch(WHERE)
    hours = SILENT_MS / HOUR_MS
    assert found(watch, rows(SHIP, at(A, 0), at(B, 0))) == []
    assert found(watch, rows(QUAY, at(BOXES[2], hours + 5))) == [], "headquarters has not heard from the ship: it knows nothing"
    assert found(watch, rows(SHIP, *through(B, 1, hours + 1))) == [(A, "silent", "raised")]
    assert found(watch, rows(SHIP, at(B, hours + 2))) == []
    assert found(watch, rows(SHIP, at(A, hours + 3))) == [(A, "silent", "cleared")]


def told_of(box: str, hours: float, code: str, node: str = SHIP) -> pa.Table:
    at_ms = NOON_MS + round(hours * HOUR_MS)
    return rows(node, Record(box, None, at_ms, {}, {"event_id": code, "event": code, "event_at_ms": at_ms}), stream="events")


def test_of_a_box_that_its_ship_tells_as_lost_it_is_not_told_that_nobody_hears_it() -> None:
    """Nor that it is missing on the quay: until it was found, and falls silent again. Only of her own boxes a ship's word counts."""
    watch, hours = FleetWatch(WHERE), SILENT_MS / HOUR_MS
    falls = told_of(A, 1, "X_PROBABLE_OVERBOARD")
    odd = rows(SHIP, Record(A, None, 1, {}, {"event": "X_FOUND"}), stream="events")
    hers = tuple(custody(box, "ship/9321483", -5) for box in (A, B))
    assert found(watch, rows(SHIP, at(A, 0), at(B, 0)), falls, odd, entries=hers) == []
    assert found(watch, rows(SHIP, *through(B, 1, hours + 1))) == []
    assert found(watch, sailed(hours + 1), told_of(B, 1, "X_LOST_OVERBOARD", QUAY), entries=(load_list(A, B),)) == []
    assert found(watch, rows(QUAY, at(BOXES[2], hours + 2 + MISSING_AT_DISCHARGE_MS / HOUR_MS))) == [(B, "missing_at_discharge", "raised")]
    assert found(watch, told_of(A, hours + 9, "X_FOUND"), rows(SHIP, at(A, hours + 9))) == [(A, "missing_at_discharge", "raised")]
    assert found(watch, rows(SHIP, *through(B, 60, 2 * hours + 20))) == [(A, "silent", "raised")]


def test_a_box_told_as_lost_that_a_quay_hears_since_is_told_once_until_its_ship_says_found() -> None:
    """Whichever comes first, the loss or what the quay heard; not what was heard before, or of the fall itself, or by the ship."""
    falls, later = told_of(A, 1, "X_PROBABLE_OVERBOARD"), rows(QUAY, at(A, 30))
    for parts in ((falls, later), (later, falls)):
        watch = FleetWatch(WHERE)
        assert found(watch, rows(QUAY, at(A, -5), at(B, -5)), rows(SHIP, at(A, 0), at(A, 2), at(B, 0))) == []
        assert found(watch, told_of(B, 1, "X_PROBABLE_OVERBOARD"), rows(QUAY, at(B, 1.01))) == []
        assert [alert for part in parts for alert in found(watch, part)] == [(A, "heard_after_loss", "raised")]
        assert found(watch, rows(QUAY, at(A, 31)), told_of(A, 2, "X_LOST_OVERBOARD")) == []
        assert found(watch, told_of(A, 25, "X_FOUND")) == [(A, "heard_after_loss", "cleared")]
        assert found(watch, rows(QUAY, at(A, 32))) == []
        assert found(watch, told_of(A, 40, "X_PROBABLE_OVERBOARD"), rows(QUAY, at(A, 41))) == [(A, "heard_after_loss", "raised")]


def test_the_end_of_a_doubt_comes_after_it() -> None:
    """Of its ship's word from before the quay heard it too: the fold of alerts knows no order but that of times."""
    watch = FleetWatch(WHERE)
    raised = watch.judge(pa.concat_tables([told_of(A, 1, "X_PROBABLE_OVERBOARD"), rows(QUAY, at(A, 30))]), ())
    assert (
        raised[0].detail
        == "reported lost by ship/9321483, heard by quay/SGSIN at 2026-05-02T06:00:00Z: where it is this box, say so aboard"
    )
    cleared = watch.judge(told_of(A, 25, "X_FOUND"), ())
    assert (raised[0].alert_id, raised[0].at_ms) == (cleared[0].alert_id, cleared[0].at_ms)
    book = AlertBook((alert.topic, alert.made().body) for alert in (*cleared, *raised))
    assert [not alert.closed for alert in book.standing()] == [False]


def test_what_a_place_that_was_down_did_not_hear_is_no_silence() -> None:
    """Down for two days and up again it hears boxes one after the other: until it has heard others for the rest of 49 hours it says
    nothing of those to come. In whatever order the rows are learned."""
    hours, back = SILENT_MS / HOUR_MS, 53
    parts = [rows(QUAY, at(A, 0), at(B, 0)), rows(QUAY, at(A, 5), at(B, 5)), rows(QUAY, at(B, back)), rows(QUAY, *through(B, back, 90))]
    for order in ((0, 1, 2, 3), (2, 0, 1, 3), (0, 3, 2, 1)):
        watch = FleetWatch(WHERE)
        assert [alert for part in order for alert in found(watch, parts[part])] == []
        assert found(watch, rows(QUAY, *through(B, 90, back + hours))) == [(A, "silent", "raised")]
        assert found(watch, rows(QUAY, at(A, back + hours + 1))) == [(A, "silent", "cleared")]


def custody(box: str, place: str, hours: float) -> Entry:
    value = {"at": place, "since_at_ms": NOON_MS + round(hours * HOUR_MS)}
    return parse_entry(json.dumps(registry("custody", box, 1, value).body))


def test_a_box_that_left_the_quay_is_not_silent_there_but_where_it_went() -> None:
    watch = FleetWatch(WHERE)
    hours = SILENT_MS / HOUR_MS
    aboard = WHERE[SHIP]
    assert found(watch, rows(QUAY, at(A, 0), at(B, 0)), entries=(custody(A, aboard, 1), custody(B, aboard, 1))) == []
    assert found(watch, rows(QUAY, at(BOXES[2], hours + 5))) == [], "what the ship hears waits for port"
    assert found(watch, rows(SHIP, *through(B, 3, hours + 8))) == [(A, "silent", "raised")]
    assert found(watch, rows(SHIP, at(A, 9))) == [(A, "silent", "cleared")], "that it was heard is known late, and known"


def test_a_box_not_heard_on_the_quay_is_missing_and_cleared_when_it_is() -> None:
    watch = FleetWatch(WHERE)
    due = MISSING_AT_DISCHARGE_MS / HOUR_MS
    assert found(watch, rows(QUAY, at(B, -1)), entries=(load_list(A, B),)) == []
    assert found(watch, sailed(0)) == []
    assert found(watch, rows(QUAY, at(B, due - 0.1))) == []
    assert found(watch, rows(QUAY, at(B, due + 0.1))) == [(A, "missing_at_discharge", "raised")]
    assert found(watch, rows(QUAY, at(B, due + 1))) == []
    assert found(watch, rows(QUAY, at(A, due + 2))) == [(A, "missing_at_discharge", "cleared")]


def test_places_nobody_named_are_not_judged() -> None:
    assert found(FleetWatch({}), rows(SHIP, at(A, 0)), rows(OTHER, at(A, 0.2)), rows(SHIP, at(A, 0.4))) == []


def test_a_reading_dated_years_ahead_keeps_no_box_from_being_silent() -> None:
    """A ship dates one reading 2199 under her own key: it counts from when headquarters took it in."""
    watch = FleetWatch(WHERE)
    silent_h = SILENT_MS / HOUR_MS + 1
    ahead = rows(SHIP, at(A, 173 * 365 * 24))
    column = ahead.schema.get_field_index("admitted_at_ms")
    ahead = ahead.set_column(column, ahead.schema.field(column), pa.array([NOON_MS]))
    assert found(watch, ahead) == []
    assert found(watch, rows(SHIP, *through(B, 0, silent_h))) == [(A, "silent", "raised")]


def test_a_loss_told_by_a_ship_that_does_not_have_the_box_silences_nothing() -> None:
    """Until a load list or a custody record says that she has it, and whatever she tells after the ship that does have it."""
    hours = SILENT_MS / HOUR_MS
    watch = FleetWatch(WHERE)
    assert found(watch, rows(SHIP, at(A, 0), at(B, 0)), told_of(A, 1, "X_LOST_OVERBOARD", OTHER)) == []
    assert found(watch, rows(SHIP, *through(B, 1, hours + 1))) == [(A, "silent", "raised")]
    for entry in (custody(A, "ship/9321483", 0), listed_aboard(A)):
        watch = FleetWatch(WHERE)
        falls = told_of(A, 1, "X_LOST_OVERBOARD"), told_of(A, 2, "X_FOUND", OTHER)
        assert found(watch, rows(SHIP, at(A, 0), at(B, 0)), *falls) == []
        assert found(watch, rows(SHIP, *through(B, 1, hours + 1)), entries=(entry,)) == []


def listed_aboard(box: str) -> Entry:
    place = {"container": box, "slot": "0010182", "size_type": "45R1", "pol": "SGSIN", "pod": "JPTYO"}
    value = {"ship": "9321483", "port": "SGSIN", "call": 2, "aboard": [place], "load": [box], "discharge": [], "departs_at_ms": NOON_MS}
    return parse_entry(json.dumps(registry("load_list", "9321483/2", 1, value).body))


def stamped(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    column = table.schema.get_field_index(name)
    return table.set_column(column, table.schema.field(column), pa.array(values, table.schema.field(column).type))


@pytest.mark.parametrize(("flags", "rules"), [([], []), (["stale", "clock_back"], ["two_ships"]), (["clock_stopped"], ["two_ships"])])
def test_what_is_half_a_year_old_alarms_nobody(flags: list[str], rules: list[str]) -> None:
    """Another ship brings what it heard 200 days ago, ordered by its receipt. Readings of a clock known to be wrong are of today."""
    watch, old_ms = FleetWatch(WHERE), NOON_MS - 200 * 24 * HOUR_MS
    assert found(watch, rows(SHIP, at(A, 0))) == []
    brought = stamped(stamped(rows(OTHER, at(A, 0.2)), "device_at_ms", [old_ms]), "body", [json.dumps({"flags": flags})])
    assert found(watch, brought) == []
    assert found(watch, rows(SHIP, at(A, 0.4))) == [(A, rule, "raised") for rule in rules]


def test_a_box_whose_tracker_s_clock_fell_back_is_not_silent() -> None:
    """Its readings are of when they were received, by their flag."""
    watch = FleetWatch(WHERE)
    silent_h = round(SILENT_MS / HOUR_MS) + 1
    assert found(watch, rows(SHIP, at(A, 0))) == []
    for hour in range(5, silent_h, 5):
        fallen = stamped(rows(SHIP, at(A, hour)), "order_at_ms", [NOON_MS + (hour - 90 * 24) * HOUR_MS])
        assert found(watch, stamped(fallen, "body", ['{"flags":["clock_back"]}'])) == []
    assert found(watch, rows(SHIP, *through(B, 0, silent_h))) == []
