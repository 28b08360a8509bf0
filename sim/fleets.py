"""Fleets of any size besides the demo's story (DOMAIN.md 6): several carriers, ships on round voyages, storms that take boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

from cargo.vocabulary.trade_codes import make_imo
from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS, NEVER_MS, Floats, Ints
from sim.companies import Company, Invention
from sim.consignments import Consignment, Passage
from sim.fall_time import above_deck_m, fall_ms
from sim.identity import container_numbers
from sim.sea_routes import SeaRoute, sea_route
from sim.sim_ports import PORTS, SHIP_GATEWAYS, HearingPlaces, SimulatedPort
from sim.stages import Stages, StageState
from sim.stateless_random import Chance
from sim.storms import ROLL_DEG, Storm, Weather, storm
from sim.stowage import FIRST_DECK_TIER, Hull
from sim.voyages import PortCall, SimulatedShip, SimulatedVoyage, Timeline, arrival, first_call, later_call, voyage_of
from sim.world import (
    Boxes,
    Cargo,
    Felt,
    Outage,
    SimulatedLoss,
    Toppled,
    World,
    booked,
    devices_of,
    itineraries,
    lose,
    stow,
    to_the_water_ms,
)

DAYS = 21
CARRIERS_MAX = 3
KNOTS = (14.0, 20.0)
CALL_H = (16, 26)
TRACKED_SHARE = 0.9
DRIFTING_SHARE = 0.03
SPARSE_SHARE = 0.02
KNOCKS_PER_DAY_ASHORE = 0.6
REEFER_INCIDENTS_PER_DAY = 0.003
WRONG_SETPOINTS_PER_DAY = 2 / 60 / 365.25
"""1 in 60 in half a year (DOMAIN.md 6)."""
STORM_EVERY_DAYS = 6.0
STORM_MARGIN_MS = 12 * HOUR_MS
WEATHERS: tuple[tuple[float, Weather], ...] = ((0.6, "rough"), (0.9, "severe"), (1.0, "extreme"))
"""Cumulative shares of the storms that are of each kind or a lesser."""
LOSES_ABOVE_DEG, LOSES_SHARE, LOST_MAX = 20.0, 0.5, 500
"""Roll above which boxes go overboard, degrees, the share of such storms that take boxes, and the most boxes that one takes. Half of these
storms take some: far oftener than in life, so that a run has some."""
FELT: tuple[tuple[float, Felt], ...] = ((0.6, "shock and fall"), (0.8, "shock"), (1.0, "nothing"))
TOPPLES_SHARE, TOPPLED_MIN, TOPPLED_MAX = 0.5, 2, 10
"""Share of the others in which a stack falls and stays aboard: half."""
LIES_DEG = (35.0, 95.0)
FORGOTTEN_SHARE = 0.002
OUTAGE_EVERY_DAYS = 10
OUTAGE_MIN = (5, 120)
DIES_SHARE, REPLACED_AFTER_H = 0.2, (3, 8)
"""Share of the hard storms in which a gateway dies in the worst hour, and the range of hours after which it is replaced."""

HARBOURS: dict[str, SimulatedPort] = {
    port.locode: port
    for port in (
        *(PORTS[locode] for locode in ("JPTYO", "SGSIN", "AUSYD")),
        SimulatedPort("USLAX", "Los Angeles", 33.7405, -118.2608, 15.0, has_quay=True),
        SimulatedPort("CNSHA", "Shanghai", 30.6200, 122.0700, 15.0, has_quay=True),
        SimulatedPort("KRPUS", "Busan", 35.0750, 128.8100, 15.0, has_quay=True),
        SimulatedPort("NZAKL", "Auckland", -36.8400, 174.7850, 15.0, has_quay=True),
        SimulatedPort("LKCMB", "Colombo", 6.9500, 79.8400, 15.0, has_quay=True),
        SimulatedPort("ZADUR", "Durban", -29.8750, 31.0300, 15.0, has_quay=True),
        SimulatedPort("NLRTM", "Rotterdam", 51.9550, 4.0500, 15.0, has_quay=True),
        SimulatedPort("USNYC", "New York", 40.6700, -74.0500, 15.0, has_quay=True),
        SimulatedPort("BRSSZ", "Santos", -23.9500, -46.3000, 15.0, has_quay=True),
    )
}
SERVICES: tuple[tuple[str, ...], ...] = (
    ("CNSHA", "KRPUS", "USLAX", "JPTYO"),
    ("SGSIN", "AUSYD", "NZAKL"),
    ("NLRTM", "USNYC"),
    ("SGSIN", "LKCMB", "ZADUR", "NLRTM"),
    ("USNYC", "BRSSZ", "NLRTM"),
)
"""Round voyages: after the last port comes the first again."""
FLAGS = (("PA", "3E", 352), ("LR", "5L", 636), ("MH", "V7", 538), ("SG", "9V", 563))
"""States in which ships are registered, with the beginnings of their call signs and their MMSI (ITU)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A fleet of so many ships, each of this hull with so many boxes; `cadence` is one of `sim.settings.CADENCES`."""

    ships: int
    boxes: int
    hull: Hull
    cadence: str

    @property
    def places(self) -> HearingPlaces:
        """Places that receive its boxes: the same for every seed."""
        called = {locode for service in SERVICES[: self.ships] for locode in service}
        ships = tuple(_imo(number) for number in range(self.ships))
        return HearingPlaces(ships, tuple(port for locode, port in HARBOURS.items() if locode in called))


PresetName = Literal["demo", "bench", "stress"]
PRESETS: dict[PresetName, Preset] = {
    "demo": Preset(6, 2_000, Hull(32, plug_rows=11), "domain"),
    "bench": Preset(30, 10_000, Hull(52, 20, 18, 7, 9, plug_rows=18, plug_tiers=6), "hourly"),
    "stress": Preset(1, 24_000, Hull(64, 24, 22, 9, 12, plug_rows=22, plug_tiers=8), "hourly"),
}
"""The fleet sizes of DOMAIN.md 6."""


@dataclass(frozen=True, slots=True)
class ShippingLine:
    """A shipping company: its name, and the four letters with which its boxes' numbers begin."""

    name: str
    owner: str


