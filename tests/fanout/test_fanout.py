"""In a real Kafka a stock consumer finds each record once, whatever is killed, and each reader only what is its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec
from pydantic import SecretStr, ValidationError

from hq.fanout.customer_routes import POSITIONS, kafka_topic
from hq.fanout.kafka_client import committed_standings
from hq.fanout.kafka_writer import LOOK_EVERY_S, Fanout
from hq.fanout.settings import FanoutSettings
from landfall.storage.file_log import FileLog
from landfall.storage.kafka.kafka_configuration import client_settings
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import NotAllowed, RetryLater
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from tests.fanout.headquarters import DUCKS, NOW_MS, OTHERS, Headquarters, of, plain
from tests.fanout.kafka import PASSWORD, Kafka, Process, until
from tests.node.points import FANOUT
from tests.support.refusals import refusal

EVERYTHING = ("alerts", "events", "ships", "containers", "customers/*")
READERS = {"operations": EVERYTHING, "ducks": ("customers/ducks",), "machines": ("customers/machines",)}
ALL_TOPICS = ("landfall.alerts", "landfall.events", "landfall.ships", "landfall.containers", "^landfall.customers.*")


def settings_for(kafka: Kafka, hq: Headquarters, **more: Any) -> dict[str, Any]:
    """The fan-out's settings, as its TOML file has them."""
    readers = [{"username": name, "password": PASSWORD, "streams": list(streams)} for name, streams in READERS.items()]
    access = {"brokers": kafka.address, "username": "landfall", "password": PASSWORD}
    return {"log": str(hq.folder), "kafka": access, "readers": readers, "poll_interval_s": 0.02, "partitions": 2, **more}


def make(kafka: Kafka, hq: Headquarters, **more: Any) -> Fanout:
    """A fan-out in this process, started."""
    settings = FanoutSettings.model_validate(settings_for(kafka, hq, **more))
    fanout = Fanout(hq.reader(), settings, Metrics("fanout"))
    fanout.start()
    return fanout


@pytest.mark.long
def test_killed_after_every_commit_and_the_broker_restarted(kafka: Kafka, hq: Headquarters, tmp_path: Path) -> None:
    """SIGKILL at each commit point, several steps a life; then the broker restarts while all runs: each record once, topics in order."""
    reader = kafka.reader("operations", "operations.kills", ALL_TOPICS)
    fanout = Process(tmp_path, "fanout", settings_for(kafka, hq, transaction_records_max=7))
    wanted = hq.everything()
    _, _, written, committed = FANOUT
    for passage in (*(f"{point}:1" for point in FANOUT), f"{written}:2", f"{committed}:2", f"{written}:3"):
        fanout.start(crash_at=passage)
        assert fanout.ended() == -signal.SIGKILL
        wanted += hq.readings(DUCKS, count=2)
    fanout.start()
    until(lambda: of(reader, hq) == plain(wanted), "each record once")
    assert kafka.stop() == 0
    wanted += hq.everything()
    kafka.start()
    wanted += hq.everything()
    until(lambda: len(of(reader, hq)) >= len(wanted), "what came while the broker was away")
    assert fanout.stop() == 0, fanout.words.read_text()
    assert of(reader, hq) == plain(wanted)
    ours = [(topic, key, value["offset"]) for topic, key, value in reader.heard if value["origin"] == str(hq.log.origin)]
    for box in (*DUCKS, *OTHERS):
        told = [offset for topic, key, offset in ours if topic == "landfall.containers" and key == box.encode()]
        assert told == sorted(told)
        assert told
    reader.close()


