"""How a Kafka is reached, and how a node's log lies in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from streams.tables import GivenPath, Problem, SettingsTable, between, unfit

UserName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["tokyo"])]
_ADDRESS_PATTERN = re.compile(r"[A-Za-z0-9_.-]+:\d{1,5}")


def check_addresses(text: str) -> str:
    """`text` itself, when it is `host:port,host:port`. Raises ValueError otherwise."""
    if not all(_ADDRESS_PATTERN.fullmatch(one) for one in text.split(",")):
        raise unfit(f"{text!r} are no brokers' addresses", "write host:port,host:port")
    return text


def _own_prefix(text: str) -> str:
    if text == "landfall":
        raise unfit("`landfall.…` are the fan-out's Kafka topics", "write another prefix")
    return text


class KafkaAccess(SettingsTable):
    """How to reach a Kafka: `brokers` as `host:port,host:port`, a SCRAM-SHA-512 login, and `tls_ca`, a PEM file, where they speak TLS."""

    brokers: Annotated[str, AfterValidator(check_addresses)]
    username: UserName
    password: SecretStr
    tls_ca: GivenPath | None = None


class KafkaLogSettings(KafkaAccess):
    """A node's log in a Kafka, with the login of `docs/kafka.md`'s rights.

    Kafka topics are called `<prefix>.<stream>`; without a `prefix` it is `log-<node>`. New ones get `replication` copies, of which
    `min_insync` must have a block before it is acknowledged. Appends are gathered for `gather_ms` into one transaction, alerts are not
    waited with. A Kafka record is at most `record_bytes_max` long. A Kafka that does not answer is waited for `answer_s`. Of several
    processes of the node one writes: the others wait for it to go, each at most `standby_s`, or for ever.
    """

    kind: Literal["kafka"]
    prefix: Annotated[str, AfterValidator(_own_prefix)] = Field("", pattern=r"^[A-Za-z0-9-]{0,80}$", examples=["log-tokyo"])
    replication: int = Field(3, ge=1, le=7)
    min_insync: int = Field(2, ge=1, le=7)
    gather_ms: int = Field(20, ge=0, le=1_000)
    record_bytes_max: int = Field(1_000_000, ge=10_000, le=8_000_000)
    answer_s: float = Field(20.0, ge=1, le=600)
    standby_s: float | None = Field(None, ge=0)

    @between
    def _has_enough_copies(self) -> Iterator[Problem]:
        if self.min_insync > self.replication:
            what = f"{self.min_insync} of {self.replication} copies can not have a block"
            yield Problem(("min_insync",), what, f"write {self.replication} or less, or raise replication")


class FileLogSettings(SettingsTable):
    """A node's log in its own files, in the node's folder."""

    kind: Literal["files"] = "files"


LogSettings = Annotated[FileLogSettings | KafkaLogSettings, Field(discriminator="kind")]
