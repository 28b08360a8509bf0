"""The settings that every node has, whatever else runs in its process."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, SecretStr

from landfall.storage.kafka.settings import FileLogSettings, LogSettings
from landfall.system.settings_table import (
    ClockAddress,
    DoorUrl,
    GivenPath,
    Host,
    ListenAddress,
    Place,
    SettingsProblem,
    SettingsTable,
    TrustedProxies,
    between,
    given,
    repeated,
)
from landfall.transport.byte_meter import OPENING_BYTES
from landfall.transport.tls import TlsFiles
from streams.config.roles import LAN, PORT, SATELLITE, LinkClass, LinkPolicy, Pace, Peer, Role, companions
from streams.config.stream_definitions import STANDING, Retention
from streams.integrity.key_trust import GIVEN, Trust
from streams.integrity.signing_keys import key_from_text
from streams.link_budget.daily_budget import Budget, Tariff
from streams.model.errors import Misuse
from streams.model.identifiers import NODE_PATTERN

NodeName = Annotated[str, Field(pattern=f"^{NODE_PATTERN.pattern}$", examples=["tokyo"])]
METRICS_EVERY_S = 10.0
RETENTION_EVERY_S = 60.0
RESERVE_BYTES = 16 << 20
ROLES_WITH_IDENTITY = ("ship", "customer")
PeersToken = Annotated[SecretStr, given("write the same where it is shown and where it is known, or take the line out")]
"""Token that one node shows to another."""

_POLICIES: dict[LinkClass, LinkPolicy] = {"satellite": SATELLITE, "port": PORT, "lan": LAN}


class KnownPeer(SettingsTable):
    """A node that this one knows. With `node.tls` it may show its certificate, otherwise the token of a credential (`landfall
    credential add node:NAME --replicate '*'`).

    * `identity`: a ship's IMO number, a port's UN/LOCODE, a customer's id.
    * `keys`: its public keys, received by a trusted way (`landfall proof key`). Give headquarters' keys at every node: the registry can
      not vouch for its own writer.
    * `bytes_per_day`: bytes of records that it may send, saved for up to ten days. By default 2 GB from a ship or customer, 20 GB from
      a port, 200 GB from headquarters (docs/internals/peer-limits.md).
    """

    node: NodeName
    role: Role
    identity: str = ""
    keys: tuple[str, ...] = Field(default=(), examples=[["ed25519:…"]])
    bytes_per_day: int | None = Field(default=None, gt=0)

    @between
    def _has_keys_that_read(self) -> Iterator[SettingsProblem]:
        for number, key in enumerate(self.keys):
            try:
                key_from_text(key)
            except Misuse as problem:
                yield SettingsProblem(("keys", number), str(problem), "write it as `landfall proof key` shows it at that node")

    @between
    def _says_which_customer_it_is(self) -> Iterator[SettingsProblem]:
        if self.role == "customer" and not self.identity:
            yield SettingsProblem(("identity",), "a customer's node needs the customer's id", 'write it, like identity = "duckworks"')

    def principals(self) -> tuple[str, ...]:
        """Return the principals as which it may come with a token."""
        own = f"node:{self.node}"
        return (own, f"{self.role}:{self.identity}") if self.identity and self.role != "hq" else (own,)

    def peer(self) -> Peer:
        """Return the peer as the session knows it."""
        return Peer(self.node, self.role, self.identity)


def unproven(url: str, token: SecretStr | None) -> Iterator[SettingsProblem]:
    """Yield the problem with dialling `url` like this, if there is one: a token, or a certificate over TLS, proves the dialling node's
    identity.
    """
    if token is None and not url.startswith("https:"):
        yield SettingsProblem(
            ("token",), f"{url} wants a token, for certificates go with https:// alone", "write the one that is known there"
        )


class PeerAddress(SettingsTable):
    """A peer to dial: node name, URL of its door, class of the link, and token. `https://host:port` is its TLS door, where both show
    their certificates and no token is needed. `http://host:port` needs the token.
    """

    node: NodeName
    url: DoorUrl
    link: LinkClass = "lan"
    token: PeersToken | None = None

    @between
    def _is_proven(self) -> Iterator[SettingsProblem]:
        yield from unproven(self.url, self.token)

    def shown_token(self) -> str | None:
        """Return the token to show there, if any."""
        return self.token.get_secret_value() if self.token else None


class LinkSettings(SettingsTable):
    """Settings of one class of link that differ from the defaults (docs/guide/links.md).

    * `streams`: patterns of streams that it carries; `!` in front excludes.
    * `rate_bit_s`: maximum rate.
    * `ping_every_s`: time between two pings. `dead_after_s`: maximum silence before the peer counts as dead; longer than
      `ping_every_s`.
    * `budget_bytes_per_day`: UTC days, counted by the dialling node at the socket, both directions, plus `overhead_percent`. Only
      alerts may exceed it.
    * `alerts_reserve_bytes`: part of the budget for alerts only.
    * `price_per_mb`: price of 1,000,000 bytes, in your own currency; with or without a budget.
    """

    streams: tuple[str, ...] | None = None
    rate_bit_s: int | None = Field(default=None, gt=0)
    ping_every_s: float | None = Field(default=None, ge=0.1, le=3_600, allow_inf_nan=False)
    dead_after_s: float | None = Field(default=None, ge=0.2, le=86_400, allow_inf_nan=False)
    budget_bytes_per_day: int | None = Field(default=None, gt=0)
    alerts_reserve_bytes: int = Field(default=0, ge=0)
    overhead_percent: float = Field(default=0.0, ge=0, le=1_000)
    price_per_mb: float = Field(default=0.0, ge=0)

    @between
    def _has_the_budget_it_speaks_of(self) -> Iterator[SettingsProblem]:
        if self.budget_bytes_per_day is None and self.is_sound("alerts_reserve_bytes") and self.alerts_reserve_bytes:
            what = "there is no budget for alerts_reserve_bytes"
            yield SettingsProblem(("budget_bytes_per_day",), what, "write how many bytes a day may take, or take out alerts_reserve_bytes")

    @between
    def _can_open_a_link(self) -> Iterator[SettingsProblem]:
        if self.budget_bytes_per_day is not None and self.budget_bytes_per_day - self.alerts_reserve_bytes < OPENING_BYTES:
            what = f"besides the reserve for alerts it is at least {OPENING_BYTES} bytes, or no link is ever opened"
            yield SettingsProblem(
                ("budget_bytes_per_day",), what, f"write {self.alerts_reserve_bytes + OPENING_BYTES} or more, or reserve less"
            )

    def pace(self, default: Pace) -> Pace:
        """Return how a dead peer is noticed: by these settings, and else by default. Raises ValueError when the two do not go together."""
        return Pace(self.ping_every_s or default.ping_every_s, self.dead_after_s or default.dead_after_s)

    def tariff(self) -> Tariff:
        """Return the cost of the link."""
        return Tariff(self.overhead_percent, self.price_per_mb)

    def budget(self) -> Budget | None:
        """Return the budget, if there is one."""
        if self.budget_bytes_per_day is None:
            return None
        return Budget(self.budget_bytes_per_day, self.alerts_reserve_bytes, self.overhead_percent, self.price_per_mb)


class KeepSettings(SettingsTable):
    """The time and size for which a node keeps its copy of streams, whatever headquarters has set: `age_days` of fleet time, at most
    `bytes`. None: no limit.
    """

    age_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    bytes: int | None = Field(default=None, gt=0)

    def retention(self) -> Retention:
        """Return the same limits, as stream management uses them."""
        return Retention(self.age_days, self.bytes)


class TlsSettings(SettingsTable):
    """A node's door for peers and readers on other machines, over TLS 1.3, in addition to the plain one (docs/guide/links.md).

    * `authority`: PEM file of the authority of the nodes' certificates. `certificate`, `key`: this node's own, PEM.
    * `port`: 0: any free one.
    """

    authority: GivenPath
    certificate: GivenPath
    key: GivenPath
    host: Host = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)

    def files(self) -> TlsFiles:
        """Return the same settings without the door."""
        return TlsFiles(self.authority, self.certificate, self.key)


def stranger(where: Place, node: str) -> SettingsProblem:
    """Return the problem that `node` is to be dialled, but not known."""
    return SettingsProblem(where, f"{node!r} is to be dialled, but is not among node.known", "write a [[node.known]] with its role")


def uncertified(where: Place, nodes: list[str]) -> SettingsProblem:
    """Return the problem that `nodes` are to be dialled over TLS, but there is no certificate to show."""
    named = ", ".join(map(repr, sorted(nodes)))
    return SettingsProblem(
        where, f"{named} at https:// wants a certificate of this node's own", "write the table [node.tls], or use http://"
    )


def disks_missing(node: NodeSettings, disks: str) -> Iterator[SettingsProblem]:
    """Yield the problem with `intake.ack` being `disks`, if there is one: the second of two disks is another node's."""
    if disks == "two_nodes" and node.is_sound("role", "identity", "known") and not node.companions():
        what = "two_nodes wants another node of the same ship or port, and none is among node.known"
        yield SettingsProblem(("intake", "ack"), what, 'write a [[node.known]] with this node\'s own role and identity, or ack = "local"')


