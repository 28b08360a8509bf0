"""The settings every node has, whatever else runs in its process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streams.budget import Budget
from streams.link.metering import OPENING_BYTES
from streams.link.tls import TlsFiles
from streams.logs.kafka.settings import FileLogSettings, LogSettings
from streams.policy import LAN, PORT, SATELLITE, LinkClass, LinkPolicy, Peer, Role
from streams.words import NODE_PATTERN

NodeName = Annotated[str, Field(pattern=f"^{NODE_PATTERN.pattern}$")]
METRICS_EVERY_S = 10.0
RETENTION_EVERY_S = 60.0
RESERVE_BYTES = 16 << 20

_POLICIES: dict[LinkClass, LinkPolicy] = {"satellite": SATELLITE, "port": PORT, "lan": LAN}


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KnownPeer(_Settings):
    """A node this one knows: what it is (`identity`: a ship's IMO number, a customer's id) and, if it may come to us with one, its token.

    With `node.tls` it may come with its certificate, whether it has a token or not.
    """

    node: NodeName
    role: Role
    identity: str = ""
    token: SecretStr | None = None

    def peer(self) -> Peer:
        """The same as the session knows it."""
        return Peer(self.node, self.role, self.identity)


class PeerAddress(_Settings):
    """A peer to dial: its node name, the URL of its door, the class of the link and the token to show.

    `https://host:port` is its TLS door: both show their certificates, and a token is not needed. `http://host:port` wants the token.
    """

    node: NodeName
    url: str = Field(pattern=r"^https?://[^/]+$")
    link: LinkClass = "lan"
    token: SecretStr | None = None

    @model_validator(mode="after")
    def _proven(self) -> PeerAddress:
        if self.token is None and not self.url.startswith("https:"):
            raise ValueError(f"'{self.node}' at {self.url} wants a token; certificates go with https:// alone")
        return self

    def shown_token(self) -> str | None:
        """The token to show there, if any."""
        return self.token.get_secret_value() if self.token else None


class LinkSettings(_Settings):
    """One class of link, where it is otherwise than by default: docs/links.md.

    `streams`: what it carries, by pattern (`!` in front: not these). `rate_bit_s`: kept below. `budget_bytes_per_day` (UTC, counted by who
    dials, at the socket, both ways, plus `overhead_percent`): not exceeded; of it `alerts_reserve_bytes` are for alerts alone, and alerts
    may overdraw it. `price_per_mb`: of 1,000,000 bytes, in your own currency.
    """

    streams: tuple[str, ...] | None = None
    rate_bit_s: int | None = Field(default=None, gt=0)
    budget_bytes_per_day: int | None = Field(default=None, gt=0)
    alerts_reserve_bytes: int = Field(default=0, ge=0)
    overhead_percent: float = Field(default=0.0, ge=0, le=1_000)
    price_per_mb: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> LinkSettings:
        if self.budget_bytes_per_day is None:
            if self.alerts_reserve_bytes or self.overhead_percent or self.price_per_mb:
                raise ValueError("a reserve, an overhead and a price belong to a budget: set budget_bytes_per_day")
        elif self.budget_bytes_per_day - self.alerts_reserve_bytes < OPENING_BYTES:
            raise ValueError(f"a day's budget beside the reserve for alerts is at least {OPENING_BYTES} bytes, or no link is ever opened")
        return self

    def budget(self) -> Budget | None:
        """The budget, if there is one."""
        if self.budget_bytes_per_day is None:
            return None
        return Budget(self.budget_bytes_per_day, self.alerts_reserve_bytes, self.overhead_percent, self.price_per_mb)


class TlsSettings(_Settings):
    """A node's door for peers and readers elsewhere, over TLS 1.3, beside the plain one for this machine: docs/links.md.

    `authority`: who signs the nodes' certificates; `certificate` and `key`: this node's own, all PEM. `port` 0: any free one.
    """

    authority: Path
    certificate: Path
    key: Path
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)

    def files(self) -> TlsFiles:
        """The same without the door."""
        return TlsFiles(self.authority, self.certificate, self.key)


class NodeSettings(_Settings):
    """One node: its name, what it is, where its log lies, its door, the peers it knows and those it dials when it starts.

    `identity`: a ship's IMO number, a port's UN/LOCODE, a customer's id. `token`: what local processes show at the door (append, read).
    `tls`: a second door, by certificates; none: tokens alone. `links`: what links of a class carry, how fast, and how much a day.
    `log`: kept in files in the node's folder, or in a Kafka (docs/kafka.md).
    `retention_every_s`: how often streams are dropped and thinned. `disk_budget_bytes`: what a ship's records may take on disk (none: as
    much as there is). `reserve_bytes`: a file that pays for cleaning up on a full disk.
    `port` 0: any free one. `clock`: "wall", or the URL of a clock that serves the fleet's time as JSON.
    """

    node: NodeName
    role: Role
    identity: str = ""
    folder: Path
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    token: SecretStr
    tls: TlsSettings | None = None
    known: tuple[KnownPeer, ...] = ()
    peers: tuple[PeerAddress, ...] = ()
    links: dict[LinkClass, LinkSettings] = {}
    log: LogSettings = FileLogSettings()
    clock: str = "wall"
    metrics_every_s: float = Field(default=METRICS_EVERY_S, gt=0)
    retention_every_s: float = Field(default=RETENTION_EVERY_S, gt=0)
    disk_budget_bytes: int | None = Field(default=None, gt=0)
    reserve_bytes: int = Field(default=RESERVE_BYTES, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> NodeSettings:
        names = [peer.node for peer in self.known]
        if twice := {name for name in names if names.count(name) > 1} | ({self.node} & set(names)):
            raise ValueError(f"each node is known once, and never itself: {sorted(twice)}")
        if strangers := {address.node for address in self.peers} - set(names):
            raise ValueError(f"a peer to dial must be among the known ones, which tell its role: {sorted(strangers)}")
        if self.tls is None and (secured := [address.node for address in self.peers if address.url.startswith("https:")]):
            raise ValueError(f"https:// is dialled with a certificate of this node's own, so set its table tls: {secured}")
        if self.role in ("ship", "customer") and not self.identity:
            raise ValueError(f"a {self.role} needs its identity: a ship's IMO number, a customer's id")
        return self

    def me(self) -> Peer:
        """This node as its peers know it."""
        return Peer(self.node, self.role, self.identity)

    def policy(self, link: LinkClass) -> LinkPolicy:
        """What a link of this class carries, and how fast."""
        default, own = _POLICIES[link], self.links.get(link, LinkSettings())
        return LinkPolicy(link, default.streams if own.streams is None else own.streams, own.rate_bit_s or default.rate_bit_s)
