"""What the tests of the log in a Kafka share: logs with their place in a real broker."""

from __future__ import annotations

import gc
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from confluent_kafka import Producer

from hq.java import java_home
from landfall.storage.kafka.commit_transaction import KafkaLogOptions, KafkaLogPlace, instance
from landfall.storage.kafka.kafka_log import KafkaLog
from landfall.storage.kafka.lease import Lease
from landfall.storage.kafka.settings import KafkaAccess, KafkaLogSettings
from landfall.storage.kafka.transactions import LogTransactions
from streams.codec import BlockCodec
from streams.model.clock import Clock, StillClock
from streams.model.errors import Unclear
from tests.fanout.kafka import Kafka
from tests.streams.logkit import NOW_MS
from tests.streams.quickkafka import InsiderSettings, OnlyWriter
from tests.support.ports import free_ports

TURN_S = 60.0
OTHER_LOGIN = KafkaAccess.model_fields.keys() - {"brokers"}
"""Settings that say how a log is reached, and with which the broker's own login would not work."""


def place(kafka: Kafka, folder: Path, node: str = "ship-a", **settings: Any) -> KafkaLogPlace:
    """A log of `node` that no other test has: `folder`/log is its index, `folder`/marker its marker.

    It logs in as the broker itself does; as the super user where `settings` say otherwise.
    """
    usual = {
        "replication": 1,
        "min_insync": 1,
        "gather_ms": 0,
        "answer_s": 60,
        "prefix": f"t{sha256(str(folder).encode()).hexdigest()[:12]}-{node}",
    }
    if settings.keys() & OTHER_LOGIN:
        access = {name: getattr(kafka.access, name) for name in ("brokers", "username", "password")}
        told = KafkaLogSettings.model_validate({"kind": "kafka", **access, **usual, **settings})
    else:
        told = InsiderSettings.model_validate({"kind": "kafka", **kafka.insider(), **usual, **settings})
    return KafkaLogPlace(told, node, folder / "log", folder / "marker")


_opened: WeakSet[KafkaLog] = WeakSet()


def close_kafka_logs() -> None:
    """Closes what a test that failed left open: its producers and leases would be at work beside those of the tests to come."""
    for log in list(_opened):
        log.close()


def alone(**options: Any) -> KafkaLogOptions:
    """Options for a log that no other process wants to write: it does not ask Kafka whose turn it is."""
    return KafkaLogOptions(lease=OnlyWriter, **options)


def open_kafka_log(where: KafkaLogPlace, clock: Clock | None = None, options: KafkaLogOptions | None = None) -> KafkaLog:
    """The log there, without `options` that of the only writer."""
    log = KafkaLog(where, BlockCodec(), clock or StillClock(NOW_MS), options or alone())
    _opened.add(log)
    return log


def producers() -> int:
    """How many producers this process has, garbage aside: each has threads and files of its own."""
    gc.collect()
    return sum(isinstance(one, Producer) for one in gc.get_objects())


@contextmanager
def taken_over(where: KafkaLogPlace) -> Iterator[LogTransactions]:
    """Another process has its turn at the log there, and has put an end to all that the one before it had under way; its producer."""
    lease = Lease(where.settings, where.names.control, instance(where))
    try:
        assert lease.held(TURN_S)
        transactions = LogTransactions(where.settings)
        transactions.connect()
        yield transactions
    finally:
        lease.close()


class MuteKafka(LogTransactions):
    """A Kafka that does not say whether it committed, as often as `mute` has an entry: True when it did."""

    mute: ClassVar[list[bool]] = []

    def commit(self) -> None:
        if not self.mute:
            super().commit()
            return
        if self.mute.pop():
            super().commit()
        self.close()
        raise Unclear("not a word")


class FurtherBroker:
    """A broker beside the one of `kafka`, which is number 1 and stays the controller: started once it is made, and gone after the block.

    One that stayed would get Kafka topics of the tests to come.
    """

    def __init__(self, kafka: Kafka, folder: Path, number: int = 2) -> None:
        own = kafka.folder / "broker"
        broker_port, port = free_ports(2)
        addresses = f"BROKER://127.0.0.1:{broker_port},DOOR0://127.0.0.1:{port}"
        cluster = re.search(r"^cluster\.id=(.+)$", (own / "log" / "meta.properties").read_text(), re.MULTILINE)
        assert cluster
        changes = {"process.roles": "broker", "node.id": str(number), "log.dirs": str(folder / "log")}
        changes |= {"listeners": addresses, "advertised.listeners": addresses}
        properties = folder / "server.properties"
        (folder / "log").mkdir(parents=True)
        (folder / "log" / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster[1]}\nnode.id={number}\ndirectory.id={chr(ord('a') + number) * 21}A\n"
        )
        lines = (own / "server.properties").read_text().splitlines()
        told = dict(line.split("=", 1) for line in lines) | changes
        properties.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        (folder / "words").write_text((own / "serve.words").read_text().replace(str(own / "server.properties"), str(properties)))
        self._folder = folder
        self.start()

    def __enter__(self) -> FurtherBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns at once."""
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen([java_home() / "bin" / "java", f"@{self._folder / 'words'}"], stdout=said, stderr=said)

    def stop(self) -> None:
        """In good order: what it leads goes to the first."""
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
