"""Kafka topics, logins and rights: made to be what the settings say, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from hq.fanout.customer_routes import FANNED_OUT, POSITIONS, TopicRight, kafka_topic, right_to
from hq.fanout.kafka_client import ANSWER_S_MAX, WHO
from hq.fanout.settings import FanoutSettings, KafkaReader
from landfall.storage.kafka.kafka_configuration import client_settings, error_of
from landfall.storage.kafka.settings import Mechanism

SCRAM_ROUNDS = 8_192
OURS = "landfall."
"""The Kafka topics whose rights are the fan-out's to give and take away: all whose names begin so."""


class KafkaRights:
    """The administrator's part, with the fan-out's login. Every method raises RetryLater when Kafka does not answer."""

    def __init__(self, settings: FanoutSettings) -> None:
        self._settings = settings
        self._admin = AdminClient(client_settings(settings.kafka))
        self._known: set[str] = set()

    def settle(self) -> None:
        """Give every reader its login, the rights its settings name, and no other right on `landfall.…`. Make the Positions' topic. Make
        those of the named streams too, so that readers can subscribe before there is anything in them."""
        self._make([NewTopic(POSITIONS, 1, self._settings.replication, config=self._config({"cleanup.policy": "compact"}))])
        named = {stream for reader in self._settings.readers for stream in reader.streams if not stream.endswith("*")}
        self.make_topics({*FANNED_OUT, *named})
        logins: list[UserScramCredentialAlteration] = [_login(reader, self._settings.kafka.mechanism) for reader in self._settings.readers]
        if logins:
            _wait(self._admin.alter_user_scram_credentials(logins, request_timeout=ANSWER_S_MAX))
        wanted = {binding for reader in self._settings.readers for binding in bindings(reader)}
        there = set(self._there())
        gone = [_filter(binding) for binding in there - wanted if binding.name.startswith(OURS)]
        if gone:
            _wait(self._admin.delete_acls(gone, request_timeout=ANSWER_S_MAX))
        if wanted - there:
            _wait(self._admin.create_acls(sorted(wanted - there, key=str), request_timeout=ANSWER_S_MAX))

    def topic_ids(self) -> dict[str, str]:
        """Return the id of each Kafka topic `landfall.…` that is there now: another one if it was deleted and made again."""
        try:
            names = [name for name in self._admin.list_topics(timeout=ANSWER_S_MAX).topics if name.startswith(OURS)]
            described = self._admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_S_MAX) if names else {}
            ids = {name: str(one.result().topic_id) for name, one in described.items()}
        except KafkaException as problem:
            raise error_of(problem, WHO) from problem
        self._known &= set(ids)
        return ids

    def make_topics(self, streams: Iterable[str]) -> None:
        """Make a Kafka topic for every one of `streams`. Asks only for those not made or seen before."""
        new = sorted({kafka_topic(stream) for stream in streams} - self._known)
        if new:
            one = self._settings
            config = self._config({"retention.ms": str(one.retention_ms)})
            self._make([NewTopic(name, one.partitions, one.replication, config=config) for name in new])
            self._known.update(new)

    def _config(self, own: dict[str, str]) -> dict[str, str]:
        """Return the settings of a new topic: `own`, and that a copy that lags behind never leads, and a record that too few copies have
        does not count."""
        return own | {"min.insync.replicas": str(self._settings.min_insync), "unclean.leader.election.enable": "false"}

    def _make(self, topics: list[NewTopic]) -> None:
        for made in self._admin.create_topics(topics, request_timeout=ANSWER_S_MAX).values():
            try:
                made.result()
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise error_of(problem, WHO) from problem

    def _there(self) -> list[AclBinding]:
        anything: Any = None
        every = AclBindingFilter(
            ResourceType.ANY, anything, ResourcePatternType.ANY, anything, anything, AclOperation.ANY, AclPermissionType.ANY
        )
        try:
            found: list[AclBinding] = self._admin.describe_acls(every, request_timeout=ANSWER_S_MAX).result()
        except KafkaException as problem:
            raise error_of(problem, WHO) from problem
        return found


def bindings(reader: KafkaReader) -> list[AclBinding]:
    """Return the reader's rights: to read the Kafka topics of its streams, and to keep its place in groups `<username>.…`."""
    rights = [right_to(pattern) for pattern in reader.streams]
    topics = [_allowed(ResourceType.TOPIC, right, reader.username, operation) for right in rights for operation in _READING]
    return [*topics, _allowed(ResourceType.GROUP, TopicRight(f"{reader.username}.", prefix=True), reader.username, AclOperation.READ)]


_SCRAM: dict[Mechanism, ScramMechanism] = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_READING = (AclOperation.READ, AclOperation.DESCRIBE)


def _allowed(resource: ResourceType, right: TopicRight, username: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.prefix else ResourcePatternType.LITERAL
    return AclBinding(resource, right.topic, pattern, f"User:{username}", "*", operation, AclPermissionType.ALLOW)


def _filter(one: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation, one.permission_type)


def _login(reader: KafkaReader, mechanism: Mechanism) -> UserScramCredentialUpsertion:
    credential = ScramCredentialInfo(_SCRAM[mechanism], SCRAM_ROUNDS)
    return UserScramCredentialUpsertion(reader.username, credential, reader.password.get_secret_value().encode())


def _wait(futures: dict[Any, Future[Any]]) -> None:
    for future in futures.values():
        try:
            future.result()
        except KafkaException as problem:
            raise error_of(problem, WHO) from problem
