"""What the analytics must have made of a log, worked out row by row in the plainest way, and compared field by field."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hq.analytics.disclosure import KIND, KINDS
from hq.analytics.job import STREAMS
from hq.delta_tables import HISTORY
from streams.config.companion_streams import parent_of
from streams.log import LogReader
from streams.model.identifiers import Coordinates, Origin, Position
from streams.model.records import BODY, DEVICE, DEVICE_AT, RESERVED, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, TOPIC, StoredRecord
from tests.hq_spark.history import read_history
from tests.support.spark_fleet import HOUR_MS, PLACES, rows

Spans = Mapping[str, Iterable[tuple[str, int, int]]]
"""Customer → the spans (container, from, until) it ever had a right to, UTC ms."""
Identity = tuple[Any, ...]


def identity(row: StoredRecord) -> Identity:
    """What makes a reading that reading; other records are themselves."""
    record = row.record
    if row.coordinates.stream not in ("containers", "ships") or record.device is None or record.device_at_ms is None:
        return (row.coordinates,)
    measured = {name: value for name, value in record.signals.items() if name != "gateway"}
    return (record.topic, record.device, record.device_at_ms, json.dumps(measured, sort_keys=True), json.dumps(record.body))


def told(log: LogReader) -> dict[Coordinates, StoredRecord]:
    """Every record of the streams that Spark reads."""
    return {row.coordinates: row for stream in STREAMS for row in rows(log, stream)}


def check_history(log: LogReader, tables: str) -> dict[Coordinates, StoredRecord]:
    """Each record is in the history once and as it was told, of repeats one; returns the records that are there."""
    truth = told(log)
    kept: dict[Coordinates, StoredRecord] = {}
    for topic in {row.record.topic for row in truth.values()}:
        for row in read_history(tables, topic).to_pylist():
            at = Coordinates(row["stream"], Origin.parse(row["origin"]), row["offset"])
            assert at not in kept, f"{at} is in the history twice"
            kept[at] = truth[at]
            _check_row(row, truth[at])
    identities = [identity(row) for row in kept.values()]
    assert len(set(identities)) == len(identities), "a repeat is in the history"
    assert set(identities) == {identity(row) for row in truth.values()}, "a record is not in the history"
    assert HISTORY.files(tables)
    return kept


def check_customers(log: LogReader, kept: Mapping[Coordinates, StoredRecord], spans: Spans) -> None:
    """Each customer's stream has each record of its boxes and spans once, field by field, and no other: none that says a box is probably
    lost, nor what takes that back unless a person had confirmed it. The policy of every test here is `sent`.

    Of all spans it ever had, not of those that stand now: what was given under a right that has been shortened since is in the stream for
    good. What a customer is shown of it is the API's to decide, and `tests/hq_serving/test_boundary.py` to hold.
    """
    named = {name for name in log.streams() if name.startswith("customers/") and parent_of(name) == name}
    assert named == {f"customers/{customer}" for customer in spans}
    probable = _probable(kept)
    assert probable, "no box is probably lost"
    for customer, wanted in spans.items():
        told = {at: row for at, row in kept.items() if at.stream != "ships" and at not in probable}
        owed = Counter(_owed(at, row) for at, row in told.items() if any(_inside(row, span) for span in wanted))
        given = Counter(_given(row) for batch in log.read(f"customers/{customer}", Position()) for row in batch.records.to_pylist())
        assert given == owed, f"{customer} lacks {owed - given} and has {given - owed} too many"


def _probable(kept: Mapping[Coordinates, StoredRecord]) -> set[Coordinates]:
    """What says no more than that a box is probably lost, and what takes that back."""
    said = {at: row.record.body for at, row in kept.items() if at.stream == "alerts" and row.record.body}
    confirmed = {body["alert_id"] for body in said.values() if body.get("status") == "CONFIRMED_LOST"}
    back = {at for at, body in said.items() if body.get("status") == "FOUND" and body["alert_id"] not in confirmed}
    return back | {at for at, body in said.items() if body.get("status") == "PROBABLE_OVERBOARD"}


def _owed(at: Coordinates, row: StoredRecord) -> str:
    """All of a customer's copy that does not depend on what of an event or alert may be told."""
    record = row.record
    body = record.body if at.stream == "containers" else {KIND: KINDS[at.stream]}
    return _copy((record.topic, record.device, record.device_at_ms, str(at.origin)), record.signals, body)


