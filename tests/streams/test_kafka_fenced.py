"""Goal: a log whose turn is over ends for good and harms nobody; one that was fenced within its own turn goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import pytest
from confluent_kafka import KafkaError, KafkaException

from landfall.storage.kafka import transactions
from landfall.storage.kafka.commit_transaction import KafkaLogOptions
from landfall.storage.kafka.kafka_configuration import Fenced
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from streams.log import Append
from streams.model.errors import RetryLater
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import open_kafka_log, place, taken_over
from tests.streams.logkit import append_rows, numbers, rows
from tests.streams.quickkafka import ConnectedProducer
from tests.streams.refusingway import LateWay
from tests.support.refusals import refusal


def test_a_fenced_log_stays_fenced(kafka: Kafka, tmp_path: Path) -> None:
    """Every call that writes says so, at once; nothing of it is ever seen. So it is too when the other one is gone again."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where, options=KafkaLogOptions())
    append_rows(log, rows(3))
    with taken_over(where):
        with refusal(Fenced, "fenced"):
            append_rows(log, rows(3, start=3))
        with pytest.raises(Fenced):
            log.upkeep.step()
    with refusal(Fenced, "fenced"):
        append_rows(log, rows(3, start=3))
    with pytest.raises(Fenced):
        log.trim("containers", log.origin, 1)
    log.close()
    log = open_kafka_log(where)
    assert numbers(log) == [0, 1, 2]
    log.close()


def test_what_an_earlier_producer_asked_comes_late(kafka: Kafka, tmp_path: Path) -> None:
    """A log was opened in vain, its producer's word being still under way; when it reaches the broker, it fences the producer of the log
    that was opened since. Nobody else writes the log: it goes on, under its origin, with nothing lost and nothing twice.
    """
    way = LateWay(kafka.insider()["brokers"])
    where = place(kafka, tmp_path, brokers=way.address, answer_s=1)
    while not way.holds:
        with pytest.raises(RetryLater):
            open_kafka_log(where)
    patient = where.settings.model_copy(update={"answer_s": 20.0})
    log = open_kafka_log(replace(where, settings=patient), options=KafkaLogOptions())
    origin = log.origin
    append_rows(log, rows(3))
    way.let_through()
    with refusal(RetryLater, "kafka_refused"):
        append_rows(log, rows(3, start=100))
    assert append_rows(log, rows(3, start=3)) == 3
    assert numbers(log) == list(range(6))
    assert log.origin == origin
    log.close()
    way.close()


class AloneProducer(ConnectedProducer):
    """Is not made while another lives."""

    living: ClassVar[WeakSet[AloneProducer]] = WeakSet()

    def __init__(self, settings: dict[str, Any]) -> None:
        assert not self.living, "an earlier producer would still ask for the turn"
        super().__init__(settings)
        self.living.add(self)


def test_a_producer_is_gone_before_the_next(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the refusal, and with it every frame of it, keeps no producer that would ask on: of a step before each of three."""
    monkeypatch.setattr(transactions, "Producer", AloneProducer)
    log = open_kafka_log(place(kafka, tmp_path))
    append_rows(log, rows(3))
    kept = []
    for step in ("begin_transaction", "poll", "commit_transaction", "init_transactions"):

        def refused(*_: object, step: str = step) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, step))

        with monkeypatch.context() as patch:
            for name in {step, "begin_transaction"} if step == "init_transactions" else {step}:
                patch.setattr(AloneProducer, name, staticmethod(refused))  # as the real ones, it leaves no frame that holds the producer
            for _ in range(2):
                with pytest.raises(RetryLater) as refusal:
                    append_rows(log, rows(3, start=100))
                kept.append(refusal)
    assert append_rows(log, rows(3, start=3)) == 3
    assert numbers(log) == list(range(6))
    assert len(kept) == 8
    log.close()


class CountingProducer(ConnectedProducer):
    """Tells how many records the broker had not answered for when it went."""

    unanswered: ClassVar[list[int]] = []

    def __del__(self) -> None:
        self.unanswered.append(len(self))


def test_a_fenced_producer_goes_when_the_broker_has_answered(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes while further refusals come in would abort the process."""
    monkeypatch.setattr(transactions, "Producer", CountingProducer)
    where = place(kafka, tmp_path)
    streams = [f"s{number}" for number in range(8)]
    log = open_kafka_log(where, options=KafkaLogOptions())
    log.append([Append(stream, rows(1)) for stream in streams])
    with taken_over(where):
        CountingProducer.unanswered.clear()
        with refusal(Fenced, "fenced"):
            log.append([Append(stream, rows(1, start=1)) for stream in streams])
        assert CountingProducer.unanswered == [0]
    log.close()


class FencedKafka(LogTransactions):
    """Another producer of the same process puts an end to this one, as often as `ends` has an entry: True when it does so only after the
    commit, of which nobody hears.
    """

    ends: ClassVar[list[bool]] = []

    def commit(self) -> None:
        if not self.ends:
            super().commit()
            return
        after = self.ends.pop()
        if after:
            super().commit()
        LogTransactions(self._settings).connect()
        if after:
            raise Fenced("a newer one is there")
        super().commit()


def test_fenced_within_its_own_turn_a_commit_is_settled_by_reading(kafka: Kafka, tmp_path: Path) -> None:
    """The broker says whether the commit was kept, and the log goes on at once."""
    log = open_kafka_log(place(kafka, tmp_path), options=KafkaLogOptions(transactions=FencedKafka))
    append_rows(log, rows(3))
    FencedKafka.ends[:] = [False]
    with refusal(RetryLater, "kafka_refused"):
        append_rows(log, rows(3, start=100))
    assert append_rows(log, rows(3, start=3)) == 3
    FencedKafka.ends[:] = [True]
    assert append_rows(log, rows(3, start=6)) == 6
    assert append_rows(log, rows(3, start=9)) == 9
    assert numbers(log) == list(range(12))
    log.close()


class DroppedKafka(LogTransactions):
    """Loses its producer before it writes, while `drops`."""

    drops: ClassVar[bool] = False

    def write(self, records: Sequence[Outgoing]) -> list[int]:
        if self.drops:
            self.close()
            raise RetryLater("dropped")
        return super().write(records)


def test_who_has_lost_its_turn_puts_an_end_to_nobody(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had no producer when the other took over, so nothing fenced it: it hears of it before it makes one, and the other writes on."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where, options=KafkaLogOptions(transactions=DroppedKafka))
    append_rows(log, rows(3))
    with monkeypatch.context() as patch:
        patch.setattr(DroppedKafka, "drops", True)
        with pytest.raises(RetryLater):
            append_rows(log, rows(3, start=3))
    with taken_over(where) as other:
        with refusal(Fenced, "fenced"):
            append_rows(log, rows(3, start=3))
        other.write([Outgoing(where.names.control, b"", [], "a key")])
        other.commit()
    log.close()
