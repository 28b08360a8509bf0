"""Kafka: a broker aboard, one at headquarters, and MirrorMaker 2 there, which fetches from hers through the proxy."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.duel.mirrorjars import MODULES, locked
from bench.duel.side import Compared, Given, Listener, compare, folder_of
from bench.peers import PASSWORD, Broker
from hq.java import java_home
from landfall.storage.kafka.kafka_configuration import client_settings
from tests.support.ports import free_ports
from tests.support.proxy import Proxy

HEAP_MB = 512
ANSWER_S, FLUSHED_S_MAX = 5.0, 120.0
TOPICS = ("containers", "alerts")
PRODUCER = {"acks": "all", "linger.ms": 100, "batch.size": 262_144, "compression.type": "zstd", "enable.idempotence": True}
MIRROR = {
    "ship->hq.enabled": "true",
    "hq->ship.enabled": "false",
    "ship->hq.topics": ",".join(TOPICS),
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.interval.seconds": "600",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "refresh.groups.enabled": "false",
    "refresh.topics.interval.seconds": "600",
    "offset-syncs.topic.location": "target",
    "replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "tasks.max": "2",
    "ship.consumer.max.partition.fetch.bytes": "131072",
    "ship.consumer.request.timeout.ms": "60000",
    "ship.consumer.reconnect.backoff.max.ms": "500",
    "offset.flush.interval.ms": "5000",
}
_LOG4J = """\
<Configuration status="warn">
  <Appenders><Console name="stdout"><PatternLayout pattern="%d{ISO8601} %p %c: %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="stdout"/></Root></Loggers>
</Configuration>
"""


class MirrorMaker:
    """Both brokers. MirrorMaker, at headquarters, dials."""

    name = "kafka"
    bytes_reading_least = 28.0
    shoreward_is_out = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._through = free_ports(1)[0]
        self.proxy = Proxy(self._through)
        self._mirror: subprocess.Popen[bytes] | None = None
        self._running: list[Broker] = []
        self._over = threading.Event()
        self._listener: Listener | None = None

    def start(self) -> dict[str, Any]:
        """Both brokers, hers with the topics."""
        self._ship = Broker(folder_of(self._folder, "ship"), HEAP_MB, (self._through, self.proxy.port))
        self._hq = Broker(folder_of(self._folder, "hq"), HEAP_MB)
        for broker in (self._ship, self._hq):
            self._running.append(broker)
            broker.start()
        admin = AdminClient(client_settings(self._ship.access))
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            made.result()
        self._producer = Producer(client_settings(self._ship.access) | PRODUCER)
        self._counting = self._consumer("counting")
        self._listener = Listener(self._listen)
        return {"version": f"Kafka {MODULES[0][2]}", "settings": PRODUCER | MIRROR}

    def load(self, given: Given) -> None:
        """Produced to her broker, all acknowledged; then MirrorMaker is started: without a link it gives up."""
        for topic, payload in given.messages():
            while True:
                try:
                    self._producer.produce("containers", payload, topic)
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break
        if self._producer.flush(FLUSHED_S_MAX):
            raise TimeoutError("the ship's broker does not take all")
        self._start_mirror()

    def arrived(self) -> int:
        """Messages in headquarters' copy."""
        try:
            return int(self._counting.get_watermark_offsets(TopicPartition("ship.containers", 0), ANSWER_S)[1])
        except KafkaException:
            return 0  # it is made when the mirror has found hers

    def moved(self) -> int:
        """By readings."""
        return self.arrived()

    def alert(self, number: int) -> None:
        """Produced to her broker."""
        self._producer.produce("alerts", b'{"alert_id":"duel-%d","rule":"overboard","severity":"critical"}' % number, str(number))
        self._producer.flush(ANSWER_S)

    def alerts_heard_s(self) -> dict[int, float]:
        """By a consumer at headquarters' broker."""
        assert self._listener is not None
        return self._listener.heard

    def compared(self, given: Given) -> Compared:
        """Every message of headquarters' copy."""
        return compare(given.messages(), list(self._came()))

    def processes(self) -> dict[str, int]:
        """Her broker, and the mirror."""
        java = self._ship.java()
        assert java is not None
        assert self._mirror is not None
        return {"ship": java, "shore": self._mirror.pid}

    def stop(self) -> None:
        """Killed."""
        self._over.set()
        if self._mirror:
            self._mirror.kill()
            self._mirror.wait()
        for broker in self._running:
            broker.kill()

    def _start_mirror(self) -> None:
        login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="landfall" password="{PASSWORD}";'
        usual = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login}
        lines = {"clusters": "ship, hq", **MIRROR}
        for name, address in (("ship", f"127.0.0.1:{self.proxy.port}"), ("hq", self._hq.access.brokers)):
            lines |= {f"{name}.bootstrap.servers": address, **{f"{name}.{setting}": value for setting, value in usual.items()}}
        properties, log4j = self._folder / "mirror.properties", self._folder / "log4j2.xml"
        properties.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        log4j.write_text(_LOG4J)
        jars = os.pathsep.join(str(jar.path) for jar in locked())
        options = [f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log4j}", "-cp", jars]
        command = [str(java_home() / "bin" / "java"), *options, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
        with (self._folder / "mirror.txt").open("ab") as words:
            self._mirror = subprocess.Popen(command, stdout=words, stderr=words)

    def _consumer(self, group: str) -> Consumer:
        settings = client_settings(self._hq.access) | {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer(settings | {"topic.metadata.refresh.interval.ms": 1_000, "allow.auto.create.topics": False})

    def _listen(self, note: Callable[[int], None]) -> None:
        consumer = self._consumer("alerts")
        consumer.subscribe(["ship.alerts"])
        while not self._over.is_set():
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                note(int(message.key() or b"-1"))
        consumer.close()

    def _came(self) -> Iterator[tuple[str, bytes]]:
        consumer, left = self._consumer("compared"), self.arrived()
        if left:
            consumer.assign([TopicPartition("ship.containers", 0, OFFSET_BEGINNING)])
        while left:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    left -= 1
                    yield (message.key() or b"").decode(), message.value() or b""
        consumer.close()