def build_fleet(seed: int, preset: Preset, begins_at_ms: int) -> World:
    """Return the world of `seed` with this fleet, DAYS long. Raises Misuse when a ship is too small for its boxes."""
    chance, invention, places = Chance(seed), Invention(seed, set()), preset.places
    carriers = _carriers(invention, min(preset.ships, CARRIERS_MAX))
    of_ship = [carriers[number % len(carriers)] for number in range(preset.ships)]
    ends_at_ms = begins_at_ms + DAYS * DAY_MS
    ships = [_ship(number, invention.ship(of_ship[number].name), chance) for number in range(preset.ships)]
    voyages = tuple(_round(number, ship, (begins_at_ms, ends_at_ms), chance) for number, ship in enumerate(ships))
    times = Timeline(begins_at_ms, NEVER_MS, ends_at_ms, voyages)
    shippers = tuple(invention.customer("shipper") for _ in range(8 * len(carriers)))
    consignees = tuple(invention.customer("consignee") for _ in range(12 * len(carriers)))
    groups = tuple(_consignments(times, of_ship, shippers, consignees))
    cargo = booked(groups, preset.ships * preset.boxes, chance)
    stages, stuffed_at_ms, stripped_at_ms = itineraries(cargo, times, places, chance)
    stow(stages, cargo, times, preset.hull, chance)
    losses = tuple(sorted(_losses(stages, times, chance), key=lambda loss: loss.at_ms))
    lose(stages, stripped_at_ms, losses)
    toppled = tuple(_topplings(stages, times, chance))
    if losses:
        times = Timeline(begins_at_ms, losses[0].at_ms, ends_at_ms, voyages)
    boxes = Boxes(
        _numbers(cargo, of_ship),
        devices_of(len(cargo.booking), chance),
        cargo.size_types,
        cargo.booking,
        cargo.consignment,
        cargo.setpoint_c,
        stuffed_at_ms,
        stripped_at_ms,
        chance.uniform("tracker", np.arange(len(cargo.booking))) < TRACKED_SHARE,
    )
    customers, outages = (*shippers, *consignees), tuple(_outages(places, times, chance))
    return World(
        chance,
        times,
        places,
        places.quays,
        customers,
        groups,
        cargo.bookings,
        boxes,
        stages,
        preset.hull,
        losses,
        outages,
        spared=(),
        drifting_share=DRIFTING_SHARE,
        sparse_share=SPARSE_SHARE,
        knocks_per_day_ashore=KNOCKS_PER_DAY_ASHORE,
        reefer_incidents_per_day=REEFER_INCIDENTS_PER_DAY,
        wrong_setpoints_per_day=WRONG_SETPOINTS_PER_DAY,
        toppled=toppled,
        forgotten_share=FORGOTTEN_SHARE,
    )


