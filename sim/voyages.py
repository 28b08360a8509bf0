"""The ships and when they are where: calls at ports, passages between them, and the instants the story turns on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cargo.vocabulary.trade_codes import make_imo
from sim.arrays import HOUR_MS, Flags, Floats, Ints
from sim.sea_routes import SeaRoute, joined, sea_route
from sim.sim_ports import PORTS, QUAYS, HearingPlaces
from sim.storms import Storm, storm

SERVICE_KN = 19.0
STORM_LEFT_NM = 60.0
"""Distance from Sydney at which the boxes fall, nautical miles: outside its geofence, on the satellite link."""
HOVE_TO_NM, HOVE_TO_KN = 40.0, 4.0
"""After the loss the ship heaves to; then it creeps in at CREEP_KN."""
CREEP_KN = 10.0
STORM_ROLL_DEG = 26.5
"""Roll of the first ship as its boxes fall, degrees."""


@dataclass(frozen=True, slots=True)
class SimulatedShip:
    """A ship of the fleet, named as a report to the authorities names it; `flag` is ISO 3166."""

    imo: str
    name: str
    call_sign: str
    mmsi: str
    flag: str


SHIPS = (
    SimulatedShip(make_imo(999_901), "Big Blue Albatross", "WDL4127", "368207415", "US"),
    SimulatedShip(make_imo(999_902), "Big Blue Cormorant", "9V8264", "563184920", "SG"),
)
"""Their IMO numbers have right check digits and belong, as far as we know, to no ship afloat."""
STORY = HearingPlaces(tuple(ship.imo for ship in SHIPS), tuple(PORTS[locode] for locode in QUAYS))
INTAKES = STORY.names
"""Places that receive the boxes of the story: the ships, in the order of `SHIPS`, then the quays."""


@dataclass(frozen=True, slots=True)
class PortCall:
    """A ship at a port: all times UTC ms; boxes come off within `discharges`, go aboard within `loads` (from, until)."""

    number: int
    locode: str
    arrives_at_ms: int
    departs_at_ms: int
    discharges: tuple[int, int]
    loads: tuple[int, int]

    def __post_init__(self) -> None:
        times = (self.arrives_at_ms, *self.discharges, *self.loads, self.departs_at_ms)
        if list(times) != sorted(times):
            raise ValueError(f"a call arrives, discharges, loads and departs in this order, not {times}")


@dataclass(frozen=True, slots=True)
class SimulatedVoyage:
    """A ship's way through the story: at `times_ms` it has gone `along_nm` of `route`, evenly in between; and its heavy weather."""

    ship: SimulatedShip
    calls: tuple[PortCall, ...]
    route: SeaRoute
    times_ms: Floats
    along_nm: Floats
    storms: tuple[Storm, ...] = ()

    def along(self, at_ms: Ints) -> Floats:
        """Return the nautical miles gone at each instant."""
        return np.interp(at_ms.astype(np.float64), self.times_ms, self.along_nm)

    def speed_kn(self, at_ms: Ints) -> Floats:
        """Return the speed over ground in knots, without the sea's jitter."""
        leg = np.clip(np.searchsorted(self.times_ms, at_ms, "right") - 1, 0, len(self.times_ms) - 2)
        return (np.diff(self.along_nm) / np.diff(self.times_ms))[leg] * HOUR_MS

    def moored(self, at_ms: Ints) -> Flags:
        """Return whether the ship lies at a berth."""
        lies = np.zeros(len(at_ms), dtype=np.bool_)
        for call in self.calls:
            lies |= (call.arrives_at_ms <= at_ms) & (at_ms < call.departs_at_ms)
        return lies


@dataclass(frozen=True, slots=True)
class Timeline:
    """The beginning and the end of a world's story (UTC ms), and the voyages it runs over.

    `falls_at_ms`: when the first boxes go overboard; NEVER_MS when none do.
    """

    begins_at_ms: int
    falls_at_ms: int
    ends_at_ms: int
    voyages: tuple[SimulatedVoyage, ...]

    @property
    def first(self) -> SimulatedVoyage:
        """The first ship's."""
        return self.voyages[0]


