"""Rules on which records of a stream a node may write, by its role and identity.

A copy of the log keeps every record as it was written. A record that its writer may not write is foreign. Everything that acts on records
or shows them leaves it out, and the records next to it count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streams.config.companion_streams import KEPT
from streams.config.roles import Peer
from streams.log import UnknownWriter
from streams.model.block import Block, Codec
from streams.model.records import BODY, OFFSET, TOPIC, Batch, read_body

Judge = Callable[[str, Mapping[str, Any], str, str], str | None]
"""Function that returns why a node of this role and identity may not write a record with this topic and body; None when it may. The body is
empty where the record has none that is an object."""


@dataclass(frozen=True, slots=True)
class Entitled:
    """Rules on who may write which records. `peer` returns the role and identity of a node, None for an unknown one; `judges` are by
    stream."""

    peer: Callable[[str], Peer | None] = field(default=lambda node: None)
    judges: Mapping[str, Judge] = field(default_factory=dict)

    def problem(self, block: Block) -> UnknownWriter | None:
        """Return why a block from another node is not accepted: its stream has a judge, and its writer is unknown here. None when it is
        accepted."""
        if self._judge(block.stream) is None or self.peer(block.origin.node) is not None:
            return None
        return UnknownWriter(f"{block.stream}:{block.origin} is not taken: nobody here knows what '{block.origin.node}' is")

    def foreign(self, block: Block, codec: Codec) -> str | None:
        """Return who wrote the first foreign record of the block, where, and why it is foreign. None when no record is, or when the
        encoding is not known here. Raises Corrupt when the block does not decode."""
        judge, peer = self._judge(block.stream), self.peer(block.origin.node)
        if judge is None or peer is None or not codec.knows(block.codec):
            return None
        rows = codec.decode(block)
        why = _foreign(judge, rows, peer)
        offset = next((offset for offset, said in zip(rows.column(OFFSET).to_pylist(), _said(rows), strict=True) if said in why), None)
        if offset is None:
            return None
        who = f"{peer.role} '{peer.node}' ({peer.identity or 'no identity is known here'})"
        return f"{block.stream}:{block.origin} {offset} is not for {who} to write: {next(iter(why.values()))}"

    def own(self, batch: Batch) -> Batch:
        """Return the rows of the batch that its writer may write: all where the stream has no judge, or the writer is not known any
        more."""
        judge, peer = self._judge(batch.stream), self.peer(batch.origin.node)
        if judge is None or peer is None or not (why := _foreign(judge, batch.records, peer)):
            return batch
        own = pa.array([said not in why for said in _said(batch.records)], pa.bool_())
        return replace(batch, records=batch.records.filter(own))

    def _judge(self, stream: str) -> Judge | None:
        return self.judges.get(stream.removesuffix(KEPT))


def not_own(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> str | None:
    """Return why the writer may not write one of these rows, the first such; None when it may write all."""
    return next(iter(_foreign(judge, rows, writer).values()), None)


def _foreign(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> dict[tuple[str, str | None], str]:
    """Return the topic and body of the rows that the writer may not write, in their order, each with the reason."""
    found = ((said, judge(said[0], _read(said[1]), writer.role, writer.identity)) for said in dict.fromkeys(_said(rows)))
    return {said: why for said, why in found if why}


def _said(rows: pa.RecordBatch) -> list[tuple[str, str | None]]:
    return list(zip(*(rows.column(name).to_pylist() for name in (TOPIC, BODY)), strict=True))


def _read(text: str | None) -> Mapping[str, Any]:
    try:
        return read_body(text)
    except ValueError:
        return {}