def _imo(number: int) -> str:
    """Return an IMO number that is right by its check digit, and as far as we know no ship's afloat."""
    return make_imo(999_910 + number)


def _carriers(invention: Invention, count: int) -> list[ShippingLine]:
    """Return carriers of different names, and different first letters of them."""
    carriers: dict[str, ShippingLine] = {}
    while len(carriers) < count:
        name = invention.carrier()
        owner = f"{name[:3].upper()}U"
        carriers.setdefault(owner, ShippingLine(name, owner))
    return list(carriers.values())


def _drawn(chance: Chance, channel: str, key: int, low: float = 0.0, high: float = 1.0) -> float:
    return float(chance.between(channel, low, high, np.array([key]))[0])


def _ship(number: int, name: str, chance: Chance) -> SimulatedShip:
    flag, prefix, country = FLAGS[int(_drawn(chance, "flag", number, 0, len(FLAGS)))]
    letters = "".join(chr(ord("A") + int(_drawn(chance, f"call sign {place}", number, 0, 26))) for place in range(2))
    return SimulatedShip(_imo(number), name, f"{prefix}{letters}{number % 8 + 2}", f"{country}{200_000 + 37 * number:06d}", flag)


def _round(number: int, ship: SimulatedShip, span: tuple[int, int], chance: Chance) -> SimulatedVoyage:
    """Return the ship's round, from a port of its service on, until it calls at one after the world's end."""
    begins_at_ms, ends_at_ms = span
    service = SERVICES[number % len(SERVICES)]
    at = number // len(SERVICES) % len(service)
    knots = _drawn(chance, "knots", number, *KNOTS)
    calls = [first_call(service[at], begins_at_ms, departs_after_h=int(_drawn(chance, "sails after", number, 14, 40)))]
    passages: list[tuple[SeaRoute, tuple[()]]] = []
    while calls[-1].arrives_at_ms <= ends_at_ms:
        at = (at + 1) % len(service)
        route = _way(calls[-1].locode, service[at])
        stays_h = int(_drawn(chance, f"stays {len(calls)}", number, *CALL_H))
        calls.append(later_call(len(calls) + 1, service[at], arrival(calls[-1], route, (), knots), stays_h))
        passages.append((route, ()))
    storms = tuple(_storms(number, calls, ends_at_ms, chance))
    return voyage_of(ship, tuple(calls), passages, storms, knots)


@cache
def _way(source: str, target: str) -> SeaRoute:
    return sea_route(HARBOURS[source], HARBOURS[target])