@pytest.mark.long
def test_an_alert_lost_at_sea_holds_up_no_other_and_comes_late(kafka: Kafka, hq: Headquarters, tmp_path: Path) -> None:
    """Offset 1 of five alerts of a ship is missing: the later ones are in Kafka at once, it once when it comes, killed at each commit."""
    with closing(FileLog(tmp_path / "ship", tmp_path / "ship.marker", "ship-one", BlockCodec(), StillClock(NOW_MS))) as ship:
        for number in range(5):
            ship.append([Append("alerts", to_batch([Record(DUCKS[0], body={"alert_id": f"a{number}"})]))])
        for first, end in ((0, 1), (2, 5)):
            hq.log.admit(list(ship.blocks("alerts", ship.origin, first, end)))
        reader = kafka.reader("operations", "operations.holes", ["landfall.alerts"])

        def heard() -> list[int]:
            return [offset for _, origin, offset in reader.coordinates() if origin == str(ship.origin)]

        fanout = Process(tmp_path, "fanout", settings_for(kafka, hq))
        _, _, written, committed = FANOUT
        for point in (written, committed):
            fanout.start(crash_at=f"{point}:1")
            assert fanout.ended() == -signal.SIGKILL
        until(lambda: heard() == [0, 2, 3, 4], "the alerts that are here")
        access = make(kafka, hq).settings.kafka
        assert committed_standings(access)["alerts"].skipped == {ship.origin: RangeSet([(1, 2)])}
        hq.log.admit(list(ship.blocks("alerts", ship.origin, 1, 2)))
        for point in (written, committed):
            fanout.start(crash_at=f"{point}:1")
            assert fanout.ended() == -signal.SIGKILL
        assert make(kafka, hq).step() == 0
        until(lambda: heard() == [0, 1, 2, 3, 4], "each once")
        standing = committed_standings(access)["alerts"]
        assert (standing.position[ship.origin], standing.skipped) == (5, {})
        reader.close()


def test_a_customer_reads_its_own_and_nothing_else(kafka: Kafka, hq: Headquarters) -> None:
    """The duck owner hears its ducks; of alerts, all readings, the other customer and groups not its own it hears that it may not."""
    wanted = [one for one in hq.everything() if one.stream == "customers/ducks"]
    make(kafka, hq).step()
    own = kafka.reader("ducks", "ducks.warehouse", ["landfall.customers.ducks"])
    until(lambda: of(own, hq) == plain(wanted), "its ducks")
    assert {value["topic"] for _, _, value in own.heard} == set(DUCKS)
    own.close()
    foreign = ["landfall.customers.machines", "landfall.alerts", "landfall.containers", "landfall.positions"]
    curious = kafka.reader("ducks", "ducks.curious", foreign)
    until(lambda: {topic for _, topic in curious.refused} == set(foreign), "the refusal of each topic")
    assert not curious.heard
    curious.close()
    impostor = kafka.reader("ducks", "machines.warehouse", ["landfall.customers.ducks"])
    until(lambda: bool(impostor.refused), "the refusal of another's group")
    assert not impostor.heard
    impostor.close()


def test_a_foreign_topic_can_not_be_told_from_none(kafka: Kafka, hq: Headquarters) -> None:
    """Whatever the duck owner asks the broker about another customer's topic and group, which exist and hold messages, it hears word for
    word what it hears about ones that do not exist; the list of topics has its own alone."""
    hq.everything()
    make(kafka, hq).step()
    theirs = kafka.reader("machines", "machines.warehouse", ["landfall.customers.machines"])
    until(lambda: bool(theirs.heard), "the other customer's messages, and its group")
    theirs.close()
    answers = {who: heard_of(kafka, who) for who in ("machines", "nobody")}
    assert answers["machines"] == answers["nobody"]
    assert all(answers["machines"].values()), answers
    topics = AdminClient(login_of(kafka, "ducks")).list_topics(timeout=60).topics
    assert [name for name in topics if name.startswith("landfall.")] == ["landfall.customers.ducks"]


def login_of(kafka: Kafka, username: str) -> dict[str, Any]:
    """A stock client's settings."""
    return client_settings(kafka.access.model_copy(update={"username": username, "password": SecretStr(PASSWORD)}))


