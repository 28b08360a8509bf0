"""Ports, where they are and how far their geofences reach; and who may hear a box: ships and quays, each with its gateways."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.arrays import Ints

SHIP_GATEWAYS = 6
QUAY_GATEWAYS = 3


@dataclass(frozen=True, slots=True)
class SimulatedPort:
    """A port by its UN/LOCODE; `latitude_deg` and `longitude_deg` are a berth's; within `radius_nm` of it a ship counts as in port."""

    locode: str
    name: str
    latitude_deg: float
    longitude_deg: float
    radius_nm: float
    has_quay: bool
    """Whether the carrier has a branch office here, whose gateways hear the boxes on the quay."""

    def __post_init__(self) -> None:
        if len(self.locode) != 5 or not self.locode.isalnum() or not self.locode.isupper():
            raise ValueError(f"a UN/LOCODE is five capital letters and digits, not {self.locode!r}")


PORTS: dict[str, SimulatedPort] = {
    port.locode: port
    for port in (
        SimulatedPort("USLAX", "Los Angeles", 33.7405, -118.2608, 15.0, has_quay=False),
        SimulatedPort("JPTYO", "Tokyo", 35.6050, 139.7850, 15.0, has_quay=True),
        SimulatedPort("SGSIN", "Singapore", 1.2640, 103.7900, 15.0, has_quay=True),
        SimulatedPort("AUSYD", "Sydney", -33.8580, 151.1950, 15.0, has_quay=True),
        SimulatedPort("GBLON", "London", 51.5030, 0.4900, 15.0, has_quay=False),
    )
}
"""The ports of the story."""
QUAYS: tuple[str, ...] = tuple(locode for locode, port in PORTS.items() if port.has_quay)
"""Ports of the story with an intake of their own, in a fixed order."""


@dataclass(frozen=True)
class HearingPlaces:
    """Places that may receive a box in one world: its ships (IMO numbers, in the order of their voyages), then the quays (UN/LOCODEs). A
    place is an index into `names`, a gateway one into `gateways`."""

    ships: tuple[str, ...]
    quays: tuple[SimulatedPort, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """`ship/<IMO number>` and `quay/<UN/LOCODE>`: their intakes."""
        return *(f"ship/{imo}" for imo in self.ships), *(f"quay/{port.locode}" for port in self.quays)

    def quay_of(self, locode: str) -> int:
        """Return the place of the quay of a port. Raises ValueError when the carrier has none there."""
        return self.names.index(f"quay/{locode}")

    @cached_property
    def yards(self) -> tuple[SimulatedPort | None, ...]:
        """The port of each place; None for ships."""
        return *(None for _ in self.ships), *self.quays

    @cached_property
    def gateways(self) -> tuple[str, ...]:
        """Every gateway's name. The last of a quay's is the mobile network's, which hears the shops."""
        of_each = zip(self.names, self._gateways_of_each(), strict=True)
        return tuple(f"{name.split('/')[1]}-GW-{number}" for name, count in of_each for number in range(1, 1 + count))

    @cached_property
    def first_gateway(self) -> Ints:
        """The first gateway of each place."""
        counts = self._gateways_of_each()
        return np.cumsum([0, *counts[:-1]])

    def _gateways_of_each(self) -> list[int]:
        return [SHIP_GATEWAYS] * len(self.ships) + [QUAY_GATEWAYS] * len(self.quays)
