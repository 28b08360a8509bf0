"""Goal: whatever is killed, suspended or short of brokers, what a log in a Kafka acknowledged is there once, and nothing else is seen."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from landfall.storage.append_planner import NewBlock
from landfall.storage.kafka import commit_transaction
from landfall.storage.kafka.commit_transaction import KafkaLogOptions, KafkaLogPlace, instance
from landfall.storage.kafka.kafka_configuration import client_settings
from landfall.storage.kafka.kafka_log import KafkaLog
from landfall.storage.kafka.kafka_reader import KafkaLogReader
from landfall.storage.kafka.kafka_records import block_headers
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from streams.codec import BlockCodec
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from tests.fanout.kafka import Kafka, until
from tests.streams.kafkaingesting import FENCED_EXIT, ROWS, ingest
from tests.streams.kafkakit import FurtherBroker, MuteKafka, alone, open_kafka_log, place
from tests.streams.logkit import FullDisk, append_rows, numbers, rows, stamped
from tests.support.refusals import refusal

PROCESSES = multiprocessing.get_context("forkserver")
DEADLINE_S = 60.0
POINTS = ("log.kafka.begun", "log.kafka.written", "log.kafka.committed", "log.kafka.indexed")


def start(where: KafkaLogPlace, acknowledged: Path, crash_at: str | None = None) -> BaseProcess:
    process = PROCESSES.Process(target=ingest, args=(where, acknowledged, crash_at), daemon=True)
    process.start()
    return process


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def check(log: KafkaLog, acknowledged: int, origins: int = 1) -> None:
    """All that was acknowledged is there once, and at most the one commit that was on its way besides, in both streams or in none."""
    found = sorted(numbers(log))
    commits = len(found) // ROWS
    assert found == list(range(commits * ROWS))
    assert acknowledged <= commits <= acknowledged + 1
    assert sum(log.position("ships").values()) == commits
    assert len(log.generations()) == origins


def test_killed_between_any_two_steps(kafka: Kafka, tmp_path: Path) -> None:
    """Life after life, each dies at a later passage of a point; the same process started again goes on in its generation."""
    where, acknowledged = place(kafka, tmp_path), tmp_path / "acknowledged"
    for passage, point in enumerate(POINTS, 2):
        process = start(where, acknowledged, f"{point}:{passage}")
        process.join(DEADLINE_S)
        assert process.exitcode == -signal.SIGKILL
        log = open_kafka_log(where)
        check(log, size(acknowledged))
        log.close()
    assert size(acknowledged) > len(POINTS)


@pytest.mark.torture
def test_killed_at_any_instant(kafka: Kafka, tmp_path: Path) -> None:
    chance = random.Random()
    where, acknowledged = place(kafka, tmp_path), tmp_path / "acknowledged"
    for _ in range(300):
        process = start(where, acknowledged)
        before = size(acknowledged)
        until(lambda: size(acknowledged) > before, "an acknowledgement")  # noqa: B023
        process.join(chance.uniform(0, 0.3))
        process.kill()
        process.join(DEADLINE_S)
        log = open_kafka_log(where)
        check(log, size(acknowledged))
        log.close()


@pytest.mark.long
def test_the_broker_is_killed_in_the_middle_of_appends(kafka: Kafka, tmp_path: Path) -> None:
    """Appends wait while it is away. Three threads; each number appended once is there once."""
    log = open_kafka_log(place(kafka, tmp_path, mechanism="SCRAM-SHA-512", gather_ms=2, answer_s=60))
    count, threads = 40, 3
    started = []

    def work(thread: int) -> None:
        for number in range(count):
            append_rows(log, rows(1, start=count * thread + number))
            started.append(number)

    with ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(work, thread) for thread in range(threads)]
        until(lambda: len(started) > 10, "some appends")
        kafka.kill()
        kafka.start()
        for one in working:
            one.result(DEADLINE_S)
    assert sorted(numbers(log)) == list(range(threads * count))
    assert append_rows(log, rows(1)) == threads * count
    log.close()


@pytest.mark.long
def test_a_suspended_writer_is_replaced_and_can_not_write_any_more(kafka: Kafka, tmp_path: Path) -> None:
    """The standby, on a disk of its own, takes over, under a new generation; the zombie, awake again, is told so at its next append."""
    where, acknowledged = place(kafka, tmp_path / "a"), tmp_path / "acknowledged"
    (tmp_path / "a").mkdir()
    process = start(where, acknowledged)
    until(lambda: size(acknowledged) > 3, "acknowledgements")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    before = size(acknowledged)
    standby = open_kafka_log(place(kafka, tmp_path / "b", prefix=where.settings.prefix), options=KafkaLogOptions())
    assert append_rows(standby, rows(2), "alerts") == 0
    taken_over = numbers(standby)
    os.kill(process.pid, signal.SIGCONT)
    process.join(DEADLINE_S)
    assert process.exitcode == FENCED_EXIT
    check(standby, before, origins=2)
    assert append_rows(standby, rows(2), "alerts") == 2
    standby.close()
    rebuilt = open_kafka_log(place(kafka, tmp_path / "c", prefix=where.settings.prefix))
    assert numbers(rebuilt) == taken_over, "the zombie wrote nothing more: what the broker had committed before is all there is of it"
    check(rebuilt, size(acknowledged), origins=3)
    rebuilt.close()


def test_nobody_takes_over_from_a_writer_that_lives(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its name comes before the writer's or after it, a process that joins stands by; one that does not wait is refused."""
    monkeypatch.setattr(commit_transaction, "FOLLOW_EVERY_S", 0.1)
    places = sorted((place(kafka, tmp_path / f"{number}", prefix=tmp_path.name.replace("_", "-")) for number in range(3)), key=instance)
    before, where, after = places
    log, stopping = open_kafka_log(where, options=KafkaLogOptions()), threading.Event()
    admin = AdminClient(client_settings(where.settings))

    def all_joined() -> bool:
        group = admin.describe_consumer_groups([f"{where.settings.prefix}.writer"])
        [found] = [one.result(DEADLINE_S) for one in group.values()]
        return found.state == ConsumerGroupState.STABLE and {one.group_instance_id for one in found.members} == set(map(instance, places))

    with ThreadPoolExecutor(2) as pool:
        options = KafkaLogOptions(stopping=stopping)
        standing_by = [pool.submit(open_kafka_log, other, options=options) for other in (before, after)]
        try:
            until(all_joined, "both to be members of the writers' group")
            assert append_rows(log, rows(1)) == 0
        finally:
            stopping.set()
        for other in standing_by:
            with refusal(RetryLater, "asked_to_end"):
                other.result(DEADLINE_S)
    hasty = replace(after, settings=after.settings.model_copy(update={"standby_s": 0.0}))
    with refusal(RetryLater, "log_locked"):
        open_kafka_log(hasty, options=KafkaLogOptions())
    assert append_rows(log, rows(1)) == 1
    assert len(log.generations()) == 1
    log.close()


