"""Goal: the same seed gives the same readings however time is cut, and they look like those of real devices with real faults."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import orjson
import pytest

from cargo.vocabulary.signals import SIGNALS
from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS
from sim.reading_columns import NOTED, SimulatedReadings, concatenated, type_of
from sim.sea import motion, roll_amplitude_deg
from sim.sea_routes import distance_nm
from sim.sensors import AFTER_OUTAGE_MS, Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.sim_ports import PORTS
from sim.stages import StageState
from sim.storms import storm
from sim.voyages import INTAKES
from sim.world import OUTAGE_MS, build_world


@pytest.fixture(scope="module")
def sensors() -> Sensors:
    return Sensors(build_world(3, 300, BEGINS_AT_MS), CADENCES["demo"], listening=0.5)


@pytest.fixture(scope="module")
def whole(sensors: Sensors) -> SimulatedReadings:
    """Every reading of the story, made in one go."""
    return sensors.heard(0, sensors.world.timeline.ends_at_ms + DAY_MS)


def rows(readings: SimulatedReadings, sensors: Sensors) -> list[tuple[int, int, str, bytes]]:
    topics = [sensors.topics[thing] for thing in readings.thing]
    return list(zip(readings.heard_at_ms.tolist(), readings.intake.tolist(), topics, sensors.payloads(readings), strict=True))


def test_same_readings_however_time_is_cut(sensors: Sensors, whole: SimulatedReadings) -> None:
    random = np.random.default_rng(5)
    times = sensors.world.timeline
    cuts = [0, *sorted(random.integers(times.begins_at_ms, times.ends_at_ms, 120).tolist()), sensors.world.outages[0].until_at_ms + 7_000]
    cuts = [*sorted(cuts), times.ends_at_ms + 1]
    again = Sensors(build_world(3, 300, BEGINS_AT_MS), CADENCES["demo"], listening=0.5)
    parts = [again.heard(since, until) for since, until in itertools.pairwise(cuts)]
    assert rows(concatenated(parts), again) == rows(whole, sensors)


def test_nothing_is_sent_twice_but_the_seeded_repeats(sensors: Sensors, whole: SimulatedReadings) -> None:
    once = whole.taken(~whole.repeat)
    sent = Counter((topic, payload) for _, _, topic, payload in rows(once, sensors))
    assert max(sent.values()) == 1
    again = rows(whole.taken(whole.repeat), sensors)
    assert 0.004 < len(again) / len(once) < 0.008
    assert all(sent[topic, payload] == 1 for _, _, topic, payload in again)


def test_values_are_possible(whole: SimulatedReadings) -> None:
    for name, values in whole.signals.items():
        measured = values[~np.isnan(values)]
        if name in NOTED:
            assert (measured > 0).all(), name
            continue
        signal = SIGNALS[name]
        assert len(measured), name
        if signal.type != "bool":
            assert signal.low is not None
            assert signal.high is not None
            assert signal.low <= measured.min(), name
            assert measured.max() <= signal.high, name


def test_payloads_are_what_architecture_says(sensors: Sensors, whole: SimulatedReadings) -> None:
    for topic, payload in zip((sensors.topics[thing] for thing in whole.thing[:4_000]), sensors.payloads(whole)[:4_000], strict=False):
        reading = orjson.loads(payload)
        assert isinstance(reading.pop("device"), str)
        assert isinstance(reading.pop("at"), int)
        kinds = {"float": float, "int": int, "bool": bool, "text": str}
        assert all(type(value) is kinds[type_of(name)] for name, value in reading.items()), reading
        assert ("gateway" in reading) == topic.startswith("landfall/containers/")


def test_each_reading_goes_to_the_intake_that_hears_the_box(sensors: Sensors, whole: SimulatedReadings) -> None:
    world, boxes = sensors.world, len(sensors.world.boxes)
    of_box = whole.taken((whole.thing < boxes) & (whole.gateway != sensors.world.outages[0].gateway) & ~whole.repeat)
    column = world.stages.column_at(of_box.thing, of_box.heard_at_ms)
    assert np.array_equal(world.stages.place[of_box.thing, column], of_box.intake)
    assert np.isin(world.stages.state[of_box.thing, column], (StageState.QUAY, StageState.SHIP, StageState.SHOP)).all()
    assert set(whole.intake.tolist()) == set(range(len(INTAKES)))


def test_devices_fail_as_they_do(sensors: Sensors, whole: SimulatedReadings) -> None:
    """Clocks are 30 s off, one in a hundred by hours; dead devices say nothing more."""
    big = Sensors(build_world(3, 4_000, BEGINS_AT_MS), CADENCES["short"])
    off = np.abs(big.faults.clock_offset_ms)
    assert 20 <= (off > 30_000).sum() <= 60
    assert (off[off > 30_000] >= HOUR_MS).all()
    assert 20 <= (big.faults.dies_at_ms < big.world.timeline.ends_at_ms).sum() <= 60
    dead = sensors.faults.dies_at_ms[np.minimum(whole.thing, len(sensors.world.boxes) - 1)] <= whole.heard_at_ms
    assert not (dead & (whole.thing < len(sensors.world.boxes))).any()


def test_a_gateway_outage_delays_and_loses_nothing(sensors: Sensors, whole: SimulatedReadings) -> None:
    outage = sensors.world.outages[0]
    mine = whole.taken((whole.gateway == outage.gateway) & ~whole.repeat)
    during = (outage.from_at_ms <= mine.heard_at_ms) & (mine.heard_at_ms < outage.until_at_ms)
    assert not during.any()
    after = (outage.until_at_ms <= mine.heard_at_ms) & (mine.heard_at_ms < outage.until_at_ms + AFTER_OUTAGE_MS)
    true_at_ms = mine.at_ms - sensors.faults.clock_offset_ms[mine.thing]
    late = after & (true_at_ms < outage.until_at_ms)
    assert late.sum() >= 3
    assert (mine.heard_at_ms - true_at_ms)[late].max() <= OUTAGE_MS + AFTER_OUTAGE_MS


def test_the_fallen_tell_of_it_and_then_nothing(sensors: Sensors, whole: SimulatedReadings) -> None:
    world = sensors.world
    for box, falls_at_ms in zip(world.fallen, world.falls_at_ms, strict=True):
        mine = whole.taken((whole.thing == box) & ~whole.repeat)
        last = mine.taken(mine.heard_at_ms >= falls_at_ms)
        assert len(last) == 3
        assert (last.heard_at_ms < falls_at_ms + 4_000).all()
        assert np.nanmax(last.signals["shock_g"]) > 4
        assert np.nanmax(last.signals["free_fall_ms"]) >= 500
        assert whole.heard_at_ms[whole.thing == box].max() < falls_at_ms + 4_000, "no repeat comes from under water"
        assert abs(int(sensors.faults.clock_offset_ms[box])) <= 30_000


def test_who_stood_higher_falls_longer(sensors: Sensors, whole: SimulatedReadings) -> None:
    """Goal: a fall lasts as long as one from the box's tier to the water does, 10 to 15 m below the main deck: as in the voyages that prove
    the watch, which tells a fall overboard from one onto the deck by that."""
    world, felt = sensors.world, set()
    for box, falls_at_ms in zip(world.fallen, world.falls_at_ms, strict=True):
        column = world.stages.column_at(np.array([box]), np.array([falls_at_ms]))[0]
        tier = int(world.stages.slot[box, column]) % 100
        mine = whole.taken((whole.thing == box) & (whole.heard_at_ms >= falls_at_ms))
        above_m = 3.0 + (tier - 82) / 2 * 2.9
        low, high = (1_000 * np.sqrt(2 * (above_m + water_m) / 9.81) for water_m in (10.0, 15.0))
        assert low - 1 <= np.nanmax(mine.signals["free_fall_ms"]) <= high, tier
        felt.add(tier)
    assert len(felt) >= 4


def test_nothing_else_at_sea_looks_like_a_fall(sensors: Sensors, whole: SimulatedReadings) -> None:
    fallen = np.isin(whole.thing, sensors.world.fallen) & (whole.heard_at_ms >= sensors.world.timeline.falls_at_ms)
    rest = whole.taken(~fallen)
    assert np.isnan(rest.signals["free_fall_ms"]).all()
    sails = np.zeros(len(rest), dtype=np.bool_)
    for index, voyage in enumerate(sensors.world.timeline.voyages):
        sails |= (rest.intake == index) & ~voyage.moored(rest.heard_at_ms)
    assert np.nanmax(rest.signals["shock_g"][sails]) < 3.5
    assert np.nanmax(rest.signals["shock_g"][~sails]) > 5, "handling ashore"


def test_the_ship_rolls_hard_once(sensors: Sensors, whole: SimulatedReadings) -> None:
    rolls = whole.taken(~np.isnan(whole.signals.get("roll_deg", np.array([]))) & ~whole.repeat)
    hard = np.abs(rolls.signals["roll_deg"]) > 20
    falls_at_ms = sensors.world.timeline.falls_at_ms
    assert hard.sum() >= 3
    assert (np.abs(rolls.at_ms[hard] - falls_at_ms) < 15 * MINUTE_MS).all()
    assert (rolls.at_ms[hard] <= falls_at_ms + MINUTE_MS).any(), "told before or as the boxes fall"
    first = sensors.world.timeline.first
    moored = first.moored(rolls.at_ms) & first.moored(rolls.at_ms - MINUTE_MS) & (rolls.intake == 0)
    assert np.abs(rolls.signals["roll_deg"][moored]).max() < 0.6


def test_a_ship_rolls_and_pitches_as_a_process_of_which_she_reports_the_largest_swings(sensors: Sensors, whole: SimulatedReadings) -> None:
    """She swings from side to side in 20 to 32 s, smoothly, never further than the sea allows, and pitches twice as often."""
    chance, times = sensors.world.chance, sensors.world.timeline
    falls_at_ms = times.falls_at_ms // MINUTE_MS * MINUTE_MS
    at_ms = np.arange(falls_at_ms - 20 * MINUTE_MS, falls_at_ms + MINUTE_MS, 1_000)
    roll, pitch = motion(chance, times, 0, at_ms)
    reach = roll_amplitude_deg(chance, times, 0, at_ms)
    assert (np.abs(roll) <= reach).all()
    assert np.abs(roll).max() > 0.9 * reach.max() > 18
    assert np.abs(np.diff(roll)).max() < reach.max() * 2 * np.pi / 18, "no leap from one second to the next"
    rolls, pitches = (np.count_nonzero(np.diff(np.sign(swing)) > 0) for swing in (roll, pitch))
    assert 20 * 60 / 33 <= rolls <= 20 * 60 / 19
    assert abs(pitches - 2 * rolls) <= 3
    again, _ = motion(chance, times, 0, at_ms[700:710])
    assert np.array_equal(again, roll[700:710])
    told = whole.taken(~np.isnan(whole.signals.get("roll_deg", np.array([]))) & ~whole.repeat & (whole.intake == 0))
    last = told.taken(np.isin(told.at_ms, at_ms[60:]))
    assert len(last) >= 2
    for when, degrees in zip(last.at_ms.tolist(), last.signals["roll_deg"].tolist(), strict=True):
        minute = roll[(at_ms > when - MINUTE_MS) & (at_ms <= when)]
        assert degrees == round(float(minute[np.abs(minute).argmax()]), 1)


def test_a_parametric_roll_grows_from_four_degrees_within_a_minute() -> None:
    """And the wind does not: it has blown for hours."""
    leaps = storm("extreme", 20 * HOUR_MS, 26.5)
    rolls = leaps.roll_at(np.array([19.6, 20 - 5 / 60, 20 - 1 / 60, 20.0]) * HOUR_MS)
    assert rolls == pytest.approx([13.0, 4.0, 4.0, 26.5], abs=0.2)
    winds = leaps.wind_at(np.array([19.5, 20 - 1 / 60, 20.0]) * HOUR_MS)
    assert winds == pytest.approx([19.0, 23.7, 23.85], abs=0.2)


def test_ships_report_where_they_are(sensors: Sensors, whole: SimulatedReadings) -> None:
    first = sensors.world.timeline.first
    boxes = len(sensors.world.boxes)
    track = whole.taken((whole.thing == boxes) & ~whole.repeat)
    assert (np.diff(track.at_ms) == 15 * MINUTE_MS).all()
    latitude, longitude = track.signals["latitude_deg"], track.signals["longitude_deg"]
    steps = distance_nm(latitude[:-1], longitude[:-1], latitude[1:], longitude[1:])
    assert steps.max() < 5.5
    assert set(np.unique(np.round(track.signals["speed_kn"][first.moored(track.at_ms)]))) == {0.0}


def test_each_noon_at_sea_a_ship_reports_her_position_and_her_mean_speed(sensors: Sensors, whole: SimulatedReadings) -> None:
    """The distance run from noon to noon is that of her track; the first noon after a port counts from her sailing."""
    boxes = len(sensors.world.boxes)
    for place, voyage in enumerate(sensors.world.timeline.voyages):
        assert sensors.topics[boxes + 3 * place + 2] == f"landfall/ships/{voyage.ship.imo}/noon"
        reports = whole.taken((whole.thing == boxes + 3 * place + 2) & ~whole.repeat)
        assert (reports.at_ms % DAY_MS == DAY_MS // 2).all()
        assert (reports.intake == place).all()
        days = np.arange(BEGINS_AT_MS, sensors.world.timeline.ends_at_ms, DAY_MS) + DAY_MS // 2
        at_sea = ~voyage.moored(days) & ~voyage.moored(days - HOUR_MS) & (days < sensors.world.timeline.ends_at_ms)
        assert reports.at_ms.tolist() == days[at_sea].tolist()
        fix = voyage.route.at(voyage.along(reports.at_ms))
        latitude, longitude = reports.signals["latitude_deg"], reports.signals["longitude_deg"]
        assert distance_nm(fix.latitude_deg, fix.longitude_deg, latitude, longitude).max() < 0.05
        run, hours, speed = (reports.signals[name] for name in NOTED)
        sailed = [max(call.departs_at_ms for call in voyage.calls if call.departs_at_ms < at_ms) for at_ms in reports.at_ms.tolist()]
        assert hours == pytest.approx(np.minimum(24.0, (reports.at_ms - np.array(sailed)) / HOUR_MS), abs=0.06)
        assert run == pytest.approx(speed * hours, rel=0.02)
        assert (speed < 19.1).all()
        assert np.median(speed) == pytest.approx(19.0, abs=0.1)
    assert np.nanmin(whole.signals["mean_speed_kn"]) < 18.0, "in the storm off Sydney she was slow"


def test_fixes_of_boxes_agree_with_their_ship(sensors: Sensors, whole: SimulatedReadings) -> None:
    """By the box's own clock, within half a mile: a fix off the ship would be evidence of a loss."""
    boxes, first = len(sensors.world.boxes), sensors.world.timeline.first
    aboard = whole.taken((whole.thing < boxes) & (whole.intake == 0) & ~np.isnan(whole.signals["latitude_deg"]))
    assert len(aboard) > 500
    fix = first.route.at(first.along(aboard.at_ms))
    away = distance_nm(fix.latitude_deg, fix.longitude_deg, aboard.signals["latitude_deg"], aboard.signals["longitude_deg"])
    assert away.max() < 0.3


def test_emptied_boxes_go_on_reporting(sensors: Sensors, whole: SimulatedReadings) -> None:
    world = sensors.world
    stripped = np.flatnonzero(world.boxes.stripped_at_ms < world.timeline.ends_at_ms - 2 * DAY_MS)
    assert len(stripped)
    after = [(whole.heard_at_ms[whole.thing == box] > world.boxes.stripped_at_ms[box]).sum() for box in stripped.tolist()]
    alive = sensors.faults.dies_at_ms[stripped] > world.timeline.ends_at_ms
    assert (np.array(after)[alive] > 24).all()
    quays = {int(intake) for box in stripped.tolist() for intake in whole.intake[whole.thing == box][-1:]}
    assert {INTAKES[quay].split("/")[1] for quay in quays} <= set(PORTS)
