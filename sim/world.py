"""The seeded world of the story: its ships, companies, bookings and boxes, and where each box is at every instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import HOUR_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.chance import Chance
from sim.companies import Companies, companies
from sim.consignments import DUCKS_ABOARD, Booking, Consignment, bookings, consignments
from sim.identity import container_numbers
from sim.stages import Stages, State, quay_of
from sim.stowage import STERN_ROWS, STERN_TIERS, Kind, StowagePlan, groups_of, stacks_of
from sim.voyages import Call, Timeline, timeline

FALLEN = len(STERN_TIERS) * len(STERN_ROWS) - 1
"""How many boxes slide off the stern: its two outboard stacks but for the lowest box of the inner one."""
FALL_SPACING_MS = 1_700
FALL_MS = 2_000
"""From the slide to the water: 20 m."""
TWENTY_SHARE = 0.45
DRY_40, DRY_20, REEFER_40 = "45G1", "22G1", "45R1"


@dataclass(frozen=True, slots=True)
class Boxes:
    """What is true of each box for good; arrays and tuples of one length. `setpoint_c` is NaN for dry boxes.

    The customer may see a box from `stuffed_at_ms` to `stripped_at_ms` (NEVER_MS: not within any plan).
    """

    numbers: tuple[str, ...]
    devices: tuple[str, ...]
    size_types: tuple[str, ...]
    booking: Ints
    consignment: Ints
    setpoint_c: Floats
    stuffed_at_ms: Ints
    stripped_at_ms: Ints

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def reefer(self) -> Flags:
        """Which of them are reefers."""
        return ~np.isnan(self.setpoint_c)


@dataclass(frozen=True, slots=True)
class World:
    """Everything that does not depend on what the devices say. The same seed, size and beginning give the same world."""

    chance: Chance
    timeline: Timeline
    companies: Companies
    consignments: tuple[Consignment, ...]
    bookings: tuple[Booking, ...]
    boxes: Boxes
    stages: Stages
    groups: int
    """Groups of bays on each ship."""
    stern: tuple[int, ...]
    """The boxes in the stern's outboard stacks, in the order in which they would fall."""
    falls_at_ms: tuple[int, ...]
    """When the first of them slide overboard, UTC ms."""

    @property
    def fallen(self) -> tuple[int, ...]:
        """The boxes that go overboard: all of the stern's but the last."""
        return self.stern[: len(self.falls_at_ms)]


def build_world(seed: int, boxes: int, begins_at_ms: int) -> World:
    """The world of `seed` with so many boxes. Raises Misuse when a ship is too small for them."""
    chance, times, of = Chance(seed), timeline(begins_at_ms), companies(seed)
    groups = consignments(of)
    booked, booking = bookings(groups, boxes, chance)
    consignment = np.array([booked[index].consignment for index in booking])
    setpoint_c = np.array([_nan(booked[index].goods.setpoint_c) for index in booking])
    stages, stuffed_at_ms, stripped_at_ms = _itineraries(groups, consignment, times, chance)
    kinds = _kinds(setpoint_c, consignment, chance)
    bays = groups_of(boxes)
    for voyage in range(len(times.voyages)):
        _stow(stages, voyage, (groups, consignment), kinds, chance, bays)
    stern = _stern(stages, kinds)
    falls_at_ms = tuple(times.falls_at_ms + order * FALL_SPACING_MS for order in range(FALLEN))
    for box, at_ms in zip(stern, falls_at_ms, strict=False):
        stages.lose(box, at_ms + FALL_MS + SECOND_MS)
        stripped_at_ms[box] = NEVER_MS
    made = Boxes(
        numbers=_numbers(setpoint_c),
        devices=tuple(f"TRK-{100_000 + int(index)}" for index in chance.shuffled("devices", boxes)),
        size_types=tuple(REEFER_40 if kind is Kind.REEFER else DRY_20 if kind is Kind.TWENTY else DRY_40 for kind in kinds),
        booking=booking,
        consignment=consignment,
        setpoint_c=setpoint_c,
        stuffed_at_ms=stuffed_at_ms,
        stripped_at_ms=stripped_at_ms,
    )
    return World(chance, times, of, groups, tuple(booked), made, stages, bays, stern, falls_at_ms)


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _numbers(setpoint_c: Floats) -> tuple[str, ...]:
    """Dry boxes of two owners' series, reefers of a third."""
    count = len(setpoint_c)
    series = {"BBLU": iter(container_numbers("BBLU", count)), "BGBU": iter(container_numbers("BGBU", count))}
    reefers = iter(container_numbers("BBRU", count))
    owners = ("BBLU", "BBLU", "BGBU")
    return tuple(next(reefers) if not np.isnan(setpoint) else next(series[owners[i % 3]]) for i, setpoint in enumerate(setpoint_c))