def heard_of(kafka: Kafka, who: str) -> dict[str, str]:
    """What the broker tells the duck owner who asks about `who`'s topic and group, by question, with `who` left out."""
    settings, topic, group = login_of(kafka, "ducks"), f"landfall.customers.{who}", f"{who}.warehouse"
    admin, partition = AdminClient(settings), TopicPartition(f"landfall.customers.{who}", 0)
    consumer = Consumer(settings | {"group.id": "ducks.curious"})
    intruder = Consumer(settings | {"group.id": group})
    producer = Producer(settings | {"message.timeout.ms": 3_000})
    refused: list[Any] = []
    subscriber = kafka.reader("ducks", "ducks.curious", [topic])
    until(lambda: bool(subscriber.refused), f"the refusal of {topic}")
    subscriber.close()
    try:
        producer.produce(topic, b"quack", on_delivery=lambda problem, _: refused.append(problem))
        producer.flush(60)
    except KafkaException as problem:  # the client had heard of the refusal before
        refused.append(problem.args[0])
    heard = {
        "subscribe": str(subscriber.refused),
        "metadata": str(admin.list_topics(topic, timeout=60).topics[topic].error),
        "describe": said(lambda: admin.describe_topics(TopicCollection([topic]))[topic].result(60)),
        "configuration": said(lambda: next(iter(admin.describe_configs([ConfigResource("topic", topic)]).values())).result(60)),
        "ends": said(lambda: consumer.get_watermark_offsets(partition, timeout=60)),
        "offsets": said(lambda: next(iter(admin.list_offsets({partition: OffsetSpec.for_timestamp(0)}).values())).result(60)),
        "times": said(lambda: consumer.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=60)),
        "committed": said(lambda: intruder.committed([partition], timeout=0.3)),
        "group": said(lambda: admin.describe_consumer_groups([group])[group].result(60)),
        "create": said(lambda: next(iter(admin.create_topics([NewTopic(topic, 1, 1)]).values())).result(60)),
        "delete": said(lambda: next(iter(admin.delete_topics([topic]).values())).result(60)),
        "produce": str([problem.code() for problem in refused]),
    }
    for one in (consumer, intruder):
        one.close()
    return {question: answer.replace(who, "<who>") for question, answer in heard.items()}


def said(question: Callable[[], Any]) -> str:
    """The answer or the refusal, as text."""
    try:
        return repr(question())
    except KafkaException as problem:
        return str(problem)


def test_a_right_taken_out_of_the_settings_is_taken_away(kafka: Kafka, hq: Headquarters) -> None:
    hq.everything()
    late = {"username": "auditor", "password": PASSWORD, "streams": ["alerts"]}
    make(kafka, hq, readers=[late]).step()
    reader = kafka.reader("auditor", "auditor.one", ["landfall.alerts"])
    until(lambda: bool(reader.heard), "the alerts")
    reader.close()
    make(kafka, hq)
    refused = kafka.reader("auditor", "auditor.two", ["landfall.alerts"])
    until(lambda: bool(refused.refused), "the refusal")
    assert not refused.heard
    refused.close()


def test_a_second_fanout_puts_an_end_to_the_first(kafka: Kafka, hq: Headquarters) -> None:
    """Two of one name: the earlier one learns it at its next commit, and its messages are nowhere."""
    wanted = hq.everything()
    first = make(kafka, hq)
    second = make(kafka, hq)
    with refusal(NotAllowed, "fenced"):
        first.step()
    assert second.step() == len(wanted)
    reader = kafka.listener(r"landfall\.(?!positions).*")
    until(lambda: of(reader, hq) == plain(wanted), "each record once")
    reader.close()
    assert all(key.decode() == value["topic"] for _, key, value in reader.heard)


def test_what_is_gone_or_below_the_floor_is_passed_over(kafka: Kafka, hq: Headquarters) -> None:
    """Records declared gone and records trimmed from this copy are no reason to wait; the Position in Kafka passes them."""
    read = hq.readings(DUCKS)
    origin = hq.log.origin
    hq.log.declare_gone("containers", origin, 10, 15, "thinned")
    hq.log.trim("containers", origin, 3)
    fanout = make(kafka, hq)
    assert fanout.step() == 7
    assert fanout.step() == 0
    assert committed_standings(fanout.settings.kafka)["containers"].position[origin] == 15
    later = hq.readings(DUCKS[:1])
    assert fanout.step() == len(later)
    reader = kafka.listener(r"landfall\.containers")
    until(lambda: of(reader, hq) == plain([*read[3:10], *later]), "what is left")
    reader.close()


