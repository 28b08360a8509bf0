"""Goal: no record, one's own or a hostile peer's, has a signal under a name that reading it could take for the log's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.codec.block_codec import CODEC
from streams.codec.encoder import write_payload
from streams.codec.row_groups import GROUP_ROWS
from streams.log import Append
from streams.model.block import Block
from streams.model.errors import Corrupt, Misuse
from streams.model.records import ORDER_AT, Record, to_batch
from streams.model.row_columns import Whole
from tests.streams.logkit import NOW_MS, SHIP, append_rows, open_log, rows, stamped
from tests.support.refusals import refusal

BOX = "MSKU1234565"
WRONG = ["stream", "origin", "coordinates", "", "a" * 101, "x\x1b[2J", "one\ntwo"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    log = open_log(tmp_path, "port-b")
    append_rows(log, to_batch([Record(BOX, "TRK-1", NOW_MS, {"return_c": 4.0})]))
    yield log
    log.close()


def named(name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, whose signal `return_c` has another name."""
    return batch.rename_columns([name if one == "return_c" else one for one in batch.schema.names])


@pytest.mark.parametrize("name", WRONG)
def test_such_a_name_is_refused_where_it_would_come_in(log: FileLog, name: str) -> None:
    signals: dict[str, Any] = {name: "x"}
    with refusal(ValueError, "signal_name_invalid"):
        Record(BOX, signals=signals)
    with refusal(Misuse, "records_invalid", "containers"):
        log.append([Append("containers", named(name, rows(3)))])
    with refusal(Misuse, "column_invalid"):
        BlockCodec().encode("containers", SHIP, named(name, stamped(rows(3))))


@pytest.mark.parametrize("name", WRONG)
def test_a_block_with_such_a_name_is_refused_and_history_goes_on(log: FileLog, name: str) -> None:
    records = named(name, stamped(to_batch([Record(BOX, "TRK-1", NOW_MS, {"return_c": 4.0})])))
    at_ms = records.column(ORDER_AT)[0].as_py()
    hostile = Block("containers", SHIP, 0, 1, at_ms, at_ms, CODEC, write_payload(Whole(records), at_ms, GROUP_ROWS))
    with refusal(Corrupt, "block_columns_corrupt"):
        log.admit([hostile])
    assert log.history(BOX).rows.num_rows == 1
