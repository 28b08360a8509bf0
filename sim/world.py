"""A seeded world: its ships, companies, bookings and boxes, and where each box is at every instant; and that of the demo's story."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.companies import Company, companies
from sim.consignments import DUCKS_ABOARD, Consignment, Shipment, bookings, consignments
from sim.fall_time import FREEBOARD_M, above_deck_m, fall_ms
from sim.identity import container_numbers
from sim.sim_ports import PORTS, SHIP_GATEWAYS, HearingPlaces, SimulatedPort
from sim.stages import Stages, StageState
from sim.stateless_random import Chance
from sim.story import Chapter, chapters
from sim.stowage import STERN_ROWS, STERN_TIERS, Hull, StackType, StowagePlan, groups_of, stacks_of
from sim.voyages import STORY, PortCall, Timeline, timeline

FALLEN = len(STERN_TIERS) * len(STERN_ROWS) - 1
"""Number of boxes that slide off the stern: its two outboard stacks except for the lowest box of the inner one."""
FALL_SPACING_MS = 1_700
OUTAGE_MS = 90 * MINUTE_MS
TWENTY_SHARE = 0.45
DRY_40, DRY_20, REEFER_40 = "45G1", "22G1", "45R1"

Felt = Literal["shock and fall", "shock", "nothing"]
"""Report of a box's tracker on its loss: it slides and strikes, falls and hits the water; only the first; or nothing."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Lasting properties of each box; arrays and tuples of one length. `setpoint_c` is NaN for dry boxes. The customer may see a box from
    `stuffed_at_ms` to `stripped_at_ms` (NEVER_MS: not within any plan). `tracker`: whether it has one."""

    numbers: tuple[str, ...]
    devices: tuple[str, ...]
    size_types: tuple[str, ...]
    booking: Ints
    consignment: Ints
    setpoint_c: Floats
    stuffed_at_ms: Ints
    stripped_at_ms: Ints
    tracker: Flags

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def reefer(self) -> Flags:
        """Flags of the boxes that are reefers."""
        return ~np.isnan(self.setpoint_c)


@dataclass(frozen=True, slots=True)
class SimulatedLoss:
    """A box that goes overboard: when it begins to slide (UTC ms), how long it then falls, and what its tracker reports of it."""

    box: int
    at_ms: int
    fell_ms: int
    felt: Felt = "shock and fall"


@dataclass(frozen=True, slots=True)
class Toppled:
    """A box of a stack that goes down and stays aboard: when (UTC ms), how far it then lies tilted, and how long it fell."""

    box: int
    at_ms: int
    lies_deg: float
    fell_ms: int


@dataclass(frozen=True, slots=True)
class Outage:
    """A gateway that hears nothing from `from_at_ms` to `until_at_ms`; the boxes keep their readings and send them when it is back."""

    intake: int
    gateway: int
    from_at_ms: int
    until_at_ms: int


@dataclass(frozen=True, slots=True)
class World:
    """Everything that does not depend on what the devices say. The same seed, size and beginning give the same world."""

    chance: Chance
    timeline: Timeline
    places: HearingPlaces
    ports: tuple[SimulatedPort, ...]
    customers: tuple[Company, ...]
    consignments: tuple[Consignment, ...]
    bookings: tuple[Shipment, ...]
    boxes: Boxes
    stages: Stages
    hull: Hull
    """Every ship's."""
    losses: tuple[SimulatedLoss, ...]
    """Losses in order of time."""
    outages: tuple[Outage, ...]
    """Outages of gateways; those of one gateway lie hours apart."""
    spared: tuple[int, ...]
    """The boxes whose devices have no faults."""
    chapters: tuple[Chapter, ...] = ()
    drifting_share: float = 0.0
    """Share of the trackers that have a clock that drifts, and no GNSS to set it by."""
    sparse_share: float = 0.0
    """Share of the reports that lack what some of the sensors did not give in time."""
    knocks_per_day_ashore: float = 0.0
    """Number of times a day that a box is knocked by what moves it about a yard; on the road every other time."""
    reefer_incidents_per_day: float = 0.0
    """Number of times a day that the compressor of a reefer fails for some hours."""
    wrong_setpoints_per_day: float = 0.0
    """Number of times a day that somebody sets a laden reefer otherwise than it is booked."""
    toppled: tuple[Toppled, ...] = ()
    """The boxes of stacks that go down and stay aboard, each once."""
    forgotten_share: float = 0.0
    """Share of the boxes that come off that are on no discharge list: the next list has them aboard still."""

    @property
    def fallen(self) -> tuple[int, ...]:
        """The boxes that go overboard, in order of time."""
        return tuple(loss.box for loss in self.losses)

    @property
    def falls_at_ms(self) -> tuple[int, ...]:
        """Times at which they fall, UTC ms."""
        return tuple(loss.at_ms for loss in self.losses)


