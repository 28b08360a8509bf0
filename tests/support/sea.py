"""A small sea to test the watch on: one ship with stacks, gateways and sensors, from a berth in Tokyo out to sea, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, LoadList, Port, RegistryValue, Stowed
from cargo.vocabulary.trade_codes import make_container, make_imo

SHIP = make_imo(932148)
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
START_MS = 1_777_593_600_000
SAILS_MS = START_MS + 6 * HOUR_MS
TOKYO = Port("JPTYO", "Tokyo", 35.6, 139.8, 5.0)
SYDNEY = Port("AUSYD", "Sydney", -33.86, 151.2, 5.0)
KNOTS_NORTHWARD = 15.0


@cache
def number(serial: int) -> str:
    """The valid container number with this serial."""
    return make_container("DUCU", serial)


def entry(kind: str, id_: str, value: RegistryValue) -> Entry:
    """A registry entry of version 1."""
    return Entry(kind, id_, 1, START_MS, "clerk", value)


@dataclass
class Sea:
    """Readings of one ship. Boxes 0 .. boxes-1 stand in bays of 40', rows and tiers, on deck unless said otherwise; every
    `reefer_every`-th is a reefer. All speak every `interval_ms`, in a storm (`storms`: spans) every minute."""

    boxes: int = 60
    seed: int = 1
    interval_ms: int = HOUR_MS
    tiers: int = 3
    rows: int = 8
    gateways: int = 4
    reefer_every: int = 5
    untracked: frozenset[int] = frozenset()
    hold: frozenset[int] = frozenset()
    silent: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    storms: list[tuple[int, int]] = field(default_factory=list)
    roll_deg: float = 4.0
    storm_roll_deg: float = 26.0
    sails_ms: int = SAILS_MS

    def stowed(self, at: int) -> Stowed:
        """Box `at` on the load list: stack by stack, bay by bay from 002, rows from starboard outboard to port outboard."""
        stack, tier = divmod(at, self.tiers)
        bay, row = divmod(stack, self.rows)
        across = self.rows // 2 - row
        written = across * 2 - 1 if across > 0 else (1 - across) * 2
        level = 2 if at in self.hold else 82
        slot = f"{2 + 4 * bay:03d}{written:02d}{level + 2 * tier:02d}"
        kind = "45R1" if at % self.reefer_every == 0 else "45G1"
        return Stowed(number(at), slot, kind, "JPTYO", "SGSIN", "B1", tracker=at not in self.untracked)

    def load_list(self) -> LoadList:
        """The list of the call at Tokyo: all boxes are loaded there."""
        aboard = tuple(self.stowed(at) for at in range(self.boxes))
        return LoadList(SHIP, "JPTYO", 1, aboard, tuple(box.container for box in aboard), (), self.sails_ms)

    def entries(self) -> list[Entry]:
        """What headquarters tells the ship before she sails."""
        return [entry("port", "JPTYO", TOKYO), entry("port", "AUSYD", SYDNEY), entry("load_list", f"{SHIP}/1", self.load_list())]

    def storm(self, at_ms: int) -> bool:
        """Whether it storms."""
        return any(begins <= at_ms < ends for begins, ends in self.storms)

    def ship(self, until_ms: int) -> list[Heard]:
        """Location every 15 min and environment every 10 min, in a storm every minute."""
        readings = []
        for at_ms in range(START_MS, until_ms + 1, MINUTE_MS):
            if (at_ms - START_MS) % (15 * MINUTE_MS) == 0:
                run_nm = max(0, at_ms - self.sails_ms) / HOUR_MS * KNOTS_NORTHWARD
                speed = KNOTS_NORTHWARD if at_ms >= self.sails_ms else 0.0
                where: dict[str, Value] = {"latitude_deg": 35.6 + run_nm / 60, "longitude_deg": 139.8, "speed_kn": speed, "course_deg": 0.0}
                readings.append(Heard(f"{SHIP}.location", "GPS-1", at_ms, at_ms, at_ms, where))
            storm = self.storm(at_ms)
            if storm or (at_ms - START_MS) % (10 * MINUTE_MS) == 0:
                felt: dict[str, Value] = {
                    "roll_deg": self.storm_roll_deg if storm else self.roll_deg,
                    "wind_speed_ms": 25.0 if storm else 8.0,
                }
                readings.append(Heard(f"{SHIP}.environment", "MET-1", at_ms, at_ms, at_ms, felt))
        return readings

    def box(self, at: int, until_ms: int) -> list[Heard]:
        """One box's regular readings; nothing while it is `silent`."""
        chance = random.Random(f"{self.seed}/{at}")
        readings, at_ms = [], START_MS + chance.randrange(self.interval_ms)
        while at_ms <= until_ms:
            if not any(begins <= at_ms < ends for begins, ends in self.silent.get(at, [])):
                readings.append(self.says(at, at_ms, **self._regular(at, chance)))
            at_ms = self._next(at_ms, at)
        return readings

    def says(self, at: int, at_ms: int, **signals: Value) -> Heard:
        """What box `at` says at this time, through the gateway of its stack's bay."""
        gateway = f"GW-{at // self.tiers // self.rows % self.gateways}"
        return Heard(number(at), f"TRK-{at:05d}", at_ms, at_ms, at_ms, {**signals, "gateway": gateway})

    def readings(self, until_ms: int, more: Iterable[Heard] = ()) -> list[Heard]:
        """Everything said until then, in order of time."""
        said = [*self.ship(until_ms), *more]
        for at in range(self.boxes):
            if at not in self.untracked:
                said += self.box(at, until_ms)
        return sorted(said, key=lambda heard: (heard.order_at_ms, heard.topic, heard.device))

    def _next(self, at_ms: int, at: int) -> int:
        regular = at_ms + self.interval_ms
        if self.storm(at_ms) and at not in self.hold:
            return at_ms + MINUTE_MS
        for begins, _ in self.storms:
            if at_ms < begins < regular and at not in self.hold:
                return begins + at * SECOND_MS % MINUTE_MS
        return regular

    def _regular(self, at: int, chance: random.Random) -> dict[str, Value]:
        if at % self.reefer_every == 0:
            supply = round(4.0 + chance.uniform(-0.5, 0.5), 1)
            return {"setpoint_c": 4.0, "supply_c": supply, "return_c": round(supply + 0.8, 1), "power_on": True}
        return {"ambient_c": round(20 + chance.uniform(-3, 3), 1), "shock_g": round(chance.uniform(0, 1), 2), "battery_mv": 3_600}


