"""Goal: the fan-out counts as written what a broker proves, in as many copies as must have it, with logins of either mechanism."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource
from pydantic import SecretStr, ValidationError

from hq.fanout import kafka_client as door
from hq.fanout.dev_broker import MECHANISMS
from hq.fanout.kafka_writer import Fanout
from hq.fanout.settings import FanoutSettings, KafkaBrokerSettings
from landfall.storage.kafka import kafka_configuration
from landfall.storage.kafka.kafka_configuration import check_lets_in, client_settings, producer_settings
from landfall.storage.kafka.settings import KafkaAccess, Mechanism
from streams.model.errors import NotAllowed, RetryLater
from streams.model.metrics import Metrics
from tests.fanout.headquarters import DUCKS, Headquarters, of, plain
from tests.fanout.kafka import PASSWORD, Kafka, until
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import append_rows, numbers, rows
from tests.streams.refusingway import RefusingWay
from tests.support.refusals import refusal


def make(kafka: Kafka, hq: Headquarters, access: dict[str, Any], **more: Any) -> Fanout:
    """A fan-out that reaches its Kafka so."""
    usual = {"brokers": kafka.address, "username": "landfall", "password": PASSWORD}
    told = {"log": str(hq.folder), "kafka": usual | access, **more}
    return Fanout(hq.reader(), FanoutSettings.model_validate(told), Metrics("fanout"))


def admin_of(kafka: Kafka) -> AdminClient:
    """The super user's."""
    return AdminClient(client_settings(kafka.access))


