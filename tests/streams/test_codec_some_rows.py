"""Goal: whoever wants some rows of a large block has those, and does not unpack it whole for them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import BlockCodec
from streams.codec.row_groups import GROUP_ROWS, GROUP_ROWS_MIN
from tests.streams.logkit import SHIP, rows, stamped
from tests.streams.test_codec_round_trip import CODEC, batches, bits


@pytest.fixture(scope="module", autouse=True)
def _small_parts() -> Iterator[None]:
    """Parts of 512 rows are looked at together."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streams.codec.decoder.CHECKED_ROWS", 512)
        yield


@settings(max_examples=40, deadline=None)
@given(batches(), st.sampled_from([GROUP_ROWS_MIN, GROUP_ROWS]), st.data())
def test_some_rows_of_a_block_are_those_of_all(records: pa.RecordBatch, group_rows: int, data: st.DataObject) -> None:
    """Few of a large one, which are picked out of its parts, and any others."""
    block = BlockCodec(group_rows).encode("containers", SHIP, records)
    decoded = CODEC.decode(block)
    for part in (1, 10):
        first = data.draw(st.integers(block.first, block.end - 1))
        end = data.draw(st.integers(first + 1, min(block.end, first + 1 + block.count // part)))
        found = CODEC.some_rows(block, first, end)
        assert found.schema == decoded.schema
        assert bits(found) == bits(decoded.slice(first - block.first, end - first))


def test_few_rows_of_a_large_block_are_not_looked_for_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs a run of it does not unpack it whole: 390,000 readings took 106 MiB for a moment, a part of them takes 30."""
    records = stamped(rows(5_000, topics=300), first=77)
    block = CODEC.encode("containers", SHIP, records)
    monkeypatch.setattr(BlockCodec, "decode", None)
    assert bits(CODEC.some_rows(block, 1_000, 3_500)) == bits(records.slice(923, 2_500))
    assert CODEC.cut(block, 77, 80).count == 3
