"""Goal: what a tracker says whose clock fell back is flagged `clock_back`, and is of now at headquarters; what was stored is not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cargo.loss.event_time import corrected_at_ms
from hq.analytics.folding import fold_readings, merge_states
from hq.spark_rows import reading_identities, widen
from intake.mqtt.packets import packet
from intake.stuck_clocks import CLOCKS_MAX, FallenClocks
from streams.model.identifiers import Position
from streams.model.records import LATE_MS_MAX, StoredRecord
from tests.intake.stand import AT, TOPIC, Stand, eventually, stand
from tests.intake.test_endpoint import CONNECT_311, ask
from tests.intake.test_stopped import Later

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Reading = dict[str, Any]


async def bring(one: Stand, clock: Later, *readings: list[Reading] | Reading, every_s: float = 3_600) -> None:
    """Each message (a reading, or an array of readings) `every_s` after the one before, acknowledged."""
    topic = struct.pack(">H", len(TOPIC)) + TOPIC.encode()
    for reading in readings:
        clock.ahead_s += every_s
        some = [{"device": "TRK-1", **each} for each in (reading if isinstance(reading, list) else [reading])]
        payload = json.dumps(some if isinstance(reading, list) else some[0]).encode()
        assert len(await ask(one.endpoint.port, CONNECT_311 + packet(0x32, topic + struct.pack(">H", 1) + payload), 8)) == 8


def hourly(hours: range, back_ms: int, return_c: float) -> list[Reading]:
    """A reading in each hour after AT, by a clock that is behind."""
    return [{"at": AT + hour * HOUR_MS - back_ms, "return_c": return_c} for hour in hours]


def flags(rows: list[StoredRecord]) -> list[list[str]]:
    return [(row.record.body or {}).get("flags", []) for row in rows]


def newest(one: Stand) -> dict[str, float]:
    """The box's temperature and its time as headquarters has them, folded batch by batch."""
    parts = [fold_readings(pa.Table.from_batches([widen(batch)])) for batch in one.log.read("containers", Position())]
    [state] = merge_states(pa.concat_tables(parts)).to_pylist()
    return {"return_c": state["return_c"]["value"], "at_ms": state["return_c"]["at"]}


@pytest.mark.parametrize("back_ms", [90 * DAY_MS, 2 * LATE_MS_MAX])
async def test_who_falls_back_is_flagged_from_the_third_message_on(tmp_path: Path, back_ms: int) -> None:
    """Its order times stay as they were stamped; headquarters shows what it says now."""
    clock, stale = Later(), ["stale"] if back_ms > LATE_MS_MAX else []
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, clock, *hourly(range(1, 4), 0, 4.0), *hourly(range(4, 9), back_ms, 18.0))
        rows = one.rows("containers")
        assert flags(rows) == [*[[]] * 3, stale, stale, *[[*stale, "clock_back"]] * 3]
        assert one.counts()["clocks_back"] == 3
        if not stale:
            assert [row.order_at_ms for row in rows] == [row.record.device_at_ms for row in rows]
        assert newest(one) == {"return_c": 18.0, "at_ms": rows[-1].received_at_ms}
        known = [identity for batch in one.log.read("containers", Position()) for identity in reading_identities(batch)]
        assert len(set(known)) == len(rows), "the flag changes no identity"


async def test_a_restart_goes_on_where_it_was_and_a_clock_that_is_right_again_is_believed(tmp_path: Path) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, clock, *hourly(range(1, 4), 90 * DAY_MS, 18.0))
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, clock, *hourly(range(4, 5), 90 * DAY_MS, 18.0), *hourly(range(5, 6), 0, 17.0))
        await bring(one, clock, *hourly(range(6, 7), 90 * DAY_MS, 16.0))
        await eventually(lambda: len(one.rows("containers")) == 6)
        assert flags(one.rows("containers")) == [[], [], ["clock_back"], ["clock_back"], [], []]
        assert newest(one) == {"return_c": 17.0, "at_ms": AT + 5 * HOUR_MS}


@pytest.mark.parametrize("array", [1, 6])
async def test_ten_hours_that_were_stored_keep_their_own_times(tmp_path: Path, array: int) -> None:
    """Goal: newest first, in arrays and singly, with what the tracker says meanwhile."""
    clock = Later()
    clock.ahead_s = 10 * 3_600
    stored = [{"at": AT + 10 * HOUR_MS - n * 600_000, "return_c": float(n)} for n in range(1, 60)]
    async with stand(tmp_path, clock=clock) as one:
        for first in range(0, len(stored), array):
            some = stored[first : first + array]
            await bring(one, clock, some if array > 1 else some[0], every_s=20)
            if first % 12 == 0:
                await bring(one, clock, {"at": clock.now_ms(), "return_c": -1.0}, every_s=5)
        rows = one.rows("containers")
        assert len(rows) == 59 + 59 // 12 + 1
        assert flags(rows) == [[]] * len(rows)
        table = pa.concat_tables(pa.Table.from_batches([widen(batch)]) for batch in one.log.read("containers", Position()))
        assert corrected_at_ms(table).to_pylist() == [row.record.device_at_ms for row in rows]
        assert newest(one)["return_c"] == -1.0


async def test_no_payload_says_itself_that_its_clock_fell_back(tmp_path: Path) -> None:
    clock = Later()
    async with stand(tmp_path, clock=clock) as one:
        await bring(one, clock, {"at": AT, "return_c": 4.0, "flags": ["clock_back"], "note": '"flags":["clock_back"]'})
        [batch] = one.log.read("containers", Position())
        assert corrected_at_ms(pa.Table.from_batches([batch.records])).to_pylist() == [AT]


def test_memory_is_bounded() -> None:
    clocks = FallenClocks()
    for n in range(CLOCKS_MAX + 100):
        clocks.note((n,), (AT,), (AT + HOUR_MS,))
    assert len(clocks._clocks) == CLOCKS_MAX
    clocks.note((CLOCKS_MAX,), (AT,), (AT,))
    assert len(clocks._clocks) == CLOCKS_MAX - 1
