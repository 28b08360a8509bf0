"""Kafka and NATS JetStream with one topic, one subject, for each container: how far each gets, and what it costs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import SecretStr

from bench.nats import READY_S_MAX, NatsClient, nats_client, nats_server
from bench.proc import memory_mib, open_files
from bench.readings import as_json, fleet_readings
from landfall.storage.kafka.kafka_configuration import answers, client_settings
from landfall.storage.kafka.settings import KafkaAccess
from landfall.system.private_files import write_private
from tests.support.ports import free_ports

KAFKA_S, KAFKA_AT_ONCE, KAFKA_HEAP_MB = 180.0, 500, 2048
APPENDED_S_MAX = 60.0
KAFKA_APPENDED = 1_000
"""How many Kafka topics get a reading each; later the last of each part: the controller answers long before the broker has them."""
PASSWORD = "bench bench bench"
PART = 10_000
NATS_AHEAD = 2 * PART
"""What NATS is sent beyond what it has stored: of much more than that it drops messages."""


def payloads(topics: int, count: int) -> Iterator[list[tuple[str, bytes]]]:
    """(container number, JSON of one 14-signal reading) in lists of PART: every topic once, and again from the first."""
    made = as_json(fleet_readings(min(topics, PART), 1))
    names = fleet_readings(topics, 1).column("topic").to_pylist()
    for at in range(0, count, PART):
        yield [(names[(at + n) % topics], made[n % len(made)]) for n in range(min(PART, count - at))]


def until(true: Callable[[], bool], what: str) -> float:
    """Seconds until `true`. Raises TimeoutError."""
    began_s = time.perf_counter()
    while not true():
        if time.perf_counter() - began_s > READY_S_MAX:
            raise TimeoutError(what)
        time.sleep(0.02)
    return time.perf_counter() - began_s


def _all_files() -> None:
    """As many open files as the machine gives a process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Broker:
    """The project's own development broker, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        port, broker, controller = free_ports(3)
        address = f"127.0.0.1:{port}"
        self.access = KafkaAccess(brokers=address, username="landfall", password=SecretStr(PASSWORD))
        doors = [{"host": "127.0.0.1", "port": port, "advertised": address}]
        own: dict[str, Any] = {"folder": str(folder / "broker"), "password": PASSWORD, "doors": doors, "heap_mb": KAFKA_HEAP_MB}
        self._config = folder / "broker.toml"
        write_private(self._config, tomli_w.dumps({**own, "broker_port": broker, "controller_port": controller}).encode())
        self._words = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds until it lets us in. Raises TimeoutError when it does not, or ends."""
        with self._words.open("ab") as words:
            command = [sys.executable, "-m", "landfall", "broker", "--config", str(self._config)]
            self._process = subprocess.Popen(command, stdout=words, stderr=words, preexec_fn=_all_files)
        waited_s = until(lambda: not self.alive() or answers(self.access), "the broker")
        if not self.alive():
            raise TimeoutError(f"the broker ended: {self.last_words()}")
        return waited_s

    def alive(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def java(self) -> int | None:
        """The broker's own process."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        found = children.read_text().split() if children.exists() else []
        return int(found[0]) if found else None

    def cost(self) -> dict[str, int]:
        """Its memory and open files; nothing once it has ended."""
        java = self.java()
        try:
            return {} if java is None else {"memory_mib": memory_mib(java), "open_files": open_files(java)}
        except (OSError, StopIteration):
            return {}

    def last_words(self) -> str:
        """What it said of too many open files, else the last thing it said."""
        lines = [line for line in self._words.read_text(errors="replace").splitlines() if line.strip()]
        causes = [line for line in lines if "Too many open files" in line or "OutOfMemory" in line]
        return (causes or lines or [""])[-1][:200]

    def kill(self) -> None:
        """As a power cut would."""
        assert self._process is not None
        java = self.java() if self.alive() else None
        if java is not None:
            os.kill(java, signal.SIGKILL)
        self._process.kill()
        self._process.wait()


def kafka_topics(topics: int) -> dict[str, Any]:
    """Kafka topics of one partition made in KAFKA_S at most, readings into the first of them, and the broker killed and started again."""
    names = list(dict.fromkeys(fleet_readings(topics, 1).column("topic").to_pylist()))
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as name:
        broker = Broker(Path(name))
        broker.start()
        made, appended, appending_s, began_s, ended = 0, 0, 0.0, time.perf_counter(), "all made"
        cost: dict[str, int] = {}
        for at in range(0, len(names), KAFKA_AT_ONCE):
            part = names[at : at + KAFKA_AT_ONCE]
            if time.perf_counter() - began_s > KAFKA_S:
                ended = f"{KAFKA_S:.0f} s were over"
                break
            try:
                _make_topics(broker.access, part)
                if appended < KAFKA_APPENDED:
                    appending_s += _append(broker.access, part)
                    appended += len(part)
                else:
                    _append(broker.access, part[-1:])
            except (KafkaException, TimeoutError) as problem:
                ended = f"with {made + len(part)} topics: {problem}; {'alive' if broker.alive() else broker.last_words()}"
                break
            made, cost = made + len(part), broker.cost() or cost
        seconds = time.perf_counter() - began_s - appending_s
        figures: dict[str, Any] = {"asked_for": len(names), "topics": made, "ended_by": ended, "heap_mb": KAFKA_HEAP_MB}
        figures |= {"topics_per_s": round(made / seconds, 1), "append_per_s": round(appended / appending_s) if appending_s else None}
        figures |= {"open_files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[1], **cost}
        broker.kill()
        try:
            figures["ready_s"] = round(broker.start(), 1)
        except TimeoutError as problem:
            figures["ready_s"] = f"not within {READY_S_MAX:.0f} s: {problem}"
        broker.kill()
    return figures


def _make_topics(access: KafkaAccess, names: Sequence[str]) -> None:
    """Raises KafkaException."""
    admin = AdminClient(client_settings(access))  # no answer comes once it is thrown away
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names], request_timeout=60).values():
        future.result()


def _append(access: KafkaAccess, names: Sequence[str]) -> float:
    """Seconds for one reading into each topic, acks=all. Raises TimeoutError when one is not acknowledged within APPENDED_S_MAX."""
    delivered = 0

    def count_delivered(problem: object, _message: object) -> None:
        nonlocal delivered
        delivered += problem is None

    producer = Producer(client_settings(access) | {"acks": "all", "linger.ms": 20, "message.timeout.ms": int(APPENDED_S_MAX * 1000)})
    payload = as_json(fleet_readings(1, 1))[0]
    began_s = time.perf_counter()
    for name in names:
        producer.produce(name, payload, on_delivery=count_delivered)
    producer.flush(APPENDED_S_MAX + 5)
    if delivered < len(names):
        raise TimeoutError(f"{len(names) - delivered} of {len(names)} readings were not acknowledged within {APPENDED_S_MAX:.0f} s")
    return time.perf_counter() - began_s


def nats_subjects(subjects: int, readings: int, sync: str) -> dict[str, Any]:
    """JetStream with one subject each on file storage, killed and started again; `sync`: its sync_interval."""
    with tempfile.TemporaryDirectory(prefix="bench-nats-") as name:
        folder, port = Path(name), free_ports(1)[0]
        config = f'port: {port}\nhost: 127.0.0.1\njetstream {{ store_dir: "{folder}/js", sync_interval: {sync} }}\n'
        with nats_server(folder, config) as server:
            client = nats_client(port)
            client.ask("$JS.API.STREAM.CREATE.containers", {"name": "containers", "subjects": ["c.*"], "storage": "file"})
            began_s = time.perf_counter()
            sent = 0
            for part in payloads(subjects, readings):
                client.publish((f"c.{topic}", payload) for topic, payload in part)
                sent += len(part)
                until(partial(_holds, client, sent - NATS_AHEAD), "NATS to store what it was given")
            until(partial(_holds, client, readings), f"NATS to store {readings} readings")
            rate = round(readings / (time.perf_counter() - began_s))
            figures = {"subjects": subjects, "readings": readings, "sync_interval": sync, "append_per_s": rate}
            figures |= {"memory_mib": memory_mib(server.pid), "open_files": open_files(server.pid)}
            client.close()
        began_s = time.perf_counter()
        with nats_server(folder, config):
            client = nats_client(port)
            figures["kept_after_kill"] = client.stored("containers")
            figures["ready_s"] = round(time.perf_counter() - began_s, 2)
            client.close()
        stored = sum(path.stat().st_size for path in folder.rglob("*.blk"))
    return figures | {"bytes_a_reading": round(stored / readings, 1)}


def _holds(client: NatsClient, count: int) -> bool:
    return client.stored("containers") >= count
