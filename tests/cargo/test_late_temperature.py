"""Goal: what comes late corrects the record of an excursion, under the same event, and alarms nobody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cargo.alerts.alert_log import Alert, AlertBook
from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.rules.climate_limits import Climate
from cargo.rules.episodes import Excursion, Limits, RuleMemory, Where
from cargo.rules.reading_rules import judge_reading
from cargo.rules.temperature import Late, correct_reading
from tests.support.sea import HOUR_MS, MINUTE_MS, START_MS, number

QUAY = WatchSettings(WatchPlace("port-jptyo", port="JPTYO"))
WHERE = Where(number(1), None, None, at_sea=False, side="JPTYO")
Sample = tuple[int, float]


def chilled(supply_c: float) -> dict[str, Value]:
    return {"setpoint_c": 4.0, "supply_c": supply_c}


class Box:
    """The rules over one box's readings (minute, supply °C), and the records they told."""

    def __init__(self) -> None:
        self.memory = RuleMemory()
        self.records: dict[int, Excursion] = {}
        self.changes: list[Alert] = []

    def hears(self, minute: int, supply_c: float, **more: Value) -> list[Alert]:
        return self._told(judge_reading(Limits(), self.memory, WHERE, START_MS + minute * MINUTE_MS, {**chilled(supply_c), **more}))

    def hears_late(self, minute: int, supply_c: float, now: int, **more: Value) -> list[Alert]:
        late = Late(START_MS + minute * MINUTE_MS, START_MS + now * MINUTE_MS, {**chilled(supply_c), **more})
        return self._told(correct_reading(Limits(), self.memory, WHERE, late))

    def _told(self, changes: list[Alert]) -> list[Alert]:
        for one in self.memory.ended:
            self.records[one.first_ms] = one
        self.memory.ended = ()
        self.changes += changes
        return changes

    def record(self) -> list[tuple[float, float, float, float]]:
        """What stands: minutes of begin and end, peak, degree-minutes of each excursion."""
        standing = sorted((one for one in self.records.values() if not one.retracted), key=lambda one: one.since_ms)
        minutes = [((one.since_ms - START_MS) / MINUTE_MS, (one.until_ms - START_MS) / MINUTE_MS) for one in standing]
        return [(*span, one.peak_c, round(one.degree_minutes, 6)) for span, one in zip(minutes, standing, strict=True)]


def heard(samples: list[Sample]) -> Box:
    box = Box()
    for minute, supply_c in samples:
        box.hears(minute, supply_c)
    return box


def test_a_silence_counts_neither_in_degree_minutes_nor_as_time_beyond_and_is_told() -> None:
    """Goal: nobody measured what was in it: no alarm by it alone, and the record says how long that was."""
    box = heard([(0, 9.0), (1_200, 9.0)])
    assert box.changes == [], "two readings twenty hours apart are no hour beyond"
    (raised,) = box.hears(1_260, 9.0)
    for value in ("+5.0 °C", "300 degree-minutes", "20 h"):
        assert value in raised.detail
    for minute in (1_320, 1_380):
        box.hears(minute, 4.0)
    assert box.record() == [(0.0, 1_320.0, 5.0, 300.0)]
    assert [one.unmeasured_ms for one in box.records.values()] == [20 * HOUR_MS]


def test_what_comes_late_fills_the_silence() -> None:
    """Goal: what its gateway kept was measured after all, and then the record is of that."""
    box = heard([(0, 9.0), (60, 9.0), (1_200, 9.0), (1_260, 4.0), (1_320, 4.0)])
    assert [(one.degree_minutes, one.unmeasured_ms) for one in box.records.values()] == [(300.0, 19 * HOUR_MS)]
    for minute in range(120, 1_200, 120):
        box.hears_late(minute, 9.0, now=1_400)
    assert [(one.degree_minutes, one.unmeasured_ms) for one in box.records.values()] == [(6_000.0, 0)]


