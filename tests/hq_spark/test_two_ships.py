"""Goal: a box that two ships report by turns stays on its ship in the stream `states`, however its readings are cut into micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from hq.analytics.fleet import FleetWatch
from hq.analytics.standing import CurrentStates, settled_places, state_records
from hq.delta_tables import HISTORY
from hq.spark_rows import widen
from streams.model.identifiers import Origin
from streams.model.records import Batch, to_batch
from tests.support.spark_fleet import BOXES, HOUR_MS, NOON_MS, PLACES, reading

FIRST, SECOND, QUAY = "albatross", "petrel", "singapore"
WHERE = {**PLACES, SECOND: "ship/9074729"}
MINUTE_MS = HOUR_MS // 60
Report = tuple[int, str]
BY_TURNS: list[Report] = [(minute, FIRST) for minute in range(0, 60, 5)] + [(60 + 5 * n, (SECOND, FIRST)[n % 2]) for n in range(31)]
"""Minutes and nodes: the first ship alone for an hour, then both; the newest report is the second ship's."""
LAST = BY_TURNS[-2][0]


def table(report: Report) -> pa.Table:
    """The wide row of one reading of the box."""
    minute, node = report
    times = pa.array([NOON_MS + minute * MINUTE_MS], pa.int64())
    stamped = to_batch([reading(BOXES[0], NOON_MS + minute * MINUTE_MS)]).append_column("offset", pa.array(np.array([minute])))
    stamped = stamped.append_column("received_at_ms", times).append_column("order_at_ms", times)
    return pa.Table.from_batches([widen(Batch("containers", Origin(node, 1), stamped))])


def places(root: Path, batches: Iterable[Sequence[Report]]) -> list[str]:
    """Where the box is after each micro-batch, as the steps of a micro-batch tell it; each place once in a row."""
    standing, watch = CurrentStates(str(root)), FleetWatch(WHERE)
    found: list[str] = []
    for batch, reports in enumerate(batches):
        rows = pa.concat_tables([table(report) for report in reports])
        write_deltalake(HISTORY.path(str(root)), rows.append_column("batch", pa.array([batch] * rows.num_rows)), mode="append")
        watch.judge(rows, ())
        settled = settled_places(str(root), watch.disputed([BOXES[0], "a box that nobody reported"]), WHERE)
        (record,) = state_records(standing.fold_in(rows, batch), WHERE, settled)
        place = (record.body or {})["place"]
        found += [place["id"]] if found[-1:] != [place["id"]] else []
    return found


def test_a_box_that_two_ships_report_by_turns_stays(tmp_path: Path) -> None:
    """In order it never moves, though each batch ends with another ship's report; whatever the order, it ends on its ship."""
    assert places(tmp_path, [BY_TURNS[:12], *(BY_TURNS[at : at + 5] for at in range(12, len(BY_TURNS), 5))]) == ["9321483"]
    backwards = BY_TURNS[::-1]
    assert places(tmp_path / "backwards", [backwards[:20], backwards[20:]])[-1] == "9321483"


def test_a_box_that_was_carried_over_moves(tmp_path: Path) -> None:
    after = [(LAST + 59, SECOND), (LAST + 60, SECOND), (LAST + 61, QUAY), (LAST + 600, FIRST)]
    assert places(tmp_path, [BY_TURNS, *([report] for report in after)]) == ["9321483", "9074729", "SGSIN", "9321483"]


def test_without_a_dispute_the_history_is_not_read(tmp_path: Path) -> None:
    watch = FleetWatch(WHERE)
    watch.judge(pa.concat_tables([table((0, FIRST)), table((60, SECOND)), table((61, QUAY))]), ())
    assert watch.disputed(BOXES) == {}
    assert settled_places(str(tmp_path / "none"), {}, WHERE) == {}