def test_kafka_does_not_say_whether_it_committed(kafka: Kafka, tmp_path: Path) -> None:
    """When it did, the append answers as ever; when it did not, the caller is told that nothing changed. Either way it goes on at once."""
    log = open_kafka_log(place(kafka, tmp_path), options=alone(transactions=MuteKafka))
    append_rows(log, rows(3))
    MuteKafka.mute[:] = [True]
    assert append_rows(log, rows(3, start=3)) == 3
    MuteKafka.mute[:] = [False]
    with refusal(RetryLater, "kafka_refused"):
        append_rows(log, rows(3, start=100))
    assert append_rows(log, rows(3, start=6)) == 6
    assert numbers(log) == list(range(9))
    log.close()


def test_a_full_disk_of_the_node(kafka: Kafka, tmp_path: Path) -> None:
    """What Kafka has is kept and acknowledged, and no reader, in this process or another, sees it before the index has room for it; until
    then nothing else is appended. Upkeep brings it up and tells whom it concerns, or else the next append does.
    """
    full, where = FullDisk(), place(kafka, tmp_path)
    log = open_kafka_log(where, options=alone(disk=full))
    elsewhere = KafkaLogReader(where.folder, BlockCodec())
    origin, news = log.origin, list[frozenset[str]]()
    log.subscribe(news.append)
    append_rows(log, rows(3))

    def seen() -> list[list[int]]:
        for reader in (log, elsewhere):
            assert reader.position("containers")[origin] == len(numbers(reader))
        return [numbers(log), numbers(elsewhere)]

    ways: list[tuple[Callable[[], object], int]] = [(log.upkeep.step, 3), (lambda: append_rows(log, rows(1), "alerts"), 6)]
    for brought_up, count in ways:
        full.writes_left = 0
        assert append_rows(log, rows(3, start=count)) == count
        with refusal(RetryLater, "disk_refused"):
            append_rows(log, rows(3, start=100), "ships")
        with refusal(RetryLater, "disk_refused"):
            log.upkeep.step()
        assert seen() == [list(range(count))] * 2
        full.writes_left = None
        news.clear()
        brought_up()
        assert frozenset({"containers"}) in news
        assert seen() == [list(range(count + 3))] * 2
    log.close()
    elsewhere.close()


