"""The lease that decides which of several processes of one node writes its log: Kafka gives the control topic to one member of their
consumer group.

A process that is gone loses it after SESSION_MS, and another gets it; a process that joins takes it from none. The lease only decides who
may begin. Kafka's transactions ensure that no two write at once: they fence every producer but the last of a name. A producer that is
fenced does not know by which other: it may be an earlier one of its own process, a request of which came late. So the process asks the
group which member has the turn.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, MemberDescription

from landfall.storage.kafka.kafka_configuration import LOOK_S, Fenced, answers, apart, client_settings, unanswered
from landfall.storage.kafka.settings import KafkaLogSettings

SESSION_MS = 6_000
"""Shortest session that brokers allow unless configured otherwise, milliseconds."""
HEARTBEAT_MS = 1_000
POLL_S = 0.1
FORGOTTEN_AFTER_S = 120.0
"""Time for which the client continues a look at the group that nobody waits for any more, seconds. It is far longer than a broker that
answers needs to find the group's broker. Finding it in the moment in which a look's time is over would abort the process.
"""


class Lease:
    """One process's part in the group, in a thread of its own. `instance` is the same for every life of one process, and differs between
    processes.
    """

    def __init__(self, settings: KafkaLogSettings, topic: str, instance: str) -> None:
        self._settings = settings
        self._topic, self._group = topic, f"{settings.prefix}.writer"
        self._admin = AdminClient(client_settings(settings))
        self._instance = instance
        self._member: str | None = None
        self._held = threading.Event()
        self._replaced = threading.Event()
        self._ending = threading.Event()
        self._consumer = Consumer(
            client_settings(settings)
            | {
                "group.id": self._group,
                "group.instance.id": instance,
                "partition.assignment.strategy": "cooperative-sticky",  # others would give it to the member that is first in the alphabet
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
        """Return whether this process has the lease, at the latest after `within_s`."""
        return self._held.wait(within_s)

    def confirm(self, within_s: float) -> None:
        """Confirm with Kafka that it is this process's turn. Raises Fenced when it is another's; RetryLater when Kafka gives neither answer
        `within_s`.

        Unlike `held` this does not use an earlier state: a process that was suspended learns here that its turn is over.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            whose = self._whose(max(LOOK_S, deadline_s - time.monotonic()))
            if self._replaced.is_set() or (whose is not None and whose.group_instance_id != self._instance):
                raise Fenced("another process of this node has taken over", hint="one writes at a time: stop this one")
            if whose is not None and whose.member_id == self._member:
                return
            if time.monotonic() > deadline_s:
                raise unanswered(self._settings, "Kafka does not say whose turn it is to write the log")
            self._ending.wait(POLL_S)

    def close(self) -> None:
        """Leave the group. Another process gets the lease once SESSION_MS are over; this one, started again, at once."""
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def _whose(self, within_s: float) -> MemberDescription | None:
        """Return the member of the group that has the control topic, by the group's broker; None when no member has it, or no broker
        answers.

        Nothing is asked while no broker answers, and the request does not end with this wait. librdkafka 2.10.1 aborts the process where it
        finds the group's broker in the moment in which the look's time is over (`Assertion eonce->refcnt > 0`), as when brokers come back
        after just that long.
        """
        if not answers(self._settings):
            return None
        with suppress(KafkaException, TimeoutError):
            asked_for = self._admin.describe_consumer_groups
            group = apart(lambda: asked_for([self._group], request_timeout=FORGOTTEN_AFTER_S)[self._group].result(within_s))
            members: list[MemberDescription] = group.members
            return next((one for one in members if any(part.topic == self._topic for part in one.assignment.topic_partitions)), None)
        return None

    def _listen(self) -> None:
        while not self._ending.is_set():
            try:
                message = self._consumer.poll(POLL_S)  # serves the group; what is in the topic is not wanted
            except KafkaException:
                self._held.clear()  # the next attempt to write raises the reason
                self._ending.wait(POLL_S)
            else:
                problem = message.error() if message is not None else None
                if problem is not None and problem.code() == KafkaError._FATAL:  # another process has its name in the group
                    self._replaced.set()

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = consumer.memberid()
        if partitions:
            consumer.incremental_assign([TopicPartition(one.topic, one.partition, OFFSET_END) for one in partitions])
            consumer.pause(partitions)
            self._held.set()

    def _taken(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._held.clear()
