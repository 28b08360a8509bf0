"""How old Spark's results are is told by what it has read, not by when it last spoke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, NOW_MS, Fleet, fill

SPOKE_MS = NOW_MS - 2_000
NEWEST_MS = NOW_MS - 90 * 60_000


def spark_says(fleet: Fleet, folder: Path, **more: Any) -> tuple[dict[str, Any], int | None]:
    """What `/api/status` tells a customer of Spark, and what time its map is true for, once the analytics have said this."""
    body = {
        "process": "analytics",
        "at_ms": SPOKE_MS,
        "wall_at_ms": NOW_MS + 1,
        "counts": {},
        "batch": 4,
        "newest_at_ms": NEWEST_MS,
        **more,
    }
    fleet.append("hq", "metrics", [Record("analytics", body=body)])
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as client:
        headers = log_in(client, "donald")
        spark: dict[str, Any] = client.get("/api/status", headers=headers).json()["spark"]
        return spark, client.get("/api/map", headers=headers).json()["as_of_at_ms"]


def read_of(fleet: Fleet, less: int = 0) -> dict[str, dict[str, int]]:
    """Positions at the end of headquarters' log, or `less` records before it in the ship's readings."""
    log = fleet.logs["hq"]
    ends = {stream: {str(origin): end for origin, end in log.position(stream).items()} for stream in ("containers", "events")}
    ends["containers"] = {origin: end - less if origin.startswith("ship-one") else end for origin, end in ends["containers"].items()}
    return ends


@pytest.mark.parametrize(("less", "true_for_ms"), [(0, SPOKE_MS), (1, NEWEST_MS)])
def test_results_are_as_old_as_what_was_read(fleet: Fleet, tmp_path: Path, less: int, true_for_ms: int) -> None:
    """All of the log read: true for when Spark said so. One reading behind: for the newest it has read, however lately it spoke."""
    fill(fleet)
    spark, as_of_ms = spark_says(fleet, tmp_path, positions=read_of(fleet, less))
    assert (spark["at_ms"], spark["age_ms"], as_of_ms) == (true_for_ms, NOW_MS - true_for_ms, true_for_ms)
    assert spark["well"]


def test_before_the_first_micro_batch_nothing_is_true(fleet: Fleet, tmp_path: Path) -> None:
    """The process speaks and has made nothing; why is not for a customer."""
    fleet.readings("ship-one", DUCKS)
    spark, as_of_ms = spark_says(
        fleet, tmp_path, positions={}, batch=None, newest_at_ms=None, problem="the first micro-batch has not begun"
    )
    assert (spark["at_ms"], as_of_ms, spark["well"]) == (None, None, False)
    assert "problem" not in spark


def test_begun_anew_and_behind_it_is_as_old_as_its_last_states(fleet: Fleet, tmp_path: Path) -> None:
    """A job that has just started again knows not how new what it read was: its states say when they were made."""
    fill(fleet)
    spark, _ = spark_says(fleet, tmp_path, positions=read_of(fleet, 1), newest_at_ms=None)
    assert spark["at_ms"] == SPOKE_MS
