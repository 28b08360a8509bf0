"""From the log's columns to rows: names, nulls and unknown columns."""

from __future__ import annotations

import pyarrow as pa

from cargo.heard import Heard, rows, ship_topic
from streams.records import Record, to_batch
from tests.cargo.sea import number


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
