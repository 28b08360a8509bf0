"""The settings of the fan-out and the development broker, read at their start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from hq.fanout.customer_routes import check_pattern
from landfall.runtime.service import WorkSettings
from landfall.storage.kafka.settings import KafkaAccess, UserName, check_addresses, too_few_copies
from landfall.system.listen_address import address
from landfall.system.settings_table import GivenPath, Host, ListenAddress, SettingsProblem, SettingsTable, barred, between, repeated, unfit

KNOWN_PASSWORD = "for development"
_OF_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_UNWRITABLE = ',"\\'
"""Ends a password, or is left out of it, where the broker's folder is made ready."""
_OWN_USERNAME = "write a username of its own"


def _patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for one in patterns:
        check_pattern(one)
    return patterns


def _plain_password(password: SecretStr) -> SecretStr:
    found = sorted(character for character in set(password.get_secret_value()) if character in _UNWRITABLE or not character.isprintable())
    if found:
        raise unfit(f"{''.join(found)!r} can not stand where a Kafka is given its super user's password", "write one without")
    return password


class KafkaReader(SettingsTable):
    """A login that may read these streams (names, or beginnings of names and a `*`). It is created in Kafka if it is missing. Its
    consumers' group ids must begin with the username and a dot.
    """

    username: UserName
    password: SecretStr
    streams: Annotated[tuple[str, ...], AfterValidator(_patterns)]


class FanoutSettings(WorkSettings):
    """Settings of `landfall fanout`. Intervals and time-outs are of the wall clock.

    * `log`: headquarters' log, the folder `log` of its node.
    * `kafka`: a super user's login. The fan-out creates topics, logins and rights.
    * `transactional_id`: one name for each fan-out of a log; a second process with the name ends the first.
    * `readers`: all who may read. A right that is missing here is removed at the next start.
    * `partitions`, `replication`, `retention_ms`: of new topics. `min_insync`: copies that must have a message before it counts as
      written.
    * `door`, `token`: URL of headquarters' node (`http://host:port`) and the token of a credential there, for metrics and failures.
      Without a door they are not sent.
    * `clock`: "wall", or the URL of a clock that serves the fleet's time.
    """

    log: GivenPath
    kafka: KafkaAccess
    readers: tuple[KafkaReader, ...] = ()
    transactional_id: str = Field("landfall-fanout", min_length=1, max_length=100)
    partitions: int = Field(3, ge=1, le=1_000)
    replication: int = Field(1, ge=1, le=7)
    min_insync: int = Field(1, ge=1, le=7)
    retention_ms: int = Field(30 * 86_400_000, ge=60_000)
    poll_interval_s: float = Field(0.1, gt=0, le=10)
    transaction_records_max: int = Field(10_000, ge=1, le=50_000)

    @between
    def _has_enough_copies(self) -> Iterator[SettingsProblem]:
        yield from too_few_copies(self.min_insync, self.replication)

    @between
    def _usernames_differ(self) -> Iterator[SettingsProblem]:
        for number, username in repeated(self.readers, "username"):
            yield SettingsProblem(("readers", number, "username"), f"{username!r} is another reader's already", _OWN_USERNAME)

    @between
    def _keeps_its_login_to_itself(self) -> Iterator[SettingsProblem]:
        for number, reader in enumerate(self.readers):
            if reader.is_sound("username") and reader.username == self.kafka.username:
                yield SettingsProblem(("readers", number, "username"), f"{reader.username!r} is the fan-out itself", _OWN_USERNAME)

    @between
    def _keeps_groups_apart(self) -> Iterator[SettingsProblem]:
        """Yield a problem for each reader whose groups overlap another's: a reader's right is to all groups that begin with its name and a
        dot, so no other's may."""
        sound = [(number, reader.username) for number, reader in enumerate(self.readers) if reader.is_sound("username")]
        for number, username in sound:
            for other in (self.kafka.username, *(one for _, one in sound)):
                if other.startswith(f"{username}."):
                    what = f"{username!r} could be in the groups of {other!r}, which begin with {username + '.'!r} too"
                    yield SettingsProblem(("readers", number, "username"), what, "write one that no other begins with, up to a dot")


class KafkaDoorTls(SettingsTable):
    """PEM files: a door's certificate, valid for its advertised host, its key (PKCS #8, not encrypted), and the authority that signed
    it.
    """

    authority: GivenPath
    certificate: GivenPath
    key: GivenPath


class KafkaDoor(SettingsTable):
    """An address where the broker listens for clients, with or without TLS. `advertised` is the address that it sends to clients. A
    port of 0 is not allowed.
    """

    host: Host = "127.0.0.1"
    port: int = Field(default=9092, ge=1, le=65_535)
    advertised: Annotated[str, AfterValidator(check_addresses)] = "127.0.0.1:9092"
    tls: KafkaDoorTls | None = None


class KafkaBrokerSettings(WorkSettings):
    """Settings of `landfall broker`: one Kafka broker for development, on this machine.

    * `folder`: its data.
    * `username`, `password`: its super user, fixed when the folder is first used. The default password is public: use it on this
      machine only.
    * `doors`: addresses for clients with SCRAM logins.
    * `broker_port`, `controller_port`: internal ports on 127.0.0.1.
    * `door`, `token`: URL of a node (`http://host:port`) and the token of a credential there, for metrics and failures. Without a door
      they are not sent.
    """

    folder: GivenPath = Path(".run/broker")
    username: UserName = "landfall"
    password: Annotated[SecretStr, AfterValidator(_plain_password)] = Field(SecretStr(KNOWN_PASSWORD), min_length=8)
    doors: tuple[KafkaDoor, ...] = Field((KafkaDoor(),), min_length=1)
    broker_port: int = Field(9094, ge=1, le=65_535)
    controller_port: int = Field(9093, ge=1, le=65_535)
    heap_mb: int = Field(512, ge=256, le=65_536)

    @between
    def _has_each_door_to_itself(self) -> Iterator[SettingsProblem]:
        yield from barred(self._listens())

    @between
    def _keeps_strangers_out(self) -> Iterator[SettingsProblem]:
        if self.is_sound("password", "doors") and self.password.get_secret_value() == KNOWN_PASSWORD:
            for door in self.doors:
                if door.is_sound("host") and door.host not in _OF_THIS_MACHINE:
                    where = address(door.host, door.port)
                    why = f"everybody knows the one of the settings' own, and the door at {where} is open to other machines"
                    yield SettingsProblem(("password",), why, "write one of your own")

    def _listens(self) -> Iterator[ListenAddress]:
        if self.is_sound("doors"):
            sound = ((number, door) for number, door in enumerate(self.doors) if door.is_sound("host", "port"))
            yield from (ListenAddress(("doors", number, "port"), door.host, door.port) for number, door in sound)
        for name in ("broker_port", "controller_port"):
            if self.is_sound(name):
                yield ListenAddress((name,), "127.0.0.1", getattr(self, name))
        if self.is_sound("host", "health_port"):
            yield ListenAddress(("health_port",), self.host, self.health_port)
