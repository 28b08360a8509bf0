"""A log in a Kafka beside plain Kafka with one message for each reading: the same readings, the same broker, how fast and how large.

`python -m bench.kafka [containers] [hours]`. Prints one JSON object. Every rate is of 14-signal readings that the broker has acknowledged
(`acks=all`, one broker, so in its page cache in either case). `cpu_s` is of this process and of the broker, for a million readings. Plain
messages are JSON made before the clock starts, keyed by container, without transactions; a log's blocks are made while it runs. Bytes are
what the Kafka topics' folders take on the broker's disk.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.machine import machine
from bench.peers import Broker
from bench.proc import cpu_s
from bench.readings import INTERVAL_MS, START_AT_MS, as_json, fleet_readings
from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.kafka.client import client_settings
from streams.logs.kafka.keeper import KafkaLogOptions, Place
from streams.logs.kafka.log import KafkaLog
from streams.logs.kafka.settings import KafkaLogSettings
from streams.words import Position

COMMIT_ROWS, LIVE_ROWS, LIVE_READINGS = 32_768, 100, 50_000
LINGER_MS, CONSUMED_AT_ONCE, CONSUMED_WITHIN_S = 20, 10_000, 0.2
COMPRESSIONS = ("none", "zstd")
ANSWER_S_MAX = 120.0

Figures = dict[str, object]


@dataclass(frozen=True)
class Stage:
    """The broker, where its files are, and the readings."""

    broker: Broker
    folder: Path
    readings: pa.RecordBatch
    now_ms: int

    def measured(self, rows: int, work: Callable[[], object]) -> Figures:
        """`work` with `rows` readings: its rate by the wall's clock, and the CPU time of this process and of the broker."""
        java = self.broker.java()
        assert java is not None, "the broker has ended"
        own_s, wall_s = time.process_time(), time.perf_counter()
        java_s = cpu_s(java)
        work()
        wall_s, own_s, java_s = time.perf_counter() - wall_s, time.process_time() - own_s, cpu_s(java) - java_s
        of_a_million = {name: round(seconds / rows * 1e6, 1) for name, seconds in (("own", own_s), ("broker", java_s))}
        return {"per_s": round(rows / wall_s), "cpu_s": of_a_million}

    def bytes_per_reading(self, topics: str, rows: int) -> float:
        """What the Kafka topics whose names begin so take on the broker's disk, without the room that it sets aside for indexes to grow."""
        files = (path.stat() for place in (self.folder / "broker" / "log").glob(f"{topics}*") for path in place.iterdir())
        return round(sum(min(one.st_size, one.st_blocks * 512) for one in files) / rows, 2)


def log_in_kafka(stage: Stage, rows_a_commit: int, readings: pa.RecordBatch) -> Figures:
    """The readings appended to a new log, `rows_a_commit` a transaction, and read back."""
    prefix = f"log-{rows_a_commit}"
    access = stage.broker.access
    told = {"brokers": access.brokers, "username": access.username, "password": access.password, "prefix": prefix}
    settings = KafkaLogSettings.model_validate({"kind": "kafka", "replication": 1, "min_insync": 1, "gather_ms": 0, **told})
    place = Place(settings, "hq", stage.folder / prefix, stage.folder / f"{prefix}.marker")
    log = KafkaLog(place, BlockCodec(), StillClock(stage.now_ms), KafkaLogOptions())
    log.append([Append("containers", readings.slice(0, 1))])  # makes the Kafka topic

    def append() -> None:
        for at in range(1, readings.num_rows, rows_a_commit):
            log.append([Append("containers", readings.slice(at, rows_a_commit))])

    def read() -> None:
        if sum(batch.records.num_rows for batch in log.read("containers", Position())) != readings.num_rows:
            raise AssertionError("not every reading came back")

    figures: Figures = {"rows_a_transaction": rows_a_commit, "append": stage.measured(readings.num_rows, append)}
    figures |= {"read": stage.measured(readings.num_rows, read), "broker_bytes": stage.bytes_per_reading(f"{prefix}.", readings.num_rows)}
    log.close()
    return figures


def plain_kafka(stage: Stage, messages: Sequence[tuple[bytes, bytes]], compression: str) -> Figures:
    """A message for each reading, produced and consumed by a stock client."""
    topic = f"plain-{compression}"
    admin = AdminClient(client_settings(stage.broker.access))
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result()
    usual = client_settings(stage.broker.access)
    producer = Producer(
        usual
        | {"enable.idempotence": True, "acks": "all", "linger.ms": LINGER_MS, "compression.type": compression, "batch.size": 1_000_000}
    )

    def produce() -> None:
        for key, value in messages:
            while True:
                try:
                    producer.produce(topic, value, key)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        if producer.flush(ANSWER_S_MAX):
            raise AssertionError("not every message was taken")

    def consume() -> None:
        if sum(1 for _ in consumed(stage, topic)) != len(messages):
            raise AssertionError("not every message came back")

    figures: Figures = {"compression": compression, "append": stage.measured(len(messages), produce)}
    return figures | {"read": stage.measured(len(messages), consume), "broker_bytes": stage.bytes_per_reading(topic, len(messages))}


def consumed(stage: Stage, topic: str) -> Iterator[object]:
    """Every message of `topic`, its JSON read."""
    settings = client_settings(stage.broker.access) | {"group.id": topic, "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while True:
        for message in consumer.consume(CONSUMED_AT_ONCE, CONSUMED_WITHIN_S):
            problem = message.error()
            if problem is None:
                yield orjson.loads(message.value() or b"")
            elif problem.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 250)[len(given) :])
    readings = fleet_readings(containers, hours)
    figures: Figures = {"bench": "kafka", "machine": machine(), "readings": readings.num_rows}
    messages = list(zip((name.encode() for name in readings.column("topic").to_pylist()), as_json(readings), strict=True))
    figures["json_bytes"] = round(sum(len(value) for _, value in messages) / len(messages), 1)
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as name:
        stage = Stage(Broker(Path(name)), Path(name), readings, START_AT_MS + hours * INTERVAL_MS)
        stage.broker.start()
        try:
            live = readings.slice(0, min(LIVE_READINGS, readings.num_rows))
            figures["log"] = [log_in_kafka(stage, COMMIT_ROWS, readings), log_in_kafka(stage, LIVE_ROWS, live)]
            figures["plain"] = [plain_kafka(stage, messages, compression) for compression in COMPRESSIONS]
        finally:
            stage.broker.kill()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
