"""The common part of all clients of Kafka: their configuration, and the meaning of their errors here."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from landfall.storage.kafka.settings import KafkaAccess
from streams.model.errors import LandfallError, Misuse, NotAllowed, RetryLater

Answer = TypeVar("Answer")

_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_LED_SOON = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
"""Errors of a broker that does not know yet who leads a partition, or has only just begun to lead it."""
LEADER_POLL_S = 0.05
IN_FLIGHT_MAX = 1
"""Maximum number of requests of a producer that wait for an answer at once. A broker that does not lead a new partition yet refuses the
first and may take the second; the client then takes the first as accepted too (KAFKA-15591).
"""
_ENDED = "they end the connection: if they speak TLS, tls_ca is missing"
_ENDED_AT_ONCE = "incorrect security.protocol"
"""librdkafka's guess about a broker that ends a connection before it has sent anything."""
LOOK_S = 2.0
"""Maximum time of one look at whether Kafka answers, seconds."""


class Fenced(NotAllowed):
    """Another process of the same name has taken over: this one can write nothing any more."""

    code = "fenced"


def client_settings(access: KafkaAccess) -> dict[str, Any]:
    """Return the configuration of every client of this Kafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": access.brokers,
        "security.protocol": "SASL_SSL" if access.tls_ca else "SASL_PLAINTEXT",
        "sasl.mechanism": access.mechanism,
        "sasl.username": access.username,
        "sasl.password": access.password.get_secret_value(),
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 2,
        "error_cb": _in_passing,
    }
    return settings | ({"ssl.ca.location": str(access.tls_ca)} if access.tls_ca else {})


def producer_settings(access: KafkaAccess, transactional_id: str) -> dict[str, Any]:
    """Return the configuration of every producer: no record of a transaction is passed over when one before it is refused."""
    return client_settings(access) | {"transactional.id": transactional_id, "max.in.flight": IN_FLIGHT_MAX}


def check_lets_in(access: KafkaAccess, within_s: float) -> None:
    """Check that a broker answers and accepts this login.

    Raises NotAllowed when it does not accept the login, or shows a certificate that is not trusted; Misuse when `tls_ca` does not read.
    Raises RetryLater when no broker answers `within_s`. Each error says what to do.
    """
    heard: list[KafkaError] = []
    try:
        admin = AdminClient(client_settings(access) | {"error_cb": heard.append})
    except KafkaException as problem:
        if access.tls_ca is None:
            raise
        raise Misuse(
            f"tls_ca: there are no certificates in {access.tls_ca}",
            hint="name a PEM file, such as authority.pem",
            code="certificates_missing",
        ) from problem
    why = ended = _ENDED if access.tls_ca is None else "they end the connection, or say nothing"
    deadline_s = time.monotonic() + within_s
    while True:  # a reason is heard once: the client keeps to itself what it has said before
        try:
            apart(lambda: admin.list_topics(timeout=LOOK_S))
        except KafkaException as problem:
            admin.poll(0)
            if refused := next((_refusal(access, error) for error in heard if error.code() in _REFUSALS), None):
                raise refused from problem
            reasons = [error.str() for error in heard if error.code() != KafkaError._ALL_BROKERS_DOWN]
            why = (ended if _ENDED_AT_ONCE in reasons[-1] else reasons[-1]) if reasons else why
            if time.monotonic() > deadline_s:
                raise RetryLater(
                    f"no broker of {access.brokers} answers: {why}", hint="start them, or fix the way to them", code="kafka_unreachable"
                ) from problem
            heard.clear()
        else:
            return


def answers(access: KafkaAccess) -> bool:
    """Return whether Kafka accepts this login, within LOOK_S."""
    try:
        check_lets_in(access, LOOK_S)
    except LandfallError:
        return False
    return True


def unanswered(access: KafkaAccess, what: str) -> RetryLater:
    """Return the error for `what` not happening in time, with the reason, as far as a look at Kafka finds one."""
    try:
        check_lets_in(access, LOOK_S)
    except LandfallError as problem:
        return RetryLater(f"{what}: {problem.args[0]}", hint=problem.hint, code=problem.code)
    return RetryLater(what, hint="its brokers answer: are they well, or overloaded?", code="kafka_unreachable")


def apart(call: Callable[[], Answer]) -> Answer:
    """Return or raise the result of `call`, which uses Kafka's client; make the call where no error is being handled.

    When a call fails while an error is handled, the client (confluent-kafka 2.10.1) never releases that error. Everything in its
    traceback's frames stays for good, such as rows, and producers that continue to ask Kafka for their turn with their threads and
    files.
    """
    if sys.exc_info()[1] is None:
        return call()
    with ThreadPoolExecutor(1, "kafka-apart") as thread:
        return thread.submit(call).result()


def asked(call: Callable[[], Answer], who: str) -> Answer:
    """Return the result of `call`. Raises Fenced, NotAllowed and RetryLater for Kafka's refusals; `who` is the caller."""
    try:
        return apart(call)
    except KafkaException as problem:
        raise error_of(problem, who) from problem


def asked_of_leaders(call: Callable[[], Answer], who: str, within_s: float) -> Answer:
    """Return the result of `call`, as `asked` does. While the brokers do not lead yet what was just made or moved, the call is repeated."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return apart(call)
        except KafkaException as problem:
            error = problem.args[0]
            if not isinstance(error, KafkaError) or error.code() not in _LED_SOON or time.monotonic() > deadline_s:
                raise error_of(problem, who) from problem
        time.sleep(LEADER_POLL_S)


def error_of(problem: KafkaException, who: str) -> NotAllowed | RetryLater:
    """Return the problem as an error of this project; `who` had it, such as "fan-out of this name"."""
    error = problem.args[0]
    if not isinstance(error, KafkaError):
        return RetryLater(f"Kafka: {error}", hint="it is tried again", code="kafka_failed")
    if error.code() in _FENCED:
        return Fenced(f"another {who} has taken over", hint="one writes at a time: stop this one, or give each a name of its own")
    if error.code() in _FORBIDDEN:
        return NotAllowed(
            f"Kafka does not allow it: {error.str()}",
            hint="docs/guide/kafka.md says which rights the login needs",
            code="kafka_not_allowed",
        )
    return RetryLater(f"Kafka: {error.str()}", hint="it is tried again", code="kafka_failed")


def _refusal(access: KafkaAccess, error: KafkaError) -> NotAllowed:
    """Return why a broker refuses this login, or is not trusted."""
    if error.code() == KafkaError._AUTHENTICATION:
        return NotAllowed(
            f"Kafka does not let {access.username} in: {error.str()}",
            hint=f"fix username and password, or mechanism: the login has to be one for {access.mechanism}, as kafka-configs makes it",
            code="kafka_login_wrong",
        )
    return NotAllowed(
        f"Kafka's certificate is not believed: {error.str()}",
        hint=f"tls_ca ({access.tls_ca}) has to be the authority that signed it, and brokers has to name them as their certificates do",
        code="kafka_certificate_refused",
    )


def _in_passing(error: KafkaError) -> None:
    """Ignore the error: the client repairs a broken connection, and the call that needed it raises what follows."""
