"""Goal: what does not verify in a Kafka is told once and stays aside, and never stands in the way of the good copy that a peer brings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from landfall.storage.append_planner import NewBlock
from landfall.storage.damage import Damage
from landfall.storage.frames import Floor, FrameGone, FrameHeader, Opening, Produced
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.kafka.kafka_configuration import client_settings
from landfall.storage.kafka.kafka_log import KafkaLog
from landfall.storage.kafka.kafka_records import COMMIT, COMMIT_MAX, RECEIVED, TOPICS, Headers, block_headers, control_records
from landfall.storage.kafka.transactions import LogTransactions, Outgoing
from landfall.storage.topic_filters import topic_filter
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import Block
from streams.model.errors import Misuse, RetryLater, Unclear
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import LATE_MS_MAX
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import MuteKafka, alone, open_kafka_log, place
from tests.streams.logkit import NOW_MS, FullDisk, append_rows, content, numbers, open_log, rows, stamped, verified
from tests.support.refusals import refusal

COUNT = 30
Spoil = Callable[[bytes], bytes]


def flipped(value: bytes) -> bytes:
    """A block with one bit of its payload changed: its checksum tells."""
    return value[:-20] + bytes([value[-20] ^ 1]) + value[-19:]


def undecodable(value: bytes) -> bytes:
    """A block whose checksums are right, of a payload that no codec wrote: only who decodes it can tell."""
    block = Block.from_bytes(value)
    return replace(block, payload=bytes(len(block.payload))).to_bytes()


class SpoiledOnTheWay(LogTransactions):
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
    options = alone(on_damage=told.append, transactions=SpoiledOnTheWay)
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
    options = alone(on_damage=told.append, transactions=SpoiledOnTheWay)
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
    log = open_kafka_log(where, options=alone(transactions=MuteKafka))
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
    log = open_kafka_log(where, options=alone(disk=full))
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


LIES: list[tuple[str, str | bytes]] = [
    *((COMMIT, lie) for lie in ("0", "-1", str(10**30), " 5", "soon")),
    *((RECEIVED, lie) for lie in (str(10**30), str(NOW_MS + 2 * LATE_MS_MAX))),
    *((TOPICS, lie) for lie in (b"", bytes(COUNT + 1))),
    *(("stream", "ships"), ("origin", "ship-a@7"), ("first", "1"), ("count", "2"), ("codec", "1")),
    *(("order_first_ms", "0"), ("order_last_ms", "0")),
]


def test_headers_that_are_not_their_blocks_are_told_and_passed_over(kafka: Kafka, tmp_path: Path) -> None:
    """Somebody else writes a good block with each lie, and a floor of no commit: none is taken, and the log goes on; then the truth; then
    the truth with the last number there is: no commit is acknowledged that nobody would believe.
    """
    where, told = place(kafka, tmp_path), list[Damage]()
    log = open_kafka_log(where)
    append_rows(log, rows(3))
    log.close()
    block = BlockCodec().encode("containers", Origin("port-b", 7), stamped(rows(COUNT)))
    honest = block_headers(NewBlock(block, topic_filter(BlockCodec().topics(block)), NOW_MS), 3)
    stranger = Producer(client_settings(where.settings))

    def write(headers: Headers) -> None:
        stranger.produce(where.names.topic("containers"), block.to_bytes(), headers=headers)

    for name, lie in LIES:
        write([(other, lie if other == name else value) for other, value in honest])
    for _, value in control_records(FrameHeader(commit=1 << 63, floors=(Floor("containers", "port-b", 7, 9),))):
        stranger.produce(where.names.control, value, "floor")
    assert not stranger.flush(60)
    log = open_kafka_log(where, options=alone(on_damage=told.append))
    assert len(told) == len(LIES) + 1
    for name, _ in LIES:
        assert any(name in one.why for one in told)
    assert log.streams() == ["containers"]
    assert list(log.ledger("containers")) == [log.origin]
    assert append_rows(log, rows(3, start=3)) == 3
    log.close()
    write(honest)
    assert not stranger.flush(60)
    log = open_kafka_log(where, options=alone(on_damage=told.append))
    assert len(told) == len(LIES) + 1
    assert held(log, block.origin) == RangeSet([(0, COUNT)])
    assert numbers(log) == [*range(COUNT), *range(6)]
    log.close()
    write([(name, str(COMMIT_MAX) if name == COMMIT else value) for name, value in honest])
    assert not stranger.flush(60)
    log = open_kafka_log(where, options=alone(on_damage=told.append))
    with refusal(Misuse, "commits_exhausted"):
        append_rows(log, rows(1))
    assert numbers(log) == [*range(COUNT), *range(6)]
    log.close()


ODD = (
    *(FrameHeader(commit=3, floors=(Floor("containers", "port-b", 7, floor),)) for floor in (-1, 1 << 63)),
    *(FrameHeader(commit=3, floors=(Floor(stream, node, 7, 9),)) for stream, node in (("no stream", "port-b"), ("containers", "No Node"))),
    *(FrameHeader(commit=3, gone=(FrameGone("containers", "port-b", 7, *span, "lost"),)) for span in ((2, 1), (0, (1 << 64) - 1))),
    FrameHeader(commit=3, gone=(FrameGone("containers", "port-b", 1 << 63, 0, 1, "lost"),)),
    *(
        FrameHeader(commit=3, produced=(Produced("containers", "p", *of),))
        for of in ((1 << 63, 0, 1, 7), (1, -1, 1, 7), (1, 0, 1, 1 << 63))
    ),
    FrameHeader(commit=3, produced=(Produced("containers", "p", 1, (1 << 63) - 1, 1, 7),)),
    *(FrameHeader(commit=3, openings=(Opening("ship-a", *of, {}),)) for of in ((0, 0, "", 0), (9, 1 << 63, "", 0), (9, 8, "", 1 << 63))),
    FrameHeader(commit=3, openings=(Opening("ship-a", 9, 8, "", 0, {"containers": 1 << 63}),)),
)


def forged(own: Origin) -> list[FrameHeader]:
    """What goes no further than numbers and names do, and after which a log of `own` could not go on, or would not know a producer."""
    last = (1 << 63) - 1
    unheard = ((last, 8, "", NOW_MS), (last, 8, "", last), (9, 8, "", 0))
    return [
        FrameHeader(commit=3, openings=(Opening("other", own.generation + 9, own.generation, "", NOW_MS, {}),)),
        *(FrameHeader(commit=3, openings=(Opening(own.node, *of, {}),)) for of in unheard),
        FrameHeader(commit=3, floors=(Floor("containers", own.node, own.generation, last),)),
        *(FrameHeader(commit=3, gone=(FrameGone("containers", own.node, own.generation, first, last, "lost"),)) for first in (0, last - 1)),
        FrameHeader(commit=3, produced=(Produced("containers", "gateway", 9, last - 5, 1, own.generation),)),
        FrameHeader(commit=3, produced=(Produced("containers", "gateway", 9, 0, 1, 77),)),
    ]


def test_control_records_of_what_no_log_has_are_told_and_passed_over(kafka: Kafka, tmp_path: Path) -> None:
    """Somebody else writes them: none is taken, by the index or by one that is built anew, and the log goes on."""
    where, told = place(kafka, tmp_path), list[Damage]()
    log = open_kafka_log(where)
    append_rows(log, rows(3))
    origin = log.origin
    log.close()
    stranger, odd = Producer(client_settings(where.settings)), [*ODD, *forged(origin)]
    for header in odd:
        for key, value in control_records(header):
            stranger.produce(where.names.control, value, f"{key}/{odd.index(header)}")
    assert not stranger.flush(60)
    for opened in range(2):
        log = open_kafka_log(where, options=alone(on_damage=told.append))
        assert len(told) == len(odd) * (opened + 1)
        assert list(log.ledger("containers")) == [log.origin]
        assert log.origin == origin
        assert append_rows(log, rows(3, start=3 + 4 * opened)) == 3 + 4 * opened
        [answer] = log.append([Append("containers", rows(1), "gateway", 1 + opened)])
        assert (answer.first, answer.repeated) == (6 + 4 * opened, False)
        log.close()
        remove_index(where.folder / INDEX_NAME)