@pytest.mark.parametrize(("back", "unmeasured_h"), [(240, 0), (241, 181 / 60)])
def test_a_few_missed_reports_are_measured_and_the_end_after_a_silence_is_not(back: int, unmeasured_h: float) -> None:
    """Goal: three hours are measured, longer is not; also between the last reading beyond and the first within."""
    box = heard([(0, 9.0), (60, 9.0), (back, 4.0), (back + 600, 4.0)])
    assert [one.unmeasured_ms for one in box.records.values()] == [round(unmeasured_h * HOUR_MS)]


def test_a_booking_whose_devices_report_seldom_says_so() -> None:
    """Goal: of a box that reports every six hours, six hours are measured where its booking says so."""
    limits, memory = Limits().asked(Climate(unmeasured_after_ms=6 * HOUR_MS)), RuleMemory()
    for hour, supply_c in ((0, 9.0), (6, 9.0), (12, 4.0), (18, 4.0)):
        judge_reading(limits, memory, WHERE, START_MS + hour * HOUR_MS, chilled(supply_c))
    assert [(one.degree_minutes, one.unmeasured_ms) for one in memory.ended] == [(1_800.0, 0)]


PAST: list[Sample] = [(0, 4.0), (60, 9.0), (180, 9.0), (240, 4.0), (300, 4.0), (360, 4.0)]


def test_the_record_of_an_excursion_that_is_over() -> None:
    """Goal: begin, end, peak, degree-minutes, as the alert has them."""
    box = heard(PAST)
    assert box.record() == [(60.0, 240.0, 5.0, 600.0)]
    assert [change.state for change in box.changes] == ["raised", "cleared"]


@pytest.mark.parametrize(
    ("late", "stands"),
    [
        ((120, 14.0), [(60.0, 240.0, 10.0, 900.0)]),
        ((30, 9.0), [(30.0, 240.0, 5.0, 750.0)]),
        ((200, 9.0), [(60.0, 240.0, 5.0, 700.0)]),
        ((200, 4.0), [(60.0, 200.0, 5.0, 600.0)]),
        ((330, 9.0), [(60.0, 240.0, 5.0, 600.0)]),
        ((20, 4.5), [(60.0, 240.0, 5.0, 600.0)]),
    ],
)
def test_a_late_reading_corrects_begin_end_peak_and_degree_minutes(late: Sample, stands: list[Any]) -> None:
    """Goal: the record is that of all readings in order of their time; one event, one alert, which stays cleared."""
    box = heard(PAST)
    before = box.record()
    changes = box.hears_late(*late, now=400)
    assert box.record() == stands
    assert [change.state for change in changes] == (["cleared"] if stands != before else [])
    assert {change.alert_id for change in changes} <= {box.changes[0].alert_id}
    assert len(box.records) == 1
    assert not box.hears_late(*late, now=401), "the same again"


def test_the_open_excursion_is_corrected_in_its_alert() -> None:
    """Goal: an update of now under the same id; the degree-minutes are those of all readings when it is over."""
    box = heard([(0, 4.0), (60, 9.0), (120, 9.0), (180, 9.0)])
    (corrected,) = box.hears_late(90, 12.0, now=190)
    assert (corrected.state, corrected.alert_id) == ("updated", box.changes[0].alert_id)
    assert "peak +8.0 °C, 690 degree-minutes" in corrected.detail
    for minute in (240, 300):
        box.hears(minute, 4.0)
    assert box.record() == [(60.0, 240.0, 8.0, 690.0)]


def test_what_late_readings_show_alone_is_recorded_and_alarms_nobody() -> None:
    """Goal: a gateway kept its readings: the excursion in its gap is told as an event, with no alert."""
    box = heard([(0, 4.0), (600, 4.0), (660, 4.0)])
    for minute in (180, 120, 240, 60, 300):
        box.hears_late(minute, 9.0, now=700)
    assert box.changes == []
    assert box.record() == [(60.0, 600.0, 5.0, 1200.0)]
    assert all(not one.alert_id for one in box.records.values())


