"""Goal: only what the broker proves counts: what is written, what is missing, and what a damaged index should have told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.kafka import block_fetcher, kafka_configuration
from landfall.storage.kafka.commit_transaction import KafkaLogPlace
from landfall.storage.kafka.kafka_configuration import client_settings
from landfall.storage.kafka.kafka_topics import KafkaTopics
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from landfall.storage.log_state import FileLocation, Piece
from streams.model.errors import Corrupt, RetryLater
from streams.model.ranges import RangeSet
from tests.fanout.kafka import Kafka, until
from tests.proof.kit import forged
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import append_rows, content, numbers, open_log, rows
from tests.streams.refusingway import RefusingWay
from tests.support.refusals import refusal

ROWS = 3_000
NOISE = rows(ROWS).append_column("noise", pa.array(np.random.default_rng(1).normal(size=ROWS)))
"""Takes several Kafka records of 10,000 bytes, each a request of its own."""


def leads(where: KafkaLogPlace) -> bool:
    """Whether the broker answers for what is in `containers`. There is one broker: to a second no way would lead."""
    admin, topic = AdminClient(client_settings(where.settings)), TopicPartition(where.names.topic("containers"), 0)
    assert len(admin.list_topics(timeout=60).brokers) == 1
    try:
        latest = OffsetSpec.latest()
        return bool(admin.list_offsets({topic: latest}, request_timeout=60)[topic].result().offset == 0)
    except KafkaException:
        return False


@pytest.fixture
def refused_first(kafka: Kafka, tmp_path: Path) -> Iterator[KafkaLogPlace]:
    """A log whose broker refuses the first record of `containers`, and would take the others: it knows of no earlier one."""
    where = place(kafka, tmp_path)
    KafkaTopics(where.settings, where.names).make(["containers"])
    until(lambda: leads(where), "the broker to lead the new topic")
    way = RefusingWay(kafka.insider()["brokers"], where.names.topic("containers"), 1)
    yield place(kafka, tmp_path, record_bytes_max=10_000, brokers=way.address)
    assert way.refused_left == 0
    way.close()


def test_a_refused_record_is_sent_again_before_the_next(refused_first: KafkaLogPlace) -> None:
    log = open_kafka_log(refused_first)
    append_rows(log, NOISE)
    assert numbers(log) == list(range(ROWS))
    log.close()


def test_a_record_without_an_offset_is_not_written(refused_first: KafkaLogPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more in flight the client holds the refused record for delivered, since the next one was: then nothing of the commit is kept."""
    monkeypatch.setattr(kafka_configuration, "IN_FLIGHT_MAX", 5)
    log = open_kafka_log(refused_first)
    with refusal(RetryLater, "kafka_refused"):
        append_rows(log, NOISE)
    assert not numbers(log)
    assert append_rows(log, NOISE) == 0
    assert numbers(log) == list(range(ROWS))
    log.close()


