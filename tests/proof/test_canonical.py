"""Goal: a record has one digest, whatever block it is in, whatever columns stand beside its own, and another for any other record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import BlockCodec
from streams.integrity.canonical_bytes import row_digest, row_digests
from streams.model.identifiers import Coordinates
from streams.model.records import OFFSET, Record, Value, concat, to_batch
from tests.streams.logkit import NOW_MS, SHIP, rows, stamped

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SIGNALS = {
    "power_on": st.booleans(),
    "count": NUMBERS,
    "return_c": st.floats(width=64, allow_nan=False),
    "place": st.text(max_size=12),
    "é": st.floats(),
}
RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["MSKU1234565", "MSKU7654321", "box é"]),
    device=st.none() | st.text(max_size=5),
    device_at_ms=st.none() | st.integers(NOW_MS - 1000, NOW_MS),
    signals=st.fixed_dictionaries({}, optional=SIGNALS),
    body=st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=2),
    source=st.none() | st.just(Coordinates("containers", SHIP, 7)),
)


def one_by_one(batch: pa.RecordBatch) -> list[bytes]:
    """Each row's digest by the letter of the format. Values are taken as they are: `to_pylist` would give no other."""
    return [row_digest(row) for row in batch.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=12), st.data())
def test_a_digest_is_the_same_however_blocks_are_cut(records: list[Record], data: st.DataObject) -> None:
    batch = stamped(to_batch(records))
    digests = row_digests(batch)
    assert digests == one_by_one(batch)
    cut = data.draw(st.integers(0, len(records)))
    assert row_digests(batch.slice(0, cut)) + row_digests(batch.slice(cut)) == digests
    wide = concat([batch, stamped(to_batch([Record("other", signals={"another": 1.5, "and": "text"})]), len(records))])
    order = data.draw(st.permutations(wide.schema.names))
    assert row_digests(wide.select(order))[: len(records)] == digests
    codec = BlockCodec()
    assert row_digests(codec.decode(codec.encode("containers", SHIP, batch))) == digests


def test_every_column_is_in_the_digest() -> None:
    signals: dict[str, Value] = {"a": 1, "b": 1.5, "c": True, "d": "1"}
    source = Coordinates("containers", SHIP, 7)
    row: dict[str, Any] = stamped(to_batch([Record("box", "TRK", NOW_MS, signals, {}, source)])).to_pylist()[0]
    seen = {row_digest(row)}
    for name, value in row.items():
        changed = value + "x" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1
        seen.add(row_digest({**row, name: changed}))
        seen.add(row_digest({**row, name: None}))
        seen.add(row_digest({other + "x" * (other == name): kept for other, kept in row.items()}))
    assert len(row) == 14
    assert len(seen) == 1 + 3 * len(row)


def test_types_are_told_apart() -> None:
    values = (1, 1.0, True, "1", 0.0, -0.0, float("nan"), "", 4607182418800017408)
    assert len({row_digest({"x": value}) for value in values}) == len(values)
    assert row_digest({"a": "xy", "b": "z"}) != row_digest({"a": "x", "b": "yz"})


def test_many_shapes_come_back_in_order() -> None:
    rng = np.random.default_rng(3)
    sparse = [Record("box", signals={f"s{n}": float(rng.random()) for n in range(6) if rng.random() < 0.5}) for _ in range(500)]
    batch = stamped(to_batch(sparse))
    assert row_digests(batch) == one_by_one(batch)
    assert row_digests(rows(0).append_column(OFFSET, pa.array([], pa.int64()))) == []