def timeline(begins_at_ms: int) -> Timeline:
    """Return the story's times when it begins at `begins_at_ms`: they follow from the routes' lengths and the ships' speeds."""
    to_singapore = sea_route(PORTS["JPTYO"], PORTS["SGSIN"])
    to_sydney = sea_route(PORTS["SGSIN"], PORTS["AUSYD"])
    slow = ((STORM_LEFT_NM - HOVE_TO_NM, CREEP_KN), (HOVE_TO_NM, HOVE_TO_KN))
    tokyo = first_call("JPTYO", begins_at_ms, departs_after_h=21)
    singapore = later_call(2, "SGSIN", arrival(tokyo, to_singapore, ()), stays_h=18)
    sydney = later_call(3, "AUSYD", arrival(singapore, to_sydney, slow), stays_h=20)
    falls_at_ms = sydney.arrives_at_ms - round(sum(nm / kn for nm, kn in slow) * HOUR_MS)
    rolls = (storm("extreme", falls_at_ms, STORM_ROLL_DEG),)
    first = voyage_of(SHIPS[0], (tokyo, singapore, sydney), ((to_singapore, ()), (to_sydney, slow)), rolls)
    return Timeline(begins_at_ms, falls_at_ms, sydney.arrives_at_ms + 14 * HOUR_MS, (first, _second(begins_at_ms)))


def _second(begins_at_ms: int) -> SimulatedVoyage:
    """Return the voyage from Sydney to Singapore, and on towards London, where the ship does not arrive within the story."""
    to_singapore = sea_route(PORTS["AUSYD"], PORTS["SGSIN"])
    to_london = sea_route(PORTS["SGSIN"], PORTS["GBLON"])
    sydney = first_call("AUSYD", begins_at_ms, departs_after_h=15)
    singapore = later_call(2, "SGSIN", arrival(sydney, to_singapore, ()), stays_h=18)
    london = later_call(3, "GBLON", arrival(singapore, to_london, ()), stays_h=20)
    return voyage_of(SHIPS[1], (sydney, singapore, london), ((to_singapore, ()), (to_london, ())))


Slow = tuple[tuple[float, float], ...]
"""The last miles of a passage, from the end backwards: (nautical miles, knots)."""


def first_call(locode: str, begins_at_ms: int, departs_after_h: int) -> PortCall:
    """Return the call at which the story begins: the ship lies there already."""
    departs_at_ms = begins_at_ms + departs_after_h * HOUR_MS
    began = (begins_at_ms, begins_at_ms)
    return PortCall(1, locode, begins_at_ms - 6 * HOUR_MS, departs_at_ms, began, (begins_at_ms + 6 * HOUR_MS, departs_at_ms - HOUR_MS))


def later_call(number: int, locode: str, arrives_at_ms: int, stays_h: int) -> PortCall:
    """Return a call of so many hours: in the first half of it boxes come off, in the second they go aboard."""
    departs_at_ms = arrives_at_ms + stays_h * HOUR_MS
    half = arrives_at_ms + stays_h * HOUR_MS // 2
    return PortCall(number, locode, arrives_at_ms, departs_at_ms, (arrives_at_ms + HOUR_MS, half), (half, departs_at_ms - HOUR_MS))


def arrival(left: PortCall, route: SeaRoute, slow: Slow, knots: float = SERVICE_KN) -> int:
    """Return when a ship arrives that goes on from `left`, UTC ms."""
    return left.departs_at_ms + round(_passage(route, slow, knots)[-1][0] * HOUR_MS)


def _passage(route: SeaRoute, slow: Slow, knots: float) -> list[tuple[float, float]]:
    """Return the breakpoints of one passage after its start: (hours, nautical miles) from leaving the berth."""
    fast_nm = route.length_nm - sum(nm for nm, _ in slow)
    points = [(fast_nm / knots, fast_nm)]
    for nm, kn in reversed(slow):
        points.append((points[-1][0] + nm / kn, points[-1][1] + nm))
    return points


def voyage_of(
    ship: SimulatedShip,
    calls: tuple[PortCall, ...],
    passages: Sequence[tuple[SeaRoute, Slow]],
    storms: tuple[Storm, ...] = (),
    knots: float = SERVICE_KN,
) -> SimulatedVoyage:
    """Return the way of `ship` from call to call, by one passage between each two, at `knots` except for its slow miles."""
    times = [float(calls[0].arrives_at_ms)]
    along = [0.0]
    for call, (route, slow) in zip(calls, passages, strict=False):
        begun_nm = along[-1]
        times.append(float(call.departs_at_ms))
        along.append(begun_nm)
        for hours, nm in _passage(route, slow, knots):
            times.append(call.departs_at_ms + hours * HOUR_MS)
            along.append(begun_nm + nm)
    times.append(float(calls[-1].departs_at_ms))
    along.append(along[-1])
    return SimulatedVoyage(ship, calls, joined([route for route, _ in passages]), np.array(times), np.array(along), storms)
