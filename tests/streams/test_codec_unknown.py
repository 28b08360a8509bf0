"""Goal: a node whose version can not read a block keeps, serves and relays it whole, byte for byte, and a newer one reads it there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLog
from landfall.storage.index_writer import remove_index
from landfall.storage.log_check import CheckTally, check
from streams.codec import CODEC, BlockCodec
from streams.codec.topic_lookup import OpenBlock
from streams.model.block import Block, BlockHead, ReadBytes
from streams.model.clock import StillClock
from streams.model.errors import Misuse
from streams.model.identifiers import Origin, Position
from tests.streams.logkit import NOW_MS, SHIP, content, open_log, rows, stamped

NEWER = CODEC + 1


class NewerCodec(BlockCodec):
    """The codec of a version to come: writes blocks of its own number, reads both."""

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch) -> Block:
        return replace(super().encode(stream, origin, records), codec=NEWER)

    def decode(self, block: Block) -> pa.RecordBatch:
        return super().decode(replace(block, codec=CODEC))

    def check(self, block: Block) -> pa.StringArray:
        return super().check(replace(block, codec=CODEC))

    def opened(self, head: BlockHead, read: ReadBytes, outline: bytes | None = None) -> OpenBlock:
        return super().opened(replace(head, codec=CODEC), read, outline)

    def topics(self, block: Block) -> pa.StringArray:
        return super().topics(replace(block, codec=CODEC))

    def knows(self, codec: int) -> bool:
        return codec in (CODEC, NEWER)


def open_newer(folder: Path) -> FileLog:
    return FileLog(folder / "log", folder / "marker", "port-c", NewerCodec(), StillClock(NOW_MS))


def mixed() -> list[Block]:
    """Three blocks that follow one another, the middle one newer than this version."""
    codecs = (BlockCodec(), NewerCodec(), BlockCodec())
    return [
        codec.encode("containers", SHIP, stamped(rows(30, start=30 * number), first=30 * number)) for number, codec in enumerate(codecs)
    ]


def served(log: FileLog) -> list[bytes]:
    return [block.to_bytes() for block in log.blocks("containers", SHIP, 0, 90)]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_it_is_stored_and_served_whole_between_blocks_that_are_read(tmp_path: Path, order: tuple[int, int, int]) -> None:
    blocks = mixed()
    log = open_log(tmp_path, "port-b")
    for number in order:
        log.admit([blocks[number]])
    assert log.admit(blocks) == 0, "admitted again, it changes nothing"
    assert log.position("containers") == Position({SHIP: 90})
    assert served(log) == [block.to_bytes() for block in blocks]
    log.close()
    remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path, "port-b")
    assert log.position("containers") == Position({SHIP: 90})
    assert served(log) == [block.to_bytes() for block in blocks]
    assert [batch.records.num_rows for batch in log.run("containers", SHIP, 60, 90)] == [30]
    with pytest.raises(Misuse):
        list(log.run("containers", SHIP, 0, 90))
    log.close()


def test_it_is_no_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path, "port-b")
    log.admit(mixed())
    log.close()
    tally = CheckTally()
    assert list(check(tmp_path / "log", BlockCodec(), tally)) == []
    assert (tally.blocks, tally.records, tally.unread) == (3, 60, 30)
    [segment] = (tmp_path / "log" / "segments").iterdir()
    bits = bytearray(segment.read_bytes())
    at = bits.index(mixed()[1].payload)
    bits[at + 5] ^= 1
    segment.write_bytes(bits)
    assert list(check(tmp_path / "log", BlockCodec(), CheckTally())), "what is not read is verified all the same"


def test_it_goes_through_older_nodes_to_one_that_reads_it(tmp_path: Path) -> None:
    """Newer ship, two older ports, newer headquarters: what arrives is what was sent."""
    ship, first, second, headquarters = (
        open_newer(tmp_path / "ship"),
        open_log(tmp_path / "first", "port-a"),
        open_log(tmp_path / "second", "port-b"),
        open_newer(tmp_path / "hq"),
    )
    ship.admit(mixed())
    for source, target in ((ship, first), (first, second), (second, headquarters)):
        target.admit(list(source.blocks("containers", SHIP, 0, 90)))
    assert served(headquarters) == served(ship)
    assert len(content(headquarters, ["containers"])) == 90
    assert content(headquarters, ["containers"]) == content(ship, ["containers"])
    for log in (ship, first, second, headquarters):
        log.close()
