"""A fetcher of committed blocks from Kafka by their offset."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, TopicPartition

from landfall.storage.kafka.kafka_configuration import asked, client_settings, unanswered
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.log_state import Piece
from streams.model.errors import Corrupt

IDLE_MAX = 4
"""Maximum number of idle consumers kept for the next reader."""
AHEAD_MAX = 16
"""Maximum number of offsets that are read past to reach a record; for a record further away the consumer seeks."""
LOOKS = 2
"""Number of looks for a record, each from where it should be: the first message may be left from an earlier look."""
FETCH_BYTES = 1 << 20
QUEUED_KBYTES = 4_096
POLL_S = 0.5
WHO = "reader of this log"


def consumer_settings(settings: KafkaLogSettings) -> dict[str, str | int | bool]:
    """Return the configuration of every consumer of the log."""
    return client_settings(settings) | {
        "group.id": f"{settings.prefix}.reader",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        "allow.auto.create.topics": False,
        "fetch.message.max.bytes": FETCH_BYTES,
        "fetch.queue.backoff.ms": 2,
        "queued.min.messages": 1,
        "queued.max.messages.kbytes": QUEUED_KBYTES,
    }


class Fetcher:
    """A reader of records by offset. It is safe to use from any thread."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        """Prepare the fetcher. It sends nothing to Kafka before the first record is requested."""
        self._settings = settings
        self._idle: list[Consumer] = []
        self._lock = threading.Lock()

    def fetch(self, topic: str, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes | Corrupt]]:
        """Yield each piece with the record at its place, or why there is none. Raises RetryLater when Kafka does not answer."""
        reached: int | None = None
        last: tuple[int, bytes | Corrupt] | None = None
        with self._borrowed() as consumer:
            for piece in pieces:
                at = piece.location.at
                if last is None or last[0] != at:
                    if reached is None or not reached <= at < reached + AHEAD_MAX:
                        _assign(consumer, topic, at)
                    found = self._at(consumer, topic, at)
                    last, reached = (at, found), None if isinstance(found, Corrupt) else at + 1
                yield piece, last[1]

    def close(self) -> None:
        """Release the connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for consumer in idle:
            consumer.close()

    @contextmanager
    def _borrowed(self) -> Iterator[Consumer]:
        with self._lock:
            consumer = self._idle.pop() if self._idle else None
        if consumer is None:
            consumer = Consumer(consumer_settings(self._settings))
        try:
            yield consumer
        finally:
            _unassign(consumer)
            with self._lock:
                spare = len(self._idle) >= IDLE_MAX
                if not spare:
                    self._idle.append(consumer)
            if spare:
                consumer.close()

    def _at(self, consumer: Consumer, topic: str, at: int) -> bytes | Corrupt:
        """Return the record's value; Corrupt when the topic continues beyond it without it, in two looks, or begins after it."""
        deadline_s = time.monotonic() + self._settings.answer_s
        missing = Corrupt(f"the Kafka topic {topic} has no record at {at} any more", code="kafka_record_missing")
        looks = 0
        while time.monotonic() < deadline_s:
            message = asked(lambda: consumer.poll(POLL_S), WHO)
            if message is None or message.topic() not in (None, topic):
                continue
            problem, offset = message.error(), message.offset()
            if problem is None and offset == at:
                return message.value() or b""
            if offset is not None and offset > at and (problem is None or problem.code() == KafkaError._PARTITION_EOF):
                looks += 1
                if looks == LOOKS:
                    return missing
                _assign(consumer, topic, at)
            if problem is not None and problem.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                first, _ = asked(lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), POLL_S), WHO) or (0, 0)
                if at < first:
                    return missing
                _assign(consumer, topic, at)
        raise unanswered(self._settings, f"Kafka does not give record {at} of {topic}")


def _assign(consumer: Consumer, topic: str, at: int) -> None:
    asked(lambda: consumer.assign([TopicPartition(topic, 0, at)]), WHO)
    _settle(consumer)


def _unassign(consumer: Consumer) -> None:
    consumer.unassign()
    _settle(consumer)


def _settle(consumer: Consumer) -> None:
    """Wait until the partition assigned before is stopped. librdkafka aborts the process when it is assigned again before that (2.8 to
    2.12: "rd_kafka_assignment_partition_stopped: Assertion `rktp->rktp_started' failed").

    Its main thread handles one request after another: what it still has to do when it answers first is done when it answers again.
    """
    for _ in range(2):
        consumer.assignment()
