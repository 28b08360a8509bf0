"""What every client of a Kafka shares: how it is configured, and what its errors mean here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.errors import NotAllowed, RetryLater
from streams.logs.kafka.settings import KafkaAccess

Answer = TypeVar("Answer")

_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class Fenced(NotAllowed):
    """Another process of the same name has taken over: this one can write nothing any more."""


def client_settings(access: KafkaAccess) -> dict[str, Any]:
    """What every client of this Kafka is configured with."""
    settings: dict[str, Any] = {
        "bootstrap.servers": access.brokers,
        "security.protocol": "SASL_SSL" if access.tls_ca else "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": access.username,
        "sasl.password": access.password.get_secret_value(),
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 2,
        "error_cb": _in_passing,
    }
    return settings | ({"ssl.ca.location": str(access.tls_ca)} if access.tls_ca else {})


def answers(access: KafkaAccess) -> bool:
    """Whether the Kafka lets this login in, within two seconds."""
    try:
        AdminClient(client_settings(access)).list_topics(timeout=2.0)
    except KafkaException:
        return False
    return True


def asked(call: Callable[[], Answer], who: str) -> Answer:
    """What `call` answers. Raises Fenced, NotAllowed and RetryLater for what Kafka has against it; `who` asks."""
    try:
        return call()
    except KafkaException as problem:
        raise told(problem, who) from problem


def told(problem: KafkaException, who: str) -> NotAllowed | RetryLater:
    """The problem in the project's own words; `who` had it, such as "fan-out of this name"."""
    error = problem.args[0]
    if not isinstance(error, KafkaError):
        return RetryLater(f"Kafka: {error}", hint="it is tried again")
    if error.code() in _FENCED:
        return Fenced(f"another {who} has taken over", hint="one writes at a time: stop this one, or give each a name of its own")
    if error.code() in _FORBIDDEN:
        return NotAllowed(f"Kafka does not allow it: {error.str()}", hint="docs/kafka.md tells which rights the login needs")
    return RetryLater(f"Kafka: {error.str()}", hint="it is tried again")


def _in_passing(error: KafkaError) -> None:
    """A broken connection is the client's to mend: what comes of it is raised by the call that needed it."""
