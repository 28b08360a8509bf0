"""What the nodes of a simulated fleet sign and believe: the product's own signer, judge and watch, over the log in memory.

Signed is what is signed at once, with keys that all know. Runs are RUN offsets long, so that a few rows close some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import cast
from unittest.mock import patch

import pyarrow as pa

from streams.config.companion_streams import HEADS
from streams.integrity import copy_reader, copy_verifier, hash_chain, online_audit, statements
from streams.integrity.copy_reader import Copy
from streams.integrity.key_trust import GIVEN, Trust
from streams.integrity.signer import Signer, signed_at_once
from streams.integrity.signing_keys import SigningKey
from streams.log import HeldBlock, Log, LogReader
from streams.model.block import Block, Codec
from streams.model.clock import StillClock
from streams.model.identifiers import Origin, Position
from streams.model.ledger import Ledger
from streams.model.records import BODY, STAMPED, Batch
from streams.model.records import GIVEN as COLUMNS
from streams.replication import Key
from tests.sync.framelog import CODEC, FrameLog, block_of, rows_of

RUN = 16
_SCHEMA = pa.schema([*COLUMNS, *STAMPED])
_ID_BYTES = 8
"""What makes a row unlike any other; of a statement the signature does."""


class _Rows:
    """The rows of the simulation as records: what a block of theirs decodes to."""

    def knows(self, codec: int) -> bool:
        return codec == CODEC

    def decode(self, block: Block) -> pa.RecordBatch:
        return _records(block.stream, block.first, block.count, block.payload)

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        return self.decode(block).slice(first - block.first, end - first)

    def cut(self, block: Block, first: int, end: int) -> Block:
        return block_of((block.stream, block.origin), first, rows_of(block)[first - block.first : end - block.first], block.codec)


@lru_cache(maxsize=1_024)
def _records(stream: str, first: int, count: int, payload: bytes) -> pa.RecordBatch:
    rows = rows_of(Block(stream, Origin("any", 1), first, count, 0, 0, CODEC, payload))
    said = stream.endswith(HEADS)
    bodies = [row[_ID_BYTES:].decode("latin-1") if said else row.decode("latin-1") for row in rows]
    nulls, times = [None] * count, [0] * count
    columns = [[stream] * count, nulls, nulls, bodies, list(range(first, first + count)), times, times]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)


class _Reading:
    """A log in memory as proofs read a log."""

    def __init__(self, log: FrameLog) -> None:
        self._log = log

    def streams(self) -> list[str]:
        return self._log.streams()

    def ledger(self, stream: str) -> Ledger:
        return self._log.ledger(stream)

    def positions(self) -> dict[str, Position]:
        return dict(self._log.book.view[1])

    def whole_blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[HeldBlock]:
        for block in self._log.blocks((stream, origin), first, end):
            yield HeldBlock(block.first, block.end, block)

    def latest(self, stream: str, topic: str, nodes: Collection[str | None] | None = None) -> Iterator[Batch]:
        """Of statements alone: no key is in the registry here."""
        for origin, one in self._log.ledger(stream).items() if stream == topic + HEADS else ():
            if nodes is not None and origin.node not in nodes:
                continue
            last = one.held.end() - 1
            for block in self._log.blocks((stream, origin), last, last + 1):
                yield Batch(stream, origin, CODEC_OF_ROWS.decode(block))


CODEC_OF_ROWS = cast(Codec, _Rows())


@lru_cache
def key_of(node: str) -> SigningKey:
    """What this node signs with, in whatever fleet."""
    return SigningKey.from_seed(node.encode().ljust(32, b"."))


def copy_of(log: FrameLog) -> Copy:
    """The log as the product's judge and watch read it."""
    return Copy(cast(LogReader, _Reading(log)), CODEC_OF_ROWS)


def trust_in(nodes: Sequence[str]) -> Trust:
    """The keys of these nodes, as everybody was given them."""
    return Trust({node: frozenset([key_of(node).public]) for node in nodes}, GIVEN)


def signer_of(log: FrameLog, node: str) -> Signer:
    """Who signs what this node appends."""
    return Signer(cast(Log, _Reading(log)), CODEC_OF_ROWS, key_of(node), StillClock(), lambda *_, **__: None)


def signed(signer: Signer, key: Key, first: int, rows: Sequence[bytes], at: int) -> bytes | None:
    """The row that says of these, which are about to be appended, what they are, at offset `at` of its own stream; None where nothing is
    signed at once."""
    stream, origin = key
    if not signed_at_once(stream):
        return None
    said = signer.witness(stream, origin, [CODEC_OF_ROWS.decode(block_of(key, first, rows))], lambda of: at)
    return None if said is None else bytes(_ID_BYTES) + str(said.records.column(BODY)[0].as_py()).encode()


@contextmanager
def short_runs() -> Iterator[None]:
    """As long as it lasts, a run is RUN offsets long."""
    with ExitStack() as patched:
        for module in (hash_chain, copy_reader, statements, copy_verifier, online_audit):
            patched.enter_context(patch.object(module, "RUN", RUN))
        yield
