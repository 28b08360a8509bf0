"""Goal: of a block only what is asked for is kept in memory, and in a process that is to be small a large one is read part by part."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage import log_reader
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.block import Block
from streams.model.clock import StillClock
from tests.streams.logkit import NOW_MS, append_rows, rows


class Asked(BlockCodec):
    """Notes which rows are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        self.asked.append((first, end))
        return super().some_rows(block, first, end)


@pytest.mark.parametrize(
    ("spares", "first", "end", "asked"),
    [
        (False, 0, 230, [(0, 200), (200, 230)]),
        (False, 90, 91, [(90, 91)]),
        (True, 0, 230, [(0, 64), (64, 128), (128, 192), (192, 200), (200, 230)]),
        (True, 90, 220, [(90, 154), (154, 200), (200, 220)]),
        (True, 90, 91, [(90, 91)]),
    ],
)
def test_no_more_is_asked_of_a_block_than_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spares: bool, first: int, end: int, asked: list[tuple[int, int]]
) -> None:
    """Two blocks, of 200 and of 30 rows; as large counts here one of more than twice 64. Two threads decode, in whatever order."""
    monkeypatch.setattr(log_reader, "SPARED_ROWS", 64)
    monkeypatch.setattr(log_reader, "spares", lambda: spares)
    codec = Asked()
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", codec, StillClock(NOW_MS))
    append_rows(log, rows(200))
    append_rows(log, rows(30, start=200))
    codec.asked.clear()
    found = [batch.records for batch in log.run("containers", log.origin, first, end)]
    assert sorted(codec.asked) == asked
    assert [offset for records in found for offset in records.column("offset").to_pylist()] == list(range(first, end))
    log.close()
