"""BlockCodec, with which a log turns records into blocks and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.block_outline import Outline, outline_of
from streams.codec.column_types import TYPES
from streams.codec.decoder import check_rows, few_of_many, read_rows, read_some_rows, read_topics
from streams.codec.encoder import write_payload
from streams.codec.lazy_columns import BlockColumns, StoredColumns
from streams.codec.row_groups import GROUP_ROWS, GROUP_ROWS_MIN, Payload
from streams.codec.topic_lookup import OpenBlock
from streams.codec.topic_rows import PickedRows, records_of
from streams.codec.wire import BITS_OF_A_CELL, CELLS_MAX, CELLS_OF_A_TEXT, COLUMNS_MAX, DecodeBudget
from streams.model.block import BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX, Block, BlockHead, BlockTooLarge, ReadBytes, TopicRows, UnknownCodec
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, ORDER_AT, RESERVED, STAMPED, TOPIC, check_signal
from streams.model.row_columns import Columns, Whole

CODEC = 2
"""Number of the encoding that BlockCodec writes, which is the only one it reads."""


DECODE_BYTES_MAX = 384 << 20
"""Maximum memory for reading one block, bytes, which follows from CELLS_MAX and TEXT_BYTES_MAX. The worst blocks that could be made took
230 MiB for all rows, and 340 MiB for one topic that has all rows. Two threads may read at a time."""
_CELLS_A_ROW, _CELLS_A_BLOCK = 1, 1 << 12
"""Values counted for each row, for where device times are known, and for each block, for fences and lengths of groups."""


class BlockCodec:
    """Codec 2. One object serves all logs and threads. Blocks of more than `group_rows` rows are cut into groups of that size."""

    def __init__(self, group_rows: int = GROUP_ROWS) -> None:
        self._group_rows = max(group_rows, GROUP_ROWS_MIN)

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch | Columns) -> Block:
        """Return the block of `records`. Signals whose rows are all null are left out; `decode` returns all else exactly.

        Raises Misuse for columns of other types, offsets that are not consecutive, or no rows; BlockTooLarge when fewer rows would fit.
        """
        columns = Whole(records) if isinstance(records, pa.RecordBatch) else records
        first = _check(columns)
        order = pc.min_max(columns.column(ORDER_AT))
        payload = write_payload(columns, order["max"].as_py(), self._group_rows)
        if len(payload) > BLOCK_BYTES_MAX:
            raise BlockTooLarge(f"{records.num_rows} rows take {len(payload)} bytes, more than the {BLOCK_BYTES_MAX} of a block")
        return Block(stream, origin, first, records.num_rows, order["min"].as_py(), order["max"].as_py(), CODEC, payload)

    def decode(self, block: Block) -> pa.RecordBatch:
        """Return the block's rows in offset order. Whatever the bytes, it takes at most DECODE_BYTES_MAX of memory, the rows included.

        Raises Corrupt for bytes that no encoder wrote or a header that does not match them; Misuse for another codec's block.
        """
        _check_codec(block.codec)
        records = read_rows(block.head, lambda at, length: block.payload[at : at + length])
        order = pc.min_max(records.column(ORDER_AT))
        if (order["min"].as_py(), order["max"].as_py()) != (block.order_first_ms, block.order_last_ms):
            raise Corrupt("a block's order times are not those of its header", code="block_times_corrupt")
        return records

    def columns(self, block: Block) -> Columns:
        """Return the block's rows in offset order. Each column of a large block is unpacked when it is requested. Raises as `decode`."""
        _check_codec(block.codec)
        payload = Payload(lambda at, length: block.payload[at : at + length], block.head.payload_bytes, block.count, DecodeBudget())
        if payload.only is not None:
            return Whole(self.decode(block))
        return BlockColumns(StoredColumns(block.head, payload), 0, block.count)

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        """Return the rows `first .. end - 1`, which are within the block. For few rows of a large block it takes only a part of the
        memory."""
        wanted = range(first - block.first, end - block.first)
        if few_of_many(block.head, wanted):
            _check_codec(block.codec)
            try:
                return read_some_rows(block.head, lambda at, length: block.payload[at : at + length], wanted)
            except Corrupt:  # as in `check`
                pass
        return self.decode(block).slice(first - block.first, end - first)

    def check(self, block: Block) -> pa.StringArray:
        """Return the block's topics, each at least once. All that `decode` returns is read, with the same errors, in a part of its
        memory."""
        _check_codec(block.codec)
        try:
            return check_rows(block.head, lambda at, length: block.payload[at : at + length])
        except Corrupt:  # several parts may count for a little more than their whole, which decides
            return self.decode(block).column(TOPIC)

    def opened(self, head: BlockHead, read: ReadBytes, outline: bytes | None = None) -> OpenBlock:
        """Return the block with its directory read, before any topic is looked up. Raises as `decode`."""
        _check_codec(head.codec)
        return OpenBlock(head, read, None if outline is None else Outline.from_bytes(outline).guide)

    def outline(self, block: Block) -> bytes:
        """Return the first topic, the place and the checksum of each group of the block; empty for a block of one group. Raises as
        `decode`."""
        _check_codec(block.codec)
        return outline_of(block.head, lambda at, length: block.payload[at : at + length])

    def outlined(self, outline: bytes) -> Outline:
        """Return the block that an outline from `outline` describes. Raises Corrupt."""
        return Outline.from_bytes(outline)

    def records(self, found: Sequence[TopicRows]) -> list[pa.RecordBatch]:
        """Return the rows that `OpenBlock.topic_rows` found, in their order, in as few batches as possible. Raises Misuse for rows that
        another codec found."""
        ours = [rows for rows in found if isinstance(rows, PickedRows)]
        if len(ours) < len(found):
            raise Misuse("rows that another codec found are put together by that one", code="codec_mixed")
        return records_of(ours)

    def topics(self, block: Block) -> pa.StringArray:
        """Return the block's topics, each at least once. Raises as `decode`, for the parts that it reads."""
        _check_codec(block.codec)
        return read_topics(block.head, lambda at, length: block.payload[at : at + length])

    def knows(self, codec: int) -> bool:
        """Return whether blocks of codec number `codec` are read here: only this codec's own."""
        return codec == CODEC

    def cut(self, block: Block, first: int, end: int) -> Block:
        """Return the block of only the offsets `first .. end - 1`; `block` itself when these are all. Raises as `decode`, and Misuse for
        offsets outside the block."""
        if (first, end) == (block.first, block.end):
            return block
        if not block.first <= first < end <= block.end:
            raise Misuse(
                f"offsets {first}..{end - 1} are not within a block of {block.first}..{block.end - 1}", code="offsets_outside_block"
            )
        return self.encode(block.stream, block.origin, self.some_rows(block, first, end))


