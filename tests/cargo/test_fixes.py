"""Goal: one bad fix moves nothing: what is no fix is known, and what a ship can not have reached is doubted until a second fix agrees."""

from __future__ import annotations

import pyarrow as pa

from cargo.heard import rows


def test_what_a_log_holds_of_nought_is_no_position_and_360_degrees_are_nought() -> None:
    """Programs append, and nodes bring, what no intake has read."""
    columns: dict[str, list[object]] = {
        "topic": ["9501332.location"] * 3,
        "order_at_ms": [1, 2, 3],
        "received_at_ms": [1, 2, 3],
        "latitude_deg": [0.0, 0.0, 35.4],
        "longitude_deg": [0.0, 9.5, None],
        "course_deg": [360.0, 90.0, None],
    }
    heard = [one.signals for one in rows(pa.RecordBatch.from_pydict(columns))]
    assert heard == [{"course_deg": 0.0}, {"latitude_deg": 0.0, "longitude_deg": 9.5, "course_deg": 90.0}, {"latitude_deg": 35.4}]
