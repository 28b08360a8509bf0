"""Goal: what a process never read, because its log had dropped it, is reported and degrades its health until somebody accepts it."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from hq.sensor_places import report_unplaced
from hq.serving.projector import ReportingProjector
from landfall.access.credentials import operator_token
from landfall.cli.main import main
from landfall.runtime import skipped_watch
from landfall.runtime.service import Running
from landfall.runtime.skipped_watch import BelowFloor, SkippedOffsets, WorkAboveFloor
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.storage.log_kinds import open_reader
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import FleetClock, FleetTime
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from streams.skipped_records import NODE, TROUBLE, floor_append, floor_topic
from tests.hq_serving.conftest import make_projector, sqlite_url
from tests.hq_serving.fleet import NOW_MS, SHIP, Fleet
from tests.hq_serving.test_holes import alerts_but_the_second, bring
from tests.support.fleet import started


def under_way(door: AppendDoor | None = None, process: str = "projector") -> Running:
    clock, metrics = FleetClock(FleetTime(NOW_MS, NOW_MS, 0.0)), Metrics(process)
    return Running(clock, metrics, TelemetryClient(door, metrics, clock, 60.0))


def test_a_projector_that_comes_back_below_the_floor_says_so(fleet: Fleet, tmp_path: Path) -> None:
    alerts_but_the_second(fleet)
    bring(fleet, "alerts", 1, 2)
    origin, url = fleet.logs["ship-one"].origin, sqlite_url(tmp_path)
    first = make_projector(fleet.hq_dir, url, step_records_max=2)
    begun = ReportingProjector(first, fresh := under_way(), 1e9)
    begun.start()
    assert (begun.step(), fresh.troubles) == (2, {})
    fleet.logs["hq"].trim("alerts", origin, 4)
    running = under_way()
    again = ReportingProjector(make_projector(fleet.hq_dir, url), running, 1e9)
    again.start()
    again.step()
    assert f"alerts:{origin} 2..3 " in running.troubles[TROUBLE]
    assert running.metrics.body(0, 0)["counts"]["exceptions"] == 1
    assert running.metrics.body(0, 0)["troubles"] == [running.troubles[TROUBLE]], "what the operations page shows"
    again.step()
    assert running.metrics.body(0, 0)["counts"]["exceptions"] == 1, "once"


class Query:
    """What Spark's query does: it passes over what is not there."""

    ready = True

    def __init__(self) -> None:
        self.positions: dict[str, dict[str, int]] = {"alerts": {}, "events": {}}

    def start(self) -> None:
        pass

    def step(self) -> int:
        return 0


def test_a_query_that_comes_back_below_the_floor_says_so_before_it_goes_on(fleet: Fleet) -> None:
    alerts_but_the_second(fleet)
    bring(fleet, "alerts", 1, 2)
    origin = fleet.logs["ship-one"].origin
    fleet.logs["hq"].trim("alerts", origin, 4)
    running, query = under_way(process="analytics"), Query()
    with closing(open_reader(fleet.hq_dir, BlockCodec())) as reader:
        work = WorkAboveFloor(query, BelowFloor(reader, running, "analytics"), lambda: query.positions)
        work.start()
        assert (work.step(), work.ready, running.troubles) == (0, True, {}), "from nothing"
        query.positions["alerts"] = {str(origin): 2}
        work.step()
        assert f"alerts:{origin} 2..3 " in running.troubles[TROUBLE]
        work.step()
        assert running.metrics.body(0, 0)["counts"]["exceptions"] == 1, "once"


def test_a_consumer_that_starts_from_nothing_only_notes_where_it_begins(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alerts_but_the_second(fleet)
    bring(fleet, "alerts", 1, 2)
    fleet.logs["hq"].trim("alerts", fleet.logs["ship-one"].origin, 4)
    running = under_way()
    with caplog.at_level("INFO", skipped_watch.log.name):
        new = ReportingProjector(make_projector(fleet.hq_dir, sqlite_url(tmp_path)), running, 1e9)
        new.start()
        assert new.step() == 1
    assert running.troubles == {}
    assert ("alerts", f"alerts:{fleet.logs['ship-one'].origin} 0..3") in [record.args for record in caplog.records]


def test_a_node_without_a_place_is_reported_at_the_start(fleet: Fleet) -> None:
    alerts_but_the_second(fleet)
    fleet.logs["ship-one"].append([Append("ships", to_batch([Record(f"{SHIP}.location", device_at_ms=NOW_MS)]))])
    bring(fleet, "ships", 0, 1)
    running = under_way()
    with closing(open_reader(fleet.hq_dir, BlockCodec())) as reader:
        assert report_unplaced(reader, {}, running.telemetry) == ["ship-one"]
        assert running.metrics.body(0, 0)["counts"]["exceptions"] == 1
        assert report_unplaced(reader, {"ship-one": f"ship/{SHIP}"}, running.telemetry) == []


async def test_it_is_accepted_by_a_command_and_remembered_by_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.skipped_records.LOOK_EVERY_S", 0.0)
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, operator_token(node.settings.folder))
    running = under_way(door, "fanout")
    with closing(open_reader(tmp_path / "hq" / "log", BlockCodec())) as reader:
        floor = BelowFloor(reader, running, "fanout")
        floor.look([SkippedOffsets("containers", "tokyo@1", 10, 20)])
        assert TROUBLE in running.troubles
        assert await asyncio.to_thread(running.telemetry.send)
        floor.look()
        [batch] = reader.latest("exceptions", floor_topic("fanout"))
        assert "containers:tokyo@1 10..19" in json.loads(batch.records.column("body")[-1].as_py())["reason"]
        started_again = under_way(door, "fanout")
        BelowFloor(reader, started_again, "fanout").look()
        assert started_again.troubles == running.troubles != {}
        with monkeypatch.context() as a_day_later:
            a_day_later.setattr("streams.skipped_records.DEGRADED_S", -1.0)
            BelowFloor(reader, started_again, "fanout").look()
        assert started_again.troubles == {}
        assert await asyncio.to_thread(started_again.telemetry.send)
        [batch] = reader.latest("exceptions", floor_topic("fanout"))
        assert "nobody accepted this" in batch.records.column("body")[-1].as_py(), "that health shows it no more is reported"
        floor.look([SkippedOffsets("containers", "tokyo@1", 20, 30)])
        assert await asyncio.to_thread(running.telemetry.send)
        await node.append([floor_append(NODE, "of the node", "went on", NOW_MS)])
        await asyncio.to_thread(accept, tmp_path, node.url, "fanout")
        floor.look()
        assert running.troubles == {}
    await node.stop()


def accept(folder: Path, url: str, name: str) -> None:
    """`landfall consumer accept` at the node."""
    config = folder / "hq.toml"
    lines = (
        '[node]\nnode = "hq"\nrole = "hq"\nidentity = ""\n',
        f'folder = "{folder}/hq"\nport = {url.rpartition(":")[2]}\n',
    )
    config.write_text("".join(lines))
    with pytest.raises(SystemExit) as ended:
        main(["consumer", "accept", "nobody", "-c", str(config)])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["consumer", "accept", name, "-c", str(config)])
    assert ended.value.code in (0, None)
