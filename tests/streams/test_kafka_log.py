"""Goal: what a log in a Kafka says is in the broker alone: its local index may be lost, old or behind, its readers may be anywhere."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.storage import log_kinds
from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.index import INDEX_NAME
from landfall.storage.kafka.commit_transaction import KafkaLogPlace
from landfall.storage.kafka.kafka_configuration import client_settings
from landfall.storage.kafka.kafka_log import Gathering
from landfall.storage.kafka.kafka_reader import KafkaLogReader
from landfall.storage.kafka.topic_names import WHERE, KafkaTopicNames
from landfall.storage.log_kinds import in_kafka, open_reader
from streams.codec import BlockCodec
from streams.log import Append, Appended
from streams.model.block import Block
from streams.model.errors import Misuse, NotAllowed, Trimmed
from streams.model.identifiers import STREAM_PATTERN, Origin, Position
from tests.fanout.kafka import Kafka, until
from tests.streams.kafkaingesting import go_on_after_a_copy_and_die
from tests.streams.kafkakit import alone, open_kafka_log, place
from tests.streams.logkit import append_rows, content, copy_all, numbers, offsets, open_log, rows, verified
from tests.streams.quickkafka import quick_clients
from tests.support.refusals import refusal

PROCESSES = multiprocessing.get_context("forkserver")
STREAMS = ("alerts", "containers", "customers/ducks")


def count_consistently(folder: Path, wanted: int) -> None:
    """Reads until it has seen `wanted` rows: at every look the Position it is told is readable to the last row, and never goes back."""
    seen = 0
    with quick_clients(), closing(KafkaLogReader(folder, BlockCodec())) as reader:
        while seen < wanted:
            reached = sum(reader.position("containers").values())
            found = numbers(reader)
            assert found == list(range(len(found)))
            assert len(found) >= max(seen, reached)
            seen = len(found)


def bounds(where: KafkaLogPlace, stream: str) -> tuple[int, int]:
    """First record and end of the stream's Kafka topic."""
    admin = AdminClient(client_settings(where.settings))
    topic = TopicPartition(where.names.topic(stream), 0)
    first, end = (
        admin.list_offsets({topic: spec}, request_timeout=60)[topic].result().offset
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return first, end


class Watched(Disk):
    """At each name that is synced, somebody who waits for the log looks for it."""

    def __init__(self) -> None:
        self.found: list[type] = []

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        if (folder / INDEX_NAME).exists():
            reader = open_reader(folder, BlockCodec())
            self.found.append(type(reader))
            reader.close()


def test_who_waits_for_the_log_takes_it_for_what_it_is_from_the_first_moment(kafka: Kafka, tmp_path: Path) -> None:
    where, disk = place(kafka, tmp_path), Watched()
    log = open_kafka_log(where, options=alone(disk=disk))
    log.close()
    assert set(disk.found) == {KafkaLogReader}


def test_who_looks_between_a_kafkas_word_and_its_index_is_not_misled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder was empty at the first look; at the second it says what it is, and has an index."""
    open_log(tmp_path).close()
    looks = iter([False, True])
    monkeypatch.setattr(log_kinds, "in_kafka", lambda folder: next(looks))
    with pytest.raises(FileNotFoundError, match=WHERE):
        log_kinds.open_reader(tmp_path / "log", BlockCodec())


def test_a_kafka_that_lets_nobody_in_leaves_the_folder_free(kafka: Kafka, tmp_path: Path) -> None:
    where = place(kafka, tmp_path, password="not quack")
    with pytest.raises(NotAllowed):
        open_kafka_log(where)
    assert not in_kafka(where.folder)


def test_the_local_disk_is_lost(kafka: Kafka, tmp_path: Path) -> None:
    """All the ledger knows comes back from the broker; with the marker in the same generation, without it in a new one."""
    where, other = place(kafka, tmp_path), open_log(tmp_path / "other", "port-b")
    log = open_kafka_log(where)
    origin = log.origin
    for start in range(0, 40, 10):
        log.append([Append("containers", rows(10, start=start), "gateway", start), Append("customers/ducks", rows(2))])
    append_rows(other, rows(20), "containers")
    log.admit(list(other.blocks("containers", other.origin, 5, 15)))
    log.declare_gone("containers", origin, 3, 6, "thinned")
    log.trim("containers", origin, 2)
    before = content(log, STREAMS), log.ledger("containers"), log.streams()
    log.close()
    for lost, same in (([where.folder], True), ([where.folder, where.marker], False)):
        for path in lost:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        log = open_kafka_log(where)
        assert (content(log, STREAMS), log.ledger("containers"), log.streams()) == before
        assert (log.origin == origin) is same
        if same:
            again = log.append([Append("containers", rows(10, start=30), "gateway", 30), Append("containers", rows(1), "gateway", 40)])
            assert [(one.first, one.count) for one in again] == [(30, 0), (40, 1)]
            before = content(log, STREAMS), log.ledger("containers"), log.streams()
        log.close()
    assert [opening.predecessor for opening in log.generations()] == [0, origin.generation]
    other.close()


def test_another_nodes_log_leaves_nothing_behind(kafka: Kafka, tmp_path: Path) -> None:
    """Goal: a prefix mistaken in the settings costs a node nothing: not what it knows of its own log, nor the folder's being free."""
    mine, others = place(kafka, tmp_path / "mine"), place(kafka, tmp_path / "others", "port-b")
    for where in (mine, others):
        log = open_kafka_log(where)
        append_rows(log, rows(10))
        log.close()
    for folder in (mine.folder.parent, tmp_path / "new"):
        with refusal(Misuse, "log_of_another", "port-b", "ship-a"):
            open_kafka_log(KafkaLogPlace(others.settings, "ship-a", folder / "log", folder / "marker"))
    with closing(KafkaLogReader(mine.folder, BlockCodec())) as reader:
        assert [origin.node for origin in reader.ledger("containers")] == ["ship-a"]
    log = open_kafka_log(mine)
    assert len(log.generations()) == 1, "it was not doubted"
    assert numbers(log) == list(range(10))
    log.close()
    open_log(tmp_path / "new").close()


def test_an_old_copy_of_the_index_is_brought_up(kafka: Kafka, tmp_path: Path) -> None:
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    append_rows(log, rows(5))
    log.close()
    shutil.copytree(where.folder, tmp_path / "backup")
    log = open_kafka_log(where)
    append_rows(log, rows(5, start=5))
    origin = log.origin
    log.close()
    shutil.rmtree(where.folder)
    shutil.move(tmp_path / "backup", where.folder)
    log = open_kafka_log(where)
    assert (log.origin, numbers(log)) == (origin, list(range(10)))
    assert append_rows(log, rows(5, start=10)) == 10
    log.close()


def test_a_kafka_that_lost_records(kafka: Kafka, tmp_path: Path) -> None:
    """A new generation, though the last commit is there: no offset is given twice. The rest is fetched from a peer like anybody's."""
    where, peer = place(kafka, tmp_path), open_log(tmp_path / "peer", "port-b")
    log = open_kafka_log(where)
    append_rows(log, rows(10))
    append_rows(log, rows(1), "ships")
    copy_all(log, peer, ["containers"])
    origin = log.origin
    log.close()
    admin = AdminClient(client_settings(where.settings))
    [deleted] = admin.delete_topics([where.names.topic("containers")]).values()
    deleted.result()
    log = open_kafka_log(where)
    assert log.origin.generation > origin.generation
    assert log.generations()[-1].predecessor == origin.generation
    assert copy_all(peer, log, ["containers"]) == 10
    assert append_rows(log, rows(1)) == 0
    assert content(peer, ["containers"]).items() <= content(log, ["containers"]).items()
    log.close()
    peer.close()


def test_a_kafka_that_lost_what_the_index_does_not_know_either(kafka: Kafka, tmp_path: Path) -> None:
    """The last commit is gone from the broker, and the folder is a copy from before it: of that commit a killed process's marker alone
    tells. A new generation: its offset is not given twice.
    """
    where = place(kafka, tmp_path)
    process = PROCESSES.Process(target=go_on_after_a_copy_and_die, args=(where, tmp_path / "old"), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    admin = AdminClient(client_settings(where.settings))
    [deleted] = admin.delete_topics([where.names.topic("containers")]).values()
    deleted.result()
    shutil.rmtree(where.folder)
    shutil.move(tmp_path / "old", where.folder)
    log = open_kafka_log(where)
    assert [opening.why for opening in log.generations()] == ["the log is new", "the log ends at commit 11, but the marker has seen 12"]
    assert len(numbers(log, "ships")) == 10
    log.close()


def test_what_is_gone_leaves_the_broker_once_nothing_before_it_is_held(kafka: Kafka, tmp_path: Path) -> None:
    """A ship that thins what lies in a Kafka gets room: the oldest goes first, and what goes before its turn waits for it."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    for start in range(0, 50, 10):
        append_rows(log, rows(10, start=start))
    log.declare_gone("containers", log.origin, 20, 30, "thinned")
    assert bounds(where, "containers")[0] == 0
    log.declare_gone("containers", log.origin, 0, 20, "thinned")
    first, end = bounds(where, "containers")
    assert end - first == 4, "two blocks, and that their transactions ended"
    log.close()
    shutil.rmtree(where.folder)
    log = open_kafka_log(where)
    origin = min(log.ledger("containers"))
    assert offsets(log, "containers", origin) == list(range(30, 50))
    assert log.position("containers")[origin] == 50
    log.close()


def test_what_is_trimmed_leaves_the_broker(kafka: Kafka, tmp_path: Path) -> None:
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    for start in range(0, 50, 10):
        append_rows(log, rows(10, start=start))
    reader = KafkaLogReader(where.folder, BlockCodec())
    looked = reader.run("containers", log.origin, 0, 50)
    log.trim("containers", log.origin, 25)
    first, end = bounds(where, "containers")
    assert 0 < first < end
    assert [row for batch in looked for row in batch.records.column("number").to_pylist()][-25:] == list(range(25, 50))
    with pytest.raises(Trimmed):
        list(reader.read("containers", Position()))
    log.trim("containers", log.origin, 50)
    assert bounds(where, "containers") == (end, end)
    assert append_rows(log, rows(5, start=50)) == 50
    log.close()
    shutil.rmtree(where.folder)
    log = open_kafka_log(where)
    assert log.ledger("containers")[log.origin].floor == 50
    assert offsets(log, "containers", log.origin) == list(range(50, 55))
    log.close()
    reader.close()


def test_a_block_that_is_too_large_is_cut(kafka: Kafka, tmp_path: Path) -> None:
    """No Kafka record is longer than the setting; a block that can not be cut here is refused with what to do."""
    where, peer = place(kafka, tmp_path, record_bytes_max=10_000), open_log(tmp_path / "peer", "port-b")
    noise = rows(5_000).append_column("noise", pa.array(np.random.default_rng(1).normal(size=5_000)))
    log = open_kafka_log(where)
    append_rows(log, noise)
    append_rows(peer, noise)
    assert copy_all(peer, log, ["containers"]) == 5_000
    assert copy_all(log, peer, ["containers"]) == 5_000
    for origin in (log.origin, peer.origin):
        blocks = list(log.blocks("containers", origin, 0, 5_000))
        assert len(blocks) > 5
        assert max(len(block.to_bytes()) for block in blocks) < 10_000
    assert content(log, ["containers"]) == content(peer, ["containers"])
    whole = Block("containers", Origin("port-c", 7), 0, 5_000, 1, 2, 99, bytes(20_000))
    with refusal(Misuse, "block_too_large"):
        log.admit([whole])
    log.close()
    peer.close()


def test_a_reader_in_another_process_while_the_log_is_written(kafka: Kafka, tmp_path: Path) -> None:
    where = place(kafka, tmp_path)
    log = open_kafka_log(where)
    append_rows(log, rows(10))
    assert (where.folder / WHERE).stat().st_mode & 0o777 == 0o600, "it holds a password"
    reading = PROCESSES.Process(target=count_consistently, args=(where.folder, 300), daemon=True)
    reading.start()
    for commit in range(1, 30):
        append_rows(log, rows(10, start=10 * commit))
    reading.join(60)
    assert reading.exitcode == 0
    log.close()


def test_what_somebody_else_writes_into_it_is_told_and_passed_over(kafka: Kafka, tmp_path: Path) -> None:
    where, damages = place(kafka, tmp_path), list[Damage]()
    log = open_kafka_log(where)
    append_rows(log, rows(3))
    log.close()
    stranger = Producer(client_settings(where.settings))
    for topic in (where.names.topic("containers"), where.names.control):
        stranger.produce(topic, b"quack", b"quack")
    assert not stranger.flush(60)
    log = open_kafka_log(where, options=alone(on_damage=damages.append))
    assert len(damages) == 2
    assert append_rows(log, rows(3, start=3)) == 3
    assert numbers(log) == list(range(6))
    assert verified(log) == 0
    log.close()


def test_an_alert_waits_for_nobody_and_takes_the_others_along() -> None:
    """Without the alert the readings would wait for ten minutes. A mistake is its caller's alone."""
    commits: list[list[str]] = []

    def append(appends: list[Append]) -> list[Appended]:
        if any(one.stream == "wrong" for one in appends):
            raise Misuse("wrong")
        commits.append([one.stream for one in appends])
        return [Appended(one.stream, Origin("ship-a", 1), 0, one.records.num_rows) for one in appends]

    gathering = Gathering(append, gather_ms=600_000)  # type: ignore[arg-type]
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(gathering.append, [Append(stream, rows(count))]) for stream, count in (("ships", 2), ("wrong", 1))]
        until(lambda: len(gathering._waiting) == 2, "both to wait")
        assert not commits
        assert gathering.append([Append("alerts", rows(1))])[0].count == 1
        assert waiting[0].result(60)[0].count == 2
        with pytest.raises(Misuse):
            waiting[1].result(60)
    assert sorted(stream for commit in commits for stream in commit) == ["alerts", "ships"]


@settings(max_examples=30)
@given(st.from_regex(STREAM_PATTERN, fullmatch=True), st.from_regex(STREAM_PATTERN, fullmatch=True))
def test_names_of_kafka_topics(one: str, other: str) -> None:
    """Legal, and back again; two streams' names differ even to a broker, which takes `.` and `_` for alike."""
    names = KafkaTopicNames("log-hq")
    if len(one) < 200:
        assert names.stream(names.topic(one)) == one
        assert KafkaTopicNames("log").stream(names.topic(one)) is None
    if one != other and max(len(one), len(other)) < 200:
        assert names.topic(one).replace(".", "_") != names.topic(other).replace(".", "_")
    assert names.stream(names.control) is None
