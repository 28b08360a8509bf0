"""Which records of a stream a node may write, by its role and identity.

A copy of the log keeps every record as it was written. A record that its writer may not write is foreign: whoever acts on records or shows
them leaves it out, and the records beside it count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from streams.block import Block, Codec
from streams.derived import KEPT
from streams.errors import Corrupt, Unreadable
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
    """Decides who may write which records. `peer` gives the role and identity of a node, None for an unknown one; `judges` by stream."""

    peer: Callable[[str], Peer | None] = field(default=lambda node: None)
    judges: Mapping[str, Judge] = field(default_factory=dict)

    def problem(self, block: Block) -> UnknownWriter | None:
        """Why a block from elsewhere is not taken: its stream has a judge, and its writer is unknown here. None when it is taken."""
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
        """The rows of the batch that its writer may write: all where the stream has no judge, or the writer is not known any more."""
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
        """The one of this name; None when the file has none, or there is no file: the folder is no node's. Raises Corrupt for a file that
        can not be understood, Unreadable for one that can not be read now."""
        try:
            changed_at = self._file.stat().st_mtime_ns
            if changed_at != self._read[0]:
                self._read = changed_at, _read_peers(self._file)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise Unreadable(f"{self._file} can not be read: {problem.strerror}", hint="look at the disk, and whose it is") from problem
        return self._read[1].get(node)


def keep_peers(folder: Path, peers: Mapping[str, Peer]) -> None:
    """Write these peers to the node's folder, for the processes that read its log. Peers written before stay: their records are still in
    the log. Raises OSError."""
    file = folder / PEERS
    try:
        before = _read_peers(file)
    except (FileNotFoundError, Corrupt):  # a damaged file is made anew
        before = {}
    if (known := before | dict(peers)) != before:
        replace_file(file, msgspec.json.format(msgspec.json.encode(known, order="sorted"), indent=1))


def not_own(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> str | None:
    """Why the writer may not write one of these rows, the first such; None when it may write all."""
    return next(iter(_foreign(judge, rows, writer).values()), None)


def _foreign(judge: Judge, rows: pa.RecordBatch, writer: Peer) -> dict[tuple[str, str | None], str]:
    """Topic and body of the rows that the writer may not write, in their order, and why."""
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
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Peer])
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"{file} can not be understood: {problem}", hint="start its node again, which writes it anew") from None
