"""Settings of a ship's node: the node itself, its sensors' way in, its links in port and at sea, and the watch's patience."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.rules.storm_mode import StormRules
from cargo.vocabulary.registry_entries import Entry, Port
from cargo.vocabulary.trade_codes import is_imo, is_locode
from intake.settings import EndpointSettings, IntakeSettings
from landfall.node.settings import (
    ROLES_WITH_IDENTITY,
    NodeName,
    NodeSettings,
    PeerAddress,
    PeersToken,
    disks_missing,
    stranger,
    uncertified,
    unproven,
)
from landfall.system.settings_table import DoorUrl, SettingsProblem, SettingsTable, barred, between, repeated, unfit
from landfall.system.settings_table import Place as At
from streams.config.roles import LinkClass

WAITING_EVERY_S = 900.0
DIGEST_EVERY_H = 6.0
PORT_PATIENCE_S = 60.0
TAKEOVER_S = 30.0


def _locode(text: str) -> str:
    if not is_locode(text):
        raise unfit(f"{text!r} is no UN/LOCODE", 'write the port\'s five characters, like "JPTYO"')
    return text


class ShoreNode(SettingsTable):
    """A node ashore to dial: its name, the URL of its door (`https://host:port` by certificates) and, at `http://`, the token to show."""

    node: NodeName
    url: DoorUrl
    token: PeersToken | None = None

    @between
    def _is_proven(self) -> Iterator[SettingsProblem]:
        yield from unproven(self.url, self.token)

    def address(self, link: LinkClass) -> PeerAddress:
        """Return the node's address for a link of this class."""
        return PeerAddress(node=self.node, url=self.url, link=link, token=self.token)


class Headquarters(ShoreNode):
    """Headquarters' node, as a ship dials it.

    * `url`: over the satellite.
    * `lan_url`: over an unmetered network, as in a yard. It must answer on such networks only: the ship uses it whenever it answers.
    """

    lan_url: DoorUrl | None = None

    @between
    def _is_proven_there(self) -> Iterator[SettingsProblem]:
        if self.lan_url is not None:
            yield from unproven(self.lan_url, self.token)

    def address(self, link: LinkClass) -> PeerAddress:
        """Return the node's address for a link of this class."""
        at = super().address(link)
        return at.model_copy(update={"url": self.lan_url}) if link == "lan" and self.lan_url else at


class PortOfCall(ShoreNode):
    """A port where the ship may lie: UN/LOCODE, name, centre and radius (nautical miles), and its node. A port with several nodes has a
    table for each; the ship links to all.

    * `only_there`: the URL answers on the port's own network only. A ship without a position then knows that it is there.
    """

    locode: Annotated[str, AfterValidator(_locode)]
    name: str
    latitude_deg: float = Field(ge=-90, le=90, allow_inf_nan=False)
    longitude_deg: float = Field(ge=-180, le=180, allow_inf_nan=False)
    radius_nm: float = Field(default=10.0, gt=0, le=100, allow_inf_nan=False)
    only_there: bool = False

    def port(self) -> Port:
        """Return the port as the watch knows it."""
        return Port(self.locode, self.name, self.latitude_deg, self.longitude_deg, self.radius_nm)


class WatchPatience(SettingsTable):
    """Waiting times of the watch, in fleet time.

    * `lateness_ms`: readings that arrive out of order by up to this time change nothing.
    * `reefer_interval_ms`, `dry_interval_ms`: expected interval of a container, until it is learned."""

    lateness_ms: Annotated[int, Field(ge=0)] = 10_000
    historical_ms: Annotated[int, Field(ge=0)] = 30 * 60_000
    reefer_interval_ms: Annotated[int, Field(ge=1_000)] = 60 * 60_000
    dry_interval_ms: Annotated[int, Field(ge=1_000)] = 24 * 60 * 60_000
    muster_every_ms: Annotated[int, Field(ge=60_000)] = 6 * 60 * 60_000


class StormAsking(SettingsTable):
    """Storm mode, in fleet time (docs/reference/storm-mode.md). After a roll beyond `roll_deg` to either side, devices that listen are
    asked to report every `interval_s`. It ends when no roll was beyond `calm_deg` for `calm_after_s`.
    """

    roll_deg: Annotated[float, Field(gt=0, le=90)] = 10.0
    calm_deg: Annotated[float, Field(gt=0, le=90)] = 8.0
    calm_after_s: Annotated[int, Field(ge=60, le=86_400)] = 1_800
    interval_s: Annotated[int, Field(ge=1, le=3_600)] = 60

    @between
    def _ends_below_where_it_begins(self) -> Iterator[SettingsProblem]:
        if self.calm_deg > self.roll_deg:
            yield SettingsProblem(
                ("calm_deg",), f"it is more than roll_deg, {self.roll_deg:g}", "write at most as much: else it would end at once"
            )

    def rules(self) -> StormRules:
        """Return these settings for the rule itself."""
        return StormRules(self.roll_deg, self.calm_deg, self.calm_after_s * 1_000, self.interval_s)