@dataclass(frozen=True, slots=True)
class Cargo:
    """The boxes of a world as booked, one element each, and the kind of stack that each needs."""

    groups: tuple[Consignment, ...]
    bookings: tuple[Shipment, ...]
    booking: Ints
    consignment: Ints
    setpoint_c: Floats
    kinds: list[StackType]

    @property
    def size_types(self) -> tuple[str, ...]:
        """The size and type of each."""
        return tuple(REEFER_40 if kind is StackType.REEFER else DRY_20 if kind is StackType.TWENTY else DRY_40 for kind in self.kinds)


def build_world(seed: int, boxes: int, begins_at_ms: int) -> World:
    """Return the world of the story with this `seed` and so many boxes. Raises Misuse when a ship is too small for them."""
    chance, times, of = Chance(seed), timeline(begins_at_ms), companies(seed)
    hull = Hull(groups_of(boxes), open_stern=True)
    cargo = booked(consignments(of), boxes, chance)
    _to_the_stern(cargo)
    stages, stuffed_at_ms, stripped_at_ms = itineraries(cargo, times, STORY, chance)
    stow(stages, cargo, times, hull, chance)
    stern = _stern(stages, cargo.kinds)
    boxes_lost = np.array(stern[:FALLEN])
    slide_at_ms = times.falls_at_ms + np.arange(FALLEN) * FALL_SPACING_MS
    fell_ms = to_the_water_ms(stages, boxes_lost, slide_at_ms, chance)
    losses = tuple(SimulatedLoss(*one) for one in zip(boxes_lost.tolist(), slide_at_ms.tolist(), fell_ms.tolist(), strict=True))
    lose(stages, stripped_at_ms, losses)
    made = Boxes(
        _numbers(cargo.setpoint_c),
        devices_of(boxes, chance),
        cargo.size_types,
        cargo.booking,
        cargo.consignment,
        cargo.setpoint_c,
        stuffed_at_ms,
        stripped_at_ms,
        np.ones(boxes, dtype=np.bool_),
    )
    ports, groups, outages = tuple(PORTS.values()), cargo.groups, (_outage(times),)
    return World(
        chance,
        times,
        STORY,
        ports,
        of.all,
        groups,
        cargo.bookings,
        made,
        stages,
        hull,
        losses,
        outages,
        stern,
        chapters(times),
    )


def booked(groups: tuple[Consignment, ...], boxes: int, chance: Chance) -> Cargo:
    """Return so many boxes of these consignments, in bookings."""
    made, booking = bookings(groups, boxes, chance)
    consignment = np.array([one.consignment for one in made])[booking]
    setpoint_c = np.array([float("nan") if one.goods.setpoint_c is None else one.goods.setpoint_c for one in made])[booking]
    twenty = chance.uniform("size", np.arange(len(setpoint_c))) < TWENTY_SHARE
    dry = [StackType.TWENTY if small else StackType.FORTY for small in twenty]
    kinds = [kind if np.isnan(setpoint) else StackType.REEFER for kind, setpoint in zip(dry, setpoint_c, strict=True)]
    return Cargo(groups, tuple(made), booking, consignment, setpoint_c, kinds)