def _storms(number: int, calls: Sequence[PortCall], ends_at_ms: int, chance: Chance) -> Iterator[Storm]:
    """Yield one storm in STORM_EVERY_DAYS at sea on the average, each clear of the ports and of the others."""
    for left, reached in pairwise(calls):
        since, until = left.departs_at_ms + STORM_MARGIN_MS, min(reached.arrives_at_ms, ends_at_ms) - STORM_MARGIN_MS
        if until <= since:
            continue
        parts = max(1, round((until - since) / DAY_MS / STORM_EVERY_DAYS))
        likely = (until - since) / DAY_MS / STORM_EVERY_DAYS / parts
        for part in range(parts):
            key = number * 10_000 + left.number * 100 + part
            if _drawn(chance, "storm", key) < likely:
                kind = _drawn(chance, "weather", key)
                weather = next(weather for share, weather in WEATHERS if kind < share)
                at_ms = since + (until - since) * (part + _drawn(chance, "storm at", key, 0.25, 0.75)) / parts
                yield storm(weather, int(at_ms), _drawn(chance, "roll of a storm", key, *ROLL_DEG[weather]))


def _consignments(
    times: Timeline, of_ship: Sequence[ShippingLine], shippers: Sequence[Company], consignees: Sequence[Company]
) -> Iterator[Consignment]:
    """Yield the consignments from each call to each later one of the voyage; most goes aboard at the first."""
    for index, voyage in enumerate(times.voyages):
        sailing = [call for call in voyage.calls[:-1] if call.departs_at_ms < times.ends_at_ms]
        weights = [3.0 if call.number == 1 else 1.0 for call in sailing]
        for call, weight in zip(sailing, weights, strict=True):
            later = [other for other in voyage.calls[call.number :] if other.locode != call.locode]
            for target in later:
                yield Consignment(
                    f"{voyage.ship.name}, call {call.number} to {target.number}",
                    tuple(shippers[index % len(of_ship) :: len(of_ship)]) or tuple(shippers),
                    tuple(consignees),
                    call.locode,
                    target.locode,
                    (Passage(index, call.number, target.number),),
                    weight / sum(weights) / len(later) / len(times.voyages),
                    carrier=of_ship[index].owner[:2],
                )


