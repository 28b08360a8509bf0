"""The air in reefers: the heat that comes in, the goods that hold it, the unit that takes it out again under its controller, and the gases.

Two masses of each box, the air with all that follows it within minutes and the goods, are stepped from the world's beginning, all boxes at
once; what a reading says is worked out from them. So it depends on (seed, box, time) alone, however time is cut.

Calibrated from: heat leak, 44.3 W/K as measured on a 40-foot box at 38 °C outside (38.13 kcal/(h·K), cinstech-inspect-survey.com no. 114);
net cooling of a container's unit at 38 °C outside, 3,230 W at -29 °C, 6,010 W at -18 °C, 10,250 W at 2 °C (ReeferCo, model SS1WN1);
chilled (above -10 °C) the supply air is held by modulating, frozen the return air by switching the compressor 0.2 °C either side, with fans
at half speed and an eighth of their power (Carrier's manual of 69NT40-561, 3.3; containerhandbuch.de 7.2.7); defrosting stops fans and
cooling, and the return sensor reads 5 to 15 °C warm (the same; DOMAIN.md 4). What is marked [A] is assumed, for boxes full of pallets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import HOUR_MS, MINUTE_MS, Flags, Floats, Ints
from sim.reefers import Defrosts, doors_open, power_off, weak_compressor, wrong_setpoints
from sim.sea import BOXES_DIFFER_C, air_c
from sim.world import World

STEP_MS = 10 * MINUTE_MS
BLOCK_MS = 6 * HOUR_MS
STEPS, HOURS = BLOCK_MS // STEP_MS, BLOCK_MS // HOUR_MS
KEPT_EVERY, HELD_MAX = 4, 3
"""A block's beginning is kept every so often, and so many blocks at a time are held whole."""
FROZEN_BELOW_C = -10.0
LEAK_W_K = 44.3
DOORS_W_K = 500.0
"""Open doors change the box's 67 m³ of air some twenty times an hour [A]."""
STILL_W_K, FROZEN_FANS_W_K, CHILLED_FANS_W_K = 1_000.0, 1_400.0, 2_000.0
"""Between air and goods over about 100 m²: by radiation and still air, with fans at half and at full speed [A]."""
AIR_J_K = 2e6
"""The air, its floor and lining of aluminium, and the outermost centimetre of the cartons [A]."""
GOODS_KG = (12_000.0, 24_000.0)
FROZEN_J_KG_K, CHILLED_J_KG_K = 2_000.0, 3_600.0
"""Specific heat of meat and fish; of fruit, J/(kg K) (ASHRAE Handbook, Refrigeration, ch. 19)."""
RIPENS_W_KG = 0.015
"""Heat of respiration of fruit near 2 °C (the same)."""
FLOW_W_K = {"chilled": 2_100.0, "frozen": 1_050.0}
"""Heat that the air blown through takes up, W/K: 6,000 m³/h at full speed."""
FANS_W = {"chilled": 800.0, "frozen": 100.0}
NET_W, NET_W_PER_C, NET_W_MIN, NET_W_MAX, HEATER_W = 9_900.0, 226.0, 1_000.0, 11_000.0, 4_000.0
"""The line through the three points above."""
WEAK_SHARE = 0.1
"""Share of its power that a failing compressor still has."""
DEFROST_W = 1_000.0
"""Part of the heaters' 5 kW that gets past the coil into the box, watts [A]."""
MODULATES, BAND_C = 0.7, 0.2
WARM_C, WARMS_MS, SETTLES_MS = (5.0, 15.0), 10 * MINUTE_MS, 8 * MINUTE_MS
"""Range by which a defrost lifts the return sensor, °C, and the times in which that comes and goes, milliseconds."""
WARM_GOODS_C = 2.0
DRIES_PCT_PER_C = 6.5
"""The coil leaves the air saturated at the supply's temperature: so much drier is it for each degree it warms (Clausius-Clapeyron)."""
GASES_SHARE = 0.15
O2_PCT, CO2_PCT, O2_OUTSIDE_PCT, CO2_OUTSIDE_PCT = 5.0, 3.0, 20.9, 0.04
BREATHES_PCT_H = (0.2, 0.6)
"""Fruit turns oxygen into carbon dioxide: 20 t of it up to 0.2 m³/h, in 35 m³ of air around it [A]."""
NITROGEN_H = 18.0
"""The membrane brings oxygen down to its set point by e in so many hours [A]."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Lasting properties of each reefer; arrays of one length. `warm_c`: by how much a defrost lifts the return sensor; `warmer_c`: the air
    around it than that of its place; `breathes_pct_h` is 0 where nobody looks after the gases."""

    setpoint_c: Floats
    frozen: Flags
    flow_w_k: Floats
    fans_w: Floats
    fans_w_k: Floats
    goods_j_k: Floats
    ripens_w: Floats
    warm_c: Floats
    damp_pct: Floats
    warmer_c: Floats
    breathes_pct_h: Floats


