"""Blocks that fit a Kafka record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from landfall.storage.kafka.kafka_records import HEADERS_BYTES_MAX
from landfall.storage.topic_filters import FILTER_BYTES_MIN
from streams.model.block import HEAD_BYTES_MAX, Block, BlockHead, BlockTooLarge, Codec, OpenedBlock, OutlinedBlock, ReadBytes, TopicRows
from streams.model.identifiers import Origin
from streams.model.row_columns import Columns

_CHECKSUM_BYTES = 8


@dataclass(frozen=True, slots=True)
class SizedCodec:
    """A codec that makes no block whose Kafka record would be longer than `record_bytes_max`."""

    codec: Codec
    record_bytes_max: int

    def fits(self, block: Block) -> bool:
        """Return whether the block and its headers, which take a byte a topic and eight at least, fit one record."""
        filter_bytes = max(block.count, FILTER_BYTES_MIN)
        longest = len(block.payload) + HEAD_BYTES_MAX + _CHECKSUM_BYTES + HEADERS_BYTES_MAX + filter_bytes
        return longest <= self.record_bytes_max

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch | Columns) -> Block:
        """Encode as the codec does. Raises BlockTooLarge when the block does not fit."""
        block = self.codec.encode(stream, origin, records)
        if not self.fits(block):
            raise BlockTooLarge(f"{records.num_rows} rows take {len(block.payload)} bytes: too many for one Kafka record")
        return block

    def decode(self, block: Block) -> pa.RecordBatch:
        """Return what the codec returns."""
        return self.codec.decode(block)

    def columns(self, block: Block) -> Columns:
        """Return what the codec returns."""
        return self.codec.columns(block)

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        """Return what the codec returns."""
        return self.codec.some_rows(block, first, end)

    def check(self, block: Block) -> pa.StringArray:
        """Return what the codec returns."""
        return self.codec.check(block)

    def opened(self, head: BlockHead, read: ReadBytes, outline: bytes | None = None) -> OpenedBlock:
        """Return what the codec returns."""
        return self.codec.opened(head, read, outline)

    def records(self, found: Sequence[TopicRows]) -> list[pa.RecordBatch]:
        """Return what the codec returns."""
        return self.codec.records(found)

    def outline(self, block: Block) -> bytes:
        """Return what the codec returns."""
        return self.codec.outline(block)

    def outlined(self, outline: bytes) -> OutlinedBlock:
        """Return what the codec returns."""
        return self.codec.outlined(outline)

    def topics(self, block: Block) -> pa.StringArray:
        """Return what the codec returns."""
        return self.codec.topics(block)

    def knows(self, codec: int) -> bool:
        """Return what the codec returns."""
        return self.codec.knows(codec)

    def cut(self, block: Block, first: int, end: int) -> Block:
        """Return what the codec returns."""
        return self.codec.cut(block, first, end)
