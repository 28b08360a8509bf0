"""Goal: a customer is given each record of its boxes and spans once, whatever came first, and nothing that tells of anyone else's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cargo.vocabulary.booking_overlaps import resolve_overlaps
from cargo.vocabulary.registry_entries import Booking, Entry, NoticeStage, parse_entry
from hq.analytics.bookings import OPEN_MS, BookingRights
from hq.analytics.customers import covered, customers_appends, newly_covered
from hq.analytics.disclosure import disclosed
from hq.analytics.overview import read_entries
from hq.analytics.withholding import without_probable
from hq.delta_tables import HISTORY
from hq.spark_rows import widen
from streams.model.identifiers import Origin
from streams.model.records import Batch, Record, to_batch
from tests.support.spark_fleet import BEARS, BOXES, DUCKS, NOON_MS, booking, reading, registry

SHIP = Origin("albatross", 7)
A, B = BOXES[:2]


def entry(record: Record) -> Entry:
    return parse_entry(json.dumps(record.body))


def wide(records: list[Record], stream: str = "containers", batch: int | None = None) -> pa.Table:
    """`records` as Spark reads them, with the micro-batch that brought them when given."""
    given = to_batch(records)
    times = pa.array([record.device_at_ms for record in records], pa.int64())
    stamped = given.append_column("offset", pa.array(np.arange(len(records)))).append_column("received_at_ms", times)
    rows = pa.Table.from_batches([widen(Batch(stream, SHIP, stamped.append_column("order_at_ms", times)))])
    return rows if batch is None else rows.append_column("batch", pa.array(np.full(len(records), batch)))


def offsets(rows: pa.Table, customer: str) -> list[int]:
    return sorted(row["offset"] for row in rows.to_pylist() if row["customer"] == customer)


def test_a_span_takes_its_begin_and_not_its_end() -> None:
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, NOON_MS + 10))), entry(booking("B", 1, BEARS, (B, NOON_MS + 5, None)))], 0)
    rows = wide([reading(box, NOON_MS + at, return_c=1.0) for at in (-1, 0, 5, 9, 10) for box in (A, B)])
    given = covered(rows, rights.current())
    assert offsets(given, DUCKS) == [2, 4, 6]
    assert offsets(given, BEARS) == [5, 7, 9]


def test_a_late_booking_brings_the_history_and_a_longer_one_only_what_is_new() -> None:
    rights = BookingRights()
    history = wide([reading(A, NOON_MS + at, return_c=1.0) for at in range(10)], batch=0)
    added = rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS + 2, NOON_MS + 5)))], 1)
    assert offsets(newly_covered(history, rights, added, 1), DUCKS) == [2, 3, 4]
    added = rights.learn([entry(booking("D", 2, DUCKS, (A, NOON_MS + 1, NOON_MS + 7)))], 4)
    assert offsets(newly_covered(history, rights, added, 4), DUCKS) == [1, 5, 6]


def test_a_record_given_once_is_not_given_again_when_a_right_ends_and_comes_back() -> None:
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, None)))], 0)
    rights.learn([entry(booking("D", 2, DUCKS, (A, NOON_MS, NOON_MS + 3)))], 2)
    added = rights.learn([entry(booking("D", 3, DUCKS, (A, NOON_MS, None)))], 5)
    seen = wide([reading(A, NOON_MS + at, return_c=1.0) for at in range(6)], batch=1)
    assert offsets(newly_covered(seen, rights, added, 5), DUCKS) == []
    missed = wide([reading(A, NOON_MS + at, return_c=1.0) for at in range(6)], batch=3)
    assert offsets(newly_covered(missed, rights, added, 5), DUCKS) == [3, 4, 5]


@pytest.mark.parametrize("swapped", [False, True])
def test_rights_follow_the_registry_where_one_box_is_booked_twice(swapped: bool) -> None:
    """A box twice in a booking is one right; of two customers' bookings each has what the registrar left it, and a shared one both."""
    twice = [(A, NOON_MS, NOON_MS + 3), (A, NOON_MS, None)]
    first, second = (
        entry(booking("D", 1, DUCKS, *(twice[::-1] if swapped else twice))),
        entry(booking("B", 1, BEARS, (A, NOON_MS + 6, None))),
    )
    assert isinstance(first.value, Booking)
    assert isinstance(second.value, Booking)
    rows = wide([reading(A, NOON_MS + at, return_c=1.0) for at in range(9)])
    rights = BookingRights()
    rights.learn([first], 0)
    assert offsets(covered(rows, rights.current()), DUCKS) == list(range(9))
    cut, _, _ = resolve_overlaps({"D": first.value, "B": second.value}, ["B"])
    rights.learn([second, dataclasses.replace(first, version=2, value=cut["D"])], 1)
    assert [offsets(covered(rows, rights.current()), who) for who in (DUCKS, BEARS)] == [list(range(6)), [6, 7, 8]]


