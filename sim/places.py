"""The ports of the story: where they are and how far their yards' gateways and geofences reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Port:
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


PORTS: dict[str, Port] = {
    port.locode: port
    for port in (
        Port("USLAX", "Los Angeles", 33.7405, -118.2608, 15.0, has_quay=False),
        Port("JPTYO", "Tokyo", 35.6050, 139.7850, 15.0, has_quay=True),
        Port("SGSIN", "Singapore", 1.2640, 103.7900, 15.0, has_quay=True),
        Port("AUSYD", "Sydney", -33.8580, 151.1950, 15.0, has_quay=True),
        Port("GBLON", "London", 51.5030, 0.4900, 15.0, has_quay=False),
    )
}
QUAYS: tuple[str, ...] = tuple(locode for locode, port in PORTS.items() if port.has_quay)
"""The ports with an intake of their own, in a fixed order."""
