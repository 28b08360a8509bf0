"""Settings of the two inputs: permissions to publish, and limits on what a client can make the node hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from intake.decoders.decoder_names import find_decoder
from intake.topic_routes import SUBSCRIPTIONS
from landfall.access.mqtt_filters import topic_pattern
from landfall.system.settings_table import GivenPath, Host, ListenAddress, SettingsProblem, SettingsTable, WithCertificate, between

TAKEN_BYTES_MAX = 4 << 20
"""Upper limit of all limits of whole messages, bytes: the kept part of a reading fits a block of 8 MiB, however little it compresses."""
_LEVEL = re.compile(r"[^/+#\0]+")
"""Pattern of the name with which nodes that share a subscription report that they are there: one level of `landfall/nodes/<client_id>`."""
_Port = Annotated[int, Field(ge=0, le=65_535)]


def _checked(filters: tuple[str, ...]) -> tuple[str, ...]:
    for one in filters:
        topic_pattern(one)
    return filters


def _known(decoder: str) -> str:
    find_decoder(decoder)
    return decoder


_Filters = Annotated[tuple[str, ...], AfterValidator(_checked)]


class TopicDecoder(SettingsTable):
    """A decoder for messages on MQTT topics that match the filter `topic`: `dcsa-tnt-3`, or `module:function` of your own
    (docs/guide/payloads.md). Topics of docs/guide/payloads.md itself are never decoded.
    """

    topic: Annotated[str, AfterValidator(lambda one: _checked((one,))[0])]
    decoder: Annotated[str, AfterValidator(_known)]


class PipelineSettings(SettingsTable):
    """Limits of intake, and decoders; of several filters that match a topic, the first counts.

    * `repeats_readings_max`: how many readings back repeats are recognised.
    * `exceptions_bytes_per_h`: bytes per hour of refused messages of one login that `exceptions` keeps; of all together 16 times as
      much. Without a login it is one address, or the broker. Further messages are counted only (docs/reference/mqtt.md).
    """

    batch_readings_max: int = Field(default=4_096, ge=1)
    pending_readings_max: int = Field(default=16_384, ge=1)
    pending_bytes_max: int = Field(default=64 << 20, ge=1)
    repeats_readings_max: int = Field(default=262_144, ge=1)
    exceptions_bytes_per_h: int = Field(default=4 << 20, ge=0)
    retry_ms: int = Field(default=1_000, ge=1)
    decoders: tuple[TopicDecoder, ...] = ()


class EndpointSettings(WithCertificate):
    """The node's own MQTT door. Gateways of the node's credentials may log in (docs/guide/mqtt.md).

    * `port`: 0: any free one.
    * `anonymous_publish`: topics to which a client without a login may publish; nothing by default.
    * `packet_bytes_max`, `receive_max`, `unread_bytes_max`: limits of a client: a packet, messages on their way to disk, and
      acknowledgements that it does not read.
    * `connections_max`, `connections_per_address_max`, `connections_per_login_max`: limits of connections, of one address (IPv6: a
      /64), and of one login.
    * `turns_away_after_ms`: when nothing could be stored for this time, clients are disconnected, until it can.
    """

    host: Host = "127.0.0.1"
    port: _Port = 1883
    anonymous_publish: _Filters = ()
    packet_bytes_max: int = Field(default=65_536 + 4_096, ge=8_192, le=TAKEN_BYTES_MAX)
    receive_max: int = Field(default=4_096, ge=1, le=65_535)
    connections_max: int = Field(default=10_000, ge=1)
    connections_per_address_max: int = Field(default=2_500, ge=1)
    connections_per_login_max: int = Field(default=1_000, ge=1)
    connect_within_ms: int = Field(default=10_000, ge=1)
    unread_bytes_max: int = Field(default=1 << 20, ge=1_024)
    turns_away_after_ms: int = Field(default=15_000, ge=1_000)


class BrokerSettings(SettingsTable):
    """A broker to subscribe at.

    * `tls_ca`: PEM file of the authority of the broker's certificate; with it the connection uses TLS.
    * `client_id`: name of the persistent session: one per node, and never changed.
    * `asks_devices`: publish storm mode's requests there (docs/reference/storm-mode.md). Only this login may be allowed to.
    * `stands_in_for`: the `client_id`s of other nodes of this ship or port that share a subscription with this one
      (docs/guide/cluster.md). Name each at one other node only.
    * `gives_way_after_ms`: a node that has others leaves the broker to them when it could store nothing for this time. It returns when
      it can.
    """

    host: Host = "127.0.0.1"
    port: _Port = 1883
    client_id: str = Field(min_length=1, max_length=100)
    username: str | None = None
    password: SecretStr | None = None
    tls_ca: GivenPath | None = None
    filters: _Filters = SUBSCRIPTIONS
    payload_bytes_max: int = Field(default=65_536 + 4_096, ge=4_096, le=TAKEN_BYTES_MAX)
    asks_devices: bool = False
    stands_in_for: tuple[str, ...] = ()
    gives_way_after_ms: int = Field(default=15_000, ge=1_000)
    keep_alive_s: int = Field(default=30, ge=5, le=65_535)
    reconnect_ms_min: int = Field(default=200, ge=1)
    reconnect_ms_max: int = Field(default=10_000, ge=1)

    @between
    def _stands_in_for_others(self) -> Iterator[SettingsProblem]:
        if self.client_id in self.stands_in_for:
            where = ("stands_in_for", self.stands_in_for.index(self.client_id))
            yield SettingsProblem(where, f"{self.client_id!r} is this node's own client_id", "name those of the others")
        hint = "leave out '/', '+' and '#'"
        if self.stands_in_for and not _LEVEL.fullmatch(self.client_id):
            yield SettingsProblem(("client_id",), f"{self.client_id!r} is to be one level of a topic there", hint)
        for at, client_id in enumerate(self.stands_in_for):
            if not _LEVEL.fullmatch(client_id):
                yield SettingsProblem(("stands_in_for", at), f"{client_id!r} is to be one level of a topic there", hint)


class IntakeSettings(SettingsTable):
    """How sensors reach a node: an endpoint, a broker, both, or (a node without sensors) neither.

    * `ack`: when a reading is acknowledged: when it is on this node's disk (`local`), or also on that of another node of the same ship
      or port (`two_nodes`). That node must be in `node.known`, with a link of class `lan`.
    * `when_alone`: what to do when no other node has stored anything for `alone_after_s` (wall clock): sensors `wait`, or are
      acknowledged from one disk (`degrade`). `exceptions` reports both.
    """

    endpoint: EndpointSettings | None = None
    broker: BrokerSettings | None = None
    pipeline: PipelineSettings = PipelineSettings()
    ack: Literal["local", "two_nodes"] = "local"
    when_alone: Literal["wait", "degrade"] = "wait"
    alone_after_s: float = Field(default=10.0, gt=0, le=3_600, allow_inf_nan=False)

    def doors(self) -> Iterator[ListenAddress]:
        """Yield the addresses on which it listens, as far as they are valid.

        Settings are named as in a process's file, where this is `intake`."""
        if self.is_sound("endpoint") and self.endpoint and self.endpoint.is_sound("host", "port"):
            yield ListenAddress(("intake", "endpoint", "port"), self.endpoint.host, self.endpoint.port)
