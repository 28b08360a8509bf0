"""The API and the projector tell of themselves: metrics and failures arrive in the node's log."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hq.serving.projector import PROCESS, unreported_appends
from landfall.runtime.telemetry_client import FAILURES_KEPT_MAX, TelemetryClient
from landfall.storage.file_log import FileLogReader
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, make_projector, project, settings_for, sqlite_url, until
from tests.hq_serving.fleet import NOW_MS, Fleet
from tests.hq_serving.test_registry import Headquarters, running_node


def test_requests_are_counted_and_broken_ones_told(tmp_path: Path) -> None:
    """A request that breaks is answered in the one shape, counted, and told to `exceptions` with what was asked."""
    with running_node(tmp_path) as door:
        settings = settings_for(tmp_path / "log", tmp_path, door).model_copy(update={"metrics_every_s": 0.05})
        with api_of(settings) as client:
            hq = Headquarters(tmp_path, client, door)
            project(hq.projector())
            (tmp_path / "accounts.db").write_bytes(b"this is no database, however one looks at it" * 100)
            broken = client.get("/api/map", headers=hq.clerk)
            assert (broken.status_code, set(broken.json())) == (500, {"code", "error", "hint"})
            until(lambda: bool(hq.bodies("exceptions")), "the failure in the log")
            until(lambda: hq.bodies("metrics")[-1]["counts"].get("answers_5xx") == 1, "its count")
            told = hq.bodies("exceptions")
    assert [(one["outcome"], "DatabaseError" in one["reason"]) for one in told] == [("answered 500", True)]
    assert json.loads(json.dumps(told[0]))["payload_bytes"] == len("GET /api/map")


def test_rejected_records_are_told_once(tmp_path: Path, fleet: Fleet) -> None:
    """What the projector set aside goes to `exceptions`; told again by a later process it changes nothing."""
    fleet.append("hq", "states", [Record("X", body={"kind": "container"}), Record("Y")])
    one = make_projector(fleet.hq_dir, sqlite_url(tmp_path))
    project(one)
    with running_node(tmp_path / "node") as door:
        for _ in range(2):
            one.start()
            with one.database.transaction() as connection:
                appends, told = unreported_appends(connection, {}, PROCESS, NOW_MS)
                assert unreported_appends(connection, told, PROCESS, NOW_MS) == ([], told)
            assert TelemetryClient(AppendDoor(door, "door"), Metrics(PROCESS), StillClock(NOW_MS), 1.0).send(appends)
            one.database.close()
        with api_of(settings_for(tmp_path / "node" / "log", tmp_path, door)) as client:
            reasons = [body["reason"] for body in Headquarters(tmp_path / "node", client, door).bodies("exceptions")]
    assert len(reasons) == 2
    assert "about X " in reasons[0]


def bodies(folder: Path, stream: str) -> list[dict[str, Any]]:
    with closing(FileLogReader(folder / "log", BlockCodec())) as reader:
        return [json.loads(body) for batch in reader.read(stream, Position()) for body in batch.records.column("body").to_pylist()]


def test_a_node_that_is_away_is_told_later(tmp_path: Path) -> None:
    """Failures wait for the node, as many as the limit says; those beyond are counted; each is told once."""
    with running_node(tmp_path) as door:
        pass
    metrics, clock = Metrics("api"), StillClock(NOW_MS)
    teller = TelemetryClient(AppendDoor(door, "door"), metrics, clock, 3600)
    for number in range(FAILURES_KEPT_MAX + 1):
        teller.report("broke", f"GET /{number}", code="broken")
    assert not teller.send()
    with running_node(tmp_path, port=int(door.rpartition(":")[2])):
        assert teller.send()
        assert teller.send()
    told = [body for body in bodies(tmp_path, "exceptions") if body["code"] == "broken"]
    assert len(told) == FAILURES_KEPT_MAX
    counts = [body for body in bodies(tmp_path, "metrics") if body["process"] == "api"][-1]["counts"]
    assert (counts["exceptions"], counts["exceptions_dropped"]) == (FAILURES_KEPT_MAX + 1, 1)


def test_an_error_that_ends_a_process_is_told(tmp_path: Path) -> None:
    with running_node(tmp_path) as door:
        with pytest.raises(ZeroDivisionError), TelemetryClient(AppendDoor(door, "door"), Metrics("api"), StillClock(NOW_MS), 3600):
            _ = 1 // 0
        (told,) = bodies(tmp_path, "exceptions")
    assert told["reason"].startswith("ZeroDivisionError: ")
    assert told["code"] == "process_failed"
