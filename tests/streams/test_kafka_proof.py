"""Goal: only what the broker proves counts: a record is written when it has an offset, and missing when the broker goes on without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.errors import RetryLater
from streams.logs.kafka import client
from streams.logs.kafka.client import client_settings
from streams.logs.kafka.keeper import Place
from streams.logs.kafka.topics import KafkaTopics
from tests.fanout.kafka import Kafka, until
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import append_rows, numbers, rows
from tests.streams.refusingway import RefusingWay

ROWS = 3_000
NOISE = rows(ROWS).append_column("noise", pa.array(np.random.default_rng(1).normal(size=ROWS)))
"""Takes several Kafka records of 10,000 bytes, each a request of its own."""


def leads(where: Place) -> bool:
    """Whether the broker answers for what is in `containers`."""
    admin, topic = AdminClient(client_settings(where.settings)), TopicPartition(where.names.topic("containers"), 0)
    try:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return bool(admin.list_offsets({topic: latest}, request_timeout=10)[topic].result().offset == 0)
    except KafkaException:
        return False


@pytest.fixture
def refused_first(kafka: Kafka, tmp_path: Path) -> Iterator[Place]:
    """A log whose broker refuses the first record of `containers`, and would take the others: it knows of no earlier one."""
    where = place(kafka, tmp_path)
    KafkaTopics(where.settings, where.names).make(["containers"])
    until(lambda: leads(where), "the broker to lead the new topic")
    way = RefusingWay(kafka.address, where.names.topic("containers"), 1)
    yield place(kafka, tmp_path, record_bytes_max=10_000, brokers=way.address)
    assert way.refused_left == 0
    way.close()


def test_a_refused_record_is_sent_again_before_the_next(refused_first: Place) -> None:
    log = open_kafka_log(refused_first)
    append_rows(log, NOISE)
    assert numbers(log) == list(range(ROWS))
    log.close()


def test_a_record_without_an_offset_is_not_written(refused_first: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more in flight the client holds the refused record for delivered, since the next one was: then nothing of the commit is kept."""
    monkeypatch.setattr(client, "IN_FLIGHT_MAX", 5)
    log = open_kafka_log(refused_first)
    with pytest.raises(RetryLater, match="no broker said where a record of"):
        append_rows(log, NOISE)
    assert not numbers(log)
    assert append_rows(log, NOISE) == 0
    assert numbers(log) == list(range(ROWS))
    log.close()
