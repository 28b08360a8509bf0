"""Records that are not what their origin signed. No rebuilt index takes them from the files or the Kafka in which their bytes may
remain.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import xxhash

from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.log_state import LineKey
from landfall.storage.segments import disk_refused
from streams.integrity.canonical_bytes import row_digests
from streams.model.block import Block, Codec
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET

DISOWNED_NAME = "disowned"
ROWS_MAX = 65_536
"""Maximum number of remembered rows. Beyond it the first are forgotten: a rebuilt index holds them again, until they are judged again."""
_CHECKSUM = struct.Struct("<Q")


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    stream: str
    node: str
    generation: int
    offset: int
    digest: bytes


class Disowned:
    """The file `disowned` of the log in `folder`: one row a record, identified by its contents, wherever merging and moving take its bytes.

    It is not safe to use from several threads: the log's lock guards it. A file that does not verify counts as empty, and `damaged` says
    why.
    """

    def __init__(self, folder: Path, disk: Disk, codec: Codec) -> None:
        self._path, self._disk, self._codec = folder / DISOWNED_NAME, disk, codec
        self.damaged: Damage | None = None
        self._rows: dict[_Row, None] = {}
        self._offsets: dict[LineKey, RangeSet] = {}
        self._take(self._read())

    def offsets(self, key: LineKey) -> RangeSet:
        """Return the offsets of `key` at which records are disowned."""
        return self._offsets.get(key, RangeSet())

    def among(self, block: Block) -> RangeSet:
        """Return the offsets of the rows of `block` that are disowned. Raises Corrupt for a block that does not decode."""
        if not self.offsets((block.stream, block.origin)).within(block.first, block.end):
            return RangeSet()
        return RangeSet((row.offset, row.offset + 1) for row in self._rows_of(block) if row in self._rows)

    def add(self, block: Block) -> None:
        """Disown the rows of `block` from now on, durably, where they can be read here. Raises RetryLater when the disk is full."""
        self._keep({**self._rows, **dict.fromkeys(self._rows_of(block))})

    def allow(self, block: Block, offsets: RangeSet) -> None:
        """Allow rows of `block` at `offsets` that a peer brings just as they were disowned. It is durable. Raises the same errors as
        `add`.
        """
        if allowed := self.among(block).common(offsets):
            same = {row for row in self._rows_of(block) if row.offset in allowed}
            self._keep({row: None for row in self._rows if row not in same})

    def _rows_of(self, block: Block) -> Iterator[_Row]:
        if self._codec.knows(block.codec):
            rows: pa.RecordBatch = self._codec.decode(block)
            for offset, digest in zip(rows.column(OFFSET).to_pylist(), row_digests(rows), strict=True):
                yield _Row(block.stream, block.origin.node, block.origin.generation, offset, digest)

    def _read(self) -> list[_Row]:
        try:
            data = self._path.read_bytes()
            if _CHECKSUM.unpack_from(data)[0] != xxhash.xxh3_64_intdigest(data[_CHECKSUM.size :]):
                raise Corrupt("its checksum does not match its bytes", code="rejected_records_damaged")
            return msgspec.msgpack.decode(data[_CHECKSUM.size :], type=list[_Row])
        except FileNotFoundError:
            return []
        except (Corrupt, struct.error, msgspec.MsgspecError) as problem:
            cure = "what was disowned may be held again until it is judged again"
            self.damaged = Damage(0, 0, 0, f"{DISOWNED_NAME}: {problem}", cure=cure, code="rejected_records_damaged")
            return []

    def _keep(self, rows: Iterable[_Row]) -> None:
        last = list(rows)[-ROWS_MAX:]
        body = msgspec.msgpack.encode(last)
        try:
            self._disk.replace(self._path, _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body)) + body)
        except OSError as problem:
            raise disk_refused(problem) from problem
        self._take(last)

    def _take(self, rows: list[_Row]) -> None:
        self._rows, self._offsets = dict.fromkeys(rows), {}
        for row in rows:
            self._offsets.setdefault((row.stream, Origin(row.node, row.generation)), RangeSet()).add(row.offset, row.offset + 1)