def cells_of(columns: Columns) -> int:
    """Return an upper bound of the values that decoding the block of these rows will count. A block may hold as many as a reader
    accepts."""
    rows = columns.num_rows
    cells = _CELLS_A_ROW * rows + _CELLS_A_BLOCK
    for field in columns.schema:
        known = columns.known(field.name)
        values = rows if known is None else int(np.count_nonzero(known))
        cells += (1 + CELLS_OF_A_TEXT * pa.types.is_string(field.type)) * values + (0 if known is None else rows // BITS_OF_A_CELL + 1)
    return cells


def _check_codec(codec: int) -> None:
    if codec != CODEC:
        raise UnknownCodec(f"a block of codec {codec} is none of codec {CODEC}", hint="a newer version of Landfall reads it")


def _check(columns: Columns) -> int:
    """Return the first offset. Raises when the rows can not be a block."""
    rows, width = columns.num_rows, len(columns.schema)
    if not rows > 0 or width > COLUMNS_MAX:
        raise Misuse(f"a block has at least one row and at most {COLUMNS_MAX} columns, not {rows} and {width}", code="block_shape_invalid")
    cells = cells_of(columns)
    if rows > BLOCK_RECORDS_MAX or cells > CELLS_MAX:
        raise BlockTooLarge(f"{rows} rows of {width} columns, {cells} values, are too much for one block")
    for field in columns.schema:
        if field.type not in TYPES:
            raise Misuse(f"column {field.name!r} is {field.type}: a block holds bool, int64, float64 and string", code="column_type")
        if field.name not in RESERVED:
            try:
                check_signal(field.name)
            except ValueError as problem:
                raise Misuse(str(problem), code="column_invalid") from problem
        if field.name in STAMPED.names and columns.known(field.name) is not None:
            raise Misuse(f"column {field.name!r} has rows without a value", code="column_incomplete")
    offsets = columns.column(OFFSET).to_numpy(zero_copy_only=False)
    first = int(offsets[0])
    if not np.array_equal(offsets, np.arange(first, first + rows)):
        raise Misuse("the offsets of a block follow one another without a gap", code="offsets_not_consecutive")
    return first
