"""The Kafka topics of a log: they are made when first needed, and their front is dropped when the log is trimmed."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from landfall.storage.kafka.kafka_configuration import LOOK_S, asked, check_lets_in, client_settings, error_of
from landfall.storage.kafka.kafka_records import HEADERS_BYTES_MAX
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.kafka.topic_names import KafkaTopicNames
from streams.model.errors import LandfallError, RetryLater

WHO = "process of this node"


class KafkaTopics:
    """The administration of the log's Kafka topics, with the log's login."""

    def __init__(self, settings: KafkaLogSettings, names: KafkaTopicNames) -> None:
        self._settings, self._names = settings, names
        self._admin = AdminClient(client_settings(settings))
        self._known: set[str] = set()

    def make_control(self) -> None:
        """Make the control topic if it is missing. Kafka keeps the last record of each key in it."""
        self._make([NewTopic(self._names.control, 1, self._settings.replication, config=self._config("compact"))])

    def make(self, streams: Iterable[str]) -> None:
        """Make the Kafka topic of each of `streams` if it is missing: one partition, which deletes nothing by itself. Only new ones cause
        requests.
        """
        new = sorted({self._names.topic(stream) for stream in streams} - self._known)
        if new:
            self._make([NewTopic(name, 1, self._settings.replication, config=self._config("delete")) for name in new])
            self._known.update(new)

    def drop_front(self, stream: str, before: int | None) -> None:
        """Let Kafka delete the records of `stream` before `before`; all records when None. Raises RetryLater."""
        place = TopicPartition(self._names.topic(stream), 0, OFFSET_END if before is None else before)
        for dropped in self._admin.delete_records([place], request_timeout=self._settings.answer_s).values():
            asked(dropped.result, WHO)

    def why_short(self, streams: Iterable[str]) -> str:
        """Return what to do when Kafka does not take a block in time: too few brokers are in step, or too few answer."""
        try:
            check_lets_in(self._settings, LOOK_S)
            topics = asked(lambda: self._admin.list_topics(timeout=LOOK_S), WHO).topics
        except LandfallError as problem:
            return f"{problem.args[0]}: {problem.hint}; nothing was changed"
        for name in (self._names.control, *map(self._names.topic, streams)):
            for one in topics[name].partitions.values() if name in topics else ():
                if len(one.isrs) < len(one.replicas) or one.leader < 0:
                    return f"{len(one.isrs)} of {len(one.replicas)} brokers are in step for {name}: start the others; nothing was changed"
        return (
            "the brokers are fewer than the topics' min.insync.replicas, or overloaded: start more, or lower it with kafka-configs; "
            "nothing was changed"
        )

    def _config(self, cleanup: str) -> dict[str, str]:
        one = self._settings
        config = {
            "cleanup.policy": cleanup,
            "min.insync.replicas": str(one.min_insync),
            "max.message.bytes": str(one.record_bytes_max + 2 * HEADERS_BYTES_MAX),
            "unclean.leader.election.enable": "false",
        }
        return config if cleanup == "compact" else config | {"retention.ms": "-1", "retention.bytes": "-1"}

    def _make(self, topics: list[NewTopic]) -> None:
        for name, creation in self._admin.create_topics(topics, request_timeout=self._settings.answer_s).items():
            try:
                creation.result()
            except KafkaException as problem:
                code = problem.args[0].code()
                if code == KafkaError.INVALID_REPLICATION_FACTOR:
                    raise RetryLater(
                        f"Kafka has fewer brokers than the {self._settings.replication} copies wanted of {name}",
                        hint="start more brokers, or lower replication in the node's settings",
                        code="kafka_brokers_few",
                    ) from problem
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise error_of(problem, WHO) from problem
