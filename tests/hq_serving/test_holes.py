"""Goal: one record lost at sea hides no later one from the projector: the hole is waited for as long as the stream's patience, then the
rows behind it are there, and the missing one once, late, whatever is killed in between."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from hq.serving.database import ServingDatabase
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.runtime.hole_patience import skipped_failures
from landfall.storage.log_kinds import open_reader
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import BODY, Record, to_batch
from tests.hq_serving.conftest import STARTED_S_MAX, make_projector, project, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, NOW_MS, PLACES, SHIP, Fleet
from tests.hq_serving.test_kill import start
from tests.node.points import PROJECTOR


def alerts_but_the_second(fleet: Fleet) -> None:
    """Five alerts of a ship, of which headquarters has all but offset 1."""
    for number, box in enumerate(DUCKS[:5]):
        body = {
            "alert_id": f"a{number}",
            "rule": "lost",
            "severity": "CRITICAL",
            "state": "raised",
            "at_ms": NOW_MS + number,
            "title": "Overboard",
            "detail": "",
            "ship": SHIP,
            "status": "PROBABLE_OVERBOARD",
            "position": None,
            "evidence": [],
        }
        fleet.logs["ship-one"].append([Append("alerts", to_batch([Record(box, device_at_ms=NOW_MS, body=body)]))])
    bring(fleet, "alerts", 0, 1)
    bring(fleet, "alerts", 2, 5)


def bring(fleet: Fleet, stream: str, first: int, end: int) -> None:
    ship = fleet.logs["ship-one"]
    fleet.logs["hq"].admit(list(ship.blocks(stream, ship.origin, first, end)))


def alerts_shown(url: str) -> int:
    rows = table_rows(url)
    assert len(rows["alert"]) == len(rows["alert_change"])
    return len(rows["alert"])


def test_alerts_behind_a_hole_are_shown_at_once_and_the_missing_one_late(fleet: Fleet, tmp_path: Path) -> None:
    alerts_but_the_second(fleet)
    url = sqlite_url(tmp_path)
    one = make_projector(fleet.hq_dir, url, step_records_max=2)
    assert project(one) == 4
    assert alerts_shown(url) == 4
    assert table_rows(url)["skipped"] == [str(("alerts", str(fleet.logs["ship-one"].origin), 1, 2))]
    assert one.metrics.body(0, 0)["counts"]["skipped"] == 1
    bring(fleet, "alerts", 1, 2)
    again = make_projector(fleet.hq_dir, url)
    assert project(again) == 1
    assert (alerts_shown(url), table_rows(url)["skipped"], again.metrics.body(0, 0)["counts"]["late"]) == (5, [], 1)
    undisturbed = sqlite_url(tmp_path, "undisturbed")
    project(make_projector(fleet.hq_dir, undisturbed))
    assert table_rows(url) == table_rows(undisturbed)


def test_a_projector_that_rests_finds_what_came_behind_a_hole_and_in_it(fleet: Fleet, tmp_path: Path) -> None:
    """Its Position does not move by either; it looks all the same, with no time gone by."""
    alerts_but_the_second(fleet)
    one = make_projector(fleet.hq_dir, sqlite_url(tmp_path))
    one.start()
    assert [one.step(), one.step()] == [4, 0]
    ship = fleet.logs["ship-one"]
    ship.append([Append("alerts", to_batch([Record(DUCKS[5], body={"alert_id": "odd"})] * 2))])
    bring(fleet, "alerts", 6, 7)
    assert [one.step(), one.step()] == [1, 0]
    bring(fleet, "alerts", 1, 2)
    assert [one.step(), one.step()] == [1, 0]
    assert one.standings["alerts"].skipped[ship.origin].count() == 1
    one.database.close()


def test_a_hole_is_told_once_by_however_many_lives(fleet: Fleet, tmp_path: Path) -> None:
    alerts_but_the_second(fleet)
    for name in ("first", "second"):
        one = make_projector(fleet.hq_dir, sqlite_url(tmp_path, name))
        project(one)
        fleet.logs["hq"].append(skipped_failures("projector", one.standings, NOW_MS))
    bodies = [body for batch in fleet.logs["hq"].read("exceptions", Position()) for body in batch.records.column(BODY).to_pylist()]
    [body] = bodies
    assert json.loads(body)["reason"].startswith(f"alerts:{fleet.logs['ship-one'].origin} 1..1 ")


def test_killed_after_it_skipped_and_after_it_delivered_late(fleet: Fleet, tmp_path: Path) -> None:
    alerts_but_the_second(fleet)
    url = sqlite_url(tmp_path)
    _, step = PROJECTOR
    assert start(fleet, tmp_path, crash_at=f"{step}:1").wait(STARTED_S_MAX) == -signal.SIGKILL
    assert (alerts_shown(url), len(table_rows(url)["skipped"])) == (4, 1)
    bring(fleet, "alerts", 1, 2)
    assert start(fleet, tmp_path, crash_at=f"{step}:1").wait(STARTED_S_MAX) == -signal.SIGKILL
    assert (alerts_shown(url), table_rows(url)["skipped"]) == (5, [])
    assert project(make_projector(fleet.hq_dir, url)) == 0


def test_a_patient_stream_waits_as_long_as_headquarters_has_set(fleet: Fleet, tmp_path: Path) -> None:
    ship = fleet.logs["ship-one"]
    ship.append([Append("containers", to_batch([Record(box, "TRK", NOW_MS, {"return_c": 4.0}) for box in DUCKS[:5]]))])
    bring(fleet, "containers", 0, 1)
    bring(fleet, "containers", 2, 5)
    fleet.register(("stream", "containers", {"patience_s": 60}))
    url, clock = sqlite_url(tmp_path), fleet.clock
    reader = open_reader(fleet.hq_dir, BlockCodec())
    one = Projector(reader, ServingDatabase(url), clock, Metrics("projector"), routes(PLACES, reader))
    one.start()
    assert (one.step(), len(table_rows(url)["reading"])) == (2, 1)  # the registry's record, and what lies before the hole
    clock.advance(59)
    assert one.step() == 0
    clock.advance(1)
    assert (one.step(), len(table_rows(url)["reading"])) == (3, 4)
    bring(fleet, "containers", 1, 2)
    assert (one.step(), len(table_rows(url)["reading"])) == (1, 5)
    one.database.close()
    reader.close()