def _losses(stages: Stages, times: Timeline, chance: Chance) -> Iterator[SimulatedLoss]:
    """Yield the losses of boxes of neighbouring outer stacks on deck, within a minute and a half in the worst of a storm."""
    for place, voyage in enumerate(times.voyages):
        for one in voyage.storms:
            key = _key(place, one)
            if not _loses(one, key, chance):
                continue
            outer = _from_the_side(stages, place, one.at_ms, _where(key, chance))
            count = min(round(float(np.exp(_drawn(chance, "boxes lost", key, 0, np.log(LOST_MAX))))), len(outer) // 4)
            at_ms = one.at_ms + np.arange(count) * min(1_500, 90_000 / max(count, 1))
            at_ms = at_ms + chance.between("slides after", 0, 800, outer[:count], place)
            slides_at_ms, felt = at_ms.astype(np.int64), chance.uniform("felt", outer[:count], place)
            falls_ms = to_the_water_ms(stages, outer[:count], slides_at_ms, chance)
            for box, when, falls, draw in zip(outer[:count].tolist(), slides_at_ms.tolist(), falls_ms.tolist(), felt.tolist(), strict=True):
                yield SimulatedLoss(box, when, falls, next(kind for share, kind in FELT if draw < share))


def _topplings(stages: Stages, times: Timeline, chance: Chance) -> Iterator[Toppled]:
    """Yield the topplings in hard storms that take no box: outermost boxes of a deck, fallen onto it within seconds. No box twice."""
    down: set[int] = set()
    for place, voyage in enumerate(times.voyages):
        for one in voyage.storms:
            key = _key(place, one)
            if one.worst_deg <= LOSES_ABOVE_DEG or _loses(one, key, chance) or _drawn(chance, "topples", key) >= TOPPLES_SHARE:
                continue
            count = int(_drawn(chance, "boxes toppled", key, TOPPLED_MIN, TOPPLED_MAX + 1))
            boxes = np.setdiff1d(_from_the_side(stages, place, one.at_ms, _where(key, chance))[:count], sorted(down))
            tiers = stages.slot[boxes, stages.column_at(boxes, np.full(len(boxes), one.at_ms))] % 100
            falls_ms = fall_ms(above_deck_m(tiers)) * chance.between("fall aboard", 0.4, 0.95, boxes)
            lies_deg, after_ms = chance.between("lies", *LIES_DEG, boxes), chance.between("topples after", 0, 4_000, boxes)
            for box, lies, falls, after in zip(boxes.tolist(), lies_deg.tolist(), falls_ms.tolist(), after_ms.tolist(), strict=True):
                down.add(box)
                yield Toppled(box, one.at_ms + int(after), round(lies, 1), int(falls))


def _key(place: int, one: Storm) -> int:
    return one.at_ms // MINUTE_MS * 100 + place


def _loses(one: Storm, key: int, chance: Chance) -> bool:
    return one.worst_deg > LOSES_ABOVE_DEG and _drawn(chance, "loses", key) < LOSES_SHARE


def _where(key: int, chance: Chance) -> tuple[float, float]:
    return _drawn(chance, "bay of a loss", key), _drawn(chance, "side of a loss", key)


def _from_the_side(stages: Stages, place: int, at_ms: int, where: tuple[float, float]) -> Ints:
    """Return the boxes on deck of a ship then, the outermost stacks of one side and bay first, each from the top; `where`: bay and side,
    drawn."""
    boxes = np.arange(len(stages.state))
    column = stages.column_at(boxes, np.full(len(boxes), at_ms))
    slot = stages.slot[boxes, column]
    aboard = (stages.state[boxes, column] == StageState.SHIP) & (stages.place[boxes, column] == place) & (slot % 100 >= FIRST_DECK_TIER)
    boxes, slot = boxes[aboard], slot[aboard]
    bay, row, tier = slot // 10_000, slot // 100 % 100, slot % 100
    across: Floats = np.where(row % 2, 1.0, -1.0) * ((row + 1) // 2) * (1.0 if where[1] < 0.5 else -1.0)
    bays = np.unique(bay)
    away = np.abs(bay - bays[int(where[0] * len(bays))])
    order = np.lexsort((-tier, away, away // 4 * 2 + across.max() - across))
    outer: Ints = boxes[order]
    return outer


def _outages(places: HearingPlaces, times: Timeline, chance: Chance) -> Iterator[Outage]:
    """Yield the outages of each ship's gateways: one of them every OUTAGE_EVERY_DAYS, for OUTAGE_MIN minutes; and those that die in a
    storm."""
    for place, voyage in enumerate(times.voyages):
        for one in voyage.storms:
            key = _key(place, one)
            if one.worst_deg > LOSES_ABOVE_DEG and _drawn(chance, "gateway dies", key) < DIES_SHARE:
                dead = int(places.first_gateway[place]) + int(_drawn(chance, "gateway dead", key, 0, SHIP_GATEWAYS))
                since = one.at_ms + int(_drawn(chance, "dies at", key, -30, 30) * MINUTE_MS)
                yield Outage(place, dead, since, since + int(_drawn(chance, "replaced after", key, *REPLACED_AFTER_H) * HOUR_MS))
    for place in range(len(places.ships)):
        for part in range(DAYS // OUTAGE_EVERY_DAYS):
            key = place * 100 + part
            gateway = int(places.first_gateway[place]) + int(_drawn(chance, "gateway out", key, 0, SHIP_GATEWAYS))
            from_at_ms = times.begins_at_ms + int((part + _drawn(chance, "out at", key, 0.1, 0.9)) * OUTAGE_EVERY_DAYS * DAY_MS)
            yield Outage(place, gateway, from_at_ms, from_at_ms + int(_drawn(chance, "out for", key, *OUTAGE_MIN) * MINUTE_MS))


def _numbers(cargo: Cargo, of_ship: Sequence[ShippingLine]) -> tuple[str, ...]:
    """Return box numbers of the carrier's own series; each box is of the carrier whose ship it sails with."""
    owner = np.array([of_ship[group.legs[0].voyage].owner for group in cargo.groups])[cargo.consignment]
    numbers = np.empty(len(owner), dtype="U11")
    for one in np.unique(owner).tolist():
        mine = owner == one
        numbers[mine] = container_numbers(one, int(mine.sum()))
    return tuple(numbers.tolist())
