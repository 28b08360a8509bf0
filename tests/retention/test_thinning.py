"""Goal: a ship that runs out of disk keeps what tells most, says what is gone, and a crash between any two steps does neither twice."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLogOptions
from streams.codec import BlockCodec
from streams.config.companion_streams import KEPT
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import ORDER_AT
from streams.retention.droppable_runs import RUN
from streams.retention.kept_records import window_h
from streams.retention.thinner import UNIT_RUNS, Thinning
from streams.retention.window_extremes import keepers
from tests.retention.thinkit import BOXES, HOUR_MS, box, extremes, no_excursions, none_ashore, readings, ship_log
from tests.streams.logkit import NOW_MS, FullDisk, copy_all, open_log, stamped

LATER_MS = 1 << 62


def test_first_last_lowest_highest_of_each_box_and_window_are_kept_and_little_else() -> None:
    rows = stamped(readings(0, 4 * RUN))
    keep = keepers(rows, HOUR_MS, {})
    topics, at = rows.column("topic").to_pylist(), rows.column(ORDER_AT).to_pylist()
    for name in ("return_c", "power_on", "door"):
        groups: dict[tuple[str, int], list[tuple[object, bool]]] = {}
        for row, value in enumerate(rows.column(name).to_pylist()):
            if value is not None:
                groups.setdefault((topics[row], at[row] // HOUR_MS), []).append((value, bool(keep[row])))
        for values in groups.values():
            for end in (min, max):
                assert any(kept for value, kept in values if value == end(value for value, _ in values)), name  # type: ignore[type-var]
    times: dict[tuple[str, int], list[tuple[int, bool]]] = {}
    for row in range(rows.num_rows):
        times.setdefault((topics[row], at[row] // HOUR_MS), []).append((at[row], bool(keep[row])))
    assert all(min(group)[1] and max(group)[1] for group in times.values())
    assert keep.sum() <= len(times) * 8


def test_excursions_are_kept_whole() -> None:
    rows = stamped(readings(0, RUN))
    at = rows.column(ORDER_AT).to_numpy()
    since, until = int(at[1000]), int(at[3000])
    keep = keepers(rows, HOUR_MS, {box(3): RangeSet([(since, until)])})
    inside = (at >= since) & (at < until) & (np.array(rows.column("topic").to_pylist()) == box(3))
    assert inside.sum() > 200
    assert keep[inside].all()
    assert not keep.all()


def test_history_shows_kept_samples_where_runs_are_gone_and_the_rest_as_it_was(tmp_path: Path) -> None:
    log = ship_log(tmp_path / "ship", 3)
    port = open_log(tmp_path / "port", "tokyo")
    before = log.history(box(2)).rows
    step = Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
    assert step is not None
    assert step.records == 3 * RUN
    assert 0 < step.kept < RUN
    ledger = log.ledger("containers")[log.origin]
    assert list(ledger.gone["thinned"]) == [(0, 3 * RUN)]
    assert not ledger.held
    for copy in (log, port):
        if copy is port:
            copy_all(log, port, ["containers" + KEPT])
            port.declare_gone("containers", log.origin, 0, 3 * RUN, "thinned")
        after = copy.history(box(2)).rows
        assert set(after.column("stream").to_pylist()) == {"containers.kept"}
        assert extremes(after, HOUR_MS) == extremes(before, HOUR_MS)
        assert {window_h(body) for body in after.column("body").to_pylist()} == {1}
        originals = {row["offset"]: row for row in before.to_pylist()}
        for row in after.to_pylist():
            source = originals[row["source_offset"]]
            assert (row["source_stream"], row["source_origin"]) == ("containers", str(log.origin))
            same = ("topic", "device", "device_at_ms", "order_at_ms", "return_c", "power_on", "door")
            assert [row[name] for name in same] == [source[name] for name in same]
    port.close()
    log.close()


def test_signals_of_several_types_are_thinned_and_what_is_kept_has_its_own(tmp_path: Path) -> None:
    """Whole numbers, then numbers, then texts: as one appends them by the door, a commit each."""
    log = ship_log(tmp_path / "ship", 0)
    types = (pa.int64(), pa.float64(), pa.string())
    for part in range(12):
        rows = readings(part * RUN // 4, RUN // 4)
        odd = pa.array([number % 50 for number in range(RUN // 4)], pa.int64()).cast(types[part % 3])
        log.append([Append("containers", rows.append_column("odd", odd))])
    before = {row.coordinates.offset: row.record.signals["odd"] for batch in log.read("containers", Position()) for row in batch.rows()}
    step = Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
    assert step is not None
    assert (step.records, 0 < step.kept < RUN) == (3 * RUN, True)
    kept = [row.record for batch in log.read("containers" + KEPT, Position()) for row in batch.rows()]
    assert len(kept) == step.kept
    told = [(record.signals["odd"], before[record.source.offset]) for record in kept if record.source is not None]
    assert len(told) == step.kept
    assert all(type(one) is type(other) and one == other for one, other in told)
    assert {type(one) for one, _ in told} == {int, float, str}
    log.close()


def test_kept_samples_do_not_show_beside_their_originals(tmp_path: Path) -> None:
    """A copy that has the kept samples already and not heard yet that the runs are gone; and one that holds the originals."""
    log, port = ship_log(tmp_path / "ship", 2), open_log(tmp_path / "port", "tokyo")
    copy_all(log, port, ["containers"])
    before = port.history(box(1)).rows
    assert Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
    copy_all(log, port, ["containers" + KEPT])
    assert port.history(box(1)).rows.column("stream").to_pylist() == before.column("stream").to_pylist()
    assert port.history(box(1), streams=["containers"]).rows.num_rows == before.num_rows
    assert log.history(box(1), streams=["containers"]).rows.num_rows > 0, "asked for the stream, what was kept of it is meant too"
    port.close()
    log.close()


def test_windows_widen(tmp_path: Path) -> None:
    log = ship_log(tmp_path, 30)
    before = {number: log.history(box(number)).rows for number in range(BOXES)}
    for _ in range(40):
        if Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS) is None:
            break
    kept = "containers" + KEPT
    windows = []
    for _ in range(40):
        step = Thinning(log, kept, none_ashore, no_excursions).step(LATER_MS)
        if step is None:
            break
        windows.append(step.window_ms // HOUR_MS)
    assert set(windows) <= {6, 24}
    assert windows
    last_ledger = log.ledger(kept)[log.origin]
    assert last_ledger.gone["thinned"].count() % RUN == 0
    for number in range(BOXES):
        after = log.history(box(number)).rows
        assert extremes(after, 24 * HOUR_MS) == extremes(before[number], 24 * HOUR_MS)
        sources = list(zip(after.column("source_origin").to_pylist(), after.column("source_offset").to_pylist(), strict=True))
        assert len(sources) == len(set(sources)), "none twice"
    log.close()


def test_what_is_ashore_is_never_declared_gone_and_what_is_young_stays(tmp_path: Path) -> None:
    log = ship_log(tmp_path, 6)
    ashore = RangeSet([(0, RUN), (3 * RUN, 4 * RUN)])
    thinning = Thinning(log, "containers", lambda stream, origin: ashore if stream == "containers" else RangeSet(), no_excursions)
    end_ms = max(span.order_last_ms for span in log.spans("containers", log.origin) if span.end <= 5 * RUN)
    while thinning.step(end_ms + 1):
        pass
    assert list(log.ledger("containers")[log.origin].gone["thinned"]) == [(RUN, 3 * RUN), (4 * RUN, 5 * RUN)]
    assert log.ledger("containers")[log.origin].held.count() == 3 * RUN
    log.close()


def test_what_would_hardly_shrink_is_left_as_it_is(tmp_path: Path) -> None:
    """Two readings of each box: the first and the last of their window."""
    log = open_log(tmp_path, clock=StillClock(NOW_MS))
    log.append([Append("containers", readings(0, RUN, boxes=RUN // 2))])
    assert Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS) is None
    assert log.ledger("containers")[log.origin].held.count() == RUN
    assert "containers.kept" not in log.streams()
    log.close()


def test_a_full_disk_stops_the_step_and_nothing_else(tmp_path: Path) -> None:
    full = FullDisk()
    log = ship_log(tmp_path, 2, FileLogOptions(disk=full))
    before = extremes(log.history(box(0)).rows, HOUR_MS)
    for writes in range(6):
        full.writes_left = writes
        with pytest.raises(RetryLater):
            Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
        full.writes_left = None
        assert extremes(log.history(box(0)).rows, HOUR_MS) == before
        Thinning(log, "containers", none_ashore, no_excursions).finish()
        if log.ledger("containers")[log.origin].gone:
            break
    else:
        assert Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
    assert extremes(log.history(box(0)).rows, HOUR_MS) == before
    assert log.ledger("containers.kept")[log.origin].end() < RUN
    log.close()


def _thin(folder: Path, crash_at: str) -> None:
    import os

    os.environ["LANDFALL_CRASH_AT"] = crash_at
    log = open_log(folder)
    thinning = Thinning(log, "containers", none_ashore, no_excursions)
    while thinning.step(LATER_MS):
        pass
    log.close()


@pytest.mark.parametrize("point", ["log.written", "log.synced", "log.indexed", "thinning.kept", "thinning.declared"])
def test_killed_between_any_two_steps(tmp_path: Path, point: str) -> None:
    runs = UNIT_RUNS // 8 + 3
    log = ship_log(tmp_path, runs)
    before = {number: extremes(log.history(box(number)).rows, HOUR_MS) for number in range(BOXES)}
    log.close()
    context = multiprocessing.get_context("forkserver")
    for passage in (1, 2):
        process = context.Process(target=_thin, args=(tmp_path, f"{point}:{passage}"))
        process.start()
        process.join(60)
        assert process.exitcode == -9 if passage == 1 else process.exitcode in (-9, 0)
        log = open_log(tmp_path)
        assert {number: extremes(log.history(box(number)).rows, HOUR_MS) for number in range(BOXES)} == before
        log.close()
    log = open_log(tmp_path)
    thinning = Thinning(log, "containers", none_ashore, no_excursions)
    thinning.finish()
    while thinning.step(LATER_MS):
        pass
    rows = log.history(box(0)).rows
    sources = rows.column("source_offset").to_pylist()
    assert len(sources) == len(set(sources))
    kept = [batch.records.column("source_offset") for batch in log.run("containers.kept", log.origin, 0, 1 << 40)]
    all_sources = [offset for column in kept for offset in column.to_pylist()]
    assert len(all_sources) == len(set(all_sources)), "nothing was kept twice"
    assert not log.ledger("containers")[log.origin].held
    log.close()


def test_the_codec_gives_kept_rows_back(tmp_path: Path) -> None:
    log = ship_log(tmp_path, 1)
    assert Thinning(log, "containers", none_ashore, no_excursions).step(LATER_MS)
    blocks = list(log.blocks("containers.kept", log.origin, 0, RUN))
    assert sum(BlockCodec().decode(block).num_rows for block in blocks) == log.ledger("containers.kept")[log.origin].end()
    log.close()
