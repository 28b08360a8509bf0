"""Goal: a fleet of several carriers is a possible world too, of the sizes asked for; the watch aboard tells of its losses alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from cargo.loss.watch_outcome import MadeRecord
from cargo.vocabulary.registry_entries import LoadList, parse_value
from cargo.vocabulary.stowage_plan import BELOW_M, TIER_M
from cargo.vocabulary.trade_codes import is_container, is_imo
from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS
from sim.fleets import DAYS, LOST_MAX, PRESETS, TRACKED_SHARE, Preset, PresetName, build_fleet
from sim.paperwork import paperwork
from sim.reefers import WRONG_C
from sim.sea import roll_amplitude_deg
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES, IntakeDoor, SimSettings
from sim.stages import StageState
from sim.stowage import FIRST_DECK_TIER, Hull
from sim.tape import Tape
from sim.truth import Truth, causes
from sim.voyages import STORY
from sim.world import World
from streams.model.errors import Misuse
from tests.sim.test_watch import alerts_at
from tests.sim.test_world import held_slots, moves_where_ships_lie, nothing_hangs
from tests.support.refusals import refusal

SMALL = Preset(5, 240, Hull(24), "domain")


@pytest.fixture(scope="module")
def fleet() -> World:
    return build_fleet(1, SMALL, BEGINS_AT_MS)


@pytest.fixture(scope="module")
def sensors(fleet: World) -> Sensors:
    return Sensors(fleet, CADENCES["domain"])


def test_presets_are_of_the_sizes_that_are_asked_for() -> None:
    assert {name: (preset.ships, preset.boxes) for name, preset in PRESETS.items()} == {
        "demo": (6, 2_000),
        "bench": (30, 10_000),
        "stress": (1, 24_000),
    }
    world = build_fleet(2, PRESETS["stress"], BEGINS_AT_MS)
    assert len(world.boxes) == len(set(world.boxes.numbers)) == 24_000
    held_slots(world, [FIRST_DECK_TIER + 2 * tier for tier in range(PRESETS["stress"].hull.plug_tiers)])


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) if name == "bench" else name for name in PRESETS])
def test_a_preset_has_room_for_its_boxes_with_the_seed_that_is_usual(name: PresetName, tmp_path: Path) -> None:
    settings = SimSettings(data=tmp_path, intakes=(IntakeDoor(at="*"),), preset=name)
    preset = PRESETS[name]
    assert len(build_fleet(settings.seed, preset, BEGINS_AT_MS).boxes) == preset.ships * preset.boxes


def test_a_fleet_is_a_possible_world(fleet: World) -> None:
    assert all(is_container(number) for number in fleet.boxes.numbers)
    assert len(set(fleet.boxes.numbers)) == len(set(fleet.boxes.devices)) == len(fleet.boxes) == 1_200
    assert all(is_imo(voyage.ship.imo) for voyage in fleet.timeline.voyages)
    assert len({voyage.ship.name for voyage in fleet.timeline.voyages}) == 5
    assert fleet.boxes.reefer.sum() == 240
    held_slots(fleet, (82, 84, 86))
    nothing_hangs(fleet)
    moves_where_ships_lie(fleet)


def test_there_are_several_carriers_each_with_ships_boxes_and_bookings_of_its_own(fleet: World) -> None:
    of_ship: dict[int, set[str]] = defaultdict(set)
    for stage in fleet.stages.each():
        if stage.state is StageState.SHIP:
            of_ship[stage.place].add(fleet.boxes.numbers[stage.box][:4])
            assert fleet.bookings[fleet.boxes.booking[stage.box]].reference.startswith(fleet.boxes.numbers[stage.box][:2])
    assert [len(owners) for owners in of_ship.values()] == [1] * 5
    assert len(set().union(*of_ship.values())) == 3


def test_storms_are_at_sea_and_boxes_go_overboard_in_hard_ones_alone_from_the_outer_stacks_on_deck() -> None:
    lost_in: Counter[int] = Counter()
    for seed in range(1, 7):
        world = build_fleet(seed, SMALL, BEGINS_AT_MS)
        for place, voyage in enumerate(world.timeline.voyages):
            for storm in voyage.storms:
                assert not voyage.moored(np.array([storm.at_ms - DAY_MS // 3, storm.at_ms + DAY_MS // 3])).any()
                assert roll_amplitude_deg(world.chance, world.timeline, place, np.array([storm.at_ms]))[0] >= storm.worst_deg - 0.01
        for loss in world.losses:
            column = int(world.stages.column_at(np.array([loss.box]), np.array([loss.at_ms]))[0])
            assert world.stages.state[loss.box, column] == StageState.SHIP
            assert world.stages.slot[loss.box, column] % 100 >= FIRST_DECK_TIER
            voyage = world.timeline.voyages[world.stages.place[loss.box, column]]
            assert any(0 <= loss.at_ms - one.at_ms < 92_000 and one.worst_deg > 20 for one in voyage.storms)
            lost_in[seed] += 1
    assert len(lost_in) >= 3, "in half of the hard storms"
    assert max(lost_in.values()) <= LOST_MAX
    assert len(set(lost_in.values())) > 1


def test_stacks_fall_and_stay_aboard_in_hard_storms_that_take_no_box_and_lie_there_until_they_are_lifted() -> None:
    """By the readings: a blow, a fall no deeper than the deck, another blow; then each report says how it lies, until it comes off."""
    found = 0
    for seed in range(1, 7):
        world = build_fleet(seed, SMALL, BEGINS_AT_MS)
        assert len({one.box for one in world.toppled}) == len(world.toppled)
        for one in world.toppled:
            at = np.array([one.at_ms])
            column = int(world.stages.column_at(np.array([one.box]), at)[0])
            slot, place = int(world.stages.slot[one.box, column]), int(world.stages.place[one.box, column])
            assert world.stages.state[one.box, column] == StageState.SHIP
            assert slot % 100 >= FIRST_DECK_TIER
            assert one.fell_ms < 1_000 * np.sqrt(2 * ((slot % 100 - FIRST_DECK_TIER) / 2 * TIER_M + BELOW_M) / 9.81)
            storm = next(storm for storm in world.timeline.voyages[place].storms if 0 <= one.at_ms - storm.at_ms <= 4_000)
            assert storm.worst_deg > 20
            assert not any(abs(loss.at_ms - one.at_ms) < HOUR_MS and world.stages.place[loss.box, column] == place for loss in world.losses)
        if world.toppled and not found:
            found = _lies_until_it_is_lifted(Sensors(world, CADENCES["hourly"]))
    assert found, "with a tracker, in one of the worlds"


def _lies_until_it_is_lifted(sensors: Sensors) -> int:
    world, found = sensors.world, 0
    causes_told = [one for one in causes(sensors) if one["cause"] == "fell aboard"]
    assert [one["container"] for one in causes_told] == [world.boxes.numbers[one.box] for one in world.toppled]
    for one in world.toppled:
        if not world.boxes.tracker[one.box] or sensors.faults.dies_at_ms[one.box] < one.at_ms + DAY_MS:
            continue
        around = sensors.heard(one.at_ms - HOUR_MS, one.at_ms + 12 * HOUR_MS)
        mine = around.taken((around.thing == one.box) & ~around.repeat)
        tilt, falls = mine.signals["tilt_deg"], mine.signals["free_fall_ms"]
        reports = ~np.isnan(mine.signals["battery_mv"])
        assert np.nanmax(falls) == one.fell_ms
        assert (tilt[reports & (mine.at_ms > one.at_ms + MINUTE_MS)] == one.lies_deg).all()
        assert np.isnan(tilt[reports & (mine.at_ms < one.at_ms - MINUTE_MS)]).all()
        found += 1
    return found


def test_some_gateways_die_in_a_storm_and_some_boxes_come_off_that_are_on_no_discharge_list() -> None:
    """The list of that call has them aboard, where nobody else stands, the next one takes them off; the truth says which."""
    dead, left_on = 0, 0
    for seed in range(1, 7):
        world = replace(build_fleet(seed, SMALL, BEGINS_AT_MS), forgotten_share=0.02)
        dead += sum(one.until_at_ms - one.from_at_ms >= 3 * HOUR_MS for one in world.outages)
        lists = [parse_value("load_list", paper.value) for paper in paperwork(world) if paper.type == "load_list"]
        of_call = {(one.ship, one.call): one for one in lists if isinstance(one, LoadList)}
        for told in (one for one in causes(Sensors(world, CADENCES["hourly"])) if one["cause"] == "on no discharge list"):
            box, listed = world.boxes.numbers.index(told["container"]), of_call[told["ship"], told["call"]]
            column = int(world.stages.column_at(np.array([box]), np.array([told["at_ms"]]))[0])
            assert world.stages.state[box, column] != StageState.SHIP
            assert told["container"] not in listed.discharge
            slots = [stowed.slot for stowed in listed.aboard]
            assert slots.count(next(stowed.slot for stowed in listed.aboard if stowed.container == told["container"])) == 1
            after = of_call.get((told["ship"], told["call"] + 1))
            assert after is None or told["container"] in after.discharge
            left_on += 1
    assert dead >= 2
    assert left_on >= 5


def test_devices_are_what_is_told_of_them(sensors: Sensors) -> None:
    """A tenth of the boxes has no tracker, and says nothing; reefers report every hour, dry boxes once a day at sea."""
    world = sensors.world
    assert TRACKED_SHARE - 0.05 < world.boxes.tracker.mean() < TRACKED_SHARE + 0.05
    since = world.timeline.begins_at_ms + 5 * DAY_MS
    day = sensors.heard(since, since + DAY_MS)
    of_box = day.taken((day.thing < len(world.boxes)) & ~day.repeat & ~np.isnan(day.signals["ambient_c"]))
    assert world.boxes.tracker[of_box.thing].all()
    times = np.bincount(of_box.thing, minlength=len(world.boxes))
    column = world.stages.column_at(np.arange(len(world.boxes)), np.full(len(world.boxes), since))
    at_sea = (world.stages.state[np.arange(len(column)), column] == StageState.SHIP) & world.boxes.tracker & (times > 0)
    assert np.median(times[at_sea & world.boxes.reefer]) == 24
    assert np.median(times[at_sea & ~world.boxes.reefer]) == 1


def test_some_reports_are_sparse_as_those_of_real_devices(sensors: Sensors) -> None:
    """Without the air of half the sensors now and then; a position is whole or not there, and who heard it is always said."""
    since = sensors.world.timeline.begins_at_ms + 5 * DAY_MS
    day = sensors.heard(since, since + DAY_MS)
    reports = day.taken((day.thing < len(sensors.world.boxes)) & ~day.repeat & ~np.isnan(day.signals["battery_mv"]))
    lacks = np.isnan(reports.signals["ambient_c"])
    assert 0.004 < lacks.mean() < 0.02, "half of those that are sparse"
    assert 0.004 < (np.isnan(reports.signals["humidity_pct"]) & ~lacks).mean() < 0.01
    assert not np.isnan(reports.signals["rssi_dbm"]).any()
    assert np.array_equal(np.isnan(reports.signals["latitude_deg"]), np.isnan(reports.signals["accuracy_m"]))


def test_clocks_drift_and_yards_and_trucks_knock_and_the_truth_says_so(sensors: Sensors) -> None:
    world, faults = sensors.world, sensors.faults
    told = list(causes(sensors))
    drifting = {one["container"]: one["ppm"] for one in told if one["cause"] == "clock drifts"}
    assert 10 < len(drifting) < 80
    week = sensors.heard(0, BEGINS_AT_MS + 7 * DAY_MS)
    for number, ppm in list(drifting.items())[:10]:
        box = world.boxes.numbers.index(number)
        mine = week.taken((week.thing == box) & ~week.repeat & ~np.isin(week.gateway, [one.gateway for one in world.outages]))
        off_ms = mine.at_ms - mine.heard_at_ms - faults.clock_offset_ms[box]
        assert np.abs(off_ms - (mine.heard_at_ms - BEGINS_AT_MS) * ppm / 1e6).max(initial=0) <= 2
        assert np.isnan(mine.signals["latitude_deg"]).all()
    knocks: Counter[StageState] = Counter()
    for one in told:
        if one["cause"] == "handled hard":
            box = world.boxes.numbers.index(one["container"])
            column = int(world.stages.column_at(np.array([box]), np.array([one["at_ms"]]))[0])
            knocks[StageState(int(world.stages.state[box, column]))] += 1
    assert knocks[StageState.QUAY] > 100
    assert knocks[StageState.ROAD] > 20


def test_load_lists_say_which_boxes_have_no_tracker(fleet: World) -> None:
    of_number = dict(zip(fleet.boxes.numbers, fleet.boxes.tracker.tolist(), strict=True))
    lists = [parse_value("load_list", paper.value) for paper in paperwork(fleet) if paper.type == "load_list"]
    told = {box.container: box.tracker for one in lists if isinstance(one, LoadList) for box in one.aboard}
    assert told
    assert told == {number: of_number[number] for number in told}


@dataclass(frozen=True, slots=True)
class Watched:
    """A voyage of a fleet whose reefers are set wrong far oftener than in life, and what the watch of each ship told of her boxes."""

    sensors: Sensors
    told: list[MadeRecord]

    def of(self, rule: str) -> dict[str, list[MadeRecord]]:
        """The alerts of one rule, by box."""
        found: dict[str, list[MadeRecord]] = defaultdict(list)
        for alert in self.told:
            if alert.body["rule"] == rule:
                found[alert.topic].append(alert)
        return found


def watched(seed: int, preset: Preset, wrong_setpoints_per_day: float) -> Watched:
    world = replace(build_fleet(seed, preset, BEGINS_AT_MS), wrong_setpoints_per_day=wrong_setpoints_per_day)
    sensors = Sensors(world, CADENCES["domain"])
    whole = sensors.heard(0, world.timeline.ends_at_ms)
    return Watched(sensors, [alert for place in world.places.ships for alert in alerts_at(sensors, f"ship/{place}", whole)])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_the_watch_of_each_ship_tells_of_the_boxes_she_lost_and_of_no_other(seed: int) -> None:
    fleet = watched(seed, SMALL, 0.02)
    sensors, world = fleet.sensors, fleet.sensors.world
    felt = {world.boxes.numbers[loss.box]: loss for loss in world.losses}
    told = fleet.of("lost_container").keys()
    assert told <= felt.keys()
    alive = {number for number, loss in felt.items() if world.boxes.tracker[loss.box] and sensors.faults.dies_at_ms[loss.box] > loss.at_ms}
    assert {number for number in alive if felt[number].felt == "shock and fall"} <= told
    assert fleet.of("stack_down").keys() <= {world.boxes.numbers[one.box] for one in world.toppled}


def test_a_reefer_set_otherwise_than_booked_is_told_by_the_ship_she_is_on_and_no_other_is() -> None:
    """By the ground truth: whoever is set wrong for 3 h at sea and more is told, with what it is set to, and cleared once that is over."""
    fleet = watched(1, Preset(1, 80, Hull(24), "domain"), 0.2)
    world = fleet.sensors.world
    wrong = {one["container"]: one for one in causes(fleet.sensors) if one["cause"] == "wrong setpoint"}
    booked = dict(zip(world.boxes.numbers, world.boxes.setpoint_c.tolist(), strict=True))
    assert all(1 <= abs(one["set_c"] - booked[number]) <= WRONG_C for number, one in wrong.items())
    told = fleet.of("setpoint")
    for number, alerts in told.items():
        assert [alert.body["state"] for alert in alerts] in (["raised"], ["raised", "cleared"])
        assert wrong[number]["from_at_ms"] - MINUTE_MS < alerts[0].at_ms < wrong[number]["until_at_ms"] + HOUR_MS
        assert f"set to {wrong[number]['set_c']:.1f} °C, booked at {booked[number]:.1f} °C" in alerts[0].body["title"]
    lasts = {number: _aboard_ms(fleet.sensors, number, one["from_at_ms"], one["until_at_ms"]) for number, one in wrong.items()}
    long = {number for number, lasts_ms in lasts.items() if lasts_ms >= 3 * HOUR_MS}
    assert len(long) >= 10
    assert long <= told.keys()


def _aboard_ms(sensors: Sensors, number: str, since: int, until: int) -> int:
    """For how long of that time at most the box was aboard one ship, its tracker alive."""
    box = sensors.world.boxes.numbers.index(number)
    until = min(until, int(sensors.faults.dies_at_ms[box]))
    stages = [stage for stage in sensors.world.stages.each() if stage.box == box and stage.state is StageState.SHIP]
    return max((min(until, stage.until_at_ms) - max(since, stage.from_at_ms) for stage in stages), default=0)


@pytest.mark.parametrize(("preset", "reefers_min"), [("demo", 60), ("demo", 15), ("bench", 15)])
def test_reefers_report_as_often_as_the_settings_say(tmp_path: Path, preset: PresetName, reefers_min: Literal[60, 15]) -> None:
    """And dry boxes at sea and positions as before."""
    settings = SimSettings(data=tmp_path, intakes=(IntakeDoor(at="*"),), preset=preset, reefers_min=reefers_min)
    told, before = settings.reporting(), CADENCES[PRESETS[preset].cadence]
    assert told.report_ms * told.reefer_every == reefers_min * MINUTE_MS
    assert told.report_ms * told.dry_at_sea_every == before.report_ms * before.dry_at_sea_every
    assert told.report_ms * told.gnss_every == before.report_ms * before.gnss_every
    assert ("every 15 min" in settings.story()) is (reefers_min == 15)


def test_it_is_chosen_in_the_settings_with_one_intake_for_all_places(tmp_path: Path) -> None:
    door = IntakeDoor(at="*")
    settings = SimSettings(data=tmp_path, intakes=(door,), preset="stress")
    assert settings.doors() == {name: IntakeDoor(at=name) for name in PRESETS["stress"].places.names}, "each says which place it is of"
    assert settings.reporting() == CADENCES["hourly"]
    assert "stress" in settings.story()
    own = IntakeDoor(at="ship/9999101", port=1884)
    assert SimSettings(data=tmp_path, intakes=(door, own), preset="bench").doors()["ship/9999101"] == own
    assert list(SimSettings(data=tmp_path, intakes=(door,)).doors()) == list(STORY.names)
    with refusal(ValueError, "intakes", "ship/9999101"):
        SimSettings(data=tmp_path, intakes=(own.model_copy(update={"at": "quay/JPTYO"}),), preset="stress")


def test_a_ship_too_small_for_her_boxes_is_refused() -> None:
    with refusal(Misuse, "hull_too_small"):
        build_fleet(1, Preset(1, 5_000, Hull(24), "domain"), BEGINS_AT_MS)


def test_its_truth_is_written_and_its_tape_is_played(sensors: Sensors, tmp_path: Path) -> None:
    truth = Truth(tmp_path / "truth", sensors)
    truth.begin()

    class Outlet:
        def __init__(self) -> None:
            self.heard: Counter[int] = Counter()

        def offer(self, intake: int, topic: str, payload: bytes, ticket: int) -> bool:
            self.heard[intake] += 1
            return True

        def taken_acknowledgements(self) -> list[int]:
            return []

    outlet = Outlet()
    Tape(sensors, truth, outlet, BEGINS_AT_MS).play(BEGINS_AT_MS + DAYS // 7 * DAY_MS)
    assert outlet.heard.keys() >= set(range(len(sensors.world.timeline.voyages)))
