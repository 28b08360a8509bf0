"""A process that decodes blocks no encoder wrote, as an attacker makes them: every checksum over them is right.

`python -m tests.streams.hostile SEED COUNT`: prints one JSON object: how many blocks were tried and refused, the peak of memory in MiB
above what it took before, and the processor's seconds of the slowest. Ends with an error when one raises anything but Corrupt. Its
address space is limited too.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from streams.codec import BlockCodec, decoder, row_groups
from streams.codec import integer_lists as packing
from streams.codec.topic_rows import PickedRows
from streams.codec.wire import Ints
from streams.model import varints
from streams.model.block import BLOCK_RECORDS_MAX, Block
from streams.model.errors import Corrupt
from streams.model.records import Record, Value, to_batch
from tests.streams.logkit import SHIP, rows, stamped
from tests.streams.test_codec_golden import few, many

CODEC = BlockCodec()
ADDRESS_SPACE_BYTES_MAX = 8 << 30
EXTREMES = (0, 1, 2, 127, 4096, BLOCK_RECORDS_MAX, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
LIES_EACH = 2
"""How many extremes each field is set to in a short run."""


def passes(block: Block) -> bool:
    """Whether a log would take the block from a peer."""
    try:
        CODEC.check(block)
    except Corrupt:
        return False
    return True


def valid_rows(block: Block) -> int:
    """How many rows the block has, each of which Arrow finds valid."""
    records = CODEC.decode(block)
    records.validate(full=True)
    return int(records.num_rows)


@dataclass
class Tally:
    """What happened so far."""

    tried: int = 0
    refused: int = 0
    slowest_s: float = 0.0

    def take(self, block: Block, topics: list[str]) -> None:
        """Decode the block: all of it, some rows and some topics alone, what topics there are. It does, or raises Corrupt; all else ends
        the process."""
        begun_s = time.process_time()
        self.tried += 1
        try:
            assert valid_rows(block) == block.count
            assert passes(block)
        except Corrupt:
            self.refused += 1
            assert not passes(block), "what can not be decoded passed for good"
        with suppress(Corrupt):
            some = range(block.first + block.count // 3, block.first + block.count // 3 + 1 + block.count // 8)
            assert CODEC.some_rows(block, some.start, some.stop).num_rows == len(some)
        for topic in topics:
            with suppress(Corrupt):
                found = topic_rows(block, topic)
                CODEC.records([found] if found else [])
        with suppress(Corrupt):
            CODEC.topics(block)
        self.slowest_s = max(self.slowest_s, time.process_time() - begun_s)


def samples() -> dict[str, pa.RecordBatch]:
    """Records whose blocks have every kind of column, few rows and several groups."""
    return {"few": stamped(few()), "many": stamped(many()), "groups": stamped(rows(20_000, topics=300))}


def topic_rows(block: Block, topic: str) -> PickedRows | None:
    """The block's rows of the topic alone."""

    def read(at: int, length: int) -> bytes:
        return block.payload[at : at + length]

    return CODEC.opened(block.head, read).topic_rows(read, topic)


def constant(columns: int) -> Block:
    """A few bytes a column; claimed to have many rows, it unpacks to 8 bytes for each of them."""
    return CODEC.encode("containers", SHIP, stamped(to_batch([Record("x", signals={f"s{number}": number for number in range(columns)})])))


def constant_texts(columns: int, length: int, numbers: int) -> Block:
    """The same of texts, each of `length` bytes, beside columns of numbers."""
    signals: dict[str, Value] = {
        **{f"t{number}": "y" * length for number in range(columns)},
        **{f"s{number}": number for number in range(numbers)},
    }
    return CODEC.encode("containers", SHIP, stamped(to_batch([Record("x", signals=signals)])))


def spoiled(payload: bytes, chance: random.Random) -> bytes:
    """The payload with a few bytes changed, lost, or put in; half of the time near its beginning, where the directory is."""
    data = bytearray(payload)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(min(len(data), chance.choice([600, len(data)]))) if data else 0
        kind = chance.random()
        if kind < 0.7:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind < 0.8:
            del data[at:]
        elif kind < 0.9:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            data[at : at + chance.randrange(1, 20)] = b"\xff" * chance.randrange(1, 12)
    return bytes(data)


def lying(records: pa.RecordBatch, chance: random.Random, each: int) -> Iterator[Block]:
    """Blocks of an encoder that tells the truth but once: each number it writes, and each list of numbers, set to extremes."""
    put, packed_ints = varints.put, packing.packed_ints
    calls = lie_at = 0
    lie = 0

    def lying_put(parts: bytearray, number: int) -> None:
        nonlocal calls
        calls += 1
        put(parts, lie if calls == lie_at else number)

    def spoiled_once(values: Ints) -> Ints:
        nonlocal calls
        calls += 1
        if calls == lie_at:
            values = values.copy()
            values[chance.randrange(len(values))] = np.uint64(lie).astype(np.int64)
        return values

    def lying_ints(lists: Sequence[Ints]) -> list[bytes]:
        return packed_ints([spoiled_once(values) for values in lists])

    modules = [module for name, module in sys.modules.items() if name.startswith("streams.codec.") and hasattr(module, "packed_ints")]
    varints.put = lying_put
    for module in modules:
        module.packed_ints = lying_ints  # type: ignore[attr-defined]
    try:
        CODEC.encode("containers", SHIP, records)
        fields = calls
        for field in range(1, fields + 1):
            for number in chance.sample(EXTREMES, each):
                calls, lie_at, lie = 0, field, number
                yield CODEC.encode("containers", SHIP, records)
    finally:
        varints.put = put
        for module in modules:
            module.packed_ints = packed_ints  # type: ignore[attr-defined]


def main() -> None:
    """Try them all and print."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES_MAX, ADDRESS_SPACE_BYTES_MAX))
    chance, tally = random.Random(seed), Tally()
    blocks = {name: CODEC.encode("containers", SHIP, records) for name, records in samples().items()}
    topics = {name: records.column("topic").unique().to_pylist() for name, records in samples().items()}
    decoder.CHECKED_ROWS = 8192
    row_groups._verify = lambda data, checksum, what: None  # whoever makes such bytes makes their checksums, too
    before_mib = peak_mib()
    for block in (*map(constant, (14, 22, 900)), *(constant_texts(*shape) for shape in ((4, 15, 1), (1, 50, 9), (1, 4000, 0)))):
        tally.take(replace(block, count=BLOCK_RECORDS_MAX), ["x"])
    for name, records in samples().items():
        for block in lying(records, chance, len(EXTREMES) if count > 50_000 else LIES_EACH):
            tally.take(block, topics[name][:2])
    for _ in range(count):
        name = chance.choice(list(blocks))
        block = blocks[name]
        claimed = chance.choice([block.count, block.count, block.count, 1, BLOCK_RECORDS_MAX])
        tally.take(replace(block, payload=spoiled(block.payload, chance), count=claimed), chance.sample(topics[name], 2))
    figures = {"tried": tally.tried, "refused": tally.refused, "slowest_s": tally.slowest_s, "peak_mib": peak_mib() - before_mib}
    print(json.dumps(figures))


def peak_mib() -> float:
    """The most memory this program ever had. (ru_maxrss would count what the process that started it had.)"""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