def config(kafka: Kafka, topic: str) -> dict[str, str]:
    """What was set for this very Kafka topic: what it only has from the broker's own settings is left out."""
    admin = admin_of(kafka)  # no answer comes once it is thrown away
    [found] = admin.describe_configs([ConfigResource("topic", topic)]).values()
    return {name: one.value for name, one in found.result().items() if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def test_a_message_without_an_offset_is_not_written(kafka: Kafka, hq: Headquarters, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more in flight the client holds a refused message for delivered, since later ones were: nothing of the step is kept, and the
    next brings each message once.
    """
    monkeypatch.setattr(kafka_configuration, "IN_FLIGHT_MAX", 5)
    monkeypatch.setattr(door, "producer_settings", lambda *words: producer_settings(*words) | {"batch.num.messages": 2})
    wanted = hq.readings(DUCKS)
    way = RefusingWay(kafka.address, "landfall.containers", 1)
    name = f"unheard-{hq.log.origin.generation:x}"
    fanout = make(kafka, hq, {"brokers": way.address}, partitions=1, transactional_id=name)
    fanout.start()
    with refusal(RetryLater, "kafka_failed", "landfall.containers") as unheard:
        fanout.step()
    cause = unheard.value.__cause__
    assert isinstance(cause, KafkaException)
    assert cause.args[0].code() == KafkaError._INCONSISTENT
    assert way.refused_left == 0
    fanout.start()
    assert fanout.step() == len(wanted)
    with closing(kafka.listener(r"landfall\.containers")) as reader:
        until(lambda: len(of(reader, hq)) >= len(wanted), "the messages")
        assert of(reader, hq) == plain(wanted)
    way.close()


def test_new_topics_have_their_copies_in_step(kafka: Kafka, hq: Headquarters) -> None:
    """No message is taken that too few copies have, and a copy that lags behind never leads. Topics are there before there is anything in
    them: a consumer that subscribes on the first day is not told that it reads nothing that exists.
    """
    early = f"customers/early-{hq.log.origin.generation:x}"
    fanout = make(kafka, hq, {}, readers=[{"username": "early", "password": PASSWORD, "streams": [early]}], retention_ms=86_400_000)
    fanout.start()
    for topic in (f"landfall.{early.replace('/', '.')}", "landfall.positions"):
        told = config(kafka, topic)
        assert (told["min.insync.replicas"], told["unclean.leader.election.enable"]) == ("1", "false")
    assert config(kafka, f"landfall.{early.replace('/', '.')}")["retention.ms"] == "86400000"
    assert config(kafka, "landfall.positions")["cleanup.policy"] == "compact"
    topics = admin_of(kafka).list_topics(timeout=60).topics
    assert {"landfall.alerts", "landfall.events", "landfall.ships", "landfall.containers"} <= topics.keys()
    assert fanout.step() == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_either_mechanism_lets_in(kafka: Kafka, hq: Headquarters, tmp_path: Path, mechanism: Mechanism) -> None:
    """A log, the fan-out and a reader of it, whose name is as people have one; who has no login for it is told which it has to be."""
    log = open_kafka_log(place(kafka, tmp_path / "log", mechanism=mechanism))
    append_rows(log, rows(3))
    assert numbers(log) == [0, 1, 2]
    log.close()
    name = f"4.Anna_{mechanism[-3:]}@ducks-and-sons.example"
    fanout = make(kafka, hq, {"mechanism": mechanism}, readers=[{"username": name, "password": PASSWORD, "streams": ["alerts"]}])
    hq.everything()
    fanout.start()
    fanout.step()
    of_reader = KafkaAccess(brokers=kafka.address, username=name, password=SecretStr(PASSWORD), mechanism=mechanism)
    until(lambda: kafka_configuration.answers(of_reader), "the new login")
    [other] = set(MECHANISMS) - {mechanism}
    with refusal(NotAllowed, "kafka_login_wrong", name, other):
        check_lets_in(of_reader.model_copy(update={"mechanism": other}), 30)
    if mechanism == "SCRAM-SHA-512":
        reader = kafka.reader(name, f"{name}.one", ["landfall.alerts"])
        until(lambda: bool(reader.heard), "its alerts")
        reader.close()


@pytest.mark.parametrize(
    ("brokers", "good"),
    [
        ("[::1]:9092", True),
        ("kafka-1:1,[2001:db8::7]:65535,10.0.0.7:9092", True),
        ("[::1]", False),
        ("::1:9092", False),
        ("[1:2]:9092", False),
        ("kafka:0", False),
        ("kafka:65536", False),
        ("kafka:9092,", False),
        ("kafka:९", False),
    ],
)
def test_where_brokers_are(brokers: str, good: bool) -> None:
    """IPv6 stands in brackets, and no port is above 65535."""
    told = {"brokers": brokers, "username": "landfall", "password": PASSWORD}
    if good:
        assert KafkaAccess.model_validate(told).brokers == brokers
    else:
        with refusal(ValidationError, "brokers"):
            KafkaAccess.model_validate(told)


@pytest.mark.parametrize("username", ["", ".ducks", "ducks]", "a,b", "a=b", "a;b", "two words", "wärme", "ducks\n", "*", "x" * 201])
def test_a_username_that_can_not_be_written_is_refused(username: str) -> None:
    """Rights, groups, super users and the broker's folder name it: what would end or alter it there is told."""
    with refusal(ValidationError, "username"):
        KafkaAccess.model_validate({"brokers": "kafka:9092", "username": username, "password": PASSWORD})


@pytest.mark.parametrize("password", ["quack, quack", 'quack"quack', "quack\\quack", "quack\nquack"])
def test_a_super_users_password_that_can_not_be_written_is_refused(password: str) -> None:
    with refusal(ValidationError, "password"):
        KafkaBrokerSettings.model_validate({"password": password})


def test_fanout_settings_that_do_not_fit(tmp_path: Path) -> None:
    """More copies in step than there are; a reader whose groups would be another's, or the fan-out's own, too."""
    usual = {"log": str(tmp_path), "kafka": {"brokers": "kafka:9092", "username": "a.fanout", "password": PASSWORD}}

    def readers(*names: str) -> dict[str, Any]:
        return {"readers": [{"username": name, "password": PASSWORD, "streams": ["alerts"]} for name in names]}

    for change, setting in (
        ({"replication": 2, "min_insync": 3}, "min_insync"),
        (readers("ducks", "ducks.anna"), "readers.0.username"),
        (readers("a"), "readers.0.username"),
    ):
        with refusal(ValidationError, setting):
            FanoutSettings.model_validate(usual | change)
    assert len(FanoutSettings.model_validate(usual | readers("ducks", "ducks-anna", "duck")).readers) == 3
