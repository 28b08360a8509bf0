"""The settings of access to Kafka, and of a node's log in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from landfall.system.settings_table import GivenPath, SettingsProblem, SettingsTable, between, unfit

_USERNAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_USERNAME_CHARS_MAX = 200
_ADDRESS_PATTERN = re.compile(r"(?:[A-Za-z0-9_.-]+|\[(?P<ipv6>[0-9A-Fa-f:.]+)\]):(?P<port>\d{1,5})", re.ASCII)
_PORT_MAX = 65_535


def check_username(text: str) -> str:
    """Return `text` itself, when Kafka's rights, groups and settings can use it as a login name. Raises ValueError otherwise."""
    if len(text) > _USERNAME_CHARS_MAX:
        raise unfit(f"a username of {len(text)} characters is too long", f"write {_USERNAME_CHARS_MAX} or fewer")
    if not _USERNAME_PATTERN.fullmatch(text):
        what = f"{text!r} can not be written where a Kafka names a login"
        raise unfit(what, "write letters and digits of ASCII, and after the first of them also . _ @ + -")
    return text


def check_addresses(text: str) -> str:
    """Return `text` itself, when it is `host:port,[IPv6]:port`, with ports from 1 to 65535. Raises ValueError otherwise."""
    if not all(map(_is_address, text.split(","))):
        raise unfit(f"{text!r} are no brokers' addresses", "write host:port,host:port; an IPv6 address in brackets; ports from 1 to 65535")
    return text


def _is_address(text: str) -> bool:
    found = _ADDRESS_PATTERN.fullmatch(text)
    if not found or not 1 <= int(found["port"]) <= _PORT_MAX:
        return False
    try:
        return found["ipv6"] is None or bool(IPv6Address(found["ipv6"]))
    except AddressValueError:
        return False


UserName = Annotated[str, AfterValidator(check_username), Field(examples=["tokyo"])]
Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


def too_few_copies(min_insync: int, replication: int) -> Iterator[SettingsProblem]:
    """Yield the problem of more copies that must have a record than there are."""
    if min_insync > replication:
        what = f"{min_insync} of {replication} copies can not have a record"
        yield SettingsProblem(("min_insync",), what, f"write {replication} or less, or raise replication")


def _own_prefix(text: str) -> str:
    if text == "landfall":
        raise unfit("`landfall.…` are the fan-out's Kafka topics", "write another prefix")
    return text


class KafkaAccess(SettingsTable):
    """The access to Kafka.

    * `brokers`: `host:port,host:port`, IPv6 as `[::1]:9092`.
    * `username`, `password`, `mechanism`: a SASL login.
    * `tls_ca`: PEM file; with it the connection uses TLS.
    """

    brokers: Annotated[str, AfterValidator(check_addresses)]
    username: UserName
    password: SecretStr
    mechanism: Mechanism = "SCRAM-SHA-512"
    tls_ca: GivenPath | None = None


class KafkaLogSettings(KafkaAccess):
    """A node's log in Kafka, with the login of docs/guide/kafka.md.

    * `prefix`: topics are `<prefix>.<stream>`; by default `log-<node>`.
    * `replication`, `min_insync`: of new topics: copies, and copies that must have a block before it is acknowledged.
    * `gather_ms`: appends of this time share a transaction; alerts do not wait.
    * `record_bytes_max`: maximum size of a Kafka record.
    * `answer_s`: maximum time to wait for Kafka.
    * `standby_s`: maximum time that a process stands by while another writes; none: no limit.
    * `group`: Unix group that may read the index on this machine.
    """

    kind: Literal["kafka"]
    prefix: Annotated[str, AfterValidator(_own_prefix)] = Field("", pattern=r"^[A-Za-z0-9-]{0,80}$", examples=["log-tokyo"])
    replication: int = Field(3, ge=1, le=7)
    min_insync: int = Field(2, ge=1, le=7)
    gather_ms: int = Field(20, ge=0, le=1_000)
    record_bytes_max: int = Field(1_000_000, ge=10_000, le=8_000_000)
    answer_s: float = Field(20.0, ge=1, le=600)
    standby_s: float | None = Field(None, ge=0)
    group: str = ""

    @between
    def _has_enough_copies(self) -> Iterator[SettingsProblem]:
        yield from too_few_copies(self.min_insync, self.replication)


class FileLogSettings(SettingsTable):
    """A node's log in files, in the node's folder.

    * `group`: Unix group that may read the folder; by default the process's own (docs/guide/security.md).
    """

    kind: Literal["files"] = "files"
    group: str = ""


LogSettings = Annotated[FileLogSettings | KafkaLogSettings, Field(discriminator="kind")]
