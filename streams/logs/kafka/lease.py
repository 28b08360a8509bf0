"""Who of several processes of one node writes its log: the one to whom Kafka gives the control topic in a consumer group of them all.

A process that is gone loses it after SESSION_MS, and another gets it; one that joins takes it from nobody. This only says who may begin:
that no two write at once is seen to by Kafka's transactions, which fence every producer but the last of a name.
"""

from __future__ import annotations

import threading

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from streams.logs.kafka.client import client_settings
from streams.logs.kafka.settings import KafkaLogSettings

SESSION_MS = 6_000
"""The shortest that brokers allow unless told otherwise."""
HEARTBEAT_MS = 1_000
POLL_S = 0.1


class Lease:
    """One process's part in the group, in a thread of its own. `instance`: the same for every life of one process, and no other's."""

    def __init__(self, settings: KafkaLogSettings, topic: str, instance: str) -> None:
        self._held = threading.Event()
        self._ending = threading.Event()
        self._consumer = Consumer(
            client_settings(settings)
            | {
                "group.id": f"{settings.prefix}.writer",
                "group.instance.id": instance,
                "partition.assignment.strategy": "cooperative-sticky",  # others would give it to whoever comes first in the alphabet
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "enable.auto.commit": False,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
        self._thread = threading.Thread(target=self._listen, name="log-lease", daemon=True)
        self._thread.start()

    def held(self, within_s: float) -> bool:
        """Whether this process is the one, at the latest after `within_s`."""
        return self._held.wait(within_s)

    def close(self) -> None:
        """Another process gets it once SESSION_MS are over; this one, started again, at once."""
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def _listen(self) -> None:
        while not self._ending.is_set():
            try:
                self._consumer.poll(POLL_S)  # serves the group; what is in the topic is not wanted
            except KafkaException:
                self._held.clear()  # whoever tries to write next hears why
                self._ending.wait(POLL_S)

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            consumer.incremental_assign([TopicPartition(one.topic, one.partition, OFFSET_END) for one in partitions])
            consumer.pause(partitions)
            self._held.set()

    def _taken(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._held.clear()
