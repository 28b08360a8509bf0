"""Goal: what `test_log_stateful.py` asks of logs in files holds for logs in a Kafka: any order of work, and death within any commit.

What is left out is what a Kafka does not have: merging, moving, backups (brokers keep copies), and a copy of the disk that holds the log.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from landfall.storage.index_writer import remove_index
from landfall.storage.kafka.kafka_log import KafkaLog
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from streams.log import Appended
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import alone, open_kafka_log, place
from tests.streams.livedlogs import PRODUCERS, LivedLogs
from tests.streams.twologs import NODES, STREAMS


class Killed(BaseException):
    """The process is dead: nobody handles it."""


class MortalKafka(LogTransactions):
    """A producer whose process dies as soon as it is about to take the step that `dies_before` names."""

    dies_before: ClassVar[str] = ""

    def write(self, records: list[Outgoing]) -> list[int]:  # type: ignore[override]
        self._step("write")
        return super().write(records)

    def commit(self) -> None:
        self._step("commit")
        super().commit()
        self._step("index")

    def _step(self, name: str) -> None:
        if MortalKafka.dies_before == name:
            raise Killed


class TwoKafkaLogs(LivedLogs):
    """Two nodes' logs in one Kafka."""

    kafka: ClassVar[Kafka]

    def open(self, node: str) -> KafkaLog:
        self.folders[node].mkdir(exist_ok=True)
        return open_kafka_log(place(self.kafka, self.folders[node], node), options=alone(transactions=MortalKafka))

    @rule(
        node=NODES,
        producer=PRODUCERS,
        step=st.sampled_from(("write", "commit", "index")),
        index_lost=st.booleans(),
        rows_=st.integers(1, 8),
    )
    def crash(self, node: str, producer: str, step: str, index_lost: bool, rows_: int) -> None:
        """The process dies within a commit of two streams: it is there whole once its transaction is committed, and not at all before.

        The folder is left as it was at that instant; the log's producer leaves its transaction open. Whoever appended sends it again.
        """
        log, folder, saved = self.logs[node], self.folders[node], self.root / "saved"
        appends = [self.next_of(node, stream, producer, rows_) for stream in STREAMS]
        firsts = {stream: log.ledger(stream)[log.origin].end() if log.origin in log.ledger(stream) else 0 for stream in STREAMS}
        MortalKafka.dies_before = step
        with pytest.raises(Killed):
            log.append(appends)
        MortalKafka.dies_before = ""
        shutil.copytree(folder, saved)
        log.close()
        shutil.rmtree(folder)
        saved.rename(folder)
        if index_lost:
            remove_index(folder / "log" / "index.sqlite")
        self.logs[node] = self.open(node)
        assert self.logs[node].origin == log.origin
        kept = step == "index"
        for stream in STREAMS:
            ledger = self.logs[node].ledger(stream).get(log.origin)
            assert (ledger.end() if ledger else 0) == firsts[stream] + (rows_ if kept else 0)
        for append, answer in zip(appends, self.logs[node].append(appends), strict=True):
            count = 0 if kept else rows_
            assert answer == Appended(append.stream, log.origin, firsts[append.stream], count, repeated=kept)
            self.note(append, log.origin, answer.first)
            self.memories[node].sent[append.stream, producer] = append, replace(answer, count=rows_, repeated=False)
        self.appended += rows_


def run(kafka: Kafka, examples: int, steps: int) -> None:
    """The machine, `examples` times, at most `steps` rules each."""
    TwoKafkaLogs.kafka = kafka
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        TwoKafkaLogs, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks)
    )


def test_a_few_lives_of_two_logs(kafka: Kafka) -> None:
    run(kafka, examples=3, steps=8)


@pytest.mark.torture
def test_many_lives_of_two_logs(kafka: Kafka) -> None:
    run(kafka, examples=150, steps=25)
