"""Settings of a ship's node: the node itself, its sensors' way in, its links in port and at sea, and the watch's patience."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from cargo.identifiers import is_imo, is_locode
from cargo.outcome import Place
from cargo.registry import Entry, Port
from cargo.state import WatchSettings
from intake.settings import EndpointSettings, IntakeSettings
from streams.node.settings import NodeName, NodeSettings, PeerAddress
from streams.policy import LinkClass

WAITING_EVERY_S = 900.0


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShoreNode(_Settings):
    """A node ashore to dial: its name, the URL of its door (`https://host:port` by certificates) and, at `http://`, the token to show."""

    node: NodeName
    url: str = Field(pattern=r"^https?://[^/]+$")
    token: SecretStr | None = None

    @model_validator(mode="after")
    def _proven(self) -> Self:
        self.address("lan")
        return self

    def address(self, link: LinkClass) -> PeerAddress:
        """The same for a link of this class."""
        return PeerAddress(node=self.node, url=self.url, link=link, token=self.token)


class PortOfCall(ShoreNode):
    """A port where the ship may lie: its UN/LOCODE, name, centre and radius (nautical miles), and its node."""

    locode: str
    name: str
    latitude_deg: float
    longitude_deg: float
    radius_nm: float = 10.0

    @model_validator(mode="after")
    def _on_earth(self) -> Self:
        if not is_locode(self.locode):
            raise ValueError(f"{self.locode!r} is no UN/LOCODE")
        self.port()
        return self

    def port(self) -> Port:
        """The port as the watch knows it."""
        return Port(self.locode, self.name, self.latitude_deg, self.longitude_deg, self.radius_nm)


class WatchPatience(_Settings):
    """How long the watch waits, in fleet time: out of order by up to `lateness_ms` changes nothing; intervals: until habits are known."""

    lateness_ms: Annotated[int, Field(ge=0)] = 10_000
    historical_ms: Annotated[int, Field(ge=0)] = 30 * 60_000
    reefer_interval_ms: Annotated[int, Field(ge=1_000)] = 60 * 60_000
    dry_interval_ms: Annotated[int, Field(ge=1_000)] = 24 * 60 * 60_000
    muster_every_ms: Annotated[int, Field(ge=60_000)] = 6 * 60 * 60_000


class ShipSettings(_Settings):
    """One ship. `node.role` is ship and `node.identity` its IMO number; every node it dials is among `node.known`.

    `waiting_every_s` (wall): how often, at most, she tells those ashore, over whatever link, how much waits on board.
    """

    node: NodeSettings
    intake: IntakeSettings = IntakeSettings(endpoint=EndpointSettings())
    headquarters: ShoreNode | None = None
    ports: tuple[PortOfCall, ...] = ()
    watch: WatchPatience = WatchPatience()
    waiting_every_s: Annotated[float, Field(gt=0)] = WAITING_EVERY_S

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.node.role != "ship" or not is_imo(self.node.identity):
            raise ValueError(f"a ship's node has role 'ship' and its IMO number as identity, not {self.node.role!r} {self.node.identity!r}")
        shores = (*self.ports, *([self.headquarters] if self.headquarters else []))
        if self.node.tls is None and (secured := sorted(shore.node for shore in shores if shore.url.startswith("https:"))):
            raise ValueError(f"https:// is dialled with a certificate of the ship's own, so set node.tls: {secured}")
        dialled = {shore.node for shore in shores}
        if strangers := sorted(dialled - {peer.node for peer in self.node.known}):
            raise ValueError(f"nodes to dial must be among node.known, which tells what they are: {strangers}")
        return self

    def watch_settings(self) -> WatchSettings:
        """The watch of this ship."""
        patience = self.watch
        return WatchSettings(
            place=Place(self.node.node, ship=self.node.identity),
            lateness_ms=patience.lateness_ms,
            historical_ms=patience.historical_ms,
            reefer_interval_ms=patience.reefer_interval_ms,
            dry_interval_ms=patience.dry_interval_ms,
            muster_every_ms=patience.muster_every_ms,
        )

    def port_entries(self) -> list[Entry]:
        """The ports as registry entries of version 0: whatever headquarters tells of them is newer."""
        return [Entry("port", port.locode, 0, 0, self.node.node, port.port()) for port in self.ports]
