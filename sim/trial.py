"""One seeded voyage to try the watch on: a ship, two berths, weather, devices with every fault, and what befalls its boxes.

Smaller and harder than the demo's story (`sim.world`): many of them, each a few seconds of work, with the truth next to the readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cargo.loss.reading_rows import Heard, Value
from cargo.rules.storm_mode import AFTER_BLOW_INTERVAL_MS, AFTER_BLOW_MS, PROMISES_MS
from cargo.vocabulary.registry_entries import Entry, LoadList, Port, Stowed
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import make_imo
from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.identity import container_numbers
from sim.storms import ROLL_DEG, Weather
from streams.model.records import order_at_ms

STORM_MODE_DEG = 10.0
"""Roll from which boxes on deck report every minute (storm mode), degrees."""
SHIP = make_imo(932148)
BEGINS_MS = 1_777_593_600_000
HOME = Port("JPTYO", "Tokyo", 35.6, 139.8, 5.0)
AWAY = Port("JPHAK", "Hakodate", 38.1, 139.8, 5.0)
KNOTS = 15.0
ROWS, TIERS, HOLD_TIERS = 10, 5, 3
SAILS_H, CALLS_H, SAILS_AGAIN_H, STORM_H = 2.0, 12.0, 14.0, 20.0
IN_PORT_MS = [
    (BEGINS_MS + int(since_h * HOUR_MS), BEGINS_MS + int(until_h * HOUR_MS))
    for since_h, until_h in ((0, SAILS_H), (CALLS_H, SAILS_AGAIN_H))
]
QUARTER_MS = 15 * MINUTE_MS
LOSSY, REPEATED, HOURS_OFF, KNOCKED = 0.005, 0.006, 0.01, 0.0003
FIX_EVERY_MS = 6 * HOUR_MS
FIXES_MISSED, FIXES_WILD, RECEIVERS_STUCK = 0.05, 0.01, 0.01
"""Shares of the positions of boxes on deck that are missing, or off by up to WILD_NM though called exact; share of the receivers that keep
reporting the berth [A]."""
FIX_M, WILD_NM = (4.0, 30.0), 20.0
ON_THE_WAY_MS = 5_000


@dataclass(frozen=True)
class TrialShip:
    """Boxes by place on the ship; arrays of one length, one element a box. `habit_ms`: how often it reports at sea out of storms."""

    numbers: tuple[str, ...]
    slots: tuple[Slot, ...]
    gateway: Ints
    tracker: Flags
    reefer: Flags
    habit_ms: Ints
    storm_mode: Flags

    @cached_property
    def on_deck(self) -> Flags:
        """Flags of the boxes that stand on deck."""
        return np.array([slot.on_deck for slot in self.slots])


@dataclass
class TrialMessages:
    """Messages being gathered: when each is made (UTC ms), of which box, and what it carries in addition to the regular signals."""

    at_ms: list[Ints] = field(default_factory=list)
    box: list[Ints] = field(default_factory=list)
    signals: list[dict[str, Value]] = field(default_factory=list)

    def add(self, box: int, at_ms: float, **signals: Value) -> None:
        """Add one message of `box` at that instant (UTC ms)."""
        self.at_ms.append(np.array([int(at_ms)], dtype=np.int64))
        self.box.append(np.array([box], dtype=np.int64))
        self.signals.append(signals)


@dataclass
class Trial:
    """One voyage. What happens is written into `dies_ms` (a device's end), `said`, `power_off` (box → span) and `truth`.

    `lost`: box → when it went overboard (UTC ms). `mute`: (gateway, since, until) of outages; `heaps` of gateways that kept their readings
    and sent them at the end. `ashore`: boxes taken ashore at the call. `shadow`: (boxes, since, until) that a gateway does not reach.
    """

    seed: int
    weather: Weather = "severe"
    boxes: int = 140
    storm_lasts_h: float = 0.8
    ends_h: float = 26.0
    lost: dict[int, int] = field(default_factory=dict)
    mute: list[tuple[int, int, int]] = field(default_factory=list)
    heaps: list[tuple[int, int, int]] = field(default_factory=list)
    shadow: list[tuple[list[int], int, int]] = field(default_factory=list)
    ashore: list[int] = field(default_factory=list)
    listed_ashore: list[int] = field(default_factory=list)
    power_off: dict[int, tuple[int, int]] = field(default_factory=dict)
    tilted: dict[int, tuple[int, float]] = field(default_factory=dict)
    battery_falls_ms: dict[int, int] = field(default_factory=dict)
    fades: set[int] = field(default_factory=set)
    said: TrialMessages = field(default_factory=TrialMessages)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng((20261122, self.seed))
        self.ship = _ship(self.boxes, self.chance)
        self.dies_ms = np.full(self.boxes, NEVER_MS, dtype=np.int64)
        self.storm_ms = BEGINS_MS + int(STORM_H * HOUR_MS)
        self.storm_ends_ms = self.storm_ms + int(self.storm_lasts_h * HOUR_MS)
        self.ends_ms = BEGINS_MS + int(self.ends_h * HOUR_MS)
        low, high = ROLL_DEG[self.weather]
        self.roll_deg = float(self.chance.uniform(low, high))
        self.lossy = 0.0
        self.clock_off_ms = np.zeros(self.boxes, dtype=np.int64)

    def struck(self, box: int, at_ms: float, *others: tuple[float, dict[str, Value]], **signals: Value) -> None:
        """Add the messages of a blow to `box`: one at `at_ms` (UTC ms), and `others` on what became of it so many ms later.

        A device that knows storm mode keeps reporting each five seconds for a minute, and says so in the first half of it.
        """
        knows = bool(self.ship.storm_mode[box])
        again: dict[str, Value] = {"again_in_s": AFTER_BLOW_INTERVAL_MS // SECOND_MS} if knows else {}
        self.said.add(box, at_ms, **signals, **again)
        for later_ms, later_signals in others:
            self.said.add(box, at_ms + later_ms, **later_signals, **again)
        last_ms = max((later_ms for later_ms, _ in others), default=0.0)
        for later_ms in range(AFTER_BLOW_INTERVAL_MS, AFTER_BLOW_MS + 1, AFTER_BLOW_INTERVAL_MS) if knows else ():
            word_ms = at_ms + last_ms + later_ms
            self.said.add(box, word_ms, **self._tilt(box, word_ms), **again if later_ms <= PROMISES_MS else {})

    @property
    def gateways(self) -> int:
        """Number of gateways that receive the ship's boxes."""
        return int(self.ship.gateway.max()) + 1

    def entries(self) -> Iterator[Entry]:
        """Yield what headquarters sends the ship: two ports, the list it sails with and the one of the call."""
        first = tuple(self._stowed(box) for box in range(self.boxes))
        off = set(self.listed_ashore)
        second = tuple(stowed for box, stowed in enumerate(first) if box not in off)
        everything = tuple(stowed.container for stowed in first)
        gone = tuple(self.ship.numbers[box] for box in sorted(off))
        yield Entry("port", HOME.locode, 1, BEGINS_MS, "clerk", HOME)
        yield Entry("port", AWAY.locode, 1, BEGINS_MS, "clerk", AWAY)
        for call, (port, aboard, load, discharge, departs_h) in enumerate(
            ((HOME, first, everything, (), SAILS_H), (AWAY, second, (), gone, SAILS_AGAIN_H)), 1
        ):
            listed = LoadList(SHIP, port.locode, call, aboard, load, discharge, BEGINS_MS + int(departs_h * HOUR_MS))
            yield Entry("load_list", listed.id, 1, BEGINS_MS, "clerk", listed)

    def heard(self) -> list[Heard]:
        """Return all that the ship's node receives, in order of arrival: repeats, wrong clocks, losses on the air and late heaps as they
        come."""
        at_ms, box, signals = self._made()
        drawn = self.chance.random(len(at_ms))
        self.lossy = LOSSY * (self.chance.random() < 0.5)
        kept = self._speaks(at_ms, box) & (drawn >= self.lossy)
        gateway = self.ship.gateway[box]
        arrives_ms = at_ms + self.chance.integers(0, ON_THE_WAY_MS, len(at_ms))
        for kept_back, since, until in self.heaps:
            late = (gateway == kept_back) & (since <= at_ms) & (at_ms < until)
            arrives_ms = np.where(late, until + self.chance.integers(0, 2 * MINUTE_MS, len(at_ms)), arrives_ms)
        self.clock_off_ms = self._clock_offset_ms()
        device_ms = at_ms + self.clock_off_ms[box]
        rows = [
            (int(arrives_ms[at]), self._reading(int(box[at]), int(device_ms[at]), int(arrives_ms[at]), signals[at]))
            for at in np.flatnonzero(kept).tolist()
        ]
        again = self.chance.random(len(rows)) < REPEATED
        for at in np.flatnonzero(again).tolist():
            later = rows[at][0] + int(self.chance.integers(1_000, 20_000))
            first = rows[at][1]
            rows.append((later, Heard(first.topic, first.device, first.device_at_ms, first.order_at_ms, later, first.signals)))
        rows += [(row.received_at_ms, row) for row in self._bridge()]
        return [row for _, row in sorted(rows, key=lambda one: (one[0], one[1].topic))]

    def reached(self, at_ms: Ints, box: Ints, chance: np.random.Generator) -> Flags:
        """Return whether a message between the node and each of these boxes, at those instants, gets through at once; after `heard`."""
        through = self._speaks(at_ms, box) & (chance.random(len(at_ms)) >= self.lossy)
        for kept_back, since, until in self.heaps:
            through &= ~((self.ship.gateway[box] == kept_back) & (since <= at_ms) & (at_ms < until))
        return through

    def answered(self, at_ms: Ints, box: Ints, chance: np.random.Generator) -> list[Heard]:
        """Return short messages of these boxes, made at those instants, as they arrive at once; after `heard`."""
        arrives_ms = at_ms + chance.integers(0, ON_THE_WAY_MS, len(at_ms))
        device_ms = at_ms + self.clock_off_ms[box]
        order = np.argsort(arrives_ms, kind="stable").tolist()
        messages = [self._short(number, made_ms) for number, made_ms in zip(box.tolist(), at_ms.tolist(), strict=True)]
        return [self._reading(int(box[at]), int(device_ms[at]), int(arrives_ms[at]), messages[at]) for at in order]

    def _short(self, box: int, at_ms: int) -> dict[str, Value]:
        rssi_dbm = -72 - (at_ms - BEGINS_MS) // HOUR_MS * (box in self.fades)
        signals: dict[str, Value] = {"rssi_dbm": int(rssi_dbm), "gateway": self._gateway(box)}
        return signals | self._tilt(box, at_ms)

    def _tilt(self, box: int, at_ms: float) -> dict[str, Value]:
        since_ms, degrees = self.tilted.get(box, (NEVER_MS, 0.0))
        return {"tilt_deg": degrees} if at_ms >= since_ms else {}

    def _speaks(self, at_ms: Ints, box: Ints) -> Flags:
        """Return whether each of these boxes can send at that instant a message that a gateway which is not out receives."""
        heard = at_ms < self.dies_ms[box]
        for one, fell_ms in self.lost.items():
            heard &= (box != one) | (at_ms <= fell_ms)
        if self.ashore:
            lifted = BEGINS_MS + int((CALLS_H + 1) * HOUR_MS)
            heard &= ~np.isin(box, self.ashore) | (at_ms < lifted)
        for muted, since, until in self.mute:
            heard &= ~((self.ship.gateway[box] == muted) & (since <= at_ms) & (at_ms < until))
        for dark, since, until in self.shadow:
            heard &= ~(np.isin(box, dark) & (since <= at_ms) & (at_ms < until))
        return heard

    def storms(self, at_ms: Ints) -> Flags:
        """Return whether boxes on deck are in storm mode then."""
        return self.roll_at(at_ms) >= STORM_MODE_DEG

    def roll_at(self, at_ms: Ints) -> Floats:
        """Return the largest roll in the minute around each instant, degrees."""
        minutes = (at_ms - self.storm_ms) / MINUTE_MS
        last = (self.storm_ends_ms - self.storm_ms) / MINUTE_MS
        rise = 1.0 if self.weather == "extreme" else 60.0
        worst = np.interp(minutes, [-rise, 0.0, last, last + 60.0], [4.0, self.roll_deg, self.roll_deg, 4.0])
        return np.asarray(np.maximum(np.minimum(4.0, self.roll_deg), worst), dtype=np.float64)

    def _made(self) -> tuple[Ints, Ints, list[dict[str, Value]]]:
        """Return every message made: regular ones, those of storm mode, and what boxes send at once."""
        ship, chance = self.ship, self.chance
        phase = chance.random(self.boxes)
        parts: list[tuple[Ints, Ints]] = []
        minutes = np.arange(self.storm_ms - HOUR_MS, self.storm_ends_ms + HOUR_MS, MINUTE_MS, dtype=np.int64)
        minutes = minutes[self.storms(minutes)]
        for box in np.flatnonzero(ship.tracker).tolist():
            habit = int(ship.habit_ms[box])
            regular = np.arange(BEGINS_MS + int(phase[box] * habit), self.ends_ms, habit, dtype=np.int64)
            if len(minutes) and ship.on_deck[box] and ship.storm_mode[box]:
                regular = np.concatenate([regular[~self.storms(regular)], minutes + int(phase[box] * MINUTE_MS)])
            berthed = [np.arange(since + int(phase[box] * QUARTER_MS), until, QUARTER_MS, dtype=np.int64) for since, until in IN_PORT_MS]
            if not ship.reefer[box]:
                regular = np.concatenate([regular, *berthed])
            parts.append((regular, np.full(len(regular), box)))
        at_ms = np.concatenate([at for at, _ in parts])
        box_of = np.concatenate([box for _, box in parts])
        signals = self._regular(at_ms, box_of)
        extra_at = np.concatenate([*self.said.at_ms, np.array([], dtype=np.int64)])
        extra_box = np.concatenate([*self.said.box, np.array([], dtype=np.int64)])
        extra = [{**said, "gateway": self._gateway(int(box))} for said, box in zip(self.said.signals, extra_box, strict=True)]
        return np.concatenate([at_ms, extra_at]), np.concatenate([box_of, extra_box]), [*signals, *extra]

    def _regular(self, at_ms: Ints, box: Ints) -> list[dict[str, Value]]:
        chance = self.chance
        air = np.round(chance.normal(0.0, 0.2, len(at_ms)), 1).tolist()
        rssi = np.round(-72 + chance.normal(0, 2, len(at_ms)) - np.isin(box, list(self.fades)) * (at_ms - BEGINS_MS) / HOUR_MS).tolist()
        charge_mv = (3_500 + 200 * chance.random(self.boxes))[box]
        for number, falls_ms in self.battery_falls_ms.items():
            charge_mv = np.where(box == number, np.interp(at_ms, [falls_ms - 12 * HOUR_MS, falls_ms], [3_500, 3_000]), charge_mv)
        reefer, mv, messages = self.ship.reefer[box].tolist(), charge_mv.astype(int).tolist(), []
        fixes = self._fixes(at_ms, box)
        knocks = np.where(chance.random(len(at_ms)) < KNOCKED, np.round(2.0 + 1.5 * chance.random(len(at_ms)) ** 2, 1), 0.0).tolist()
        for at, number in enumerate(box.tolist()):
            gateway = self._gateway(number)
            if reefer[at]:
                off = self.power_off.get(number)
                dead = off is not None and off[0] <= at_ms[at] < off[1]
                signals: dict[str, Value] = {"setpoint_c": 4.0, "supply_c": 4.0 + air[at], "power_on": not dead, "gateway": gateway}
            else:
                signals = {"ambient_c": 20.0 + air[at], "battery_mv": mv[at], "rssi_dbm": int(rssi[at]), "gateway": gateway}
            if knocks[at]:
                signals["shock_g"] = knocks[at]
            if number in self.tilted:
                since, degrees = self.tilted[number]
                signals["tilt_deg"] = degrees if at_ms[at] >= since else 1.0
            messages.append(signals | fixes.get(at, {}))
        return messages

    def _fixes(self, at_ms: Ints, box: Ints) -> dict[int, dict[str, Value]]:
        """Return which of these messages carry a position, by place, and what: of a dry box on deck one in six hours. A clock that is hours
        off belongs to a device without GNSS, which would set it. Their chance is their own."""
        chance = np.random.default_rng((20261126, self.seed))
        stuck = chance.random(self.boxes) < RECEIVERS_STUCK
        has = ~self.ship.reefer & self.ship.on_deck & (np.abs(self.clock_off_ms) < HOUR_MS)
        _, first = np.unique(np.stack([box, (at_ms - BEGINS_MS) // FIX_EVERY_MS]), axis=1, return_index=True)
        fix_rows = np.sort(first[has[box[first]] & (chance.random(len(first)) >= FIXES_MISSED)])
        accuracy_m, bearing = chance.uniform(*FIX_M, len(fix_rows)), chance.uniform(0, 2 * np.pi, len(fix_rows))
        wild = chance.random(len(fix_rows)) < FIXES_WILD
        off_nm = np.where(wild, chance.uniform(0, WILD_NM, len(fix_rows)), accuracy_m / 1_852)
        north = np.where(stuck[box[fix_rows]], HOME.latitude_deg, self.latitude_deg(at_ms[fix_rows]) + off_nm / 60 * np.cos(bearing))
        shrink = np.cos(np.radians(north))
        east = np.where(stuck[box[fix_rows]], HOME.longitude_deg, HOME.longitude_deg + off_nm / 60 * np.sin(bearing) / shrink)
        fixes = np.round(np.stack([north, east, accuracy_m], axis=1), 6).tolist()
        names = ("latitude_deg", "longitude_deg", "accuracy_m")
        return {at: dict(zip(names, row, strict=True)) for at, row in zip(fix_rows.tolist(), fixes, strict=True)}

    @staticmethod
    def latitude_deg(at_ms: Ints) -> Floats:
        """Return how far north the ship has come."""
        hours = (at_ms - BEGINS_MS) / HOUR_MS
        run_h = np.maximum(0.0, np.minimum(hours, CALLS_H) - SAILS_H) + np.maximum(0.0, hours - SAILS_AGAIN_H)
        return np.asarray(HOME.latitude_deg + run_h * KNOTS / 60, dtype=np.float64)

    def _bridge(self) -> Iterator[Heard]:
        """Yield the ship's own readings: position every 15 min, motion every 10 min, in the worst hours every minute."""
        for at_ms in range(BEGINS_MS, self.ends_ms + 1, 15 * MINUTE_MS):
            hours = (at_ms - BEGINS_MS) / HOUR_MS
            moving = SAILS_H <= hours < CALLS_H or hours >= SAILS_AGAIN_H
            where: dict[str, Value] = {
                "latitude_deg": float(self.latitude_deg(np.array([at_ms]))[0]),
                "longitude_deg": HOME.longitude_deg,
                "speed_kn": KNOTS if moving else 0.0,
                "course_deg": 0.0,
            }
            yield Heard(f"{SHIP}.location", "NAV", at_ms, at_ms, at_ms, where)
        calm = np.arange(BEGINS_MS, self.ends_ms, 10 * MINUTE_MS)
        minutes = np.arange(self.storm_ms - HOUR_MS, self.storm_ends_ms + HOUR_MS, MINUTE_MS)
        hard = minutes[self.roll_at(minutes) >= STORM_MODE_DEG]
        times = np.unique(np.concatenate([calm, hard]))
        side = np.where(self.chance.random(len(times)) < 0.5, -1.0, 1.0)
        felt = np.round(self.roll_at(times) * side * self.chance.uniform(0.95, 1.0, len(times)), 1)
        for at, roll in zip(times.tolist(), felt.tolist(), strict=True):
            yield Heard(f"{SHIP}.environment", "MET", at, at, at, {"roll_deg": roll, "wind_speed_ms": min(35.0, 5.0 + abs(roll))})

    def _reading(self, box: int, device_ms: int, arrives_ms: int, signals: dict[str, Value]) -> Heard:
        return Heard(self.ship.numbers[box], f"TRK-{box:05d}", device_ms, order_at_ms(device_ms, arrives_ms), arrives_ms, signals)

    def _clock_offset_ms(self) -> Ints:
        """Return the offset of every clock: up to 30 s off, one of a hundred by hours."""
        small = self.chance.integers(-30_000, 30_000, self.boxes)
        far = self.chance.random(self.boxes) < HOURS_OFF
        hours = self.chance.integers(1, 6, self.boxes) * self.chance.choice([-1, 1], self.boxes) * HOUR_MS
        return np.asarray(np.where(far, hours, small), dtype=np.int64)

    def _gateway(self, box: int) -> str:
        return f"GW-{int(self.ship.gateway[box])}"

    def _stowed(self, box: int) -> Stowed:
        ship = self.ship
        kind = "45R1" if ship.reefer[box] else "45G1"
        return Stowed(ship.numbers[box], str(ship.slots[box]), kind, "JPTYO", "SGSIN", "B1", tracker=bool(ship.tracker[box]))


def _ship(boxes: int, chance: np.random.Generator) -> TrialShip:
    """Return a ship with bays of 40 feet from bow to stern, two thirds on deck; a tenth without tracker, a fifth reefers, one in twelve
    without storm mode."""
    slots: list[Slot] = []
    bay = 2
    while len(slots) < boxes:
        rows = [2 * n - 1 for n in range(ROWS // 2, 0, -1)] + [2 * n for n in range(1, ROWS // 2 + 1)]
        slots += [Slot(bay, row, 82 + 2 * tier) for row in rows for tier in range(TIERS)]
        slots += [Slot(bay, row, 2 + 2 * tier) for row in rows[1:-1] for tier in range(HOLD_TIERS)]
        bay += 4
    slots = slots[:boxes]
    deck = np.array([slot.on_deck for slot in slots])
    zone = np.array([(slot.bay // 4) for slot in slots])
    reefer = (chance.random(boxes) < 0.2) & deck
    tracker = chance.random(boxes) < 0.9
    daily = ~reefer & (~deck | (chance.random(boxes) < 0.25))
    return TrialShip(
        numbers=tuple(container_numbers("BBLU", boxes)),
        slots=tuple(slots),
        gateway=zone * max(3, boxes // 150) // (int(zone.max()) + 1),
        tracker=tracker,
        reefer=reefer,
        habit_ms=np.where(daily, 24 * HOUR_MS, HOUR_MS),
        storm_mode=chance.random(boxes) >= 1 / 12,
    )
