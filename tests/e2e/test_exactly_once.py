"""Goal: every published reading is there once, row by row and field by field, in Delta, in the serving store, in its owner's stream."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cargo.signals import SIGNALS
from streams.records import RESERVED
from tests.e2e.played import Played
from tests.e2e.test_story import DUCKWORKS, MERLION, booked
from tests.e2e.voyage import until

Row = tuple[Any, ...]

pytestmark = pytest.mark.timeout(900)  # the voyage itself is played within the first of these tests


def row_of(topic: str, device: str, device_at_ms: int, values: dict[str, Any]) -> Row:
    """A reading as its device said it: comparable, and nothing of where it was kept."""
    signals = {name: value for name, value in values.items() if name in SIGNALS and value is not None}
    return (topic, device, device_at_ms, *sorted(signals.items()))


def true_rows(played: Played) -> list[Row]:
    """Every reading the simulator published, repeats left out."""
    rows = []
    for said in played.voyage.truth().to_pylist():
        if not said["repeat"]:
            _, kind, thing, what = said["mqtt_topic"].split("/")
            topic = thing if kind == "containers" else f"{thing}.{what}"
            rows.append(row_of(topic, said["device"], said["device_at_ms"], said))
    return rows


def counted(rows: list[Row]) -> Counter[Row]:
    """How often each row is there; fails a test with the rows that are there twice."""
    counts = Counter(rows)
    assert not [row for row, count in counts.items() if count > 1]
    return counts


def test_the_truth_has_each_reading_once(played: Played) -> None:
    assert len(true_rows(played)) > 2_000
    counted(true_rows(played))


def test_the_delta_history_has_every_reading_once(played: Played) -> None:
    table: pa.Table = DeltaTable(played.voyage.fleet.folder / "tables" / "history").to_pyarrow_table()
    readings = [row for row in table.to_pylist() if row["stream"] in ("containers", "ships")]
    found = [row_of(row["topic"], row["device"], row["device_at_ms"], row) for row in readings]
    assert counted(found) == Counter(true_rows(played))


def test_the_serving_store_has_every_reading_of_a_box_once(played: Played) -> None:
    wanted: dict[str, list[Row]] = defaultdict(list)
    for row in true_rows(played):
        wanted[row[0]].append(row)
    api = played.voyage.api("operations")
    boxes = api.all("/api/containers", limit=500)
    assert {box["number"] for box in boxes} >= {topic for topic in wanted if "." not in topic}
    for box in boxes:
        timeline = api.all(f"/api/containers/{box['number']}/timeline", limit=500)
        found = [
            row_of(box["number"], item["device"], item["device_at_ms"], item["signals"]) for item in timeline if item["kind"] == "reading"
        ]
        assert counted(found) == Counter(wanted[box["number"]]), box["number"]


def test_each_customers_stream_has_its_readings_once_and_nothing_else(played: Played) -> None:
    origin_times = {(row.coordinates.origin, row.coordinates.offset): row for row in played.voyage.rows("hq", "containers")}
    for customer in (DUCKWORKS, MERLION):
        spans = booked(played, customer)
        rows = played.voyage.rows("hq", f"customers/{customer}")
        readings = [row for row in rows if row.record.source and row.record.source.stream == "containers"]
        found = Counter((row.record.source.origin, row.record.source.offset) for row in readings if row.record.source)
        wanted = {
            key for key, row in origin_times.items() if row.record.topic in spans and _within(row.order_at_ms, spans[row.record.topic])
        }
        assert found == Counter(wanted)
        for row in readings:
            assert row.record.source is not None
            true = origin_times[row.record.source.origin, row.record.source.offset].record
            assert (row.record.topic, row.record.device, row.record.device_at_ms) == (true.topic, true.device, true.device_at_ms)
            assert _signals(row.record.signals) == _signals(true.signals)
        assert {row.record.topic for row in rows} <= spans.keys()


def test_the_serving_database_deleted_while_all_runs_builds_itself_again_identical(played: Played) -> None:
    voyage = played.voyage
    api = voyage.api("operations")
    before = _everything(voyage.api("operations"))
    for file in (voyage.fleet.folder / "serving").iterdir():
        file.unlink()
    until("the store is gone or being built", lambda: api.ask("/api/containers").status_code == 503, 60)
    until("it is there again", lambda: api.ask("/api/containers").status_code == 200, 120)
    until("it has caught up", voyage.caught_up)
    assert _everything(api) == before


def _everything(api: Any) -> dict[str, Any]:
    boxes = api.all("/api/containers", limit=500)
    ageless = [{name: value for name, value in box.items() if name != "age_ms"} for box in boxes]
    timelines = {box["number"]: api.all(f"/api/containers/{box['number']}/timeline", limit=500) for box in boxes[:10]}
    alerts = api.all("/api/alerts", state="all", limit=500)
    return {"boxes": ageless, "timelines": timelines, "alerts": alerts, "incidents": api.all("/api/incidents")}


def _signals(signals: Any) -> dict[str, Any]:
    return {name: value for name, value in signals.items() if name not in RESERVED}


def _within(at_ms: int, span: tuple[int, int | None]) -> bool:
    return span[0] <= at_ms and (span[1] is None or at_ms < span[1])
