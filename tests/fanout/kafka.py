"""A real Kafka for tests: the project's own development broker, on ports of its own, stopped and started as a test likes."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import tomli_w
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pydantic import SecretStr

from landfall.storage.kafka.kafka_configuration import answers, client_settings
from landfall.storage.kafka.settings import KafkaAccess
from landfall.system.private_files import write_private
from landfall.transport.certificates import make_authority, make_node
from landfall.transport.tls import TlsFiles
from streams.commit_points import CRASH_VARIABLE
from tests.support.forked import Forked
from tests.support.leaks import SHARED
from tests.support.ports import free_ports

WITHIN_S = 300.0
PASSWORD = "quack quack quack"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline, f"waited {WITHIN_S} s for {what}"
        time.sleep(0.02)


class Process:
    """`landfall <word>` with settings from a file, its words in a file beside it."""

    def __init__(self, folder: Path, word: str, settings: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.words = folder / f"{word}.log"
        self._word, self._config = word, folder / f"{word}.toml"
        write_private(self._config, tomli_w.dumps(settings).encode())
        self._running: Forked | None = None

    def start(self, crash_at: str = "") -> None:
        """Start it; `crash_at`: the commit point and the passage at which it kills itself."""
        environment = ENVIRONMENT | ({CRASH_VARIABLE: crash_at} if crash_at else {})
        self._running = Forked("landfall", (self._word, "--config", str(self._config)), environment, self.words)

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._running is not None
        return self._running.pid

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._running is not None
        return self._running.wait(WITHIN_S)

    def children(self) -> list[int]:
        """The processes that it started."""
        assert self._running is not None
        return [int(one) for one in Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children").read_text().split()]

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        if self._running is None:
            return 0
        self._running.send(signal.SIGTERM)
        return self.ended()


def certificates(folder: Path) -> TlsFiles:
    """An authority, and what it signed for a broker on 127.0.0.1; beside it another authority, `other.pem`."""
    now = datetime.now(UTC)
    authority, other = (make_authority(name, now, days=1) for name in ("harbour", "other"))
    broker = make_node(authority, "kafka", ["127.0.0.1"], now, days=1)
    files = {"harbour.pem": authority.certificate, "other.pem": other.certificate, "kafka.pem": broker.certificate, "kafka.key": broker.key}
    for name, content in files.items():
        write_private(folder / name, content)
    return TlsFiles(folder / "harbour.pem", folder / "kafka.pem", folder / "kafka.key")


class Kafka:
    """The broker: where it is, and its super user's login."""

    def __init__(self, folder: Path, tls: TlsFiles | None = None, told: Mapping[str, str] | None = None) -> None:
        """`tls`: it has a door that speaks TLS too. `told`: through which node's door it tells of itself."""
        port, tls_port, broker_port, controller_port = free_ports(4)
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        self.access = KafkaAccess(brokers=self.address, username="landfall", password=SecretStr(PASSWORD))
        doors: list[dict[str, Any]] = [{"host": "127.0.0.1", "port": port, "advertised": self.address}]
        if tls is not None:
            self.tls_access = self.access.model_copy(update={"brokers": f"127.0.0.1:{tls_port}", "tls_ca": tls.authority})
            files = {name: str(path) for name, path in asdict(tls).items()}
            doors.append({"host": "127.0.0.1", "port": tls_port, "advertised": self.tls_access.brokers, "tls": files})
        own = {"folder": str(folder / "broker"), "password": PASSWORD, "doors": doors, "heap_mb": 256, **(told or {})}
        self._process = Process(folder, "broker", {**own, "broker_port": broker_port, "controller_port": controller_port})

    def start(self) -> None:
        """Returns once it answers. It may serve tests of several modules."""
        self._process.start()
        SHARED.add(self.pid)
        until(lambda: answers(self.access), f"the broker, whose words are in {self._process.words}")

    def stop(self) -> int:
        """End it in good order; its exit code."""
        return self._process.stop()

    def kill(self) -> None:
        """SIGKILL to the broker itself; what it had not yet written to its own files is lost to it."""
        os.kill(self.java(), signal.SIGKILL)
        self._process.ended()

    @property
    def pid(self) -> int:
        """Our process, which started the broker's own."""
        return self._process.pid

    def java(self) -> int:
        """The broker's own process."""
        [java] = self._process.children()
        return java

    def insider(self) -> dict[str, Any]:
        """The settings of the broker's own login, at the door through which it talks with itself. It changes with each start."""
        told = (self.folder / "broker" / "server.properties").read_text()
        door, login = (re.search(pattern, told) for pattern in (r"BROKER://([\d.:]+)", r'username="(\w+)" password="([\w-]+)"'))
        assert door
        assert login
        return {"brokers": door[1], "username": login[1], "password": login[2], "mechanism": "PLAIN"}

    def reader(self, username: str, group: str, topics: Sequence[str]) -> Reader:
        """A stock consumer with this login, subscribed."""
        access = self.access.model_copy(update={"username": username})
        return Reader(client_settings(access) | {"group.id": group}, lambda consumer: consumer.subscribe(list(topics)))

    def listener(self, *topics: str) -> Reader:
        """A consumer that is the broker itself: it is in no group, and has all topics whose whole names match one of `topics`."""

        def begin(consumer: Consumer) -> None:
            known = consumer.list_topics(timeout=WITHIN_S).topics
            found = [name for name in known if any(re.fullmatch(one, name) for one in topics)]
            consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for name in found for number in known[name].partitions])

        access = self.insider()
        access["password"] = SecretStr(access["password"])
        settings = client_settings(self.access.model_copy(update=access))
        return Reader(settings | {"group.id": "landfall.listener", "enable.auto.commit": False}, begin)


class Reader:
    """confluent-kafka's consumer as any customer would write it: from the beginning, only what is committed, in a thread of its own."""

    def __init__(self, settings: Mapping[str, Any], begin: Callable[[Consumer], None]) -> None:
        """`settings`: its login and its group. `begin` says what it reads."""
        usual = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "topic.metadata.refresh.interval.ms": 500}
        self._consumer = Consumer({**settings, **usual})
        self.heard: list[tuple[str, bytes, dict[str, Any]]] = []
        """(Kafka topic, key, value) of every message, by Kafka's own offset once: a group that is formed anew is given again what it had
        not yet committed."""
        self._seen: set[tuple[str | None, int | None, int | None]] = set()
        self.refused: set[tuple[str, str]] = set()
        """What it was told it may not do: the refusal's name, and the Kafka topic, or nothing where it is about its group."""
        self._ending = threading.Event()
        begin(self._consumer)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def coordinates(self) -> list[tuple[str, str, int]]:
        """(stream, origin, offset) of every message heard, sorted, repeats and all."""
        return sorted((value["stream"], value["origin"], value["offset"]) for _, _, value in self.heard)

    def close(self) -> None:
        """Leave."""
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def _listen(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            problem = message.error()
            at = (message.topic(), message.partition(), message.offset())
            if problem is not None:
                if problem.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
                    self.refused.add((problem.name(), message.topic() or ""))
            elif at not in self._seen:
                self._seen.add(at)
                self.heard.append((message.topic() or "", message.key() or b"", orjson.loads(message.value() or b"")))
