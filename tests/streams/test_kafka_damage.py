"""Goal: what does not verify in a Kafka is told once and stays aside, and never stands in the way of the good copy that a peer brings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streams.block import Block
from streams.errors import RetryLater, Unclear
from streams.logs.damage import Damage
from streams.logs.index import INDEX_NAME
from streams.logs.indexing import remove_index
from streams.logs.kafka.keeper import KafkaLogOptions
from streams.logs.kafka.log import KafkaLog
from streams.logs.kafka.transactions import Outgoing, Transactions
from streams.ranges import RangeSet
from streams.words import Origin
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import MuteKafka, open_kafka_log, place
from tests.streams.logkit import FullDisk, append_rows, content, numbers, open_log, rows, verified

COUNT = 30
Spoil = Callable[[bytes], bytes]


def flipped(value: bytes) -> bytes:
    """A block with one bit of its payload changed: its checksum tells."""
    return value[:-20] + bytes([value[-20] ^ 1]) + value[-19:]


def undecodable(value: bytes) -> bytes:
    """A block whose checksums are right, of a payload that no codec wrote: only who decodes it can tell."""
    block = Block.from_bytes(value)
    return replace(block, payload=bytes(len(block.payload))).to_bytes()


class SpoiledOnTheWay(Transactions):
    """What becomes of each block is `spoil`'s, while there is one."""

    spoil: Spoil | None = None

    def write(self, records: Sequence[Outgoing]) -> list[int]:
        spoil = type(self).spoil
        return super().write([replace(one, value=spoil(one.value)) if spoil and one.key is None else one for one in records])


def spoiled(log: KafkaLog, blocks: Sequence[Block], spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log takes the blocks, as whole; what Kafka has of them is spoiled, and set aside as soon as it is read."""
    with monkeypatch.context() as patch:
        patch.setattr(SpoiledOnTheWay, "spoil", staticmethod(spoil))
        log.admit(blocks)
    assert not content(log, ["containers"])


def held(log: KafkaLog, origin: Origin) -> RangeSet:
    return log.ledger("containers")[origin].held


@pytest.mark.parametrize("spoil", [flipped, undecodable])
def test_what_was_set_aside_at_the_end_stays_so_when_the_log_is_opened_again(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Spoil
) -> None:
    """Its Position claims nothing of it, its offsets are wanted; it is told once; what is appended afterwards is there."""
    peer, where, told = open_log(tmp_path / "peer", "port-b"), place(kafka, tmp_path), list[Damage]()
    append_rows(peer, rows(COUNT))
    options = KafkaLogOptions(told.append, transactions=SpoiledOnTheWay)
    log = open_kafka_log(where, options=options)
    spoiled(log, list(peer.blocks("containers", peer.origin, 0, COUNT)), spoil, monkeypatch)
    for opened in range(2):
        log.close()
        log = open_kafka_log(where, options=options)
        assert not held(log, peer.origin)
        assert not log.position("containers")[peer.origin]
        assert append_rows(log, rows(1, start=opened)) == opened
    assert numbers(log) == [0, 1]
    assert len(told) == 1
    log.close()
    peer.close()


def test_an_index_built_anew_takes_the_good_copy_that_came_after_the_spoiled_one(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer that brought it is gone by then: the Kafka alone has these records."""
    peer, where, told = open_log(tmp_path / "peer", "port-b"), place(kafka, tmp_path), list[Damage]()
    append_rows(peer, rows(COUNT))
    good = list(peer.blocks("containers", peer.origin, 0, COUNT))
    options = KafkaLogOptions(told.append, transactions=SpoiledOnTheWay)
    log = open_kafka_log(where, options=options)
    spoiled(log, good, flipped, monkeypatch)
    assert log.admit(good) == COUNT
    before = content(log, ["containers"])
    log.close()
    remove_index(where.folder / INDEX_NAME)
    log = open_kafka_log(where, options=options)
    assert verified(log) == 0
    assert held(log, peer.origin) == RangeSet([(0, COUNT)])
    assert content(log, ["containers"]) == before
    assert len(before) == COUNT
    assert len(told) == 2, "once where it was read, once where the index was built"
    log.close()
    peer.close()


def refuse_changes(index: Path) -> None:
    """No change goes into the index any more: it is damaged."""
    with sqlite3.connect(index) as other:
        for table in ("lines", "mark"):
            other.execute(f"UPDATE {table} SET sum = NULL")
    other.close()


@pytest.mark.parametrize("said", [True, False])
def test_what_kafka_committed_is_there_once_though_the_index_does_not_take_it(kafka: Kafka, tmp_path: Path, said: bool) -> None:
    """A caller without a producer would send again what was refused: it is answered, or told Unclear where Kafka did not say either."""
    where = place(kafka, tmp_path)
    log = open_kafka_log(where, options=KafkaLogOptions(transactions=MuteKafka))
    append_rows(log, rows(3))
    origin, index = log.origin, where.folder / INDEX_NAME
    inode = index.stat().st_ino
    refuse_changes(index)
    MuteKafka.mute[:] = [] if said else [True]
    if said:
        assert append_rows(log, rows(3, start=3)) == 3
    else:
        with pytest.raises(Unclear):
            append_rows(log, rows(3, start=3))
    assert append_rows(log, rows(3, start=6)) == 6
    assert index.stat().st_ino != inode, "the damage was met, and the index built anew"
    assert (log.origin, numbers(log)) == (origin, list(range(9)))
    log.close()
    log = open_kafka_log(where)
    assert (log.origin, numbers(log)) == (origin, list(range(9)))
    log.close()


def test_a_generation_is_opened_though_the_index_does_not_take_it(kafka: Kafka, tmp_path: Path) -> None:
    """Whoever asked for one gets the new one, or is told that it is not there yet: what is appended next is of it."""
    where, full = place(kafka, tmp_path), FullDisk()
    log = open_kafka_log(where, options=KafkaLogOptions(disk=full))
    append_rows(log, rows(3))
    first = log.origin
    refuse_changes(where.folder / INDEX_NAME)
    second = log.open_generation("to see")
    assert log.origin == second != first
    full.writes_left = 0
    with pytest.raises(RetryLater):
        log.open_generation("to see")
    full.writes_left = None
    assert append_rows(log, rows(1)) == 0
    assert [one.predecessor for one in log.generations()] == [0, first.generation, second.generation]
    third = log.origin
    log.close()
    log = open_kafka_log(where)
    assert log.origin == third
    log.close()
