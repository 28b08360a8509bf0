"""Goal: a reefer's air is that of a leaking box, its goods and a unit under control, by what goes on outside and at the plug."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, Flags, Floats, Ints
from sim.fleets import build_fleet
from sim.reefer_air import AIR_J_K, CO2_PCT, LEAK_W_K, O2_PCT, STEP_MS, STEPS, STILL_W_K, Cooling, Forces, ReeferState, Unit, stepped
from sim.settings import BEGINS_AT_MS
from sim.stages import StageState
from sim.world import World, build_world
from tests.sim.test_fleets import SMALL


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(5, 400, BEGINS_AT_MS)


@pytest.fixture(scope="module")
def cooling(world: World) -> Cooling:
    return Cooling(world)


def reefers(world: World) -> Ints:
    return np.flatnonzero(world.boxes.reefer)


def told(cooling: Cooling, boxes: Ints, at_ms: Ints) -> dict[str, Floats]:
    """Of each of `boxes` at each of its instants, (boxes, instants)."""
    flat = cooling.signals_at(np.repeat(boxes, at_ms.shape[1]), at_ms.ravel())
    return {name: values.reshape(at_ms.shape) for name, values in flat.items()}


def at_sea(world: World, boxes: Ints, hours: int = 48) -> Ints:
    """Every ten minutes of two days from 40 h after each was loaded first."""
    loaded = world.stages.begins(StageState.SHIP)[boxes]
    return loaded[:, None] + 40 * HOUR_MS + np.arange(0, hours * HOUR_MS, STEP_MS)


def undisturbed(reading: dict[str, Floats]) -> Flags:
    """Where nothing has gone on for three hours: no defrosting, no lost power."""
    calm = (reading["defrosting"] == 0) & (reading["power_on"] == 1)
    long = 3 * HOUR_MS // STEP_MS
    windows = np.lib.stride_tricks.sliding_window_view(calm, long, axis=1).all(axis=2)
    return np.concatenate([np.zeros((len(calm), long - 1), dtype=np.bool_), windows], axis=1)


def test_chilled_boxes_hold_the_supply_air_frozen_ones_the_return_air(world: World, cooling: Cooling) -> None:
    boxes = reefers(world)
    reading = told(cooling, boxes, at_sea(world, boxes))
    calm, setpoint = undisturbed(reading), world.boxes.setpoint_c[boxes][:, None]
    frozen = np.broadcast_to(setpoint <= -10, calm.shape)
    supply, back = reading["supply_c"] - setpoint, reading["return_c"] - setpoint
    assert np.abs(supply[calm & ~frozen]).max() < 0.31
    assert 0.3 < back[calm & ~frozen].mean() < 1.5, "it takes up the heat that leaks in, of fans and fruit"
    assert np.abs(back[calm & frozen]).max() < 0.31, "the compressor switches 0.2 degrees either side"
    on = supply[calm & frozen] < -3
    assert 0.2 < on.mean() < 0.9, "the compressor is on for a part of the time alone"
    assert supply[calm & frozen][~on].max() <= 0.4
    assert (reading["setpoint_c"] == setpoint).all()


def test_defrosts_come_by_the_clock_and_lift_the_return_sensor_alone(world: World, cooling: Cooling) -> None:
    boxes = reefers(world)
    cold = boxes[world.boxes.setpoint_c[boxes] < 10]
    loaded = world.stages.begins(StageState.SHIP)[cold]
    minutes = loaded[:, None] + 40 * HOUR_MS + np.arange(0, 48 * HOUR_MS, MINUTE_MS)
    reading = told(cooling, cold, minutes)
    on = reading["defrosting"] == 1
    for box in range(len(cold)):
        begins, ends = (np.flatnonzero(np.diff(on[box].astype(int)) == way) for way in (1, -1))
        assert set(np.diff(begins).tolist()) <= {360, 480, 720}
        whole = ends[ends > begins[0]][: len(begins)] - begins[: len(ends[ends > begins[0]])]
        assert ((whole >= 19) & (whole <= 41)).all()
        warm = reading["return_c"][box, ends - 1] - world.boxes.setpoint_c[cold[box]]
        assert (warm > 3).all()
        assert (warm < 18).all()
        settled = ends[ends + 70 < minutes.shape[1]] + 70
        assert (np.abs(reading["return_c"][box, settled] - world.boxes.setpoint_c[cold[box]]) < 2).all()
    setpoint = world.boxes.setpoint_c[cold][:, None]
    assert np.abs((reading["supply_c"] - setpoint)[on & (setpoint > -10)]).max() < 3
    warm = boxes[world.boxes.setpoint_c[boxes] >= 10]
    assert len(warm)
    assert not told(cooling, warm, at_sea(world, warm))["defrosting"].any(), "no ice gathers"


def test_without_power_the_air_nears_that_outside_and_is_brought_back(world: World, cooling: Cooling) -> None:
    """Two hours cost a frozen load at some 20 degrees outside a degree or two and half an hour of full cooling."""
    rises = []
    for box, off_ms, on_ms in cooling.power_off.each():
        if world.boxes.setpoint_c[box] > -10 or not world.boxes.stuffed_at_ms[box] + 6 * HOUR_MS < off_ms < world.timeline.ends_at_ms:
            continue
        if on_ms > min(world.boxes.stripped_at_ms[box], world.timeline.ends_at_ms) - 3 * HOUR_MS:
            continue
        at_ms = np.array([np.arange(off_ms + MINUTE_MS, on_ms, MINUTE_MS)])
        without = told(cooling, np.array([box]), at_ms)
        assert not without["power_on"].any()
        warms = without["return_c"][0]
        assert (np.diff(warms)[10:-10] > -0.01).all(), "it only warms"
        rises.append(warms[-1] - warms[0])
        later = told(cooling, np.array([box]), np.array([[on_ms + 2 * HOUR_MS]]))
        if not later["defrosting"].any():
            assert later["supply_c"][0, 0] < world.boxes.setpoint_c[box] + 1
    assert len(rises) > 30
    assert 0.5 < np.median(rises) < 3.0


def test_left_without_power_for_good_a_box_warms_by_its_own_thermal_time_constant() -> None:
    """Heat leak and goods alone say how fast: the slowest rate of the two masses, near C (1/UA + 1/k)."""
    goods_j_k, outside_c = np.array([3e7, 8e7]), 30.0
    none = np.zeros(2)
    unit = Unit(
        setpoint_c=np.array([-20.0, 2.0]),
        frozen=np.array([True, False]),
        flow_w_k=np.array([1_000.0, 2_000.0]),
        fans_w=none,
        fans_w_k=np.full(2, STILL_W_K),
        goods_j_k=goods_j_k,
        ripens_w=none,
        warm_c=none,
        damp_pct=none,
        warmer_c=none,
        breathes_pct_h=none,
    )
    still = np.zeros((STEPS, 2))
    leak, inner = np.full((STEPS, 2), LEAK_W_K), np.full((STEPS, 2), STILL_W_K)
    forces = Forces(np.tile(unit.setpoint_c, (STEPS, 1)), still, still, still, inner, leak + inner, leak * outside_c)
    standing = ReeferState(unit.setpoint_c, unit.setpoint_c, none, none, none)
    days, goods = 12, []
    for _ in range(days * 4):
        air_c, heat_w, goods_c = stepped(unit, forces, standing)
        assert not heat_w.any()
        standing = replace(standing, air_c=air_c[-1], goods_c=goods_c)
        goods.append(outside_c - goods_c)
    for box, held_j_k in enumerate(goods_j_k.tolist()):
        air = np.array([-(LEAK_W_K + STILL_W_K), STILL_W_K]) / AIR_J_K
        slowest = np.linalg.eigvals(np.array([air, np.array([STILL_W_K, -STILL_W_K]) / held_j_k])).max()
        assert np.log(goods[-1][box] / goods[3][box]) == pytest.approx(slowest * 86_400 * (days - 1), rel=0.01)
        assert -1 / slowest == pytest.approx(held_j_k * (1 / LEAK_W_K + 1 / STILL_W_K), rel=0.1)


def test_doors_let_the_warm_air_in_and_it_is_cooled_again(world: World, cooling: Cooling) -> None:
    boxes = reefers(world)
    boxes = boxes[world.boxes.setpoint_c[boxes] <= -10]
    shut = world.boxes.stuffed_at_ms[boxes]
    minutes = shut[:, None] + np.arange(-15, 1) * MINUTE_MS
    setpoint = world.boxes.setpoint_c[boxes]
    assert (told(cooling, boxes, minutes)["return_c"].max(axis=1) - setpoint > 3).all()
    later = told(cooling, boxes, shut[:, None] + 3 * HOUR_MS)
    assert (later["supply_c"][:, 0] - setpoint < 1.5).all()
    since, until = cooling.doors_open.from_at_ms[:, 1], cooling.doors_open.until_at_ms[:, 1]
    looked_into = np.flatnonzero(since < NEVER_MS)
    assert 0.01 * len(world.boxes) < len(looked_into) < 0.08 * len(world.boxes)
    column = world.stages.column_at(looked_into, since[looked_into])
    assert (world.stages.state[looked_into, column] == StageState.QUAY).all()
    assert np.array_equal(column, world.stages.column_at(looked_into, until[looked_into])), "on the quay still"


def test_gases_are_brought_to_their_set_points_and_go_their_own_way_without_power(world: World, cooling: Cooling) -> None:
    boxes = reefers(world)
    later = told(cooling, boxes, (world.stages.begins(StageState.SHIP)[boxes] + 80 * HOUR_MS)[:, None])
    kept = boxes[~np.isnan(later["o2_pct"][:, 0])]
    assert 3 <= len(kept) < 0.3 * len(boxes)
    assert (world.boxes.setpoint_c[kept] > 0).all()
    begins = told(cooling, kept, world.boxes.stuffed_at_ms[kept][:, None])
    assert begins["o2_pct"].min() > 20.5
    assert begins["co2_pct"].max() < 0.5
    settled = told(cooling, kept, at_sea(world, kept, 24) + 40 * HOUR_MS)
    powered = settled["power_on"] == 1
    assert np.abs(settled["o2_pct"] - O2_PCT)[powered].max() < 1.5
    assert np.median(np.abs(settled["o2_pct"] - O2_PCT)[powered]) < 0.2
    assert np.median(np.abs(settled["co2_pct"] - CO2_PCT)[powered]) < 0.2
    off = [one for one in cooling.power_off.each() if one[0] in kept and one[2] - one[1] > 100 * MINUTE_MS]
    ends = [told(cooling, np.array([box]), np.array([[on_ms - MINUTE_MS]])) for box, off_ms, on_ms in off if _settled(world, box, off_ms)]
    assert ends
    assert all(end["o2_pct"][0, 0] < O2_PCT for end in ends)
    assert all(end["co2_pct"][0, 0] > CO2_PCT for end in ends)


def _settled(world: World, box: int, at_ms: int) -> bool:
    return bool(world.boxes.stuffed_at_ms[box] + 72 * HOUR_MS < at_ms < min(world.boxes.stripped_at_ms[box], world.timeline.ends_at_ms))


def test_what_is_told_does_not_depend_on_what_was_asked_before(world: World) -> None:
    boxes, random = reefers(world), np.random.default_rng(3)
    times = random.integers(world.timeline.begins_at_ms, world.timeline.ends_at_ms, 300)
    box = random.choice(boxes, 300)
    at_once = Cooling(world).signals_at(box, times)
    one_by_one = Cooling(world)
    for row in random.permutation(300).tolist():
        alone = one_by_one.signals_at(box[row : row + 1], times[row : row + 1])
        assert all(np.array_equal(alone[name], at_once[name][row : row + 1], equal_nan=True) for name in at_once)


def test_a_failing_compressor_lets_its_box_grow_warm_and_the_truth_says_so() -> None:
    world = build_fleet(1, SMALL, BEGINS_AT_MS)
    cooling = Cooling(world)
    spells = [one for one in cooling.weak.each() if one[2] - one[1] > 8 * HOUR_MS and _settled(world, one[0], one[2])]
    assert len(spells) >= 3
    warmer = []
    for box, _, until in spells:
        air = told(cooling, np.array([box]), np.array([[until]]))
        control = "supply_c" if world.boxes.setpoint_c[box] > -10 else "return_c"
        warmer.append(air[control][0, 0] - world.boxes.setpoint_c[box])
    assert np.median(warmer) > 0.5
    assert 0.02 < len(list(cooling.weak.each())) / world.boxes.reefer.sum() < 0.12
