"""Goal: a log, its readers and the fan-out work with a Kafka over TLS; who is not let in, or does not believe it, is told what to do."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pydantic import SecretStr

from hq.fanout.kafka_writer import Fanout
from hq.fanout.settings import FanoutSettings
from landfall.runtime.log_wait import opened_log
from landfall.storage.kafka import kafka_configuration, kafka_topics, transactions
from landfall.storage.kafka.commit_transaction import KafkaLogOptions, KafkaLogPlace
from landfall.storage.kafka.kafka_configuration import check_lets_in
from landfall.storage.kafka.settings import KafkaAccess
from streams.log import Append
from streams.model.errors import LandfallError, Misuse, NotAllowed, RetryLater
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from tests.fanout.kafka import PASSWORD, Kafka
from tests.streams.kafkakit import open_kafka_log, place, producers
from tests.streams.logkit import append_rows, numbers, open_log, rows
from tests.streams.refusingway import Way
from tests.support.ports import free_ports
from tests.support.refusals import refusal


def over_tls(kafka: Kafka, folder: Path, **settings: Any) -> KafkaLogPlace:
    """A log that is reached by the door that speaks TLS."""
    access = {name: getattr(kafka.tls_access, name) for name in ("brokers", "tls_ca")}
    return place(kafka, folder, **(access | settings))


def test_a_log_and_whoever_reads_it_over_tls(kafka: Kafka, tmp_path: Path) -> None:
    """Written, opened again from the broker alone, read in another process's way by its folder, and fanned out."""
    where = over_tls(kafka, tmp_path)
    log = open_kafka_log(where, options=KafkaLogOptions())
    append_rows(log, rows(10))
    log.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    log.close()
    (where.folder / "index.sqlite").unlink()
    log = open_kafka_log(where)
    assert numbers(log) == list(range(10))
    assert append_rows(log, rows(10, start=10)) == 10
    reader = opened_log(where.folder)
    assert numbers(reader) == list(range(20))
    settings = {"log": str(where.folder), "kafka": kafka.tls_access, "poll_interval_s": 0.02, "transactional_id": tmp_path.name}
    fanout = Fanout(reader, FanoutSettings.model_validate(settings), Metrics("fanout"))
    fanout.start()
    assert fanout.step() == 21
    reader.close()
    log.close()


@pytest.mark.parametrize(
    ("wrong", "error", "code", "named"),
    [
        ({"password": "not quack"}, NotAllowed, "kafka_login_wrong", "landfall"),
        ({"username": "nobody"}, NotAllowed, "kafka_login_wrong", "nobody"),
        ({"tls_ca": "other.pem"}, NotAllowed, "kafka_certificate_refused", "other.pem"),
        ({"tls_ca": "missing.pem"}, Misuse, "certificates_missing", "missing.pem"),
        ({"tls_ca": "kafka.key"}, Misuse, "certificates_missing", "kafka.key"),
        ({"tls_ca": None}, RetryLater, "kafka_unreachable", "tls_ca is missing"),
        ({"brokers": "127.0.0.1:{closed}"}, RetryLater, "kafka_unreachable", "127.0.0.1"),
        ({"brokers": "localhost:{door}"}, NotAllowed, "kafka_certificate_refused", "brokers has to name them"),
    ],
)
def test_who_is_not_let_in_is_told_what_to_do(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], error: type[LandfallError], code: str, named: str
) -> None:
    """A log says so when it opens, the fan-out when it starts, and the password stands in none of their words."""
    monkeypatch.setattr(kafka_configuration, "LOOK_S", 0.3)
    (closed,) = free_ports(1)
    door = kafka.tls_access.brokers.partition(":")[2]
    told = {name: str(value).format(closed=closed, door=door) for name, value in wrong.items() if value}
    if "tls_ca" in told:
        assert kafka.tls_access.tls_ca
        told["tls_ca"] = str(kafka.tls_access.tls_ca.with_name(told["tls_ca"]))
    where = over_tls(kafka, tmp_path, **(wrong | told), answer_s=1 if error is RetryLater else 60)
    with refusal(error, code, named) as refused:
        open_kafka_log(where)
    assert PASSWORD not in str(refused.value)
    if error is not RetryLater:  # which is waited for
        access = where.settings.model_dump(include={"brokers", "username", "password", "tls_ca"})
        settings = FanoutSettings.model_validate({"log": str(where.folder), "kafka": access})
        with closing(open_log(tmp_path / "unread")) as unread, refusal(error, code, named):
            Fanout(unread, settings, Metrics("fanout")).start()


class OnceTelling:
    """A client that tells why no broker answers in its first look alone, as real ones do."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._told, self.looks = settings["error_cb"], 0

    def list_topics(self, timeout: float) -> None:
        """One look."""
        self.looks += 1
        if self.looks == 1:
            self._told(KafkaError(KafkaError._TRANSPORT, "nobody listens"))
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, timeout: float) -> None:
        """All is told already."""


@pytest.mark.parametrize("tls_ca", [None, Path("authority.pem")])
def test_the_reason_is_said_however_long_a_broker_is_waited_for(monkeypatch: pytest.MonkeyPatch, tls_ca: Path | None) -> None:
    clients: list[OnceTelling] = []

    def client_of(settings: dict[str, Any]) -> OnceTelling:
        clients.append(OnceTelling(settings))
        return clients[0]

    monkeypatch.setattr(kafka_configuration, "AdminClient", client_of)
    access = KafkaAccess(brokers="kafka:9092", username="hq", password=SecretStr(PASSWORD), tls_ca=tls_ca)
    with refusal(RetryLater, "kafka_unreachable", "kafka:9092"):
        check_lets_in(access, 0.05)
    assert clients[0].looks > 1


def test_a_broker_that_is_away_is_named(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append says who does not answer and what to do; once that is done, the same log goes on, without what was refused. The producer
    that was refused is gone: one that stays would go on asking for its turn, and take it from the one that has it by then.
    """
    monkeypatch.setattr(kafka_configuration, "LOOK_S", 0.3)
    monkeypatch.setattr(kafka_topics, "LOOK_S", 0.3)
    monkeypatch.setattr(transactions, "CLEANED_UP_S", 0.3)
    way, others = Way(kafka.insider()["brokers"]), producers()
    log = open_kafka_log(place(kafka, tmp_path, brokers=way.address, answer_s=3))
    append_rows(log, rows(3))
    assert producers() == others + 1
    way.close()
    with refusal(RetryLater, "kafka_refused"):
        append_rows(log, rows(3, start=100))
    assert producers() == others
    way = Way(kafka.insider()["brokers"], way.port)
    assert append_rows(log, rows(3, start=3)) == 3
    assert numbers(log) == list(range(6))
    log.close()
    way.close()
