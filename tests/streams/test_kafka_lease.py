"""Goal: a standby of a log in a Kafka may begin within ten seconds of the writer's death: what bounds it is asked of Kafka, and is short.

How long it took in earnest `python -m bench.standby` measures: docs/performance.md. Here nothing is timed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from landfall.storage.index_writer import IndexWriter
from landfall.storage.kafka import commit_transaction, kafka_configuration, lease, transactions
from landfall.storage.kafka.commit_transaction import FOLLOW_EVERY_S, KafkaLogOptions, instance
from landfall.storage.kafka.kafka_configuration import Fenced
from landfall.storage.kafka.topic_follower import KafkaTopicFollower
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from landfall.storage.log_state import Book
from streams.model.errors import RetryLater
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import TURN_S, open_kafka_log, place
from tests.streams.logkit import append_rows, numbers, rows
from tests.support.ports import free_ports
from tests.support.process import wait
from tests.support.refusals import refusal

COMMITS = 40
TAKE_OVER_MS_MAX = 10_000
BROKER_MS = 1_500
"""Left for the broker: to give the turn to who is left, and to end the transaction of who is gone."""


class AskedConsumer(Consumer):  # type: ignore[misc]
    """A real consumer; `asked` is what it was made with."""

    asked: dict[str, Any]

    def __init__(self, settings: dict[str, Any]) -> None:
        AskedConsumer.asked = settings
        super().__init__(settings)


class LeavingConsumer(Consumer):  # type: ignore[misc]
    """A member of a group that leaves it at its end, where a log's stays until its session is over."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in settings.items() if name != "group.instance.id"})


def test_what_a_take_over_waits_for_is_under_ten_seconds(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker, as it is delivered, takes these very settings: a session longer or shorter than it allows would end the opening."""
    monkeypatch.setattr(lease, "Consumer", AskedConsumer)
    open_kafka_log(place(kafka, tmp_path), options=KafkaLogOptions()).close()
    asked = AskedConsumer.asked
    hears_ms = asked["session.timeout.ms"] + asked["heartbeat.interval.ms"] + 1000 * lease.POLL_S
    assert hears_ms + 1000 * FOLLOW_EVERY_S <= TAKE_OVER_MS_MAX - BROKER_MS, "and what it must still read is what came since it last looked"
    assert 3 * asked["heartbeat.interval.ms"] <= asked["session.timeout.ms"], "no turn is lost for one heartbeat that is late"


class CountedFollower(KafkaTopicFollower):
    """A real follower; `looks` holds how many commits each look at the broker brought, `commit` the last that is known."""

    looks: ClassVar[list[int]]
    commit: ClassVar[int]

    def follow(self, book: Book, index: IndexWriter) -> None:
        before = book.commit
        super().follow(book, index)
        CountedFollower.commit = book.commit
        CountedFollower.looks.append(book.commit - before)


class ItsTurn(LogTransactions):
    """Real ones; `after_looks`: how often the broker had been looked at when they began, as a turn does."""

    after_looks: ClassVar[int]

    def connect(self) -> None:
        ItsTurn.after_looks = len(CountedFollower.looks)
        super().connect()


def test_no_look_at_whose_turn_it_is_ends_as_brokers_come_back(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would abort the process. None is begun while no broker answers, and none ends with the patience of who asked."""
    looked_s: list[float] = []
    look = AdminClient.describe_consumer_groups

    def noted(admin: AdminClient, groups: list[str], **told: Any) -> Any:
        looked_s.append(told["request_timeout"])
        return look(admin, groups, **told)

    monkeypatch.setattr(AdminClient, "describe_consumer_groups", noted)
    where = place(kafka, tmp_path)
    open_kafka_log(where).close()
    [nobody] = free_ports(1)
    away = where.settings.model_copy(update={"brokers": f"127.0.0.1:{nobody}"})
    for settings, answered in ((away, False), (where.settings, True)):
        turn = lease.Lease(settings, where.names.control, instance(where))
        try:
            if answered:
                assert turn.held(TURN_S)
                turn.confirm(TURN_S)
                assert set(looked_s) == {lease.FORGOTTEN_AFTER_S}
            else:
                with monkeypatch.context() as patch:
                    patch.setattr(kafka_configuration, "LOOK_S", 0.1)
                    with refusal(RetryLater, "kafka_unreachable"):
                        turn.confirm(0)
                assert looked_s == []
        finally:
            turn.close()


def test_what_is_between_a_standbys_turn_and_its_first_append_is_one_look_at_what_is_new(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much the writer wrote meanwhile: the standby has read it while it stood by."""
    where = place(kafka, tmp_path / "a")
    writer = open_kafka_log(where)
    with monkeypatch.context() as patch:
        patch.setattr(lease, "Consumer", LeavingConsumer)
        turn = lease.Lease(where.settings, where.names.control, "the writer's")
    assert turn.held(TURN_S)
    CountedFollower.looks = []
    monkeypatch.setattr(commit_transaction, "KafkaTopicFollower", CountedFollower)
    monkeypatch.setattr(commit_transaction, "FOLLOW_EVERY_S", 0.1)
    other, options = place(kafka, tmp_path / "b", prefix=where.settings.prefix), KafkaLogOptions(transactions=ItsTurn)
    with ThreadPoolExecutor(1) as thread, ExitStack() as undo:
        undo.callback(options.stopping.set)
        opening = thread.submit(open_kafka_log, other, options=options)
        wait(lambda: bool(CountedFollower.looks))
        for n in range(COMMITS):
            append_rows(writer, rows(1, start=n))
        wait(lambda: CountedFollower.commit > COMMITS)
        writer.close()
        turn.close()
        standby = opening.result()
    at_its_turn = CountedFollower.looks[ItsTurn.after_looks :]
    assert len(at_its_turn) == 1
    assert at_its_turn[0] <= 1 < COMMITS <= sum(CountedFollower.looks)
    assert append_rows(standby, rows(1, start=COMMITS)) == 0
    assert numbers(standby) == list(range(COMMITS + 1))
    standby.close()


def test_who_takes_over_does_not_wait_for_the_transaction_that_was_left_open(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer has the name of the one before, so Kafka ends that one's transaction at once, which Kafka by itself would leave open
    for the whole of this test and longer.
    """
    monkeypatch.setattr(transactions, "UNANSWERED_MS", 700_000)
    where = place(kafka, tmp_path)
    append_rows(first := open_kafka_log(where), rows(1))
    first.close()
    left = LogTransactions(where.settings)
    left.connect()
    left.write([Outgoing(where.names.topic("containers"), b"never committed", [])])
    log = open_kafka_log(where)
    assert append_rows(log, rows(2)) == 1
    with pytest.raises(Fenced):
        left.commit()
    log.close()
    left.close()