def test_an_old_version_that_comes_late_changes_nothing() -> None:
    rights = BookingRights()
    rights.learn([entry(booking("D", 2, DUCKS, (A, NOON_MS, NOON_MS + 3)))], 0)
    assert rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, None)))], 1) == []
    assert [right.until_at_ms for right in rights.current()] == [NOON_MS + 3]


def test_two_bookings_of_one_customer_give_one_copy_with_who_took_it_in_and_no_offset_of_others() -> None:
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, None))), entry(booking("E", 1, DUCKS, (A, NOON_MS, None)))], 0)
    rows = wide([reading(A, NOON_MS, return_c=4.5, unheard_of=7)])
    given = covered(rows, rights.current())
    assert given.num_rows == 2
    ((customer, piece, records),) = customers_appends(given.slice(0, 1), 100)
    assert (customer, piece) == (DUCKS, 0)
    (row,) = records.to_pylist()
    assert row["source_origin"] == str(SHIP)
    assert not {"source_stream", "source_offset"} & set(row), "offsets that all share have gaps, which tell how much others have"
    assert (row["return_c"], json.loads(row["body"])) == (4.5, {"unheard_of": 7})


ALERT: dict[str, Any] = {
    "alert_id": "a1",
    "rule": "lost",
    "severity": "CRITICAL",
    "state": "raised",
    "at_ms": NOON_MS + 50,
    "title": f"{A} and 11 others",
    "detail": f"with {B}",
    "ship": "9321483",
    "incident_id": "i-9",
    "slot": "0430184",
    "status": "PROBABLE_OVERBOARD",
    "position": {"latitude_deg": -34.0, "longitude_deg": 152.0, "basis": "ESTIMATED", "at_ms": NOON_MS + 50},
    "evidence": [
        {"family": "kinematic", "signal": "shock", "weight": 3.0, "detail": "7 g", "at_ms": NOON_MS + 40},
        {"family": "kinematic", "signal": "shock", "weight": 3.0, "detail": "5 g", "at_ms": NOON_MS - 40},
        {"family": "group", "signal": "neighbours", "weight": 3.0, "detail": f"{B} silent too", "at_ms": NOON_MS + 45},
    ],
    "posterior": 0.999,
    "by": None,
    "incident": {"containers": [A, B], "at_risk": [B], "bays": [43], "from_at_ms": NOON_MS, "until_at_ms": NOON_MS},
}


def test_an_alert_tells_its_owner_of_its_own_box_and_time_alone() -> None:
    told = disclosed("alerts", json.dumps(ALERT), NOON_MS, OPEN_MS)
    assert told is not None
    body = json.loads(told)
    assert body["landfall_kind"] == "alert"
    assert (body["alert_id"], body["status"], body["position"]["latitude_deg"]) == ("a1", "PROBABLE_OVERBOARD", -34.0)
    assert [one["at_ms"] for one in body["evidence"]] == [NOON_MS + 40]
    for secret in (B, "others", "i-9", "incident", "0.999", "group", "bays"):
        assert secret not in told


def change(state: str, status: str, at_ms: int = NOON_MS) -> Record:
    """A change of the alert that A is lost."""
    return Record(A, device_at_ms=at_ms, body={**ALERT, "rule": "lost_container", "state": state, "status": status, "at_ms": at_ms})


def told(records: list[Record], told_from: NoticeStage, stream: str = "alerts", root: str = "/nowhere") -> list[tuple[Any, ...]]:
    """State and status of what the owner of A is given of these under that policy."""
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS - 1_000, None)))], 0)
    given = without_probable(root, covered(wide(records, stream), rights.current()), told_from)
    bodies = [json.loads(body) for _, _, given_to in customers_appends(given, 100) for body in given_to.column("body").to_pylist()]
    return [(body.get("state"), body.get("status"), body.get("event")) for body in bodies]