def test_what_late_readings_show_to_be_none_is_taken_back() -> None:
    """Goal: two readings an hour apart looked like one excursion; all between were well: record and alert are retracted."""
    box = heard([(0, 4.0), (60, 9.0), (120, 9.0), (125, 4.0), (185, 4.0)])
    (changed,) = box.hears_late(90, 4.0, now=200)
    assert changed.state == "retracted"
    assert box.record() == []
    assert [one.retracted for one in box.records.values()] == [True]


def test_a_late_defrost_explains_the_warm_air() -> None:
    """Goal: the return air of a frozen box was warm for a defrost that is known only now."""
    box = Box()
    frozen: dict[str, Value] = {"setpoint_c": -18.0}
    for minute, return_c in ((0, -18.0), (60, -9.0), (130, -9.0), (200, -18.0), (270, -18.0)):
        box.hears(minute, 0.0, **frozen, return_c=return_c)
    assert len(box.record()) == 1
    box.hears_late(55, 0.0, now=300, **frozen, return_c=-9.0, defrosting=True)
    assert box.record() == []


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from([10, 30, 60, 90, 300]), st.sampled_from([4.0, 6.0, 9.0, 12.5, -1.0])), min_size=2, max_size=20
    ),
    late=st.sets(st.integers(0, 19)),
    chance=st.randoms(use_true_random=False),
)
def test_whenever_a_reading_comes_the_record_is_the_same(steps: list[tuple[int, float]], late: set[int], chance: Any) -> None:
    """Goal: any of them may come after those that follow it, in any order; none that is late raises an alert."""
    samples, minute = [(0, 4.0)], 0
    for gap, supply_c in steps:
        minute += gap
        samples.append((minute, supply_c))
    samples += [(minute + 60, 4.0), (minute + 120, 4.0)]
    held = [sample for at, sample in enumerate(samples[1:-2]) if at in late]
    chance.shuffle(held)
    box, newest = Box(), 0
    for sample in samples:
        if sample not in held:
            box.hears(*sample)
            newest = sample[0]
        while held and chance.random() < 0.3:
            ready = [one for one in held if one[0] < newest]
            if not ready:
                break
            held.remove(ready[0])
            assert "raised" not in {change.state for change in box.hears_late(*ready[0], now=newest)}
    for one in held:
        assert "raised" not in {change.state for change in box.hears_late(*one, now=newest)}
    assert box.record() == heard(samples).record()
    assert not any(not one.closed for one in AlertBook((one.topic, one.made().body) for one in box.changes).standing())


def test_the_watch_tells_a_correction_as_a_later_version_of_the_same_event() -> None:
    """Goal: one event id; the later version says more; an excursion that goes on in silence is not told yet; restarts change nothing."""
    rows = [Heard(number(1), "TRK", at, at, at, chilled(supply)) for at, supply in ((START_MS + m * MINUTE_MS, c) for m, c in PAST)]
    late_at = START_MS + 120 * MINUTE_MS
    late = Heard(number(1), "TRK", late_at, late_at, START_MS + 7 * HOUR_MS, chilled(14.0))
    told: list[list[MadeRecord]] = []
    for restarts in (False, True):
        state, made = WatchState(QUAY), WatchOutcome()
        for row in (*rows, late):
            made.add(step(state, [row]))
            made.add(advance(state, row.received_at_ms + QUAY.lateness_ms))
            state = from_snapshot(snapshot_of(state), QUAY) if restarts else state
        told.append([one for one in made.events if one.body["event"] == "X_EXCURSION"])
    first, second = told[0]
    assert told[1] == told[0]
    assert first.body["event_id"] == second.body["event_id"]
    assert second.body["updated_at_ms"] > first.body["updated_at_ms"]
    assert [(one.body["peak_c"], one.body["degree_minutes"]) for one in (first, second)] == [(5.0, 600.0), (10.0, 900.0)]
    assert first.body["event_at_ms"] == START_MS + HOUR_MS
    assert first.body["until_at_ms"] == START_MS + 4 * HOUR_MS