def devices_of(boxes: int, chance: Chance) -> tuple[str, ...]:
    """Return the tracker of each box."""
    return tuple(f"TRK-{100_000 + int(index)}" for index in chance.shuffled("devices", boxes))


def _numbers(setpoint_c: Floats) -> tuple[str, ...]:
    """Return dry boxes' numbers of two owners' series, reefers' of a third."""
    count = len(setpoint_c)
    series = {"BBLU": iter(container_numbers("BBLU", count)), "BGBU": iter(container_numbers("BGBU", count))}
    reefers = iter(container_numbers("BBRU", count))
    owners = ("BBLU", "BBLU", "BGBU")
    return tuple(next(reefers) if not np.isnan(setpoint) else next(series[owners[i % 3]]) for i, setpoint in enumerate(setpoint_c))


def _to_the_stern(cargo: Cargo) -> None:
    """Move the boxes: ducks travel in 40-foot boxes, and the first of those that stay aboard stand at the stern."""
    for box in np.flatnonzero(cargo.consignment <= DUCKS_ABOARD).tolist():
        cargo.kinds[box] = StackType.FORTY
    for box in np.flatnonzero(cargo.consignment == DUCKS_ABOARD)[: FALLEN + 1].tolist():
        cargo.kinds[box] = StackType.STERN


def itineraries(cargo: Cargo, times: Timeline, places: HearingPlaces, chance: Chance) -> tuple[Stages, Ints, Ints]:
    """Return the stages of all boxes except for slots and losses, and when each is stuffed and stripped."""
    stages = Stages(len(cargo.consignment))
    stuffed_at_ms = np.zeros(len(cargo.consignment), dtype=np.int64)
    stripped_at_ms = np.full(len(cargo.consignment), NEVER_MS, dtype=np.int64)
    for index, group in enumerate(cargo.groups):
        boxes = np.flatnonzero(cargo.consignment == index)
        call = times.voyages[group.legs[0].voyage].calls[group.legs[0].loads - 1]
        appears_h, stuffed_h = ((0.0, 0.02), (1.0, 5.0)) if call.number == 1 else ((-30.0, -24.0), (-20.0, -8.0))
        origin_at_ms = times.begins_at_ms if call.number == 1 else call.arrives_at_ms
        stages.append(boxes, _after(origin_at_ms, appears_h, "appears", boxes, chance), StageState.QUAY, places.quay_of(group.source))
        stuffed_at_ms[boxes] = _after(origin_at_ms, stuffed_h, "stuffed", boxes, chance)
        for leg in group.legs:
            calls = times.voyages[leg.voyage].calls
            stages.append(boxes, _within(calls[leg.loads - 1].loads, f"load {leg.loads}", boxes, chance), StageState.SHIP, leg.voyage)
            if calls[leg.discharges - 1].arrives_at_ms > times.ends_at_ms:
                break
            comes_off = calls[leg.discharges - 1]
            quay = places.quay_of(comes_off.locode)
            stripped_at_ms[boxes] = _arrive(stages, boxes, comes_off, (quay, comes_off.locode == group.target), chance)
    return stages, stuffed_at_ms, stripped_at_ms


