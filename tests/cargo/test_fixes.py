"""Goal: one bad fix moves nothing: what is no fix is known, and what a ship can not have reached is doubted until a second fix agrees."""

from __future__ import annotations

import pyarrow as pa

from cargo.loss.reading_rows import rows
from cargo.vocabulary.position_fixes import Fix, LastFix, believed_fixes, fix_of, with_believed_positions

MINUTE_MS = 60_000
BERTH, FAR, ELSEWHERE = (35.6, 139.8), (35.6, 150.0), (-33.9, 151.2)


def fixes(*places: tuple[float, float]) -> list[Fix]:
    return [Fix(1_777_593_600_000 + n * MINUTE_MS, *place) for n, place in enumerate(places)]


def last_of(*places: tuple[float, float]) -> list[tuple[float, float] | None]:
    """The last believed fix after each."""
    last, found = LastFix(), list[tuple[float, float] | None]()
    for fix in fixes(*places):
        last.take([fix])
        found.append((last.fix.latitude_deg, last.fix.longitude_deg) if last.fix else None)
    return found


def test_one_bad_fix_moves_nothing_and_two_that_agree_do() -> None:
    assert last_of(BERTH, FAR, BERTH, ELSEWHERE, FAR, BERTH) == [BERTH] * 6
    assert last_of(BERTH, FAR, FAR, FAR) == [BERTH, BERTH, FAR, FAR]
    assert last_of(FAR, BERTH, BERTH) == [FAR, FAR, BERTH], "a bad first one is given up as soon"


def test_the_same_reading_looked_at_twice_does_not_agree_with_itself() -> None:
    here, far = fixes(BERTH, FAR)
    last = LastFix()
    last.take([here, far])
    last.take([far, here])
    assert last.fix == here


def test_of_a_whole_track_what_is_not_believed_is_known() -> None:
    assert believed_fixes(fixes(BERTH, BERTH, FAR, BERTH)) == [True, True, False, True]
    assert believed_fixes(fixes(BERTH, BERTH, FAR, FAR, ELSEWHERE)) == [True, True, True, True, False], "she is there, her clock leapt"
    assert believed_fixes(fixes(FAR, BERTH, BERTH)) == [False, True, True]
    assert believed_fixes(fixes(BERTH, FAR, ELSEWHERE, BERTH)) == [True, False, False, True]
    assert believed_fixes([]) == []


def test_readings_lose_positions_that_are_not_believed_and_nothing_else() -> None:
    at = 1_777_593_600_000
    berth = {"latitude_deg": 35.6, "longitude_deg": 139.8, "speed_kn": 0.1}
    readings = [(at, berth), (at + MINUTE_MS, {"speed_kn": 2.0}), (at + 2 * MINUTE_MS, berth | {"longitude_deg": 150.0})]
    assert with_believed_positions(readings) == [*readings[:2], (at + 2 * MINUTE_MS, {"speed_kn": 0.1})]


def test_what_is_no_fix_is_none() -> None:
    for odd in ({}, {"latitude_deg": 1.0}, {"latitude_deg": 0.0, "longitude_deg": -0.0}, {"latitude_deg": "1", "longitude_deg": 2}):
        assert fix_of(1, odd) is None
    assert fix_of(1, {"latitude_deg": 0.0, "longitude_deg": 9.0, "speed_kn": True}) == Fix(1, 0.0, 9.0)


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