def test_from_when_an_owner_sees_a_probable_loss_is_the_carriers_policy() -> None:
    """Where it is told once a report is approved or sent, its stream says nothing of what is probable, nor that it is taken back."""
    probable = [change("raised", "PROBABLE_OVERBOARD"), change("acknowledged", "PROBABLE_OVERBOARD"), change("retracted", "FOUND")]
    event = Record(A, device_at_ms=NOON_MS, body={"event_id": "e", "event": "X_PROBABLE_OVERBOARD", "event_at_ms": NOON_MS})
    escaped = wide([change("raised", "PROBABLE_OVERBOARD")], "alerts")
    assert len(told(probable, "drafted")) == 3
    assert told([event], "drafted", "events") == [(None, None, "X_PROBABLE_OVERBOARD")]
    for policy in get_args(NoticeStage)[1:]:
        assert told(probable, policy) == []
        assert told([event], policy, "events") == []
        assert without_probable("/nowhere", wide([reading(A, NOON_MS, return_c=4.0)]), policy).num_rows == 1
        others = [Record(A, device_at_ms=NOON_MS, body={**ALERT, "rule": "shock", "status": None}), change("raised", "PROBABLE_OVERBOARD")]
        assert told(others, policy) == [("raised", None, None)]
        assert told([Record(A, device_at_ms=NOON_MS, body={**ALERT, "rule": "heard_after_loss", "status": None})], policy) == []
        text = pa.chunked_array([pa.array([json.dumps(change("raised", "PROBABLE_OVERBOARD").body).replace("PROBABLE", r"PROB\u0041BLE")])])
        hidden = escaped.set_column(escaped.schema.get_field_index("body"), "body", text)
        assert without_probable("/nowhere", hidden, policy).num_rows == 0


def test_the_policy_is_the_registrys_last_and_without_one_owners_are_told_at_once() -> None:
    rights = BookingRights()
    assert rights.told_from == "drafted"
    for version, told_from, stands in ((2, "sent", "sent"), (1, "approved", "sent"), (3, "approved", "approved")):
        rights.learn([entry(registry("policy", "owners", version, {"told_from": told_from}))], version)
        assert rights.told_from == stands


@pytest.mark.parametrize("status", ["CONFIRMED_LOST", "REPORTED_INITIAL", "REPORTED_FINAL"])
def test_what_a_person_confirms_or_reports_is_told_and_what_takes_that_back_too(tmp_path: Path, status: str) -> None:
    """Also where the confirming came in an earlier micro-batch, which the history has."""
    confirmed = [change("updated", status), change("retracted", "FOUND")]
    assert told([change("raised", "PROBABLE_OVERBOARD"), *confirmed], "sent") == [
        ("updated", status, None),
        ("retracted", "FOUND", None),
    ]
    lost = Record(A, device_at_ms=NOON_MS, body={"event_id": "e", "event": "X_LOST_OVERBOARD", "event_at_ms": NOON_MS})
    assert told([lost], "sent", "events") == [(None, None, "X_LOST_OVERBOARD")]
    history = wide(confirmed[:1], "alerts", batch=0)
    write_deltalake(HISTORY.path(str(tmp_path)), history)
    assert told(confirmed[1:], "sent", root=str(tmp_path)) == [("retracted", "FOUND", None)]
    assert told(confirmed[1:], "sent") == []


@pytest.mark.parametrize("stream", ["containers", "ships"])
def test_a_readings_body_is_given_as_it_is(stream: str) -> None:
    assert disclosed(stream, '{"vendor":"x"}', NOON_MS, OPEN_MS) == '{"vendor":"x"}'


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ('{"landfall_kind":"alert","vendor":"x"}', {"vendor": "x"}),
        (r'{"landfall\u005fkind":"alert","vendor":"x"}', {"vendor": "x"}),
        ('{"note":"landfall_kind"}', {"note": "landfall_kind"}),
    ],
)
def test_no_device_makes_its_readings_look_like_alerts(said: str, given: dict[str, str]) -> None:
    """Its owner's copy says of itself what kind it is: a field of that name in a payload is not given."""
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, None)))], 0)
    rows = wide([reading(A, NOON_MS), reading(A, NOON_MS + 1)])
    bodies = pa.chunked_array([pa.array([said, None], pa.string())])
    rows = rows.set_column(rows.schema.get_field_index("body"), "body", bodies)
    ((_, _, records),) = customers_appends(covered(rows, rights.current()), 100)
    first, second = records.column("body").to_pylist()
    assert (json.loads(first), second) == (given, None)