def _arrive(stages: Stages, boxes: Ints, call: PortCall, where: tuple[int, bool], chance: Chance) -> Ints:
    """Let boxes come off at a call, onto a quay, and, at their journey's end, go to their consignee. Returns when they will be stripped,
    UTC ms."""
    quay, ends = where
    discharged_at_ms = _within(call.discharges, "discharge", boxes, chance)
    stages.append(boxes, discharged_at_ms, StageState.QUAY, quay)
    if not ends:
        return np.full(len(boxes), NEVER_MS, dtype=np.int64)
    leaves_at_ms = _after(discharged_at_ms, (14.0, 26.0), "gate out", boxes, chance)
    arrives_at_ms = _after(leaves_at_ms, (1.0, 2.5), "road", boxes, chance)
    stages.append(boxes, leaves_at_ms, StageState.ROAD)
    stages.append(boxes, arrives_at_ms, StageState.SHOP, quay)
    return _after(arrives_at_ms, (2.0, 8.0), "stripped", boxes, chance)


def _after(at_ms: Ints | int, hours: tuple[float, float], channel: str, boxes: Ints, chance: Chance) -> Ints:
    return (at_ms + chance.between(channel, hours[0] * HOUR_MS, hours[1] * HOUR_MS, boxes)).astype(np.int64)


def _within(window: tuple[int, int], channel: str, boxes: Ints, chance: Chance) -> Ints:
    return (window[0] + chance.between(channel, 0, window[1] - window[0], boxes)).astype(np.int64)


def stow(stages: Stages, cargo: Cargo, times: Timeline, hull: Hull, chance: Chance) -> None:
    """Give every box its slot on each ship it sails with, call by call: what has come off makes room.

    Raises Misuse when a ship is too small.
    """
    stacks = stacks_of(hull)
    for voyage in range(len(times.voyages)):
        plan = StowagePlan(stacks, chance.shuffled(f"stacks {voyage}", len(stacks)).tolist())
        hers = ((leg, index) for index, group in enumerate(cargo.groups) for leg in group.legs if leg.voyage == voyage)
        legs = sorted((leg.loads, leg.discharges, index) for leg, index in hers)
        for call in sorted({loads for loads, _, _ in legs}):
            plan.clear(str(call))
            load: dict[tuple[StackType, str], list[int]] = {}
            for _, discharges, index in (leg for leg in legs if leg[0] == call):
                for box in np.flatnonzero(cargo.consignment == index).tolist():
                    load.setdefault((cargo.kinds[box], str(discharges)), []).append(box)
            slots = plan.stow(load)
            boxes = np.array(sorted(slots), dtype=np.int64)
            stages.stow(boxes, voyage, np.array([slots[box] for box in boxes.tolist()], dtype=np.int64))


def lose(stages: Stages, stripped_at_ms: Ints, losses: Sequence[SimulatedLoss]) -> None:
    """Put these boxes overboard: nothing that was to come happens to them."""
    for loss in losses:
        stages.lose(loss.box, loss.at_ms + loss.fell_ms + SECOND_MS)
        stripped_at_ms[loss.box] = NEVER_MS


def to_the_water_ms(stages: Stages, boxes: Ints, at_ms: Ints, chance: Chance) -> Ints:
    """Return how long each of these boxes, which stand on deck then, falls until it strikes the water: by its tier, and by how deep the
    ship lies."""
    tier = stages.slot[boxes, stages.column_at(boxes, at_ms)] % 100
    return fall_ms(above_deck_m(tier) + chance.between("freeboard m", *FREEBOARD_M, boxes))


def _stern(stages: Stages, kinds: list[StackType]) -> tuple[int, ...]:
    """Return the boxes in the stern's outboard stacks, the outermost row first, from the top."""
    slots = {box: int(stages.slot[box].max()) for box, kind in enumerate(kinds) if kind is StackType.STERN}
    return tuple(sorted(slots, key=lambda box: -(slots[box] % 10_000)))


def _outage(times: Timeline) -> Outage:
    """Return the outage of one gateway of the first ship, half-way between its first two ports; not the stern's."""
    calls = times.first.calls
    from_at_ms = (calls[0].departs_at_ms + calls[1].arrives_at_ms) // 2
    return Outage(0, SHIP_GATEWAYS // 2, from_at_ms, from_at_ms + OUTAGE_MS)
