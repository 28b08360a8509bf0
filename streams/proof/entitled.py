"""Whether what a node wrote of a stream is its own to say: held against who it is by all who act on records or show them.

A copy keeps every record that its origin wrote. One that is not its origin's to say is foreign: it is passed over when it is read, and the
records beside it count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams.block import Block, Codec
from streams.derived import KEPT
from streams.log import UnknownWriter
from streams.policy import Peer
from streams.records import BODY, OFFSET, TOPIC, Batch, read_body
from streams.replacing import replace_file

Judge = Callable[[str, Mapping[str, Any], str, str], str | None]
"""Why a record (its topic and body, empty where it has none that is an object) is not for a node of this role and identity to write; None
when it is."""
PEERS = "peers.json"
"""In a node's folder, beside its log: every node that it ever knew, by name, with role and identity."""


@dataclass(frozen=True, slots=True)
class Entitled:
    """Holds records against who their origin is: `peer` tells it of a node, None of one that is not known; `judges` by stream."""

    peer: Callable[[str], Peer | None] = field(default=lambda node: None)
    judges: Mapping[str, Judge] = field(default_factory=dict)

    def problem(self, block: Block) -> UnknownWriter | None:
        """Why a block from elsewhere is not taken: its stream is judged, and nobody here knows what its origin is."""
        if self._judge(block.stream) is None or self.peer(block.origin.node) is not None:
            return None
        return UnknownWriter(f"{block.stream}:{block.origin} is not taken: nobody here knows what '{block.origin.node}' is")

    def foreign(self, block: Block, codec: Codec) -> str | None:
        """Who wrote the first foreign record of the block, where, and why it is foreign; None when none is, or the encoding is not known
        here. Raises Corrupt when it does not decode.
        """
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
        """The rows of the batch that are its origin's to say: all where nobody judges the stream, or the origin is not known any more."""
        judge, peer = self._judge(batch.stream), self.peer(batch.origin.node)
        if judge is None or peer is None or not (why := _foreign(judge, batch.records, peer)):
            return batch
        own = pa.array([said not in why for said in _said(batch.records)], pa.bool_())
        return replace(batch, records=batch.records.filter(own))

    def _judge(self, stream: str) -> Judge | None:
        return self.judges.get(stream.removesuffix(KEPT))


class KnownPeers:
    """Who a node's peers are, as the file in its folder says at each call: for processes beside the node. Safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / PEERS
        self._read: tuple[int, Mapping[str, Peer]] = (0, {})

    def peer(self, node: str) -> Peer | None:
        """The one of this name; None when the file has none, or there is no file: the folder is no node's. Raises OSError."""
        try:
            changed_at = self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if changed_at != self._read[0]:
            self._read = changed_at, _read_peers(self._file)
        return self._read[1].get(node)


def keep_peers(folder: Path, peers: Mapping[str, Peer]) -> None:
    """Write these and all whom the node knew before to its folder, where those look who read its log: who is not known any more wrote
    something once. Raises OSError."""
    file = folder / PEERS
    try:
        before = _read_peers(file)
    except (FileNotFoundError, ValueError, TypeError):  # a file that does not read is made anew
        before = {}
    if (known := before | dict(peers)) != before:
        replace_file(file, json.dumps({name: asdict(peer) for name, peer in sorted(known.items())}, indent=1).encode())


def not_own(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> str | None:
    """Why the first of these rows that is not the writer's to say is not; None when all are."""
    return next(iter(_foreign(judge, rows, writer).values()), None)


def _foreign(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> dict[tuple[str, str | None], str]:
    """Topic and body of the rows that are not the writer's to say, in their order, and why not."""
    found = ((said, judge(said[0], _read(said[1]), writer.role, writer.identity)) for said in dict.fromkeys(_said(rows)))
    return {said: why for said, why in found if why}


def _said(rows: pa.RecordBatch) -> list[tuple[str, str | None]]:
    return list(zip(*(rows.column(name).to_pylist() for name in (TOPIC, BODY)), strict=True))


def _read(text: str | None) -> Mapping[str, Any]:
    try:
        return read_body(text)
    except ValueError:
        return {}


def _read_peers(file: Path) -> dict[str, Peer]:
    return {name: Peer(**peer) for name, peer in json.loads(file.read_bytes()).items()}
