"""From the log's columns to rows: names, nulls and unknown columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cargo.loss.reading_rows import TOPIC_CHARS_MAX, Heard, Value, rows, ship_topic, signs_of_life
from cargo.shore_rules.digests import DigestFold
from streams.model.errors import InvalidValue
from streams.model.identifiers import check_topic
from streams.model.records import Record, to_batch
from tests.support.refusals import refusal
from tests.support.sea import number


def stamped() -> pa.RecordBatch:
    """Two sparse readings as a log gives them back, and a column that is no signal."""
    records = [
        Record(number(1), "TRK-1", 5, {"supply_c": 4.5, "power_on": True, "gateway": "GW-1", "strange": 7}),
        Record(number(2), None, None, {"battery_mv": 3_600}),
    ]
    given = to_batch(records)
    stamps = {"offset": [8, 9], "received_at_ms": [10, 11], "order_at_ms": [5, 11]}
    arrays = [*given.columns, *(pa.array(values, pa.int64()) for values in stamps.values())]
    return pa.RecordBatch.from_arrays(arrays, names=[*given.schema.names, *stamps])


def test_rows_carry_what_was_measured_and_nothing_else() -> None:
    """Goal: nulls are absent, unknown columns left out, the log's times and coordinates kept."""
    assert list(rows(stamped(), "containers", "ship@1")) == [
        Heard(number(1), "TRK-1", 5, 5, 10, {"supply_c": 4.5, "power_on": True, "gateway": "GW-1"}, "containers:ship@1:8"),
        Heard(number(2), "", None, 11, 11, {"battery_mv": 3_600}, "containers:ship@1:9"),
    ]
    assert [row.coordinates for row in rows(stamped())] == ["", ""]
    assert list(rows(stamped().slice(0, 0))) == []


@pytest.mark.parametrize("topic", ["", "a\nb", "x" * (TOPIC_CHARS_MAX + 1), "\0", "\u200b"])
def test_what_is_of_no_topic_is_not_heard(topic: str) -> None:
    """Goal: a row as raw columns bring it, of which no alert could be told, ends no rule."""
    odd = stamped().set_column(0, stamped().schema.field(0), pa.array([topic, number(2)]))
    assert [row.topic for row in rows(odd)] == [number(2)]
    with refusal(InvalidValue, "topic_invalid"):
        check_topic(topic)
    assert check_topic("x" * TOPIC_CHARS_MAX)


ODD: tuple[tuple[str, list[Value], list[Value | None]], ...] = (
    ("return_c", [4, 91, -80], [4.0, None, -80.0]),
    ("return_c", ["warm", "4", ""], [None, None, None]),
    ("return_c", [float("nan"), 4.5, float("inf")], [None, 4.5, None]),
    ("return_c", [True, False, True], [None, None, None]),
    ("battery_mv", [3_600, -1, 60_001], [3_600, None, None]),
    ("battery_mv", [3_600.0, 1.5, 2.0], [None, None, None]),
    ("power_on", [1, 0, 1], [None, None, None]),
    ("gateway", ["GW-1", "x" * 201, ""], ["GW-1", None, ""]),
    ("gateway", [7, 8, 9], [None, None, None]),
    ("return_c", [2**62, 4, 4], [None, 4.0, 4.0]),
)


@pytest.mark.parametrize(("name", "values", "left"), ODD)
def test_what_can_not_be_true_is_not_carried(name: str, values: list[Value], left: list[Value | None]) -> None:
    """Goal: whatever type and value a program or a node brings, rules hear what a sensor can mean, in the type it has, or nothing."""
    records = to_batch([Record(number(at), "TRK", 5, {name: value, "motion": True}) for at, value in enumerate(values)])
    stamps = [pa.array([5] * len(values), pa.int64()) for _ in range(3)]
    names = [*records.schema.names, "offset", "received_at_ms", "order_at_ms"]
    batch = pa.RecordBatch.from_arrays([*records.columns, *stamps], names=names)
    carried = [row.signals for row in rows(batch)]
    assert carried == [{"motion": True} if value is None else {name: value, "motion": True} for value in left]
    assert all(type(one[name]) is type(value) for one, value in zip(carried, left, strict=True) if value is not None)
    fold = DigestFold(0)
    fold.take(batch)
    assert fold.lines(60_000).num_rows == len(values)


def test_what_its_device_did_not_say_then_is_no_sign_of_life() -> None:
    """Goal: a will, what a broker kept and a gateway's own message move nothing that is known of a box; any signal of its own does."""
    said = [
        Record(number(0), signals={"battery_mv": 3_600}, body={"flags": ["no_time"]}),
        Record(number(1), body={"status": "offline"}),
        Record(number(2), signals={"gateway": "GW-1", "rssi_dbm": -60}, body={"status": "offline"}),
        Record(number(3), signals={"return_c": 4.0}, body={"flags": ["no_time", "will"]}),
        Record(number(4), signals={"return_c": 4.0}, body={"flags": ["retained"]}),
        Record(number(5), signals={"return_c": 500.0}),
        Record(number(6), signals={"door_open": False}, body={"note": 'he said "flags" of a will'}),
    ]
    records = to_batch(said)
    assert signs_of_life(records).tolist() == [True, False, False, False, False, False, True]
    stamps = [pa.array([5] * len(said), pa.int64()) for _ in range(3)]
    names = [*records.schema.names, "offset", "received_at_ms", "order_at_ms"]
    batch = pa.RecordBatch.from_arrays([*records.columns, *stamps], names=names)
    assert [row.topic for row in rows(batch)] == [number(0), number(6)]
    fold = DigestFold(0)
    fold.take(batch)
    assert fold.readings == 2


def test_a_ship_s_topics_are_told_from_boxes() -> None:
    """Goal: location, environment, noon and log are the ship's; all else is a container's, odd as it may be."""
    hers = ("9321483.location", "9321483.environment", "9321483.noon", "9321483.log")
    assert [ship_topic(topic) for topic in (*hers, number(1), "A.B")] == [
        "location",
        "environment",
        "noon",
        "log",
        None,
        None,
    ]
