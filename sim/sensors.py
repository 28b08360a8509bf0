"""All sensors of the world: the readings heard in any span of time, the same however the time is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.device_events import happenings_of
from sim.reading_columns import SimulatedReadings, concatenated, payloads
from sim.reefer_air import Cooling
from sim.sea import BOXES_DIFFER_C, ROLLING_DEG, air_c, environment, location, noon_report, noons, roll_amplitude_deg
from sim.settings import Cadence
from sim.sim_ports import QUAY_GATEWAYS, SHIP_GATEWAYS
from sim.stages import STAGES_MAX, StageState
from sim.stateless_random import Chance
from sim.world import Outage, World

AFTER_OUTAGE_MS = 2 * MINUTE_MS
"""Within this time of a gateway's return the boxes send what they kept."""
DAYS_HELD_MAX = 3
GNSS_MISSED_SHARE = 0.05
DECK_TIER = 82
OF_SHIP = {"location": "NAV", "environment": "MET", "noon": "LOG"}
"""Kinds of a ship's reports, each with the beginning of its device's name."""
POSITION = ("latitude_deg", "longitude_deg", "accuracy_m")
_HEARD = np.isin(np.arange(len(StageState)), (StageState.QUAY, StageState.SHIP, StageState.SHOP))
"""Whether an intake is within reach, by state."""