def settings(**changes: int) -> WatchSettings:
    """The settings of the ship's watch."""
    return WatchSettings(WatchPlace(f"ship-{SHIP}", ship=SHIP), **changes)  # type: ignore[arg-type]


def watch(sea: Sea, readings: Iterable[Heard], batch: int = 10_000) -> tuple[WatchState, WatchOutcome]:
    """The ship's watch over these readings, cut into batches, and all it made. Ends settled up to the last reading."""
    state = WatchState(settings())
    made = learn(state, sea.entries())
    rows = list(readings)
    for first in range(0, len(rows), batch):
        made.add(step(state, rows[first : first + batch]))
    made.add(advance(state, max(row.order_at_ms for row in rows) + state.settings.lateness_ms))
    return state, made


def cut_and_restarted(sea: Sea, rows: list[Heard], about_ms: int, few: int) -> WatchOutcome:
    """What a watch tells that is taken down and up again from its snapshot after every `few` readings within 2 min of `about_ms`."""
    state, made, at = WatchState(settings()), WatchOutcome(), 0
    made.add(learn(state, sea.entries()))
    while at < len(rows):
        upto = at + (few if abs(rows[at].received_at_ms - about_ms) < 2 * MINUTE_MS else 2_000)
        made.add(step(state, rows[at:upto]))
        state, at = from_snapshot(snapshot_of(state), settings()), upto
    made.add(advance(state, max(row.order_at_ms for row in rows) + state.settings.lateness_ms))
    return made


def told(records: Iterable[MadeRecord], **wanted: str) -> list[MadeRecord]:
    """The records whose bodies have these values."""
    return [record for record in records if all(record.body.get(name) == value for name, value in wanted.items())]


def fall(sea: Sea, at: int, at_ms: int, fell_ms: int = 1_800) -> list[Heard]:
    """What a box says while it goes over the side: a hard shock, then a free fall, then nothing."""
    return [sea.says(at, at_ms, shock_g=6.5, tilt_deg=40.0), sea.says(at, at_ms + 2 * SECOND_MS, free_fall_ms=fell_ms)]
