"""Goal: a person is told what of a device's reports is there, what is missing, and between which times a copy has holes."""

from __future__ import annotations

from pathlib import Path

from streams.integrity.completeness import Completeness, Reported, completeness, learned_interval_ms
from streams.integrity.missing_ranges import Gap, gaps, lacks
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from tests.streams.logkit import NOW_MS, SHIP, append_rows, open_log, rows
from tests.support.refusals import refusal

MINUTE, HOUR = 60_000, 3_600_000


def every(interval_ms: int, count: int, start: int = 0, device: str = "TRK") -> list[Reported]:
    return [Reported(start + step * interval_ms, start + step * interval_ms + 900, device) for step in range(count)]


def test_all_that_was_expected_is_there() -> None:
    found = completeness(every(15 * MINUTE, 96), 0, 24 * HOUR)
    assert found == Completeness(0, 24 * HOUR, 15 * MINUTE, 96, 96, 0, 0, 0, (0, 15 * MINUTE))


def test_what_is_missing_is_counted_in_intervals_inside_and_at_both_ends() -> None:
    readings = [one for one in every(HOUR, 24) if one.at_ms // HOUR not in (0, 1, 7, 8, 9, 23)]
    found = completeness(readings, 0, 24 * HOUR)
    assert (found.expected, found.held, found.missing, found.thinned) == (24, 18, 6, 0)
    assert found.longest_silence == (6 * HOUR, 10 * HOUR)


def test_what_was_thinned_is_not_missing() -> None:
    readings = [one for one in every(HOUR, 24) if not 7 <= one.at_ms // HOUR <= 9]
    found = completeness(readings, 0, 24 * HOUR, thinned=[(6 * HOUR + 1, 9 * HOUR)])
    assert (found.missing, found.thinned) == (1, 2)


def test_the_interval_is_not_learned_where_runs_were_thinned() -> None:
    """Of each of four hours but the first, the first reading, one in the middle and the last were kept; of one all, then nothing came."""
    whole = [one for one in every(MINUTE, 300) if one.at_ms < 270 * MINUTE]
    kept = [one for one in whole if one.at_ms < 60 * MINUTE or one.at_ms // MINUTE % 60 in (0, 31, 59) or one.at_ms >= 240 * MINUTE]
    thinned = [(hour * HOUR, hour * HOUR + 59 * MINUTE) for hour in (1, 2, 3)]
    found = completeness(kept, 0, 300 * MINUTE, thinned=thinned)
    assert (found.interval_ms, found.expected, found.held, found.thinned, found.missing) == (MINUTE, 300, len(kept), 3 * 57, 30)
    assert found.longest_silence == (269 * MINUTE, 300 * MINUTE)
    few = completeness([one for one in kept if HOUR <= one.at_ms < 2 * HOUR], HOUR, 2 * HOUR - MINUTE, thinned=thinned)
    assert (few.interval_ms, few.expected, few.longest_silence) == (None, None, (HOUR, HOUR)), "nothing tells of it"


def test_repeats_count_once_and_late_ones_are_told() -> None:
    readings = every(HOUR, 24)
    readings += [readings[3], Reported(readings[4].at_ms, readings[4].at_ms + 9 * HOUR, "TRK")]
    readings[5] = Reported(5 * HOUR, 6 * HOUR + 1, "TRK")
    found = completeness(readings[::-1], 0, 24 * HOUR)
    assert (found.held, found.late, found.missing) == (24, 1, 0)


def test_a_jittering_clock_misses_nothing() -> None:
    readings = [Reported(one.at_ms + (step % 7) * 4 * MINUTE, one.received_at_ms + HOUR // 2) for step, one in enumerate(every(HOUR, 48))]
    found = completeness(readings, 0, 48 * HOUR, HOUR)
    assert (found.expected, found.missing, found.late) == (48, 0, 0)


def test_silence_from_beginning_to_end() -> None:
    found = completeness([], 0, 10 * HOUR, interval_ms=HOUR)
    assert (found.expected, found.held, found.missing, found.longest_silence) == (10, 0, 10, (0, 10 * HOUR))
    assert completeness([], 0, HOUR // 2, interval_ms=HOUR).missing == 1
    unknown = completeness(every(HOUR, 2), 0, 10 * HOUR)
    assert (unknown.interval_ms, unknown.expected, unknown.held, unknown.missing, unknown.late) == (None, None, 2, None, None)
    with refusal(ValueError, "span_invalid"):
        completeness([], 5, 5)


def test_the_interval_is_that_of_the_device_that_reports_most() -> None:
    assert learned_interval_ms(every(15 * MINUTE, 9) + every(24 * HOUR, 5, device="other")) == 15 * MINUTE
    assert learned_interval_ms(every(HOUR, 2)) is None


def test_gaps_of_a_ledger() -> None:
    ledger = OriginLedger(RangeSet([(10, 20), (30, 40)]), {"thinned": RangeSet([(5, 12), (40, 50)]), "lost": RangeSet([(25, 28)])}, floor=8)
    ledger.held.remove(0, 12)
    assert lacks(SHIP, ledger) == [
        Gap(SHIP, 0, 8, "below_floor"),
        Gap(SHIP, 8, 12, "thinned"),
        Gap(SHIP, 20, 25, "wanted"),
        Gap(SHIP, 25, 28, "lost"),
        Gap(SHIP, 28, 30, "wanted"),
        Gap(SHIP, 40, 50, "thinned"),
    ]
    assert lacks(Origin("port-b", 1), OriginLedger()) == []


def test_gaps_of_a_copy_lie_between_times(tmp_path: Path) -> None:
    clock = StillClock(NOW_MS)
    ship, port = open_log(tmp_path / "ship", clock=clock), open_log(tmp_path / "port", "port-b")
    for start in range(0, 50, 10):
        append_rows(ship, rows(10, start))
        clock.advance(60)
    port.admit([block for block in ship.blocks("containers", ship.origin, 0, 50) if block.first in (10, 40)])
    assert list(gaps(port, "containers")) == [
        Gap(ship.origin, 0, 10, "wanted", None, NOW_MS + MINUTE),
        Gap(ship.origin, 20, 40, "wanted", NOW_MS + MINUTE, NOW_MS + 4 * MINUTE),
    ]
    ship.close()
    port.close()
