"""Whether what a node wrote of a stream is its own to say: held against who it is before it is admitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streams.block import Block, Codec
from streams.derived import KEPT
from streams.log import NotProven, NotTheirs
from streams.policy import Peer
from streams.records import BODY, TOPIC, read_body

Judge = Callable[[str, Mapping[str, Any], str, str], str | None]
"""Why a record (its topic and body, empty where it has none that is an object) is not for a node of this role and identity to write; None
when it is."""


@dataclass(frozen=True, slots=True)
class Entitled:
    """Holds blocks from elsewhere against who their origin is: `peers` by node, this one too; `judges` by stream."""

    peers: Mapping[str, Peer] = field(default_factory=dict)
    judges: Mapping[str, Judge] = field(default_factory=dict)

    def problem(self, block: Block, codec: Codec) -> NotProven | None:
        """Why the block is not taken, naming the first record that is not its origin's to write; None when all of it is, or nobody judges
        the stream. Raises Corrupt when it does not decode.
        """
        judge = self.judges.get(block.stream.removesuffix(KEPT))
        if judge is None:
            return None
        what, peer = f"{block.stream}:{block.origin}", self.peers.get(block.origin.node)
        if peer is None:
            return NotTheirs(f"{what} is not taken: nobody here knows what '{block.origin.node}' is")
        if not codec.knows(block.codec):
            return NotProven(f"{what} is of encoding {block.codec}, which is not known here", forged=False)
        if why := not_own(judge, codec.decode(block), peer):
            who = f"{peer.role} '{peer.node}' ({peer.identity or 'no identity is known here'})"
            return NotTheirs(f"{what} {block.first} to {block.end - 1} is not for {who} to write: {why}")
        return None


def not_own(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> str | None:
    """Why the first of these rows that is not the writer's to say is not; None when all are."""
    topics, bodies = (rows.column(name).to_pylist() for name in (TOPIC, BODY))
    said = dict.fromkeys(zip(topics, bodies, strict=True))
    return next((why for topic, text in said if (why := judge(topic, _read(text), writer.role, writer.identity))), None)


def _read(text: str | None) -> Mapping[str, Any]:
    try:
        return read_body(text)
    except ValueError:
        return {}
