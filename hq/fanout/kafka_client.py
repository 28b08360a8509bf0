"""The fan-out's door to Kafka: messages and Positions in one transaction, and Positions read back from the broker alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hq.fanout.customer_routes import POSITIONS
from hq.fanout.kafka_messages import Message
from landfall.storage.kafka.deliveries import Deliveries
from landfall.storage.kafka.kafka_configuration import asked, asked_of_leaders, client_settings, error_of, producer_settings
from landfall.storage.kafka.settings import KafkaAccess
from streams.gap_skipping_reader import SKIPPED, ReaderStanding, standings_from_json, standings_to_json
from streams.model.errors import LandfallError, RetryLater

ANSWER_S_MAX = 15.0
TRANSACTION_MS_MAX = 60_000
"""Time for which Kafka keeps a transaction of a process that is gone open, holding up readers of committed records, milliseconds."""
LINGER_MS = 5
WHO = "fan-out of this name"


class FanoutTransactions:
    """A producer all of whose messages come with the Positions they lead to: both are there for a reader, or neither. For one thread.

    Every method raises NotAllowed when another process of the same name has taken over, RetryLater for all else that goes wrong: throw the
    object away then and make another, which finds out from the broker what became of the transaction under way.
    """

    def __init__(self, access: KafkaAccess, name: str) -> None:
        """End an earlier process of this name, and the transaction it may have left."""
        self._deliveries = Deliveries()
        self._producer = Producer(
            producer_settings(access, name)
            | {
                "transaction.timeout.ms": TRANSACTION_MS_MAX,
                "linger.ms": LINGER_MS,
                "compression.type": "zstd",
                "queue.buffering.max.kbytes": 1 << 20,
            }
        )
        try:
            asked(lambda: self._producer.init_transactions(ANSWER_S_MAX), WHO)
        except LandfallError:
            self.close()
            raise

    def write(self, topics: Mapping[str, Iterable[Message]], standings: Callable[[], Iterable[Message]]) -> None:
        """Write one transaction: the messages, by Kafka topic, and then the `standings` (of `standing_messages`) once all messages are
        taken."""
        self._deliveries = Deliveries()
        asked(self._producer.begin_transaction, WHO)
        for topic, messages in topics.items():
            for message in messages:
                self._produce(topic, message)
        for message in standings():
            self._produce(POSITIONS, message)

    def commit(self) -> None:
        """Commit the written messages for all readers, each message with an offset. When this raises, they may or may not be committed."""
        asked(lambda: self._deliveries.offsets(lambda wait_s: self._producer.poll(wait_s), ANSWER_S_MAX), WHO)
        self._commit()

    def close(self) -> None:
        """Release the producer: it asks Kafka for nothing any more, even if this object is still referenced."""
        del self._producer

    def _commit(self) -> None:
        asked(lambda: self._producer.commit_transaction(ANSWER_S_MAX), WHO)

    def _produce(self, topic: str, message: Message) -> None:
        try:
            self._producer.produce(topic, key=message.key, value=message.value, on_delivery=self._deliveries.expected())
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError._FATAL:
                self._commit()  # can not succeed any more, but names the cause, which `produce` does not
            raise error_of(problem, WHO) from problem
        except BufferError as problem:
            raise RetryLater("more messages wait for Kafka than the producer holds", code="kafka_queue_full") from problem
        asked(lambda: self._producer.poll(0), WHO)


def standing_messages(stream: str, before: ReaderStanding, after: ReaderStanding) -> Iterator[Message]:
    """Yield the messages for POSITIONS of a stream that moved from `before` to `after`: its Position, and its skipped records if they
    changed."""
    cleared: dict[str, Any] = {stream + SKIPPED: {}} if before.skipped and not after.skipped else {}
    for name, value in (cleared | standings_to_json({stream: after})).items():
        yield Message(name.encode(), json.dumps(value).encode())


def committed_standings(access: KafkaAccess) -> dict[str, ReaderStanding]:
    """Return how far each stream is fanned out, and without what, by what the broker holds. Raises RetryLater when it does not answer."""
    partition = TopicPartition(POSITIONS, 0, OFFSET_BEGINNING)
    reader = Consumer(
        client_settings(access)
        | {
            "group.id": f"{access.username}.positions",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    standings: dict[str, Any] = {}
    try:
        end = asked_of_leaders(lambda: _end(access), WHO, ANSWER_S_MAX)
        reader.assign([partition])
        while True:
            message = reader.poll(ANSWER_S_MAX)
            if message is None:
                raise RetryLater(
                    "Kafka does not report how far the streams are fanned out", hint="is the broker well?", code="kafka_unanswered"
                )
            problem = message.error()
            if problem is None:
                standings[(message.key() or b"").decode()] = json.loads(message.value() or b"{}")
            elif problem.code() != KafkaError._PARTITION_EOF:
                raise RetryLater(f"Kafka: {problem.str()}", code="kafka_failed")
            elif (message.offset() or 0) >= end:
                return standings_from_json(standings)
    finally:
        reader.close()


def _end(access: KafkaAccess) -> int:
    """Return one past the last record of the Positions' topic, committed or not."""
    partition = TopicPartition(POSITIONS, 0)
    latest = OffsetSpec.latest()
    admin = AdminClient(client_settings(access))  # no answer comes once it is thrown away
    answer = admin.list_offsets({partition: latest}, request_timeout=ANSWER_S_MAX)
    return int(answer[partition].result().offset)
