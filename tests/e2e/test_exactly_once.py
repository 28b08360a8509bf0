"""Goal: every published reading is there once, row by row and field by field, in Delta, in the serving store, in its owner's stream."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from sqlalchemy import select

from hq.analytics.disclosure import KIND
from hq.serving.database import ServingDatabase, ServingReader
from hq.serving.models import METADATA, Reading
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.demo.fleet_settings import database_url, places
from streams.config.companion_streams import parent_of
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from streams.model.records import StoredRecord, order_at_ms
from tests.e2e.asked import ordeal_alone
from tests.e2e.offsydney import counts
from tests.e2e.ordeal import ordeal_of
from tests.e2e.played import Played
from tests.e2e.truth import Row, row_of
from tests.e2e.voyage import until
from tests.hq_serving.conftest import project

FROM_METRICS = ("process_status",)
"""Tables of what goes on for ever: each process's last word."""

pytestmark = pytest.mark.timeout(3_600)  # the voyage itself is played within the first of these tests


def counted(rows: list[Row]) -> Counter[Row]:
    """How often each row is there; fails a test with the rows that are there twice."""
    counts = Counter(rows)
    assert not [row for row, count in counts.items() if count > 1]
    return counts


def test_the_truth_has_each_reading_once(played: Played) -> None:
    assert len(played.voyage.truth.rows()) > 2_000
    counted(played.voyage.truth.rows())


def test_the_delta_history_has_every_reading_once(played: Played) -> None:
    table: pa.Table = DeltaTable(played.voyage.fleet.folder / "tables" / "history").to_pyarrow_table()
    readings = [row for row in table.to_pylist() if row["stream"] in ("containers", "ships")]
    found = [row_of(row["topic"], row["device"], row["device_at_ms"], row) for row in readings]
    assert counted(found) == Counter(played.voyage.truth.rows())


def test_the_serving_store_has_every_reading_of_boxes_and_ships_once(played: Played) -> None:
    reader = ServingReader(database_url(played.voyage.fleet))
    with reader.snapshot() as connection:
        rows = connection.execute(select(Reading.__table__)).mappings().all()
    reader.close()
    found = [row_of(row["topic"], row["device"], row["device_at_ms"], row["signals"]) for row in rows]
    assert counted(found) == Counter(played.voyage.truth.rows())


def test_the_timelines_have_every_reading_of_a_box_once(played: Played) -> None:
    wanted: dict[str, list[Row]] = defaultdict(list)
    for row in played.voyage.truth.rows():
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
    """Each customer: what was published of its boxes while its booking lasted, by the simulator's own word alone."""
    truth, voyage = played.voyage.truth, played.voyage
    spans = truth.spans()
    named = [name for name in counts(voyage) if name.startswith("customers/") and parent_of(name) == name]
    streams = {name.removeprefix("customers/") for name in named}
    assert streams <= spans.keys()
    for customer, own in spans.items():
        rows = voyage.rows("hq", f"customers/{customer}") if customer in streams else []
        found = counted([row_said(row) for row in rows if KIND not in (row.record.body or {})])
        wanted = {row_of(one["topic"], one["device"], one["device_at_ms"], one) for one in truth.messages if _within(one, own)}
        assert found.keys() == wanted, customer
        assert {row.record.topic for row in rows} <= own.keys()


def row_said(row: StoredRecord) -> Row:
    """A stored reading as its device said it."""
    return row_of(row.record.topic, row.record.device or "", row.record.device_at_ms or 0, dict(row.record.signals))


@ordeal_alone
def test_the_serving_database_deleted_while_all_ran_is_the_same_as_one_built_from_nothing(played: Played, tmp_path: Path) -> None:
    """It went while readings came in, and was built again beside them: to the last row what the log makes of an empty one."""
    voyage = played.voyage
    came_later = [one for one in voyage.truth.messages if one["heard_at_ms"] > ordeal_of(played).serving_deleted_at_ms]
    assert 0 < len(came_later) < len(voyage.truth.messages)
    live, scratch = database_url(voyage.fleet), f"sqlite:///{tmp_path}/scratch.db"
    with closing(voyage.log("hq")) as log, closing(ServingDatabase(scratch)) as database:
        projector = Projector(log, database, WallClock(), Metrics("projector"), routes(places(), log))

        def same() -> bool:
            project(projector)
            return _settled(scratch) == _settled(live)

        until("the one built from nothing, and brought up to date, is the same", same, 60)


def _settled(url: str) -> dict[str, list[str]]:
    """All rows but those that follow the metrics, which never end; a JSON object is the same in any order of its fields."""
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        tables = [table for table in METADATA.sorted_tables if table.name not in ("projection", *FROM_METRICS)]
        rows = {table.name: [dict(row) for row in connection.execute(select(table)).mappings()] for table in tables}
    reader.close()
    return {
        name: sorted(json.dumps(row, sort_keys=True, default=bytes.hex) for row in all_ if row.get("stream") != "metrics")
        for name, all_ in rows.items()
    }


def _within(message: dict[str, Any], spans: dict[str, tuple[int, int]]) -> bool:
    """Whether the box is one of those, in its span, when the reading was taken (or came, where its device's clock can not be right)."""
    since, until = spans.get(message["topic"], (0, 0))
    return since <= order_at_ms(message["device_at_ms"], message["heard_at_ms"]) < until
