"""What the tests of the log in a Kafka share: logs with their place in a real broker."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from streams.clock import Clock, StillClock
from streams.codec import BlockCodec
from streams.logs.kafka.keeper import Place
from streams.logs.kafka.log import KafkaLog, KafkaLogOptions
from streams.logs.kafka.settings import KafkaLogSettings
from tests.fanout.kafka import Kafka
from tests.streams.logkit import NOW_MS


def place(kafka: Kafka, folder: Path, node: str = "ship-a", **settings: Any) -> Place:
    """A log of `node` that no other test has: `folder`/log is its index, `folder`/marker its marker."""
    access = {name: getattr(kafka.access, name) for name in ("brokers", "username", "password")}
    usual = {"replication": 1, "min_insync": 1, "gather_ms": 0, "prefix": f"t{sha256(str(folder).encode()).hexdigest()[:12]}-{node}"}
    told = KafkaLogSettings.model_validate({"kind": "kafka", **access, **usual, **settings})
    return Place(told, node, folder / "log", folder / "marker")


def open_kafka_log(
    where: Place,
    clock: Clock | None = None,
    options: KafkaLogOptions = KafkaLogOptions(),  # noqa: B008
) -> KafkaLog:
    """The log there."""
    return KafkaLog(where, BlockCodec(), clock or StillClock(NOW_MS), options)