CLOCK_ERROR_MS = 30 * SECOND_MS
CLOCK_HOURS_OFF_SHARE = 0.01
DRIFT_PPM_MAX = 100.0
"""Maximum drift of a crystal that nothing sets, ppm: 8.6 s a day."""
DEATH_SHARE = 0.01
REPEAT_SHARE = 0.006
REPEAT_WITHIN_MS = 20 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one world, one element per box. A clock that is hours off belongs to a device without GNSS, which would set it."""

    clock_offset_ms: Ints
    clock_drift_ppm: Floats
    """Drift by which the device's clock runs faster, ppm; from the world's beginning on."""
    has_gnss: Flags
    dies_at_ms: Ints
    battery_fails: Flags
    """Devices that die because the battery runs down; the others just stop."""


def faults_of(world: World) -> Faults:
    """Return the faults of `world`; spared boxes have none, so that they report what happened. A box without a tracker was never alive."""
    chance, boxes = world.chance, np.arange(len(world.boxes))
    spared = np.isin(boxes, world.spared)
    hours_off = (chance.uniform("clock hours", boxes) < CLOCK_HOURS_OFF_SHARE) & ~spared
    small = chance.between("clock", -CLOCK_ERROR_MS, CLOCK_ERROR_MS, boxes)
    hours = chance.between("clock off", 1, 6, boxes) * np.where(chance.uniform("clock sign", boxes) < 0.5, -1, 1)
    dies = (chance.uniform("dies", boxes) < DEATH_SHARE) & ~spared
    begins_at_ms = world.timeline.begins_at_ms
    span = world.timeline.ends_at_ms - begins_at_ms
    dies_at_ms = np.where(dies, begins_at_ms + chance.between("dies at", 0, span, boxes), NEVER_MS).astype(np.int64)
    drifts = (chance.uniform("clock drifts", boxes) < world.drifting_share) & ~spared
    return Faults(
        clock_offset_ms=np.where(hours_off, hours * HOUR_MS, small).astype(np.int64),
        clock_drift_ppm=np.where(drifts, chance.between("clock drift", -DRIFT_PPM_MAX, DRIFT_PPM_MAX, boxes), 0.0),
        has_gnss=~(hours_off | drifts),
        dies_at_ms=np.where(world.boxes.tracker, dies_at_ms, 0),
        battery_fails=dies & (chance.uniform("battery", boxes) < 0.5),
    )


def gateway_of(world: World, boxes: Ints, state: Ints, place: Ints, slot: Ints) -> Ints:
    """Return the gateway (an index into the world's) that receives each box in its stage: by its bay on a ship, by the box's own number on
    a quay."""
    group = (slot // 10_000 + 2) // 4
    zone = np.clip(group * SHIP_GATEWAYS // (world.hull.groups + 1), 0, SHIP_GATEWAYS - 1)
    yard = np.where(state == StageState.SHOP, QUAY_GATEWAYS - 1, boxes % (QUAY_GATEWAYS - 1))
    return world.places.first_gateway[np.maximum(place, 0)] + np.where(state == StageState.SHIP, zone, yard)


@dataclass(frozen=True, slots=True, order=True)
class ReportSpan:
    """Devices at this intake (a place of the world) are asked to report every `every_ms` from `since_ms` on, before `until_ms`; where
    `only` is not empty, those of these boxes (indices) alone."""

    since_ms: int
    until_ms: int
    intake: int
    every_ms: int
    only: tuple[int, ...] = ()


class Sensors:
    """The devices of `world`, reporting as often as `cadence` says; a seeded share of the boxes, `listening`, does what a node asks.

    Pure: `heard` depends on nothing but its arguments. Belongs to one thread: what is the same for a whole day is held, of the last days.
    """

    def __init__(self, world: World, cadence: Cadence, listening: float = 0.0) -> None:
        self.world = world
        self.cadence = cadence
        self.faults: Faults = faults_of(world)
        self.cooling = Cooling(world)
        self.listens: Flags = world.chance.uniform("listens", np.arange(len(world.boxes))) < listening
        self.happenings = happenings_of(world, self.cooling.power_off, self.cooling.doors_open, self.listens)
        ships = [voyage.ship.imo for voyage in world.timeline.voyages]
        self.topics: tuple[str, ...] = (
            *(f"landfall/containers/{number}/reading" for number in world.boxes.numbers),
            *(f"landfall/ships/{imo}/{what}" for imo in ships for what in OF_SHIP),
        )
        """The MQTT topic of each thing: the boxes, then of each ship what OF_SHIP names."""
        self.devices: tuple[str, ...] = (*world.boxes.devices, *(f"{what}-{imo}" for imo in ships for what in OF_SHIP.values()))
        boxes = np.arange(len(world.boxes))
        chance, stages = world.chance, np.arange(STAGES_MAX)
        self._warmer_c = BOXES_DIFFER_C * chance.normal("box", boxes)
        self._charge_mv = 3_500.0 + 200.0 * chance.uniform("charge", boxes)
        far = chance.normal("far", np.repeat(boxes, STAGES_MAX), np.tile(stages, len(boxes)))
        self._far_dbm = -72.0 + 6.0 * far.reshape(-1, STAGES_MAX)
        self._lying = {one.box: one for one in world.toppled}
        self._phase_ms = (world.chance.uniform("phase", boxes) * cadence.report_ms).astype(np.int64)
        self._stands = _stands(chance, boxes, "yard north"), _stands(chance, boxes, "yard east")
        self._damp: dict[int, Floats] = {}
        self._of_ships_of: dict[int, SimulatedReadings] = {}

    def heard(self, from_at_ms: int, until_at_ms: int) -> SimulatedReadings:
        """Return every reading an intake receives with from <= time < until (UTC ms), in order of that time.

        Not in it: readings that no intake receives (on the road, under water, of dead devices) and those of before the story or after its
        end."""
        since = max(from_at_ms - self._reach_ms(from_at_ms, until_at_ms), self.world.timeline.begins_at_ms)
        parts = [self._reports(since, until_at_ms), self._happened(since, until_at_ms), *self._of_ships(since, until_at_ms)]
        made = self._delayed(concatenated(parts))
        again, again_at_ms = self._repeats(made)
        row = np.concatenate([np.arange(len(made)), again])
        heard_at_ms, repeat = np.concatenate([made.heard_at_ms, again_at_ms]), np.arange(len(row)) >= len(made)
        end = min(until_at_ms, self.world.timeline.ends_at_ms)
        within = np.flatnonzero((from_at_ms <= heard_at_ms) & (heard_at_ms < end))
        row, heard_at_ms, repeat = row[within], heard_at_ms[within], repeat[within]
        order = np.lexsort([repeat, made.at_ms[row], made.thing[row], heard_at_ms])
        return replace(made.taken(row[order]), heard_at_ms=heard_at_ms[order], repeat=repeat[order])

    def payloads(self, readings: SimulatedReadings) -> list[bytes]:
        """Return the MQTT payload of each reading."""
        return payloads(readings, self.devices, self.world.places.gateways)

    def asked(self, span: ReportSpan, boxes: Ints) -> SimulatedReadings:
        """Return what `boxes` report on request, in addition to their regular reports.

        Only boxes on deck of the span's ship report, those whose gateway hears them. The reports have no position: GNSS would cost too much
        battery."""
        every, world = span.every_ms, self.world
        boxes = boxes[np.isin(boxes, span.only)] if span.only else boxes
        phase = self._phase_ms[boxes] % every
        first, until = -((phase - span.since_ms) // every), min(span.until_ms, world.timeline.ends_at_ms)
        count = np.maximum(-((phase - until) // every) - first, 0)
        box, phase = np.repeat(boxes, count), np.repeat(phase, count)
        at_ms = phase + every * (np.repeat(first, count) + np.arange(len(box)) - np.repeat(np.cumsum(count) - count, count))
        column = world.stages.column_at(box, at_ms)
        aboard = (world.stages.state[box, column] == StageState.SHIP) & (world.stages.place[box, column] == span.intake)
        due = aboard & (world.stages.slot[box, column] % 100 >= DECK_TIER) & self._hears(box, column, at_ms)
        tick, past = np.divmod(at_ms - self._phase_ms[box], self.cadence.report_ms)
        due &= (past != 0) | self._rests(box, column, tick, at_ms)
        box, at_ms, column, tick = box[due], at_ms[due], column[due], tick[due]
        signals = self._measured(box, tick, at_ms, column) | {name: np.full(len(box), np.nan) for name in POSITION}
        made, out = self._of_boxes(box, at_ms, column, signals), np.zeros(len(box), dtype=np.bool_)
        for outage in self.world.outages:
            out |= (made.gateway == outage.gateway) & (outage.from_at_ms <= at_ms) & (at_ms < outage.until_at_ms)
        return made.taken(np.flatnonzero(~out)[np.argsort(at_ms[~out], kind="stable")])

    def _reach_ms(self, from_at_ms: int, until_at_ms: int) -> int:
        """Return how long before it was received a reading of this span may have been made."""
        back = (
            outage.until_at_ms - outage.from_at_ms + AFTER_OUTAGE_MS
            for outage in self.world.outages
            if outage.from_at_ms < until_at_ms and from_at_ms < outage.until_at_ms + AFTER_OUTAGE_MS + REPEAT_WITHIN_MS
        )
        return REPEAT_WITHIN_MS + max(back, default=0)

    def _delayed(self, made: SimulatedReadings) -> SimulatedReadings:
        """Return the readings with those made during a gateway's outage received after it, if the device can still send them."""
        for outage in self.world.outages:
            made = self._kept_back(made, outage)
        return made

    def _kept_back(self, made: SimulatedReadings, outage: Outage) -> SimulatedReadings:
        out = (made.gateway == outage.gateway) & (outage.from_at_ms <= made.heard_at_ms) & (made.heard_at_ms < outage.until_at_ms)
        if not out.any():
            return made
        late = made.taken(out)
        later = outage.until_at_ms + self.world.chance.between("after outage", 0, AFTER_OUTAGE_MS, late.thing, late.heard_at_ms)
        heard_at_ms = made.heard_at_ms.copy()
        heard_at_ms[out] = later.astype(np.int64)
        kept = ~out
        kept[out] = self._sends(late.thing, late.intake, heard_at_ms[out])
        return replace(made, heard_at_ms=heard_at_ms).taken(kept)

    def _repeats(self, made: SimulatedReadings) -> tuple[Ints, Ints]:
        """Return which of them their device sends twice, and when (UTC ms) the repeat is received: some seconds later, if it then still can
        and by the same intake."""
        chance = self.world.chance
        again = np.flatnonzero(chance.uniform("repeat", made.thing, made.at_ms) < REPEAT_SHARE)
        later = chance.between("repeat after", SECOND_MS, REPEAT_WITHIN_MS, made.thing[again], made.at_ms[again]).astype(np.int64)
        heard_at_ms = made.heard_at_ms[again] + later
        sends = self._sends(made.thing[again], made.intake[again], heard_at_ms)
        return again[sends], heard_at_ms[sends]

    def _sends(self, thing: Ints, intake: Ints, at_ms: Ints) -> Flags:
        """Return whether the device of each thing is alive at that time and within reach of the intake; ships' always are."""
        boxes = len(self.world.boxes)
        box = np.minimum(thing, boxes - 1)
        column = self.world.stages.column_at(box, at_ms)
        sends: Flags = self._hears(box, column, at_ms) & (self.world.stages.place[box, column] == intake)
        sends |= thing >= boxes
        return sends

    def _reports(self, since: int, until: int) -> SimulatedReadings:
        """Return the regular reports of all boxes."""
        every = self.cadence.report_ms
        first = -((self._phase_ms - since) // every)
        count = -((self._phase_ms - until) // every) - first
        box = np.repeat(np.arange(len(count)), count)
        tick = np.repeat(first, count) + np.arange(len(box)) - np.repeat(np.cumsum(count) - count, count)
        at_ms = self._phase_ms[box] + tick * every
        column = self.world.stages.column_at(box, at_ms)
        due = self._hears(box, column, at_ms) & ~self._rests(box, column, tick, at_ms)
        box, tick, at_ms, column = box[due], tick[due], at_ms[due], column[due]
        return self._of_boxes(box, at_ms, column, self._sparse(box, at_ms, self._measured(box, tick, at_ms, column)))

    def _sparse(self, box: Ints, at_ms: Ints, signals: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """Remove from some reports what some of the sensors did not give in time, and return the signals: half of all but the battery and
        the signal's strength."""
        chance = self.world.chance
        sparse = np.flatnonzero(chance.uniform("sparse", box, at_ms) < self.world.sparse_share)
        for name in signals.keys() - {"battery_mv", "rssi_dbm"} if len(sparse) else ():
            sensor = "position" if name in POSITION else name
            signals[name][sparse[chance.uniform(f"no {sensor}", box[sparse], at_ms[sparse]) < 0.5]] = np.nan
        return signals

    def _rests(self, box: Ints, column: Ints, tick: Ints, at_ms: Ints) -> Flags:
        """Return which boxes leave out their report: dry boxes at sea leave out all but every n-th report, reefers all but every m-th
        anywhere."""
        place = self.world.stages.place[box, column]
        sails = np.zeros(len(box), dtype=np.bool_)
        for index, voyage in enumerate(self.world.timeline.voyages):
            sails |= (place == index) & ~voyage.moored(at_ms)
        every = np.where(self.world.boxes.reefer[box], self.cadence.reefer_every, np.where(sails, self.cadence.dry_at_sea_every, 1))
        rests: Flags = tick % every != box % every
        return rests

    def _hears(self, box: Ints, column: Ints, at_ms: Ints) -> Flags:
        """Return whether an intake is within reach and the device alive."""
        hears: Flags = _HEARD[self.world.stages.state[box, column]] & (at_ms < self.faults.dies_at_ms[box])
        return hears

    def _of_boxes(self, box: Ints, at_ms: Ints, column: Ints, signals: Mapping[str, Floats]) -> SimulatedReadings:
        stages = self.world.stages
        state, place, slot = stages.state[box, column], stages.place[box, column], stages.slot[box, column]
        gateway = gateway_of(self.world, box, state, place, slot)
        drifted_ms = (at_ms - self.world.timeline.begins_at_ms) * self.faults.clock_drift_ppm[box] / 1e6
        said_at_ms = at_ms + self.faults.clock_offset_ms[box] + drifted_ms.astype(np.int64)
        return SimulatedReadings(at_ms, said_at_ms, box, place, gateway, np.zeros(len(box), dtype=np.bool_), signals)

    def _measured(self, box: Ints, tick: Ints, at_ms: Ints, column: Ints) -> dict[str, Floats]:
        chance, every = self.world.chance, self.cadence.gnss_every
        latitude, longitude = self._where(box, at_ms, column)
        stages = self.world.stages
        in_hold = (stages.state[box, column] == StageState.SHIP) & (stages.slot[box, column] % 100 < DECK_TIER)
        outside = air_c(chance, latitude, longitude, at_ms) + np.where(in_hold, -1.0, 1.0) + self._warmer_c[box]
        damp: Floats = 62.0 + 8.0 * self._damp_of(box, at_ms // DAY_MS) + chance.normal("damp", box, at_ms)
        fixed = np.flatnonzero(self.faults.has_gnss[box] & ~in_hold & (tick % every == box % every))
        fixed = fixed[chance.uniform("no fix", box[fixed], at_ms[fixed]) >= GNSS_MISSED_SHARE]
        keys = box[fixed], at_ms[fixed]
        north, east = latitude[fixed] + 5e-5 * chance.normal("fix north", *keys), longitude[fixed] + 5e-5 * chance.normal("fix east", *keys)
        return {
            "ambient_c": np.round(outside + 0.2 * chance.normal("ambient", box, at_ms), 1),
            "battery_mv": self._battery_mv(box, at_ms),
            "rssi_dbm": np.round(self._far_dbm[box, column] + 2.0 * chance.normal("rssi", box, at_ms)),
            "latitude_deg": _spread(np.round(north, 5), fixed, len(box)),
            "longitude_deg": _spread(np.round(east, 5), fixed, len(box)),
            "accuracy_m": _spread(np.round(chance.between("accuracy", 4, 30, *keys)), fixed, len(box)),
            **self._tilted(box, at_ms, column),
            **self._cooled(box, at_ms, np.round(damp.clip(16, 98), 1)),
        }

    def _tilted(self, box: Ints, at_ms: Ints, column: Ints) -> dict[str, Floats]:
        """Return what the boxes report that lie on deck, until they are lifted off. Others do not report how they stand."""
        down = np.flatnonzero(np.isin(box, list(self._lying)))
        if not len(down):
            return {}
        of_each = [self._lying[one] for one in box[down].tolist()]
        fell_at_ms = np.array([one.at_ms for one in of_each], dtype=np.int64)
        lies = (at_ms[down] > fell_at_ms) & (column[down] == self.world.stages.column_at(box[down], fell_at_ms))
        return {"tilt_deg": _spread(np.array([one.lies_deg for one in of_each])[lies], down[lies], len(box))}

    def _cooled(self, box: Ints, at_ms: Ints, humidity_pct: Floats) -> dict[str, Floats]:
        """Return what reefers report of their air, NaN for dry boxes except for their humidity. Once stripped and unplugged they report no
        more of it."""
        cold = np.flatnonzero(at_ms < np.where(self.world.boxes.reefer, self.world.boxes.stripped_at_ms, 0)[box])
        signals = self.cooling.signals_at(box[cold], at_ms[cold])
        humidity_pct[cold] = signals.pop("humidity_pct")
        return {"humidity_pct": humidity_pct, **{name: _spread(values, cold, len(box)) for name, values in signals.items()}}

    def _battery_mv(self, box: Ints, at_ms: Ints) -> Floats:
        """Return the battery's voltage: 3.5 to 3.7 V, slowly falling; a failing one goes down to 2.9 V in its last two days."""
        chance = self.world.chance
        age_days = (at_ms - self.world.timeline.begins_at_ms) / DAY_MS
        sound = self._charge_mv[box] - 1.5 * age_days + 2.0 * chance.normal("battery mv", box, at_ms)
        left = np.where(self.faults.battery_fails[box], self.faults.dies_at_ms[box] - at_ms, NEVER_MS) / (48 * HOUR_MS)
        return np.round(2_900.0 + (sound - 2_900.0) * np.clip(left, 0.0, 1.0))

    def _damp_of(self, box: Ints, day: Ints) -> Floats:
        """Return how much damper than usual that day is around each box, drawn from the standard normal distribution."""
        damp = np.empty(len(box))
        for one in range(int(day.min()), int(day.max()) + 1) if len(day) else ():
            if one not in self._damp:
                _make_room(self._damp)
                self._damp[one] = self.world.chance.normal("humidity", np.arange(len(self.world.boxes)), one)
            here = np.flatnonzero(day == one)
            damp[here] = self._damp[one][box[here]]
        return damp

    def _where(self, box: Ints, at_ms: Ints, column: Ints) -> tuple[Floats, Floats]:
        """Return true latitude and longitude of each box, in degrees."""
        stages = self.world.stages
        place = stages.place[box, column]
        shop = (stages.state[box, column] == StageState.SHOP).astype(np.int64)
        latitude, longitude = np.zeros(len(box)), np.zeros(len(box))
        for index, yard in enumerate(self.world.places.yards):
            here = np.flatnonzero(place == index)
            if not len(here):
                continue
            if yard is not None:
                north, east = (stands[shop[here], box[here]] for stands in self._stands)
                latitude[here], longitude[here] = north + yard.latitude_deg, east + yard.longitude_deg
            else:
                voyage = self.world.timeline.voyages[index]
                fix = voyage.route.at(voyage.along(at_ms[here]))
                latitude[here], longitude[here] = fix.latitude_deg, fix.longitude_deg
        return latitude, longitude

    def _happened(self, since: int, until: int) -> SimulatedReadings:
        span = self.happenings.between(since, until)
        box, at_ms = self.happenings.box[span], self.happenings.at_ms[span]
        column = self.world.stages.column_at(box, at_ms)
        heard = self._hears(box, column, at_ms)
        signals = {name: values[span][heard] for name, values in self.happenings.signals.items()}
        return self._of_boxes(box[heard], at_ms[heard], column[heard], signals)

    def _of_ships(self, since: int, until: int) -> list[SimulatedReadings]:
        """Return what ships report with since <= time < until, a day after the other."""
        times, parts = self.world.timeline, list[SimulatedReadings]()
        until = min(until, times.ends_at_ms)
        for day in range(since // DAY_MS, -(-until // DAY_MS)):
            if day not in self._of_ships_of:
                _make_room(self._of_ships_of)
                span = max(day * DAY_MS, times.begins_at_ms), min((day + 1) * DAY_MS, times.ends_at_ms)
                each = (self._locations, self._environments, self._noons)
                of_day = concatenated([of_ship(voyage, *span) for voyage in range(len(times.voyages)) for of_ship in each])
                self._of_ships_of[day] = of_day.taken(np.argsort(of_day.heard_at_ms, kind="stable"))
            readings = self._of_ships_of[day]
            first, last = np.searchsorted(readings.heard_at_ms, [since, until])
            parts.append(readings.taken(np.arange(first, last)))
        return parts

    def _locations(self, voyage: int, since: int, until: int) -> SimulatedReadings:
        every = self.cadence.location_ms
        at_ms = np.arange(-(-since // every) * every, until, every, dtype=np.int64)
        return self._of_ship(voyage, 0, at_ms, location(self.world.chance, self.world.timeline.voyages[voyage], voyage, at_ms))

    def _environments(self, voyage: int, since: int, until: int) -> SimulatedReadings:
        """Return the reports of a ship's environment every ten minutes; every minute while the ship rolls hard."""
        every = self.cadence.rolling_ms
        at_ms = np.arange(-(-since // every) * every, until, every, dtype=np.int64)
        rolls = roll_amplitude_deg(self.world.chance, self.world.timeline, voyage, at_ms) > ROLLING_DEG
        at_ms = at_ms[rolls | (at_ms % self.cadence.environment_ms == 0)]
        return self._of_ship(voyage, 1, at_ms, environment(self.world.chance, self.world.timeline, voyage, at_ms))

    def _noons(self, voyage: int, since: int, until: int) -> SimulatedReadings:
        ship = self.world.timeline.voyages[voyage]
        at_ms = noons(ship, since, until)
        return self._of_ship(voyage, 2, at_ms, noon_report(self.world.chance, ship, voyage, at_ms) if len(at_ms) else {})

    def _of_ship(self, voyage: int, which: int, at_ms: Ints, signals: Mapping[str, Floats]) -> SimulatedReadings:
        """Return a ship's readings. Ships' own clocks are right."""
        count = len(at_ms)
        thing = np.full(count, len(self.world.boxes) + len(OF_SHIP) * voyage + which)
        intake, gateway = np.full(count, voyage), np.full(count, -1)
        return SimulatedReadings(at_ms, at_ms, thing, intake, gateway, np.zeros(count, dtype=np.bool_), signals)


def _stands(chance: Chance, boxes: Ints, channel: str) -> Floats:
    """Return how far from the middle of its quay, then of its shop, each box stands one way, degrees."""
    return np.stack([away_deg * (2.0 * chance.uniform(channel, boxes, shop) - 1.0) for shop, away_deg in enumerate((0.004, 0.06))])


def _make_room(days: dict[int, Any]) -> None:
    """Make room for one more, in the place of the one that was made first."""
    while len(days) >= DAYS_HELD_MAX:
        days.pop(next(iter(days)))


def _spread(values: Floats, where: Ints, count: int) -> Floats:
    """Return `count` numbers: `values` at the indices `where`, NaN elsewhere."""
    spread = np.full(count, np.nan)
    spread[where] = values
    return spread