def _kinds(setpoint_c: Floats, consignment: Ints, chance: Chance) -> list[Kind]:
    """The kind of stack each box needs; ducks travel in 40-foot boxes, and the first of those that stay aboard stand at the stern."""
    twenty = chance.uniform("size", np.arange(len(setpoint_c))) < TWENTY_SHARE
    dry = [Kind.TWENTY if small else Kind.FORTY for small in twenty]
    kinds = [kind if np.isnan(setpoint) else Kind.REEFER for kind, setpoint in zip(dry, setpoint_c, strict=True)]
    for box in np.flatnonzero(consignment <= DUCKS_ABOARD).tolist():
        kinds[box] = Kind.FORTY
    for box in np.flatnonzero(consignment == DUCKS_ABOARD)[: FALLEN + 1].tolist():
        kinds[box] = Kind.STERN
    return kinds


def _itineraries(groups: tuple[Consignment, ...], consignment: Ints, times: Timeline, chance: Chance) -> tuple[Stages, Ints, Ints]:
    """The stages of all boxes but for slots and losses, and when each is stuffed and stripped."""
    stages = Stages(len(consignment))
    stuffed_at_ms = np.zeros(len(consignment), dtype=np.int64)
    stripped_at_ms = np.full(len(consignment), NEVER_MS, dtype=np.int64)
    for index, group in enumerate(groups):
        boxes = np.flatnonzero(consignment == index)
        call = times.voyages[group.legs[0].voyage].calls[group.legs[0].loads - 1]
        appears_h, stuffed_h = ((0.0, 0.02), (1.0, 5.0)) if call.number == 1 else ((-30.0, -24.0), (-20.0, -8.0))
        origin_at_ms = times.begins_at_ms if call.number == 1 else call.arrives_at_ms
        stages.append(boxes, _after(origin_at_ms, appears_h, "appears", boxes, chance), State.QUAY, quay_of(group.source))
        stuffed_at_ms[boxes] = _after(origin_at_ms, stuffed_h, "stuffed", boxes, chance)
        for leg in group.legs:
            calls = times.voyages[leg.voyage].calls
            stages.append(boxes, _within(calls[leg.loads - 1].loads, f"load {leg.loads}", boxes, chance), State.SHIP, leg.voyage)
            if calls[leg.discharges - 1].arrives_at_ms > times.ends_at_ms:
                break
            stripped_at_ms[boxes] = _arrive(stages, boxes, calls[leg.discharges - 1], group.target, chance)
    return stages, stuffed_at_ms, stripped_at_ms


def _arrive(stages: Stages, boxes: Ints, call: Call, target: str, chance: Chance) -> Ints:
    """Boxes come off at a call; where it is their journey's end they go to their consignee. When they will be stripped, UTC ms."""
    discharged_at_ms = _within(call.discharges, "discharge", boxes, chance)
    stages.append(boxes, discharged_at_ms, State.QUAY, quay_of(call.locode))
    if call.locode != target:
        return np.full(len(boxes), NEVER_MS, dtype=np.int64)
    leaves_at_ms = _after(discharged_at_ms, (14.0, 26.0), "gate out", boxes, chance)
    arrives_at_ms = _after(leaves_at_ms, (1.0, 2.5), "road", boxes, chance)
    stages.append(boxes, leaves_at_ms, State.ROAD)
    stages.append(boxes, arrives_at_ms, State.SHOP, quay_of(call.locode))
    return _after(arrives_at_ms, (2.0, 8.0), "stripped", boxes, chance)


def _after(at_ms: Ints | int, hours: tuple[float, float], channel: str, boxes: Ints, chance: Chance) -> Ints:
    return (at_ms + chance.between(channel, hours[0] * HOUR_MS, hours[1] * HOUR_MS, boxes)).astype(np.int64)


def _within(window: tuple[int, int], channel: str, boxes: Ints, chance: Chance) -> Ints:
    return (window[0] + chance.between(channel, 0, window[1] - window[0], boxes)).astype(np.int64)


def _stow(stages: Stages, voyage: int, cargo: tuple[tuple[Consignment, ...], Ints], kinds: list[Kind], chance: Chance, bays: int) -> None:
    """Give every box that sails on `voyage` its slot, call by call: what has come off makes room."""
    groups, consignment = cargo
    stacks = stacks_of(bays)
    plan = StowagePlan(stacks, chance.shuffled(f"stacks {voyage}", len(stacks)).tolist())
    legs = sorted(((leg.loads, leg.discharges, index) for index, group in enumerate(groups) for leg in group.legs if leg.voyage == voyage))
    for call in sorted({loads for loads, _, _ in legs}):
        plan.clear(str(call))
        load: dict[tuple[Kind, str], list[int]] = {}
        for _, discharges, index in (leg for leg in legs if leg[0] == call):
            for box in np.flatnonzero(consignment == index).tolist():
                load.setdefault((kinds[box], str(discharges)), []).append(box)
        slots = plan.stow(load)
        boxes = np.array(sorted(slots), dtype=np.int64)
        stages.stow(boxes, voyage, np.array([slots[box] for box in boxes.tolist()], dtype=np.int64))


def _stern(stages: Stages, kinds: list[Kind]) -> tuple[int, ...]:
    """The boxes in the stern's outboard stacks, the outermost row first, from the top."""
    slots = {box: int(stages.slot[box].max()) for box, kind in enumerate(kinds) if kind is Kind.STERN}
    return tuple(sorted(slots, key=lambda box: -(slots[box] % 10_000)))
