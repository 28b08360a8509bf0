"""Goal: a log, its readers and the fan-out work with a Kafka over TLS; who is not let in, or does not believe it, is told what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bench.ports import free_ports
from hq.fanout.fanning import Fanout
from hq.fanout.settings import FanoutSettings
from hq.opening import opened_log
from streams.errors import LandfallError, Misuse, NotAllowed, RetryLater
from streams.link.certificates import make_authority, make_node
from streams.link.tls import TlsFiles
from streams.log import Append
from streams.logs.kafka.client import LOOK_S, check_lets_in
from streams.logs.kafka.settings import KafkaAccess
from streams.metrics import Metrics
from streams.records import Record, to_batch
from tests.fanout.kafka import PASSWORD, Kafka
from tests.streams.kafkakit import open_kafka_log, place, producers
from tests.streams.logkit import append_rows, numbers, open_log, rows


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority, and what it signed for a broker on 127.0.0.1; beside it another authority, `other.pem`."""
    folder, now = tmp_path_factory.mktemp("certificates"), datetime.now(UTC)
    authority, other = (make_authority(name, now, days=1) for name in ("harbour", "other"))
    broker = make_node(authority, "kafka", ["127.0.0.1"], now, days=1)
    files = {"harbour.pem": authority.certificate, "other.pem": other.certificate, "kafka.pem": broker.certificate, "kafka.key": broker.key}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return TlsFiles(folder / "harbour.pem", folder / "kafka.pem", folder / "kafka.key")


@pytest.fixture(scope="module")
def over_tls(certificates: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker whose one door for clients speaks TLS and asks for a SCRAM login."""
    broker = Kafka(tmp_path_factory.mktemp("over-tls"), certificates)
    broker.start()
    yield broker
    assert broker.stop() == 0


def test_a_log_and_whoever_reads_it_over_tls(over_tls: Kafka, tmp_path: Path) -> None:
    """Written, opened again from the broker alone, read in another process's way by its folder, and fanned out."""
    where = place(over_tls, tmp_path, tls_ca=over_tls.access.tls_ca)
    log = open_kafka_log(where)
    append_rows(log, rows(10))
    log.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    log.close()
    (where.folder / "index.sqlite").unlink()
    log = open_kafka_log(where)
    assert numbers(log) == list(range(10))
    assert append_rows(log, rows(10, start=10)) == 10
    reader = opened_log(where.folder)
    assert numbers(reader) == list(range(20))
    settings = {"log": str(where.folder), "kafka": over_tls.access, "poll_interval_s": 0.02}
    fanout = Fanout(reader, FanoutSettings.model_validate(settings), Metrics("fanout"))
    fanout.start()
    assert fanout.step() == 21
    reader.close()
    log.close()


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"password": "not quack"}, NotAllowed, r"does not let landfall in.*invalid credentials.*mend username and password"),
        ({"username": "nobody"}, NotAllowed, r"does not let nobody in.*mend username and password"),
        ({"tls_ca": "other.pem"}, NotAllowed, r"certificate is not believed.*tls_ca \(.*other\.pem\) has to be the authority"),
        ({"tls_ca": "missing.pem"}, Misuse, r"no certificates in .*missing\.pem.*name a PEM file"),
        ({"tls_ca": "kafka.key"}, Misuse, r"no certificates in .*kafka\.key"),
        ({"tls_ca": None}, RetryLater, r"no broker of .* answers: .*tls_ca is missing"),
        ({"brokers": "127.0.0.1:{closed}"}, RetryLater, r"no broker of .* answers: .*start them, or mend the way to them"),
        ({"brokers": "localhost:{door}"}, NotAllowed, r"certificate is not believed.*brokers has to name them as their certificates do"),
    ],
)
def test_who_is_not_let_in_is_told_what_to_do(
    over_tls: Kafka, certificates: TlsFiles, tmp_path: Path, wrong: dict[str, Any], error: type[LandfallError], words: str
) -> None:
    """A log says so when it opens, the fan-out when it starts, and the password stands in none of their words."""
    usual = {"tls_ca": over_tls.access.tls_ca, "answer_s": 1}
    (closed,) = free_ports(1)
    told = {name: str(value).format(closed=closed, door=over_tls.address.partition(":")[2]) for name, value in wrong.items() if value}
    if "tls_ca" in told:
        told["tls_ca"] = str(certificates.authority.with_name(told["tls_ca"]))
    where = place(over_tls, tmp_path, **(usual | wrong | told))
    with pytest.raises(error, match=words) as refused:
        open_kafka_log(where)
    assert PASSWORD not in str(refused.value)
    if error is not RetryLater:  # which is waited for
        access = where.settings.model_dump(include={"brokers", "username", "password", "tls_ca"})
        settings = FanoutSettings.model_validate({"log": str(where.folder), "kafka": access})
        unread = open_log(tmp_path / "unread")
        with pytest.raises(error, match=words):
            Fanout(unread, settings, Metrics("fanout")).start()
        unread.close()


def test_a_broker_that_is_away_is_named(over_tls: Kafka, tmp_path: Path) -> None:
    """An append says who does not answer and what to do; once that is done, the same log goes on, without what was refused. The producer
    that was refused is gone: one that stays would go on asking for its turn, and take it from the one that has it by then.
    """
    others = producers()
    log = open_kafka_log(place(over_tls, tmp_path, tls_ca=over_tls.access.tls_ca, answer_s=6))
    append_rows(log, rows(3))
    assert producers() == others + 1
    assert over_tls.stop() == 0
    with pytest.raises(RetryLater, match=r"no broker of 127\.0\.0\.1:\d+ answers: .*start them.*nothing was changed"):
        append_rows(log, rows(3, start=100))
    assert producers() == others
    over_tls.start()
    assert append_rows(log, rows(3, start=3)) == 3
    assert numbers(log) == list(range(6))
    log.close()


def test_where_nothing_listens_that_is_said_however_long_it_is_waited_for(certificates: TlsFiles) -> None:
    """The client tells of it once, in the first of several looks."""
    (port,) = free_ports(1)
    for tls_ca in (None, certificates.authority):
        access = KafkaAccess(brokers=f"127.0.0.1:{port}", username="hq", password=SecretStr(PASSWORD), tls_ca=tls_ca)
        with pytest.raises(RetryLater, match=r"no broker of 127\.0\.0\.1:\d+ answers: .*Connection refused"):
            check_lets_in(access, 3 * LOOK_S)