def _given(row: Mapping[str, Any]) -> str:
    """The same of a copy as it was given. It says of no shared stream, and of no offset there, where it is from."""
    assert not {SOURCE_STREAM, SOURCE_OFFSET} & {name for name, value in row.items() if value is not None}
    body = json.loads(row[BODY]) if row[BODY] else None
    signals = {name: value for name, value in row.items() if name not in RESERVED and value is not None}
    kind = {KIND: body[KIND]} if body and KIND in body else body
    return _copy((row[TOPIC], row[DEVICE], row[DEVICE_AT], row[SOURCE_ORIGIN]), signals, kind)


def _copy(who: tuple[Any, ...], signals: Mapping[str, Any], body: Mapping[str, Any] | None) -> str:
    return json.dumps([*who, signals, body], sort_keys=True)


def check_states(log: LogReader, kept: Mapping[Coordinates, StoredRecord]) -> None:
    """The last record of each kind and topic in `states` says the newest value of each signal, by order time, and where it was."""
    newest: dict[tuple[str, str], dict[str, tuple[Any, ...]]] = defaultdict(dict)
    seen: dict[tuple[str, str], tuple[Any, ...]] = {}
    for at, row in kept.items():
        if at.stream not in ("containers", "ships"):
            continue
        thing = ("ship", row.record.topic.partition(".")[0]) if at.stream == "ships" else ("container", row.record.topic)
        key = (row.order_at_ms, str(at.origin), at.offset)
        seen[thing] = max(seen.get(thing, key), key)
        for name, value in row.record.signals.items():
            newest[thing][name] = max(newest[thing].get(name, (*key, value)), (*key, value))
    last = {((row.record.body or {})["kind"], row.record.topic): row.record.body for row in rows(log, "states")}
    assert last.keys() == seen.keys()
    for thing, body in last.items():
        assert body is not None
        at_ms, origin, _ = seen[thing]
        kind, _, name = PLACES[Origin.parse(origin).node].partition("/")
        assert (body["at_ms"], body["place"]) == (at_ms, {"kind": kind, "id": name})
        assert body["signals"] == {name: {"value": value, "at_ms": at} for name, (at, _, _, value) in newest[thing].items()}


def hours_of(kept: Mapping[Coordinates, StoredRecord]) -> dict[tuple[str, int], dict[str, Any]]:
    """Per container and hour: how many readings, and of `return_c` least, mean and greatest."""
    groups: dict[tuple[str, int], list[StoredRecord]] = defaultdict(list)
    for at, row in kept.items():
        if at.stream == "containers":
            groups[row.record.topic, row.order_at_ms // HOUR_MS * HOUR_MS].append(row)
    return {key: _hour(group) for key, group in groups.items()}


def last_hours(log: LogReader) -> dict[tuple[str, int], dict[str, Any]]:
    """The same as stream `hours` says it: of each container and hour the last word."""
    last = {}
    for row in rows(log, "hours"):
        body = row.record.body
        assert body is not None
        summary = body["temperatures"].get("return_c")
        last[row.record.topic, body["hour_at_ms"]] = {
            "count": body["count"],
            "return_c": None if summary is None else (summary["min"], round(summary["mean"], 6), summary["max"]),
        }
    return last


def _hour(group: list[StoredRecord]) -> dict[str, Any]:
    measured = [float(row.record.signals["return_c"]) for row in group if "return_c" in row.record.signals]
    summary = (min(measured), round(sum(measured) / len(measured), 6), max(measured)) if measured else None
    return {"count": len(group), "return_c": summary}


def _inside(row: StoredRecord, span: tuple[str, int, int]) -> bool:
    container, since, until = span
    return row.record.topic == container and since <= row.order_at_ms < until


def _check_row(row: Mapping[str, Any], stored: StoredRecord) -> None:
    record = stored.record
    given = (row["topic"], row["device"], row["device_at_ms"], row["received_at_ms"], row["order_at_ms"])
    assert given == (record.topic, record.device, record.device_at_ms, stored.received_at_ms, stored.order_at_ms)
    more = json.loads(row["more"] or "{}")
    named = {"stream", "origin", "offset", "topic", "device", "body", "more", "identity"}
    signals = {name: value for name, value in row.items() if value is not None and name not in named and not name.endswith("_at_ms")}
    assert {name: value for name, value in signals.items() if not name.startswith("source_")} | more == record.signals
    assert (None if row["body"] is None else json.loads(row["body"])) == record.body