def test_settings_name_streams_that_are_fanned_out(tmp_path: Path) -> None:
    """A right on what is not fanned out, or one login for two, is refused with the reason."""
    access = {"brokers": "kafka:9092", "username": "landfall", "password": PASSWORD}
    for readers, setting in (
        ([{"username": "x", "password": PASSWORD, "streams": ["registry"]}], "readers.0.streams"),
        ([{"username": "x", "password": PASSWORD, "streams": ["cust*"]}], "readers.0.streams"),
        ([{"username": "landfall", "password": PASSWORD, "streams": ["alerts"]}], "readers.0.username"),
    ):
        with refusal(ValidationError, setting):
            FanoutSettings.model_validate({"log": str(tmp_path), "kafka": access, "readers": readers})


def test_what_kafka_lacks_is_reported(kafka: Kafka, hq: Headquarters) -> None:
    """Records dropped here before they were fanned out; and a Kafka topic that was deleted under the fan-out."""
    hq.readings(DUCKS[:1], 5)
    first = make(kafka, hq)
    assert (first.step(), first.unread, first.lost) == (5, [], [])
    hq.readings(DUCKS[:1], 10)
    hq.log.trim("containers", hq.log.origin, 12)
    second = make(kafka, hq)
    assert second.step() == 3
    assert [str(one) for one in second.unread] == [f"containers:{hq.log.origin} 5..11"]
    topic = kafka_topic("containers")
    admin = AdminClient(client_settings(kafka.access))
    admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is deleted")
    third = make(kafka, hq)
    assert [topic in reason for reason in third.lost] == [True]
    assert make(kafka, hq).lost == [], "it is made again"


def test_positions_that_are_deleted_while_it_runs_are_reported_and_written_again(kafka: Kafka, hq: Headquarters) -> None:
    """The next process goes on from them. Deleted while no process knows them, all is fanned out again, and that is reported."""
    hq.readings(DUCKS[:1], 5)
    clock, admin = StillClock(), AdminClient(client_settings(kafka.access))
    one = Fanout(hq.reader(), FanoutSettings.model_validate(settings_for(kafka, hq)), Metrics("fanout"), clock)
    one.start()
    assert (one.step(), one.lost) == (5, [])
    for known in (True, False):
        admin.delete_topics([POSITIONS])[POSITIONS].result()
        until(lambda: POSITIONS not in admin.list_topics(timeout=10).topics, "the topic is deleted")
        if known:
            clock.advance(LOOK_EVERY_S)
            written = False
            while not written:
                try:
                    assert one.step() == 0
                    written = True
                except RetryLater:  # the producer does not know the new topic yet
                    one.start()
            assert [POSITIONS in reason for reason in one.lost] == [True]
        other = make(kafka, hq)
        assert (other.step(), [POSITIONS in reason for reason in other.lost]) == ((0, []) if known else (5, [True]))


def test_a_topic_that_is_deleted_while_it_runs_is_reported(kafka: Kafka, hq: Headquarters) -> None:
    """Also where nothing is to be written to it, and where somebody has made it again; it is there for what comes next."""
    hq.readings(DUCKS[:1], 5)
    clock, admin, topic = StillClock(), AdminClient(client_settings(kafka.access)), kafka_topic("containers")
    one = Fanout(hq.reader(), FanoutSettings.model_validate(settings_for(kafka, hq)), Metrics("fanout"), clock)
    one.start()
    assert (one.step(), one.lost) == (5, [])
    for made_again in (False, True):
        admin.delete_topics([topic])[topic].result()
        until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is deleted")
        if made_again:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        assert (one.step(), one.lost) == (0, []), "not looked yet"
        clock.advance(LOOK_EVERY_S)
        assert (one.step(), [topic in reason for reason in one.lost]) == (0, [True])
        one.lost.clear()
        clock.advance(LOOK_EVERY_S)
        assert (one.step(), one.lost) == (0, []), "once"
        until(lambda: topic in admin.list_topics(timeout=10).topics, "it is made again")
    hq.readings(DUCKS[:1], 7)
    taken = 0
    while not taken:
        try:
            taken = one.step()
        except RetryLater:  # the producer does not know the new topic yet
            one.start()
    assert (taken, one.lost) == (7, [])