def test_where_a_topic_ends_is_asked_again_while_nobody_leads_it_yet(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the control topic, which opening a new log makes just before."""
    look, refusals = AdminClient.list_offsets, [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH]

    def refused_at_first(admin: AdminClient, asked: dict[TopicPartition, OffsetSpec], **told: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = look(admin, asked, **told)
        if refusals and answers:
            code, answers = refusals.pop(), {topic: Future() for topic in answers}
            for answer in answers.values():
                answer.set_exception(KafkaException(KafkaError(code)))
        return answers

    monkeypatch.setattr(AdminClient, "list_offsets", refused_at_first)
    log = open_kafka_log(place(kafka, tmp_path))
    assert not refusals
    assert append_rows(log, rows(3)) == 0
    log.close()


class LateAnswers(Consumer):  # type: ignore[misc]
    """Gives, first after each assignment, the last message of the one before."""

    given: list[Message]
    late: list[Message]

    def __init__(self, settings: dict[str, str | int | bool]) -> None:
        super().__init__(settings)
        self.given, self.late = [], []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.late, self.given = self.given[-1:], []
        super().assign(partitions)

    def poll(self, timeout: float = -1) -> Message | None:
        if self.late:
            return self.late.pop()
        message = super().poll(timeout)
        self.given += [] if message is None else [message]
        return message


def test_only_a_record_that_the_broker_goes_on_without_is_missing(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that was taken back is missing; a record is not, whatever comes late from another topic or further on."""
    monkeypatch.setattr(block_fetcher, "Consumer", LateAnswers)
    where = place(kafka, tmp_path)
    KafkaTopics(where.settings, where.names).make(["ships", "alerts"])
    ships, alerts = map(where.names.topic, ("ships", "alerts"))
    transactions = LogTransactions(where.settings)
    transactions.connect()
    transactions.write([Outgoing(ships, b"taken back", [])])
    transactions.connect()
    records = [Outgoing(ships, b"first", []), Outgoing(ships, b"second", []), Outgoing(alerts, b"alert", [])]
    first, second, alert = transactions.write(records)
    transactions.commit()
    fetcher = block_fetcher.Fetcher(where.settings)

    def fetched(topic: str, at: int) -> bytes | Corrupt:
        [(_, found)] = fetcher.fetch(topic, [Piece(0, 1, FileLocation(0, at, 0), 0, 0, None)])
        return found

    for _ in range(3):
        assert fetched(ships, second) == b"second"
        assert fetched(ships, first) == b"first"
        assert fetched(alerts, alert) == b"alert"
        assert isinstance(fetched(ships, 0), Corrupt)
    fetcher.close()


def test_what_was_disowned_is_not_back_when_the_index_is_built_anew(kafka: Kafka, tmp_path: Path) -> None:
    """A record that a relay altered, set aside: neither an index lost on disk nor one damaged while the log runs brings it back from the
    broker; the true one comes and stays.
    """
    ship = open_log(tmp_path / "ship")
    append_rows(ship, rows(30))
    true = list(ship.blocks("containers", ship.origin, 0, 30))
    where = place(kafka, tmp_path / "port", "port-b")
    log = open_kafka_log(where)
    lacking = RangeSet([(0, 12), (13, 30)])

    def held() -> RangeSet:
        return log.ledger("containers")[ship.origin].held

    log.admit(forged(true, 12, "return_c", 99.0))
    assert log.set_aside("containers", ship.origin, 12, 13, "not what was signed") == 1
    log.close()
    remove_index(where.folder / INDEX_NAME)
    log = open_kafka_log(where)
    assert held() == lacking
    with sqlite3.connect(where.folder / INDEX_NAME) as other:
        other.execute("DELETE FROM pieces")
    other.close()
    with refusal(RetryLater, "index_rebuilt"):
        list(log.blocks("containers", ship.origin, 0, 30))
    assert held() == lacking
    assert log.admit(true) == 1
    log.close()
    remove_index(where.folder / INDEX_NAME)
    log = open_kafka_log(where)
    assert held() == RangeSet([(0, 30)])
    assert content(log, ["containers"])["containers", ship.origin, 12]["return_c"] != 99.0
    for one in (log, ship):
        one.close()


def test_an_index_that_lost_pieces_is_built_anew_from_the_broker(kafka: Kafka, tmp_path: Path) -> None:
    """Whoever reads meanwhile is told to come again, and then has everything, under the same origin; the log goes on."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    for start in range(0, 30, 10):
        append_rows(log, rows(10, start=start))
    before, origin = log.ledger("containers"), log.origin
    with sqlite3.connect(where.folder / INDEX_NAME) as other:
        other.execute("DELETE FROM pieces WHERE first = 10")
    other.close()
    with refusal(RetryLater, "index_rebuilt"):
        list(log.blocks("containers", origin, 0, 30))
    assert numbers(log) == list(range(30))
    assert (log.ledger("containers"), log.origin) == (before, origin)
    assert append_rows(log, rows(10, start=30)) == 30
    assert numbers(log) == list(range(40))
    log.close()
