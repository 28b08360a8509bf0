"""Goal: bytes that no encoder wrote are refused as Corrupt, in bounded memory and time, whatever they claim."""

from __future__ import annotations

import random
import resource
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.block import BLOCK_RECORDS_MAX, Block
from streams.codec import BlockCodec
from streams.codec.wire import CELLS_MAX, TEXT_BYTES_MAX, Reader, Writer
from streams.errors import Corrupt
from tests.streams.logkit import SHIP, stamped
from tests.streams.test_codec_golden import few, many

CODEC = BlockCodec()
BLOCKS = [CODEC.encode("containers", SHIP, stamped(case())) for case in (few, many)]
SECONDS_MAX = 5.0
MEMORY_MIB_MAX = 1500


def refused_or_read(block: Block) -> bool:
    """Whether the block is refused; any other error than Corrupt is a failure."""
    try:
        assert CODEC.decode(block).num_rows == block.count
    except Corrupt:
        return True
    return False


def spoiled(payload: bytes, chance: random.Random) -> bytes:
    """The payload with a few bytes changed, lost, or put in."""
    data = bytearray(payload)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data)) if data else 0
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


def test_spoiled_blocks() -> None:
    """As an attacker sends them: the checksum over them is right."""
    chance = random.Random(20261121)
    refused = 0
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # other tests of this process may have taken more
    for _ in range(6000):
        block = chance.choice(BLOCKS)
        count = chance.choice([block.count, block.count, block.count, 1, BLOCK_RECORDS_MAX])
        begun = time.monotonic()
        refused += refused_or_read(replace(block, payload=spoiled(block.payload, chance), count=count))
        assert time.monotonic() - begun < SECONDS_MAX
    assert refused > 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 < max(before_mib + MEMORY_MIB_MAX / 4, MEMORY_MIB_MAX)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([1, 5, BLOCK_RECORDS_MAX]))
def test_random_payloads(payload: bytes, count: int) -> None:
    refused_or_read(replace(BLOCKS[0], payload=payload, count=count))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 400), st.integers(0, 7))
def test_a_flipped_bit_in_a_whole_block(at: int, bit: int) -> None:
    data = bytearray(BLOCKS[0].to_bytes())
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(Corrupt):
        Block.from_bytes(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_no_block(data: bytes) -> None:
    with pytest.raises(Corrupt):
        Block.from_bytes(data)


def test_a_bomb_of_columns_is_not_unpacked() -> None:
    """A few bytes a column, each a constant over a million rows: it unpacks while it is small, and is refused when it is not."""

    def bomb(columns: int) -> bytes:
        writer = Writer()
        for number in (
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            columns,
        ):  # one container, received at 0, as they came
            writer.varint(number)
        for column in range(columns):
            writer.varint(0)
            writer.sized(f"s{column}".encode())
            for number in (1, 0, 0):  # whole numbers without nulls, all 0
                writer.varint(number)
        return writer.to_bytes()

    block = replace(BLOCKS[0], first=0, order_first_ms=0, order_last_ms=0)
    assert not refused_or_read(replace(block, payload=bomb(900), count=1))
    begun = time.monotonic()
    assert refused_or_read(replace(block, payload=bomb(900), count=BLOCK_RECORDS_MAX))
    assert time.monotonic() - begun < SECONDS_MAX


def test_a_zstd_bomb_is_not_unpacked() -> None:
    writer = Writer()
    writer.squeezed(b"x" * 50_000_000)
    small = writer.to_bytes()
    assert len(small) < 20_000
    lying = Writer()
    lying.varint(TEXT_BYTES_MAX + 1)
    with pytest.raises(Corrupt):
        Reader(lying.to_bytes() + small[4:], 1).squeezed()
    shorter = Writer()
    shorter.varint(1000)
    with pytest.raises(Corrupt):
        Reader(shorter.to_bytes() + small[4:], 1).squeezed()


def test_what_is_unpacked_is_paid_for() -> None:
    reader = Reader(b"", 1)
    reader.pay_cells(CELLS_MAX)
    with pytest.raises(Corrupt):
        reader.pay_cells(1)
