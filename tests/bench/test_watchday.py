"""Goal: what the bench of a day measures is a watch that read all of it: every box expected, heard and accounted for, nothing told."""

from __future__ import annotations

from pathlib import Path

from bench.readings import INTERVAL_MS, START_AT_MS
from bench.watchday import load_list, rebuilt, written
from cargo.loss.state_snapshot import snapshot_of
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.clock import StillClock

BOXES, HOURS = 60, 5


def test_a_watch_rebuilt_from_the_log_has_judged_every_reading(tmp_path: Path) -> None:
    clock = StillClock(START_AT_MS)
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", BlockCodec(), clock)
    numbers = written(log, clock, BOXES, HOURS)
    state, made, count = rebuilt(log, load_list(numbers))
    again, _, _ = rebuilt(log, load_list(numbers))
    log.close()
    assert count >= len(numbers) * HOURS
    assert sorted(state.stowage.boxes) == numbers
    assert all(state.memory.boxes[number].heard_at_ms > START_AT_MS + (HOURS - 2) * INTERVAL_MS for number in numbers)
    assert {box.state for box in state.memory.boxes.values()} == {"ONBOARD"}
    assert not made.alerts
    assert list(snapshot_of(again)) == list(snapshot_of(state))