def test_an_aborted_transaction_is_never_seen(kafka: Kafka, tmp_path: Path) -> None:
    """A block that was written and not committed: neither a log that opens nor one built anew from the broker knows of it."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    append_rows(log, rows(3))
    origin = log.origin
    log.close()
    block = BlockCodec().encode("containers", origin, stamped(rows(2, start=3), first=3))
    torn = LogTransactions(where.settings)
    torn.connect()
    torn.write([Outgoing(where.names.topic("containers"), block.to_bytes(), block_headers(NewBlock(block, None, 1), 3))])
    for lost in (False, True):
        if lost:
            (where.folder / "index.sqlite").unlink()
        log = open_kafka_log(where)
        assert log.position("containers") == Position({origin: 3})
        assert numbers(log) == [0, 1, 2]
        log.close()
    log = open_kafka_log(where)
    assert append_rows(log, rows(1, start=3)) == 3
    assert numbers(log) == [0, 1, 2, 3]
    log.close()


def taken(log: KafkaLog, start: int) -> bool:
    """Whether an append of three rows, numbered from `start` on, was not refused."""
    try:
        append_rows(log, rows(3, start=start))
    except RetryLater:
        return False
    return True


@contextmanager
def log_of_several(kafka: Kafka, folder: Path, brokers: int) -> Iterator[tuple[KafkaLog, list[FurtherBroker]]]:
    """A log whose records must be at two of so many brokers, and the brokers but the first."""
    open_kafka_log(
        place(kafka, folder / "first"), options=KafkaLogOptions()
    ).close()  # what all logs of this broker share is made, and stays, where it has a copy
    with ExitStack() as stack:
        further = [stack.enter_context(FurtherBroker(kafka, folder / f"broker-{number}", number)) for number in range(2, brokers + 1)]
        admin = AdminClient(client_settings(place(kafka, folder).settings))
        until(lambda: len(admin.list_topics(timeout=5).brokers) == brokers, f"{brokers} brokers, whose words are in {folder}")
        with closing(open_kafka_log(place(kafka, folder, replication=brokers, min_insync=2, answer_s=3))) as log:
            yield log, further


@pytest.mark.long
def test_too_few_brokers_in_step(kafka: Kafka, tmp_path: Path) -> None:
    """Nothing is acknowledged that fewer brokers have than must; what to do is said, and once it is done the same log goes on.

    Were it never done, the first broker would offer the transaction's end to the missing one for ever and without a pause: a core and
    more for that, for as long as other tests share this broker.
    """
    with log_of_several(kafka, tmp_path, 2) as (log, [second]):
        append_rows(log, rows(3))
        second.kill()
        with refusal(RetryLater, "kafka_refused", "1 of 2 brokers"):
            until(lambda: append_rows(log, rows(3, start=3)) < 0, "a refusal that names the broker")
        second.start()
        until(lambda: taken(log, 3), f"the second broker to be in step, its words are in {tmp_path}")
        assert numbers(log) == list(range(6))


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_one_broker_of_three_may_be_gone(kafka: Kafka, tmp_path: Path) -> None:
    """Of three copies two must be in step: without one broker appends go on, without two none is acknowledged, and nothing is lost."""
    with log_of_several(kafka, tmp_path, 3) as (log, [second, third]):
        append_rows(log, rows(3))
        third.kill()
        until(lambda: taken(log, 3), "the two that are left")
        append_rows(log, rows(3, start=6))
        second.kill()
        with refusal(RetryLater, "kafka_refused", "1 of 3 brokers"):
            until(lambda: append_rows(log, rows(3, start=9)) < 0, "a refusal that names the brokers")
        second.start()
        until(lambda: taken(log, 9), f"the second broker to be in step, its words are in {tmp_path}")
        assert numbers(log) == list(range(12))
        log.close()
        prefix = place(kafka, tmp_path).settings.prefix
        anew = open_kafka_log(place(kafka, tmp_path / "anew", replication=3, min_insync=2, prefix=prefix))
        assert numbers(anew) == list(range(12))
        anew.close()