@dataclass(frozen=True, slots=True)
class ReeferState:
    """State of the reefers at one instant: air and goods (°C), the heat the unit takes out (W; below 0 it heats), the gases (%)."""

    air_c: Floats
    goods_c: Floats
    heat_w: Floats
    o2_pct: Floats
    co2_pct: Floats


@dataclass(frozen=True, slots=True)
class AirBlock:
    """One block of time: air and gases at its steps and hours (their number and one, reefers), the heat taken out in each step."""

    air_c: Floats
    heat_w: Floats
    o2_pct: Floats
    co2_pct: Floats
    after: ReeferState


@dataclass(frozen=True, slots=True)
class Forces:
    """Forces that drive a block, each (steps, reefers): what the unit is set to (°C), the share of a step that it runs, what it can do
    then, and the sums that stay the same in a step whatever the air is."""

    setpoint_c: Floats
    runs: Floats
    doors: Floats
    can: Floats
    with_goods_w_k: Floats
    all_w_k: Floats
    heat_w: Floats


class Cooling:
    """The air in every reefer of `world`. Belongs to one thread: it holds what it worked out last."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._boxes = np.flatnonzero(world.boxes.reefer)
        self._reefer = np.cumsum(world.boxes.reefer) - 1
        self._unit = _units(world, self._boxes)
        self.power_off, self.doors_open, self.weak = power_off(world), doors_open(world), weak_compressor(world)
        self.wrong = wrong_setpoints(world)
        of_all = self.power_off, self.doors_open, self.weak, self.wrong.spells
        self._off, self._open, self._weak, self._wrong = (one.of(self._boxes) for one in of_all)
        self._wrong_by_c = self.wrong.by_c[self._boxes]
        self._defrosts = Defrosts.of(world.chance, self._boxes, self._unit.setpoint_c)
        self._weather_c = _weather_c(world)
        setpoint_c, count = self._unit.setpoint_c, len(self._boxes)
        goods_c = setpoint_c + WARM_GOODS_C * world.chance.uniform("warm goods", self._boxes)
        gases = np.full(count, O2_OUTSIDE_PCT), np.full(count, CO2_OUTSIDE_PCT)
        self._kept = {0: ReeferState(setpoint_c, goods_c, np.zeros(count), *gases)}
        self._held: dict[int, AirBlock] = {}

    def signals_at(self, box: Ints, at_ms: Ints) -> dict[str, Floats]:
        """Return what these reefers (numbers among all boxes) report at these instants, by signal: air and setpoint (°C, 0.1), power,
        defrosting, and relative humidity of the return air (%). Those whose gases are looked after report O2 and CO2 (%); NaN for the
        others."""
        unit, chance = self._unit, self._world.chance
        reefer = self._reefer[box]
        air, heat, o2, co2 = self._inside(reefer, at_ms)
        powered = self._off.lasting_ms(reefer, at_ms) == 0
        begun_ms, lasts_ms = self._defrosts.since_ms(reefer, at_ms)
        defrosts = powered & (begun_ms < lasts_ms)
        runs = powered & ~defrosts & (self._open.lasting_ms(reefer, at_ms) == 0)
        flow, fans, phase = unit.flow_w_k[reefer], unit.fans_w[reefer], chance.uniform("compressor", box, at_ms)
        net_w = _net_w(air)
        duty = np.clip(heat / net_w, 0.02, 1.0)
        cycles = runs & unit.frozen[reefer] & (duty < 1.0)
        cools = phase < duty
        swings = np.where(cools, 1.0 - 2.0 * phase / duty, 2.0 * (phase - duty) / np.maximum(1.0 - duty, 0.01) - 1.0)
        back = air + np.where(cycles, BAND_C * swings, 0.0)
        hunts = np.where(runs & ~unit.frozen[reefer], BAND_C * (phase - 0.5), 0.0)
        supply = back + np.where(runs, (fans - np.where(cycles, cools * net_w, heat)) / flow + hunts, 0.0)
        rises = np.where(begun_ms < lasts_ms, 1.0 - np.exp(-begun_ms / WARMS_MS), np.exp((lasts_ms - begun_ms) / SETTLES_MS))
        back = back + np.where(powered & (lasts_ms > 0), unit.warm_c[reefer] * rises, 0.0)
        dry = DRIES_PCT_PER_C * np.maximum((heat - fans) / flow, 0.0)
        humid = unit.damp_pct[reefer] - np.where(runs, dry, 1.0) + phase
        noise = 0.2 * (phase - 0.5)
        return {
            "setpoint_c": unit.setpoint_c[reefer] + self._wrong_by_c[reefer] * (self._wrong.lasting_ms(reefer, at_ms) > 0),
            "supply_c": np.round(supply, 1),
            "return_c": np.round(back, 1),
            "humidity_pct": np.round(humid.clip(40, 100), 1),
            "power_on": powered.astype(np.float64),
            "defrosting": defrosts.astype(np.float64),
            "o2_pct": np.round(o2 + noise, 1),
            "co2_pct": np.round(np.maximum(co2 + noise, 0.0), 1),
        }

    def _inside(self, reefer: Ints, at_ms: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Return, of each reefer at each instant: air (°C), the heat taken out (W), and the gases (%; NaN where nobody looks after
        them)."""
        number, past = np.divmod(at_ms - self._world.timeline.begins_at_ms, BLOCK_MS)
        step, within = np.divmod(past, STEP_MS)
        inside = np.empty((4, len(reefer)))
        for one in np.unique(number).tolist():
            block, here = self._block(one), np.flatnonzero(number == one)
            which, row = reefer[here], step[here]
            before, after = block.air_c[row, which], block.air_c[row + 1, which]
            inside[0, here] = before + (after - before) * within[here] / STEP_MS
            inside[1, here] = block.heat_w[row, which]
            hour = row // (HOUR_MS // STEP_MS)
            inside[2, here], inside[3, here] = block.o2_pct[hour, which], block.co2_pct[hour, which]
        inside[2:, self._unit.breathes_pct_h[reefer] == 0.0] = np.nan
        return inside[0], inside[1], inside[2], inside[3]

    def _block(self, number: int) -> AirBlock:
        """Return the block with this number. Those before it are worked out first, from the nearest whose beginning is kept."""
        if number in self._held:
            return self._held[number]
        before = self._held.get(number - 1)
        known = number if before else max(kept for kept in self._kept if kept <= number)
        block = self._made(known, before.after if before else self._kept[known])
        for following in range(known + 1, number + 1):
            block = self._made(following, block.after)
        while len(self._held) >= HELD_MAX:
            self._held.pop(next(iter(self._held)))
        self._held[number] = block
        return block

    def _made(self, number: int, standing: ReeferState) -> AirBlock:
        """Return one block, stepped from the state of the reefers at its beginning."""
        if number % KEPT_EVERY == 0:
            self._kept[number] = standing
        begins_at_ms = self._world.timeline.begins_at_ms + number * BLOCK_MS
        forces = self._forces(begins_at_ms)
        air_c, heat_w, goods_c = stepped(self._unit, forces, standing)
        o2, co2 = self._gases(forces, standing, begins_at_ms)
        return AirBlock(air_c, heat_w, o2, co2, ReeferState(air_c[-1], goods_c, heat_w[-1], o2[-1], co2[-1]))

    def _forces(self, begins_at_ms: int) -> Forces:
        unit = self._unit
        edges_ms = begins_at_ms + STEP_MS * np.arange(STEPS + 1, dtype=np.int64)
        doors, off = self._open.share(edges_ms), self._off.share(edges_ms)
        powered = 1.0 - np.maximum(off, doors)
        defrosts = self._defrosts.between(begins_at_ms, begins_at_ms + BLOCK_MS).share(edges_ms) * powered
        runs = powered - defrosts
        with_goods = STILL_W_K + (unit.fans_w_k - STILL_W_K) * runs
        outside = LEAK_W_K + DOORS_W_K * doors
        heat = outside * self._outside_c(edges_ms[:-1]) + unit.fans_w * runs + DEFROST_W * defrosts
        can = runs * (1.0 - (1.0 - WEAK_SHARE) * self._weak.share(edges_ms))
        setpoint_c = unit.setpoint_c + self._wrong_by_c * self._wrong.share(edges_ms)
        return Forces(setpoint_c, runs, doors, can, with_goods, outside + with_goods, heat)

    def _outside_c(self, at_ms: Ints) -> Floats:
        """Return the air around each reefer in each step that begins then, (steps, reefers), °C, as it was at the full hour."""
        stages, boxes = self._world.stages, self._boxes
        hours = at_ms[:: HOUR_MS // STEP_MS]
        row = (hours - self._world.timeline.begins_at_ms) // HOUR_MS
        begun = (stages.starts_at_ms[boxes] <= hours[:, None, None]).sum(axis=2)
        place = stages.place[boxes, begun - 1]
        place = np.where(place < 0, stages.place[boxes, 1], place)
        around = self._weather_c[np.minimum(row, len(self._weather_c) - 1)[:, None], place] + self._unit.warmer_c
        return np.repeat(around, HOUR_MS // STEP_MS, axis=0)

    def _gases(self, forces: Forces, standing: ReeferState, begins_at_ms: int) -> tuple[Floats, Floats]:
        """Return oxygen and carbon dioxide at the full hours (hours + 1, reefers), %. Goods breathe from when they are stuffed. The running
        unit lets no more of the one nor of the other than is set; open doors let the air outside in."""
        breathes = self._unit.breathes_pct_h
        some = np.flatnonzero(breathes)
        o2, co2 = (np.tile(gas, (HOURS + 1, 1)) for gas in (standing.o2_pct, standing.co2_pct))
        runs, doors = (share[:, some].reshape(HOURS, STEPS // HOURS, len(some)).mean(axis=1) for share in (forces.runs, forces.doors))
        stuffed = self._world.boxes.stuffed_at_ms[self._boxes[some]]
        oxygen, dioxide = standing.o2_pct[some], standing.co2_pct[some]
        for hour in range(HOURS):
            made = breathes[some] * (begins_at_ms + hour * HOUR_MS >= stuffed)
            works = runs[hour] * (made > 0)
            oxygen = np.maximum(oxygen - made - works * np.maximum(oxygen - O2_PCT, 0.0) / NITROGEN_H, O2_PCT * works)
            dioxide = dioxide + made
            dioxide = np.where(works > 0, np.minimum(dioxide, CO2_PCT), dioxide)
            fresh = np.minimum(1.0, 20.0 * doors[hour])
            o2[hour + 1, some] = oxygen = oxygen + (O2_OUTSIDE_PCT - oxygen) * fresh
            co2[hour + 1, some] = dioxide = dioxide + (CO2_OUTSIDE_PCT - dioxide) * fresh
        return o2, co2


def _weather_c(world: World) -> Floats:
    """Return the air at each full hour of the world and each of its places, (hours, places), °C."""
    times = world.timeline
    hours = np.arange(times.begins_at_ms, times.ends_at_ms + HOUR_MS, HOUR_MS, dtype=np.int64)
    weather = np.empty((len(hours), len(world.places.names)))
    for place, yard in enumerate(world.places.yards):
        if yard is None:
            fix = times.voyages[place].route.at(times.voyages[place].along(hours))
            weather[:, place] = air_c(world.chance, fix.latitude_deg, fix.longitude_deg, hours)
        else:
            where = np.full(len(hours), yard.latitude_deg), np.full(len(hours), yard.longitude_deg)
            weather[:, place] = air_c(world.chance, *where, hours)
    return weather


def _units(world: World, boxes: Ints) -> Unit:
    chance, setpoint = world.chance, world.boxes.setpoint_c[boxes]
    frozen = setpoint <= FROZEN_BELOW_C
    goods_kg = chance.between("goods kg", *GOODS_KG, boxes)
    looked_after = (chance.uniform("gases", boxes) < GASES_SHARE) & (setpoint > 0)
    return Unit(
        setpoint_c=setpoint,
        frozen=frozen,
        flow_w_k=np.where(frozen, FLOW_W_K["frozen"], FLOW_W_K["chilled"]),
        fans_w=np.where(frozen, FANS_W["frozen"], FANS_W["chilled"]),
        fans_w_k=np.where(frozen, FROZEN_FANS_W_K, CHILLED_FANS_W_K),
        goods_j_k=goods_kg * np.where(frozen, FROZEN_J_KG_K, CHILLED_J_KG_K),
        ripens_w=np.where(setpoint > 0, goods_kg * RIPENS_W_KG, 0.0),
        warm_c=chance.between("defrost warms", *WARM_C, boxes),
        damp_pct=93.0 + 3.0 * chance.normal("dampness", boxes),
        warmer_c=1.0 + BOXES_DIFFER_C * chance.normal("box", boxes),
        breathes_pct_h=np.where(looked_after, chance.between("breathes", *BREATHES_PCT_H, boxes), 0.0),
    )


def _net_w(air_c: Floats) -> Floats:
    return np.minimum(np.maximum(NET_W + NET_W_PER_C * air_c, NET_W_MIN), NET_W_MAX)


def stepped(unit: Unit, forces: Forces, standing: ReeferState) -> tuple[Floats, Floats, Floats]:
    """Return air at the steps (steps + 1, reefers), heat taken out in each (steps, reefers), and the goods at the end.

    Backward Euler of C dT/dt = heat - Q + (goods' T - T) k - ... in the air, which is stable however stiff. Q, chilled: by so much more
    than before as the supply air is above its set point; frozen: what brings the return air there by the end of the step, which is the mean
    of a compressor that switches on and off within it."""
    step_s = STEP_MS / 1_000
    air_w_k = AIR_J_K / step_s
    chills = ~unit.frozen * MODULATES
    ahead = forces.all_w_k + air_w_k
    wants = np.where(unit.frozen, -ahead * forces.setpoint_c, chills * (unit.fans_w - unit.flow_w_k * forces.setpoint_c))
    by_air = np.where(unit.frozen, air_w_k, chills * unit.flow_w_k)
    by_heat, by_before = unit.frozen * 1.0, np.where(unit.frozen, 0.0, 1.0 - MODULATES)
    least = np.where(unit.frozen, 0.0, -HEATER_W) * forces.runs
    into_goods = forces.with_goods_w_k * (step_s / unit.goods_j_k)
    ripens_c = unit.ripens_w * step_s / unit.goods_j_k
    air_c, heat_w = np.empty((STEPS + 1, len(unit.frozen))), np.empty((STEPS, len(unit.frozen)))
    air, goods, taken = standing.air_c, standing.goods_c, standing.heat_w
    air_c[0] = air
    for step in range(STEPS):
        heat = forces.heat_w[step] + forces.with_goods_w_k[step] * goods
        wanted = wants[step] + by_air * air + by_heat * heat + by_before * taken
        taken = np.minimum(np.maximum(wanted, least[step]), _net_w(air) * forces.can[step])
        air = (air_w_k * air + heat - taken) / ahead[step]
        goods = goods + into_goods[step] * (air - goods) + ripens_c
        air_c[step + 1], heat_w[step] = air, taken
    return air_c, heat_w, goods
