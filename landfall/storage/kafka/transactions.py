"""The one producer of a node's log: a reader sees all records of a transaction, or none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from landfall.storage.kafka.deliveries import Deliveries
from landfall.storage.kafka.kafka_configuration import Fenced, apart, asked, error_of, producer_settings
from landfall.storage.kafka.kafka_records import HEADERS_BYTES_MAX, Headers
from landfall.storage.kafka.settings import KafkaLogSettings
from streams.commit_points import commit_point
from streams.model.errors import LandfallError, RetryLater, Unclear

WHO = "process of this node"
CLEANED_UP_S, LOOK_S = 10.0, 0.1
UNANSWERED_MS = 15_000
"""Time after this process would have given a transaction up until Kafka ends it by itself, and fences its producer, milliseconds."""
NOTHING_CHANGED = "nothing was changed"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record on its way: to the one partition of a Kafka topic."""

    topic: str
    value: bytes
    headers: Headers
    key: str | None = None


class LogTransactions:
    """A producer, made by `connect` and thrown away when it can not continue. It is not safe to use from several threads.

    Nothing but this object ever refers to the producer, not even a variable: a kept traceback would keep it alive. A live producer
    continues to ask Kafka for its turn by itself, and may get it after its successor. So it is gone as soon as this object releases it. A
    `write` is 1 the transaction begun, 2 every record acknowledged by as many brokers as must have it; `commit` is 3.
    """

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._settings = settings
        self._answer_ms = int(settings.answer_s * 1000)
        self._producer: Producer | None = None

    @property
    def connected(self) -> bool:
        """True while there is a producer to write with."""
        return self._producer is not None

    def connect(self) -> None:
        """End every earlier producer of this log, and the transaction it may have left, and connect a new one. Raises RetryLater,
        NotAllowed.

        When this raises, there is no producer, but its request may still be under way to Kafka and end a later one.
        """
        self._producer = None  # the one before is gone before the next is there
        self._producer = Producer(
            producer_settings(self._settings, f"{self._settings.prefix}.writer")
            | {
                "transaction.timeout.ms": 2 * self._answer_ms + UNANSWERED_MS,
                "message.timeout.ms": self._answer_ms,
                "message.max.bytes": self._settings.record_bytes_max + HEADERS_BYTES_MAX,
                "linger.ms": 0,
                "queue.buffering.max.kbytes": 1 << 20,
            }
        )
        try:
            asked(lambda: self._connected().init_transactions(self._settings.answer_s), WHO)
        except LandfallError:
            self._producer = None
            raise

    def write(self, records: Sequence[Outgoing]) -> list[int]:
        """Write the records, and return the offset that Kafka gave each one. No reader sees them before `commit`.

        Raises RetryLater, Fenced: then none was written.
        """
        try:
            offsets = apart(lambda: self._delivered(records))
        except KafkaException as problem:
            self._abandon(problem)
        except BufferError as problem:
            self._abandon(KafkaException(KafkaError(KafkaError._QUEUE_FULL, str(problem))))
        commit_point("log.kafka.written")
        return offsets

    def _delivered(self, records: Sequence[Outgoing]) -> list[int]:
        deliveries = Deliveries()
        self._connected().begin_transaction()
        commit_point("log.kafka.begun")
        for one in records:
            self._connected().produce(one.topic, one.value, one.key, partition=0, headers=one.headers, on_delivery=deliveries.expected())
        return deliveries.offsets(lambda wait_s: self._connected().poll(wait_s), self._settings.answer_s + 1)

    def commit(self) -> None:
        """Make what was written visible to all readers. Raises Unclear, Fenced, and RetryLater when it is not."""
        deadline_s = time.monotonic() + self._settings.answer_s
        while True:
            try:
                apart(lambda: self._connected().commit_transaction(max(0.1, deadline_s - time.monotonic())))
            except KafkaException as problem:
                error = problem.args[0]
                if error.txn_requires_abort():
                    self._abandon(problem)
                if error.retriable() and time.monotonic() < deadline_s:
                    continue
                self._producer = None
                if isinstance(cause := error_of(problem, WHO), Fenced):
                    raise cause from problem
                raise Unclear(f"{cause}", hint="whether it was kept shows when Kafka answers again") from problem
            commit_point("log.kafka.committed")
            return

    def close(self) -> None:
        """Release the producer: nothing is under way any more."""
        self._producer = None

    def _connected(self) -> Producer:
        if self._producer is None:
            raise RetryLater("there is no connection to Kafka", hint=NOTHING_CHANGED, code="kafka_unreachable")
        return self._producer

    def _abandon(self, problem: KafkaException) -> NoReturn:
        """End the transaction without a trace, and raise the reason.

        The producer goes with it: where messages of it were lost on the way, its next ones would be out of order for the broker.
        """
        try:
            apart(lambda: self._connected().abort_transaction(CLEANED_UP_S))
        except KafkaException as worse:  # the next to connect ends it
            if worse.args[0].fatal():
                problem = worse  # what a fatal error was is reported here, not where it happened
                apart(self._await_answers)
        finally:
            self._producer = None
        cause = error_of(problem, WHO)
        raise cause if isinstance(cause, Fenced) else RetryLater(f"{cause}", hint=NOTHING_CHANGED, code="kafka_refused") from problem

    def _await_answers(self) -> None:
        """Wait until the broker has answered for every record, at most CLEANED_UP_S.

        A producer that is closed while it reads a further refusal frees the text of its fatal error twice, and the process is aborted
        (librdkafka 2.10.1, `rd_kafka_txn_set_fatal_error` concurrently with `rd_kafka_txns_term`). An abort that is not refused waits by
        itself.
        """
        deadline_s = time.monotonic() + CLEANED_UP_S
        while len(self._connected()) and (left_s := deadline_s - time.monotonic()) > 0:
            with suppress(KafkaException):  # the fatal error once more, known by now
                self._connected().poll(min(left_s, LOOK_S))
