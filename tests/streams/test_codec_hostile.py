"""Goal: bytes that no encoder wrote are refused as Corrupt, in bounded memory and time, whatever they claim."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import BlockCodec
from streams.codec.block_codec import DECODE_BYTES_MAX
from streams.codec.wire import CELLS_MAX, TEXT_BYTES_MAX, DecodeBudget, Reader, Writer
from streams.model.block import BLOCK_RECORDS_MAX, HEAD_BYTES_MAX, Block, BlockHead
from streams.model.errors import Corrupt
from tests.streams.logkit import SHIP, stamped
from tests.streams.test_codec_golden import few
from tests.support.refusals import refusal

CODEC = BlockCodec()
BLOCK = CODEC.encode("containers", SHIP, stamped(few()))
ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 10.0
"""Of the processor."""
MEMORY_MIB_MAX = DECODE_BYTES_MAX >> 20
"""Above what the process took before, of all the blocks it tried, one after another."""


def tried(seed: int, count: int, timeout_s: float) -> dict[str, float]:
    """What a process of its own found, with `count` spoiled blocks and those of lying encoders."""
    words = [sys.executable, "-m", "tests.streams.hostile", str(seed), str(count)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def topic_rows(data: bytes) -> None:
    """As a log reads some topics of a block that stands in a file."""
    head, payload_at = BlockHead.from_bytes(data[:HEAD_BYTES_MAX])

    def read(at: int, length: int) -> bytes:
        return data[payload_at + at : payload_at + at + length]

    CODEC.opened(head, read).topic_rows(read, "MSKU1234565")


def check(found: dict[str, float]) -> None:
    assert found["refused"] > found["tried"] / 3
    assert found["slowest_s"] < SECONDS_MAX
    assert found["peak_mib"] < MEMORY_MIB_MAX


@pytest.mark.long
@pytest.mark.timeout(600)
def test_spoiled_blocks_and_lying_encoders() -> None:
    check(tried(20261121, 2000, 580))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_spoiled_blocks() -> None:
    check(tried(7, 100_000, 3500))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([1, 5, BLOCK_RECORDS_MAX]))
def test_random_payloads(payload: bytes, count: int) -> None:
    with pytest.raises(Corrupt):
        CODEC.decode(replace(BLOCK, payload=payload, count=count))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 400), st.integers(0, 7))
def test_a_flipped_bit_in_a_whole_block(at: int, bit: int) -> None:
    data = bytearray(BLOCK.to_bytes())
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(Corrupt):
        Block.from_bytes(bytes(data))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_seen_without_the_blocks_own_checksum(at: int, bit: int) -> None:
    """As a reader of some topics alone meets it: the head and the payload each know whether they are whole."""
    data = bytearray(BLOCK.to_bytes()[:-8])
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(Corrupt):
        topic_rows(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_no_block(data: bytes) -> None:
    with refusal(Corrupt, "block_head_corrupt"):
        Block.from_bytes(data)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 62))
def test_a_head_cut_short_is_no_head(length: int) -> None:
    head = BLOCK.head.to_bytes()
    with refusal(Corrupt, "block_head_corrupt"):
        BlockHead.from_bytes(head[: min(length, len(head) - 1)])


@pytest.mark.parametrize("length", [0, 3, 5, 200])
def test_a_page_with_more_or_less_in_it_than_its_numbers_is_refused(length: int) -> None:
    """Four bytes in a page that says it has five is as the encoder writes it; nothing of what follows is read."""
    page = Reader(b"\x05\x04abcdnext", DecodeBudget())
    assert page.boxed() == b"abcd"
    assert page.raw(4) == b"next"
    box = Writer()
    box.varint(length)
    with refusal(Corrupt, "block_page_corrupt"):
        Reader(b"\x05" + box.to_bytes() + b"abcdnext", DecodeBudget()).boxed()
    with refusal(Corrupt, "block_page_corrupt"):
        Reader(b"\x05\x04abc", DecodeBudget()).boxed()


def test_a_zstd_bomb_is_not_unpacked() -> None:
    writer = Writer()
    writer.squeezed(b"x" * 50_000_000)
    small = writer.to_bytes()
    assert len(small) < 20_000
    lying = Writer()
    lying.varint(TEXT_BYTES_MAX + 1)
    with refusal(Corrupt, "block_memory_exceeded"):
        Reader(lying.to_bytes() + small[4:], DecodeBudget()).squeezed()
    shorter = Writer()
    shorter.varint(1000)
    with refusal(Corrupt, "block_texts_corrupt"):
        Reader(shorter.to_bytes() + small[4:], DecodeBudget()).squeezed()


def test_what_is_unpacked_is_paid_for() -> None:
    budget = DecodeBudget()
    budget.pay_cells(CELLS_MAX)
    with refusal(Corrupt, "block_memory_exceeded"):
        budget.pay_cells(1)
