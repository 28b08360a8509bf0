"""Goal: a process that is to be small gives back what was large, though small things that stay were made between."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streams.memory_release
from landfall.storage.append_planner import stamped
from landfall.storage.row_tables import coalesced
from streams.codec import BlockCodec
from streams.codec.column_buffers import Room
from streams.codec.column_types import NARROWED_MIN, as_arrow, narrowed
from streams.core_limit import one_core
from streams.memory_release import large_work
from streams.model.identifiers import Origin
from streams.model.records import Record, concat, to_batch

DEADLINE_S = 60.0
ROUNDS = """
import sys
from pathlib import Path
import pyarrow as pa
from streams.memory_release import spare_memory

def resident_kib():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))

if "spare" in sys.argv:
    spare_memory()
bytearray(8 << 20)  # freed: from now on glibc takes less than that for small, unless it is told otherwise
before, kept = resident_kib(), []
large = []
for _ in range(64):
    large.append(bytearray(1 << 20))
    kept.append(bytearray(2000))
del large
print(resident_kib() - before)
"""


class Turns:
    """A lock that tells when somebody is about to wait for it."""

    def __init__(self) -> None:
        self._lock, self.waited_for = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def stays_mib(*words: str) -> int:
    """What of 64 MiB stays with a process of its own once all but small things between are freed, MiB."""
    ran = subprocess.run([sys.executable, "-c", ROUNDS, *words], capture_output=True, text=True, check=True)
    return int(ran.stdout) // 1024


def test_what_is_large_goes_back_to_the_system_at_once() -> None:
    assert stays_mib("spare") < 4
    assert stays_mib() > 32, "without it this test would show nothing"


def test_what_takes_much_memory_for_a_while_is_done_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: two such works never overlap, and what the first took is given back before the second begins, also where it fails."""
    happened: list[str] = []
    turns = Turns()
    monkeypatch.setattr(streams.memory_release, "release", lambda: happened.append("given back"))
    monkeypatch.setattr(streams.memory_release, "_LARGE", turns)

    def then() -> None:
        with large_work():
            happened.append("second")

    second = threading.Thread(target=then)
    with suppress(ValueError), large_work():
        second.start()
        assert turns.waited_for.wait(DEADLINE_S)
        happened.append("first")
        raise ValueError
    second.join(DEADLINE_S)
    assert happened == ["first", "given back", "second", "given back"]


def test_of_batches_that_are_joined_a_column_is_let_go_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a merge never holds its rows twice over."""
    happened: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for part in range(2):
            columns = {}
            for name in ("supply_c", "return_c"):
                values = np.full(1_000, float(part))
                weakref.finalize(values, happened.append, f"{name} let go")
                columns[name] = pa.array(values)
            yield pa.RecordBatch.from_pydict(columns)

    joining = pa.concat_arrays

    def joined(arrays: list[pa.Array]) -> pa.Array:
        happened.append("joined")
        return joining(arrays)

    monkeypatch.setattr("landfall.storage.row_tables.pa.concat_arrays", joined)
    [whole] = coalesced(batches(), 2_000)
    assert happened == ["joined", *["supply_c let go"] * 2, "joined", *["return_c let go"] * 2]
    assert whole.num_rows == 2_000


def test_of_a_block_that_is_read_a_column_is_let_go_before_the_next_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a large block is never there both as it is stored and as it is given."""
    names = ("ambient_c", "return_c", "supply_c")
    chance = np.random.default_rng(1)
    rows = [Record(f"box-{at % 9}", "TRK", at, dict(zip(names, chance.normal(size=3).tolist(), strict=True))) for at in range(2_000)]
    records = stamped(to_batch(rows), 0, len(rows))
    block = BlockCodec().encode("containers", Origin("ship-a", 1), records)
    stored: list[weakref.ref[Any]] = []
    left: list[int] = []

    def finished(values: Any, *more: Any) -> pa.Array:
        left.append(sum(one() is not None for one in stored))
        stored.append(weakref.ref(values))
        return as_arrow(values, *more)

    monkeypatch.setattr("streams.codec.decoder.as_arrow", finished)
    with one_core():
        assert BlockCodec().decode(block).select(records.schema.names).equals(records)
    assert left == [0] * len(names)


def test_joined_batches_are_those_rows_whatever_columns_each_has() -> None:
    one = pa.RecordBatch.from_pydict({"topic": ["a", "b"], "supply_c": [1.5, None]})
    other = pa.RecordBatch.from_pydict({"topic": ["c"], "door_open": [True]})
    [whole] = coalesced([one, other], 100)
    assert whole.equals(concat([one, other]))


def test_what_stays_of_a_block_keeps_little_of_what_was_only_on_the_way() -> None:
    """Goal: four arrays of a length share a part of memory, so that those which stay hold few others."""
    room, length = Room(), 1 << 17
    kept = [room.empty(length, np.int64) for _ in range(5)]
    begin = sorted(array.ctypes.data for array in kept)
    apart = [after - before != length * 8 for before, after in itertools.pairwise(begin)]
    assert apart.count(True) == 1, "the fifth is in a part of its own"


def test_numbers_that_wait_take_half_the_memory_where_that_holds_them() -> None:
    low = np.arange(NARROWED_MIN) - 5
    assert narrowed(low).nbytes * 2 == low.nbytes
    assert (narrowed(low) == low).all()
    for edge in (1 << 31, -(1 << 31) - 1):
        wide = np.append(low, edge)
        assert narrowed(wide) is wide
    assert narrowed(low[:100]).dtype == np.int64, "of few numbers there is nothing to gain"
