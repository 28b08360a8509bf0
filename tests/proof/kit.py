"""What the tests of proof share: a log whose node signs, and the forgeries it is up against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from landfall.storage.file_log import FileLog, FileLogOptions
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import Verdict, verify
from streams.integrity.hash_chain import RUN
from streams.integrity.key_trust import GIVEN, Trust
from streams.integrity.signer import Signer
from streams.integrity.signing_keys import SigningKey
from streams.log import Append, Log
from streams.model.block import Block
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from streams.retention.thinner import Thinning
from tests.retention.thinkit import BOXES, EVERY_MS, no_excursions, none_ashore, readings
from tests.streams.logkit import NOW_MS, open_log

KEY, STRANGER = SigningKey.from_seed(b"k" * 32), SigningKey.from_seed(b"s" * 32)
CODEC = BlockCodec()


class SigningNode:
    """A log, and the signer that a node puts beside it. `told`: what the signer reported."""

    def __init__(self, folder: Path, node: str = "ship-a", key: SigningKey = KEY, options: FileLogOptions = FileLogOptions()) -> None:  # noqa: B008
        self.clock = StillClock(NOW_MS)
        self.log: FileLog = open_log(folder, node, self.clock, options)
        self.told: list[dict[str, Any]] = []
        self.signer = Signer(self.log, CODEC, key, self.clock, lambda reason, outcome, **details: self.told.append(details))
        self.log.witnessed_by(self.signer.witness)

    def append(self, batch: pa.RecordBatch, stream: str = "containers") -> None:
        self.log.append([Append(stream, batch)])

    def sign(self) -> int:
        """What the node's task does once a minute; how many statements it made."""
        due = self.signer.due()
        self.log.append(due)
        return len(due)


def trust(node: str = "ship-a", key: SigningKey = KEY) -> Trust:
    """Somebody was given this key."""
    return Trust({node: frozenset([key.public])}, GIVEN)


def held_against(log: Log, origin: Origin, stream: str = "containers", by: Trust | None = None) -> Verdict:
    return verify(Copy(log, CODEC), stream, origin, by or trust())


def forged(blocks: Sequence[Block], offset: int, column: str, value: Any) -> list[Block]:
    """The blocks, in one of which one value of one record is another."""
    found = []
    for block in blocks:
        if block.first <= offset < block.end:
            rows = CODEC.decode(block)
            values = rows.column(column).to_pylist()
            values[offset - block.first] = value
            at = rows.schema.get_field_index(column)
            rows = rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))
            block = CODEC.encode(block.stream, block.origin, rows)
        found.append(block)
    return found


def all_blocks(log: Log, stream: str, origin: Origin) -> list[Block]:
    ledger = log.ledger(stream)[origin]
    return list(log.blocks(stream, origin, ledger.floor, ledger.end()))


def received(folder: Path, runs: int) -> SigningNode:
    """A ship that took so many runs of readings in, soon after they were measured, and signed them."""
    ship = SigningNode(folder)
    for run in range(runs):
        for part in range(8):
            first = run * RUN + part * RUN // 8
            ship.clock.at_ms = NOW_MS - 30 * 86_400_000 + (first + RUN // 8) // BOXES * EVERY_MS
            ship.append(readings(first, RUN // 8))
        ship.sign()
    return ship


def thin(ship: SigningNode, stream: str, older_than_ms: int) -> None:
    """Two days later what is older is thinned, as far as it can be, and signed."""
    ship.clock.advance(2 * 86_400)
    assert Thinning(ship.log, stream, none_ashore, no_excursions).step(older_than_ms)
    ship.sign()


def values(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a JSON tree that is no object or list, with its path."""
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, part in parts:
        yield from values(part, (*path, name))
    if not isinstance(node, dict | list):
        yield path, node


def another(value: Any) -> list[Any]:
    """Other values of its kind."""
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, str):
        return [value + "A", ("C" if value.startswith("B") else "B") + value[1:], value[:-1]]
    return [value + 1, value - 1, -value, 0] if value else [1]


def put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree[name]
    tree[path[-1]] = value
