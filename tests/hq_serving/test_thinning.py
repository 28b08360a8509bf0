"""Goal: a thinned line shows what the whole line shows: every extreme in its pixel, both ends, every gap; and it is small."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hq.chart_points import AT, merged, thinned

Rows = list[tuple[int, float | None]]


def line(rows: Rows) -> pa.RecordBatch:
    return pa.record_batch({AT: [at_ms for at_ms, _ in rows], "value": [value for _, value in rows]})


def rows_of(batch: pa.RecordBatch) -> Rows:
    return list(zip(batch.column(AT).to_pylist(), batch.column("value").to_pylist(), strict=True))


def extremes(rows: Rows, span: tuple[int, int], pixels: int) -> dict[int, tuple[float, float]]:
    """The least and the greatest value of each pixel."""
    found: dict[int, tuple[float, float]] = {}
    for at_ms, value in rows:
        if value is not None:
            pixel = (at_ms - span[0]) * pixels // (span[1] - span[0] + 1)
            least, greatest = found.get(pixel, (value, value))
            found[pixel] = min(least, value), max(greatest, value)
    return found


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(-60, 60)), min_size=1), st.integers(1, 50))
def test_each_pixel_has_the_least_and_the_greatest_value_that_all_readings_have(made: Rows, pixels: int) -> None:
    rows = sorted(made, key=lambda row: row[0])
    shown = rows_of(thinned(line(rows), (0, 10_000), pixels))
    assert extremes(shown, (0, 10_000), pixels) == extremes(rows, (0, 10_000), pixels)
    assert (shown[0], shown[-1]) == (rows[0], rows[-1])
    assert [at_ms for at_ms, _ in shown] == sorted(at_ms for at_ms, _ in shown)
    assert set(shown) <= set(rows)
    assert len(shown) <= 2 * pixels + 2


@given(st.lists(st.integers(0, 10_000), min_size=2, unique=True), st.integers(1, 50), st.integers(1, 5_000))
def test_a_line_breaks_between_two_pixels_where_it_breaks_in_all_readings(times: list[int], pixels: int, gap_ms: int) -> None:
    rows: Rows = [(at_ms, 0.0) for at_ms in sorted(times)]
    shown = rows_of(thinned(line(rows), (0, 10_000), pixels, gap_ms))
    for (before, _), (after, _) in pairwise(rows):
        between = [at_ms for at_ms, value in shown if value is None and before <= at_ms <= after]
        broken = after - before > gap_ms and before * pixels // 10_001 != after * pixels // 10_001
        assert len(between) == broken
        if broken:
            assert {(before, 0.0), (after, 0.0)} <= set(shown)


def test_what_changes_at_the_end_of_a_long_line_is_there() -> None:
    """The case of the report: the newest 402 of 10,400 readings rise from 4 to 19.5 °C."""
    at_ms = np.arange(10_400) * 900_000
    values = np.where(np.arange(10_400) < 9_998, 4.0, 4.0 + 15.5 * (np.arange(10_400) - 9_998) / 401)
    shown = thinned(pa.record_batch({AT: at_ms, "value": values}), (0, int(at_ms[-1])), 800)
    assert shown.column("value").to_pylist()[-1] == pytest.approx(19.5)
    assert shown.num_rows <= 1_602
    risen = shown.filter(pc.greater(shown.column("value"), 4.0))
    assert risen.num_rows >= 50, "the rise is a line, not a step"


def test_a_track_keeps_the_furthest_in_each_direction() -> None:
    """Of several columns the extremes of each are kept, in whole rows."""
    rows = pa.record_batch({AT: [0, 1, 2, 3, 4, 5, 6], "north": [0.0, 9, 1, 1, 1, 1, 1], "east": [0.0, 1, 1, 1, -9, 1, 1]})
    shown = thinned(rows, (0, 6), 1)
    assert list(zip(*(shown.column(name).to_pylist() for name in ("north", "east")), strict=True)) == [(0, 0), (9, 1), (1, -9), (1, 1)]


def test_nothing_is_thinned_of_nothing() -> None:
    empty = line([]).cast(pa.schema([(AT, pa.int64()), ("value", pa.float64())]))
    assert thinned(empty, (0, 0), 800, 5).num_rows == 0
    assert rows_of(thinned(line([(7, 1.0)]), (7, 7), 800, 5)) == [(7, 1.0)]


def test_bands_closer_than_a_pixel_are_one() -> None:
    assert merged([(0, 10), (11, 20), (500, 510)], (0, 999), 100) == [(0, 20), (500, 510)]
    assert merged([(0, 10), (20, 30)], (0, 999), 100) == [(0, 10), (20, 30)]
    assert merged([], (0, 999), 100) == []