class ShipSettings(SettingsTable):
    """A ship's node. `node.role` is ship and `node.identity` its IMO number; every node that it dials is in `node.known`.

    * `waiting_every_s` (wall clock): minimum time between two reports to shore of what waits on board.
    * `digest_every_h` (fleet time): window of a digest, written per container while its readings wait for port (docs/guide/at-sea.md).
    * `port_patience_s` (wall clock): time without an answer from the port's node before the ship also uses the satellite link.
    * `takeover_s` (wall clock): time without a way ashore before another node of the ship takes over the satellite link.
    """

    node: NodeSettings
    intake: IntakeSettings = IntakeSettings(endpoint=EndpointSettings())
    headquarters: Headquarters | None = None
    ports: tuple[PortOfCall, ...] = ()
    watch: WatchPatience = WatchPatience()
    storm: StormAsking = StormAsking()
    waiting_every_s: Annotated[float, Field(gt=0)] = WAITING_EVERY_S
    digest_every_h: Annotated[float, Field(ge=1 / 60, le=168)] = DIGEST_EVERY_H
    port_patience_s: Annotated[float, Field(gt=0, le=86_400)] = PORT_PATIENCE_S
    takeover_s: Annotated[float, Field(gt=0, le=86_400)] = TAKEOVER_S

    @between
    def _is_a_ship(self) -> Iterator[SettingsProblem]:
        if self.node.role != "ship":
            yield SettingsProblem(("node", "role"), f"a ship's node is no {self.node.role}", "write role 'ship'")

    @between
    def _says_which_ship_she_is(self) -> Iterator[SettingsProblem]:
        identity = self.node.identity
        if not is_imo(identity) and (identity or self.node.role not in ROLES_WITH_IDENTITY):
            yield SettingsProblem(("node", "identity"), f"a ship's is its IMO number, not {identity!r}", "write its seven digits")

    @between
    def _knows_whom_she_dials(self) -> Iterator[SettingsProblem]:
        names = {peer.node for peer in self.node.known}
        for where, shore in self._shores():
            if shore.is_sound("node") and shore.node not in names:
                yield stranger((*where, "node"), shore.node)

    @between
    def _has_a_certificate_to_dial_with(self) -> Iterator[SettingsProblem]:
        secured = [one.node for _, one in self._shores() if one.is_sound("node", "url") and one.url.startswith("https:")]
        hq = self.headquarters if self.is_sound("headquarters") else None
        if hq and hq.is_sound("node", "url", "lan_url") and (hq.lan_url or "").startswith("https:") and hq.node not in secured:
            secured.append(hq.node)
        if self.node.tls is None and secured:
            yield uncertified(("node", "tls"), secured)

    @between
    def _has_distinct_ports(self) -> Iterator[SettingsProblem]:
        for number, node in repeated(self.ports, "node"):
            yield SettingsProblem(("ports", number, "node"), f"{node!r} is a port's node already", "leave one table of each node")

    @between
    def _has_two_disks_if_it_says_so(self) -> Iterator[SettingsProblem]:
        if self.intake.is_sound("ack"):
            yield from disks_missing(self.node, self.intake.ack)

    @between
    def _has_each_door_to_itself(self) -> Iterator[SettingsProblem]:
        yield from barred((*self.node.doors(), *self.intake.doors()))

    def _shores(self) -> Iterator[tuple[At, ShoreNode]]:
        """Yield the ports the ship may dial, with where they stand."""
        if self.is_sound("ports"):
            yield from ((("ports", number), port) for number, port in enumerate(self.ports))
        if self.is_sound("headquarters") and self.headquarters:
            yield ("headquarters",), self.headquarters

    def watch_settings(self) -> WatchSettings:
        """Return the watch of this ship."""
        patience = self.watch
        return WatchSettings(
            place=WatchPlace(self.node.node, ship=self.node.identity),
            lateness_ms=patience.lateness_ms,
            historical_ms=patience.historical_ms,
            reefer_interval_ms=patience.reefer_interval_ms,
            dry_interval_ms=patience.dry_interval_ms,
            muster_every_ms=patience.muster_every_ms,
        )

    def port_entries(self) -> list[Entry]:
        """Return the ports as registry entries of version 0: every entry from headquarters is newer."""
        return [Entry("port", port.locode, 0, 0, self.node.node, port.port()) for port in self.ports]