class NodeSettings(SettingsTable):
    """A node: its name, role, folder, door, known peers, and the peers that it dials.

    * `identity`: a ship's IMO number, a port's UN/LOCODE, a customer's id.
    * `port`: of its door; 0: any free one. docs/reference/access.md lists what each request needs.
    * `tls`: a second door, for certificates; none: tokens only.
    * `trusted_proxies`: addresses or networks of proxies in front of the door and its console; `X-Forwarded-For` is used from these only.
    * `links`: streams, rate and budget of a class of link.
    * `keep`: by name or pattern of streams, how long this node keeps its copy (docs/guide/streams.md).
    * `log`: in files in the node's folder, or in Kafka (docs/guide/kafka.md).
    * `clock`: "wall", or the URL of a clock that serves the fleet's time as JSON.
    * `retention_every_s`: how often streams are trimmed and thinned.
    * `disk_budget_bytes`: maximum size of a ship's records on disk; none: the whole disk.
    * `reserve_bytes`: size of a file that is deleted to clean up a full disk.
    """

    node: NodeName
    role: Role
    identity: str = ""
    folder: GivenPath
    host: Host = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    tls: TlsSettings | None = None
    trusted_proxies: TrustedProxies = ()
    known: tuple[KnownPeer, ...] = ()
    peers: tuple[PeerAddress, ...] = ()
    links: dict[LinkClass, LinkSettings] = Field(default={})
    keep: dict[str, KeepSettings] = Field(default={})
    log: LogSettings = FileLogSettings()
    clock: ClockAddress = "wall"
    metrics_every_s: float = Field(default=METRICS_EVERY_S, gt=0)
    retention_every_s: float = Field(default=RETENTION_EVERY_S, gt=0)
    disk_budget_bytes: int | None = Field(default=None, gt=0)
    reserve_bytes: int = Field(default=RESERVE_BYTES, ge=0)

    @between
    def _knows_each_once(self) -> Iterator[SettingsProblem]:
        for number, node in repeated(self.known, "node"):
            yield SettingsProblem(("known", number, "node"), f"{node!r} is known already", "leave one table of each node")

    @between
    def _is_not_among_the_known(self) -> Iterator[SettingsProblem]:
        for number, peer in enumerate(self.known):
            if peer.is_sound("node") and peer.node == self.node:
                yield SettingsProblem(("known", number, "node"), f"{peer.node!r} is this node itself", "take its table out")

    @between
    def _knows_whom_it_dials(self) -> Iterator[SettingsProblem]:
        names = {peer.node for peer in self.known}
        for number, address in enumerate(self.peers):
            if address.is_sound("node") and address.node not in names:
                yield stranger(("peers", number, "node"), address.node)

    @between
    def _has_a_certificate_to_dial_with(self) -> Iterator[SettingsProblem]:
        secured = [one.node for one in self.peers if one.is_sound("node", "url") and one.url.startswith("https:")]
        if self.tls is None and secured:
            yield uncertified(("tls",), secured)

    @between
    def _keeps_what_holds_until_there_is_newer(self) -> Iterator[SettingsProblem]:
        for name in self.keep:
            if any(fnmatchcase(name, pattern) for pattern in STANDING):
                what = f"the latest records of {name!r} hold until there are newer ones: it is kept for ever"
                yield SettingsProblem(("keep", name), what, "take the table out")

    def retentions(self) -> dict[str, Retention]:
        """Return this node's own retention of streams, by name or pattern."""
        return {name: keep.retention() for name, keep in self.keep.items()}

    @between
    def _asks_more_often_than_a_silence_lasts(self) -> Iterator[SettingsProblem]:
        for link, own in self.links.items():
            if own.is_sound("ping_every_s", "dead_after_s"):
                default = _POLICIES[link].pace
                ping_s, dead_s = own.ping_every_s or default.ping_every_s, own.dead_after_s or default.dead_after_s
                if dead_s <= ping_s:
                    named = "dead_after_s" if own.dead_after_s is not None else "ping_every_s"
                    what = f"a silence of {dead_s:g} s is to mean that a {link} peer is gone, which is asked only every {ping_s:g} s"
                    yield SettingsProblem(
                        ("links", link, named), what, f"write dead_after_s of more than {ping_s:g}, best of twice that and more"
                    )

    @between
    def _can_open_a_link_with_its_part(self) -> Iterator[SettingsProblem]:
        nodes = 1 + len(self.companions()) if self.is_sound("role", "identity", "known") else 1
        for link, own in self.links.items():
            sound = own.is_sound("budget_bytes_per_day", "alerts_reserve_bytes", "overhead_percent")
            budget = own.budget() if sound and nodes > 1 else None
            if budget is None:
                continue
            least, whole = budget.charge(OPENING_BYTES), budget.bytes_per_day - budget.reserve_bytes
            if OPENING_BYTES <= whole < nodes * least:
                where = "this ship" if self.role == "ship" else "this port"
                what = (
                    f"{nodes} nodes of {where} share it, and besides the reserve each has {whole // nodes} bytes: "
                    f"with less than {least} none opens the link for more than alerts"
                )
                hint = f"write {budget.reserve_bytes + nodes * least} or more, the same at each of them, or reserve less"
                yield SettingsProblem(("links", link, "budget_bytes_per_day"), what, hint)

    @between
    def _says_who_it_is(self) -> Iterator[SettingsProblem]:
        if self.role in ROLES_WITH_IDENTITY and not self.identity:
            yield SettingsProblem(("identity",), f"a {self.role} needs its identity", "write a ship's IMO number, or a customer's id")

    def doors(self) -> Iterator[ListenAddress]:
        """Yield the addresses where it listens, as far as they are valid. Settings are named as in a process's file, where this table is
        `node`.
        """
        if self.is_sound("host", "port"):
            yield ListenAddress(("node", "port"), self.host, self.port)
        if self.is_sound("tls") and self.tls and self.tls.is_sound("host", "port"):
            yield ListenAddress(("node", "tls", "port"), self.tls.host, self.tls.port)

    def trust(self) -> Trust:
        """Return the keys that these settings give."""
        return Trust({peer.node: frozenset(map(key_from_text, peer.keys)) for peer in self.known if peer.keys}, GIVEN)

    def me(self) -> Peer:
        """Return this node as its peers know it."""
        return Peer(self.node, self.role, self.identity)

    def companions(self) -> list[str]:
        """Return the other nodes of this ship or port that it knows."""
        known = [peer for peer in self.known if peer.is_sound("node", "role", "identity")]
        return [peer.node for peer in known if companions(self.me(), peer.peer())]

    def dials_alone(self) -> bool:
        """Return whether only its own companions may dial it.

        A ship whose settings limit what its links carry or cost uses the link it has chosen, and counts at the socket that it opened.
        Neither can be known of an incoming socket.
        """
        return self.role == "ship" and any(one.streams is not None or one.budget() for one in self.links.values())

    def policy(self, link: LinkClass) -> LinkPolicy:
        """Return what a link of this class carries, and how fast."""
        default, own = _POLICIES[link], self.links.get(link, LinkSettings())
        streams = default.streams if own.streams is None else own.streams
        return LinkPolicy(link, streams, own.pace(default.pace), own.rate_bit_s or default.rate_bit_s)