def test_a_reading_whose_clock_fell_back_says_when_it_was_received_first() -> None:
    rights = BookingRights()
    rights.learn([entry(booking("D", 1, DUCKS, (A, NOON_MS, None)))], 0)
    rows = wide([reading(A, NOON_MS), reading(A, NOON_MS + 1)])
    rows = rows.set_column(
        rows.schema.get_field_index("body"), "body", pa.chunked_array([['{"flags":["clock_back"]}', '{"flags":["will"]}']])
    )
    received = rows.column("received_at_ms").to_pylist()
    ((_, _, records),) = customers_appends(covered(rows, rights.current()), 100)
    assert [json.loads(body) for body in records.column("body").to_pylist()] == [
        {"flags": ["clock_back"], "corrected_at_ms": received[0]},
        {"flags": ["will"]},
    ]


def test_an_event_keeps_only_fields_that_are_known_to_be_harmless() -> None:
    told = disclosed(
        "events", json.dumps({"event_id": "e", "event": "LOAD", "event_at_ms": 5, "left_behind": [B], "count": 3}), NOON_MS, OPEN_MS
    )
    assert told is not None
    assert json.loads(told) == {"event_id": "e", "event": "LOAD", "event_at_ms": 5, "landfall_kind": "event"}


@pytest.mark.parametrize(
    ("began_ms", "ended_ms", "is_told"),
    [(NOON_MS, OPEN_MS - 1, True), (NOON_MS - 1, OPEN_MS - 1, False), (NOON_MS, OPEN_MS, False), (NOON_MS, "late", False)],
)
def test_an_excursion_is_told_whole_when_it_was_in_the_customers_own_time(began_ms: int, ended_ms: Any, is_told: bool) -> None:
    measures = {"until_at_ms": ended_ms, "peak_c": 7.5, "degree_minutes": 90.0, "unmeasured_ms": 14_400_000}
    event = {"event_id": "e", "event": "X_EXCURSION", "event_at_ms": began_ms}
    told = disclosed("events", json.dumps(event | measures | {"alert_id": "a1"}), NOON_MS, OPEN_MS)
    assert told is not None
    assert json.loads(told) == event | (measures if is_told else {}) | {"landfall_kind": "event"}


@pytest.mark.parametrize("body", ["[1, 2]", "no JSON", '{"evidence": "yes", "incident": 1}', '{"evidence": [1, null]}', None])
def test_of_what_does_not_read_nothing_is_told(body: str | None) -> None:
    told = disclosed("alerts", body, NOON_MS, OPEN_MS)
    assert told is not None
    assert json.loads(told) == {"evidence": [], "landfall_kind": "alert"}


def test_an_entry_with_a_number_beyond_64_bits_is_told_and_gives_no_right() -> None:
    """Goal: of what a log has already, Spark learns the rest, makes its tables of 64 bits, and tells `exceptions` of each bad entry."""
    rows = wide([reading(A, NOON_MS, return_c=1.0)])
    huge = (2**63, 2**64, 2**70, -(2**63), -(2**70))
    bad = [json.dumps(booking(f"X{number}", 1, DUCKS, span).body) for number in huge for span in ((A, number, None), (A, 0, number))]
    entries, unreadable = read_entries([*bad, json.dumps(booking("D", 1, DUCKS, (A, NOON_MS, None)).body)])
    assert [entry.id for entry in entries] == ["D"]
    assert [body for body, _ in unreadable] == bad
    rights = BookingRights()
    rights.learn(entries, 0)
    assert offsets(covered(rows, rights.current()), DUCKS) == [0]


def test_a_shipper_whose_id_makes_no_streams_name_is_refused_and_stops_nobody() -> None:
    good, bad = (booking(name, 1, shipper, (A, NOON_MS, None)) for name, shipper in (("D", DUCKS), ("E", "no/such name")))
    entries, unreadable = read_entries([json.dumps(good.body), json.dumps(bad.body), "{}"])
    assert [entry.id for entry in entries] == ["D"]
    assert len(unreadable) == 2
