"""The projector as a process: killed between any two commits it loses and doubles nothing; it ends cleanly; the API rides it out."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

from hq.serving.database_faults import DatabaseAway
from streams.commit_points import CRASH_VARIABLE
from tests.hq_serving.conftest import STARTED_S_MAX, api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows, until
from tests.hq_serving.fleet import DUCKS, PLACES, Fleet, fill
from tests.node.points import PROJECTOR
from tests.support.forked import Forked
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


def start(fleet: Fleet, folder: Path, step_records_max: int = 20_000, crash_at: str = "", port: int = 0) -> Forked:
    """`landfall projector` on the fleet's log, with its settings from a file as an operator has them."""
    places = "\n".join(f'{node} = "{place}"' for node, place in PLACES.items())
    (folder / "projector.toml").write_text(
        f'log = "{fleet.hq_dir}"\ndatabase_url = "{sqlite_url(folder)}"\npoll_interval_s = 0.02\n'
        f"step_records_max = {step_records_max}\nhealth_port = {port}\n[places]\n{places}\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}
    environment |= {CRASH_VARIABLE: crash_at} if crash_at else {}
    return Forked("landfall", ("projector", "--config", str(folder / "projector.toml")), environment, folder / "projector.log")


def rows_or_none(url: str) -> dict[str, Any]:
    try:
        return table_rows(url)
    except DatabaseAway:
        return {}


def test_killed_after_any_commit_it_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    """SIGKILL after the first, second, third … commit of each new process, until all is there: the rows are those of an undisturbed run."""
    fill(fleet)
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    project(make_projector(fleet.hq_dir, sqlite_url(undisturbed)))
    wanted = table_rows(sqlite_url(undisturbed))
    prepared, step = PROJECTOR
    for passage in (f"{prepared}:1", f"{step}:1", f"{step}:2", f"{prepared}:1", f"{step}:3", f"{step}:1"):
        process = start(fleet, tmp_path, step_records_max=10, crash_at=passage)
        assert process.wait(STARTED_S_MAX) == -signal.SIGKILL
        assert rows_or_none(sqlite_url(tmp_path)) != wanted, "killed too late to mean anything"
    process = start(fleet, tmp_path, step_records_max=10)
    until(lambda: rows_or_none(sqlite_url(tmp_path)) == wanted, "all rows")
    process.send(signal.SIGTERM)
    assert process.wait(STARTED_S_MAX) == 0
    assert table_rows(sqlite_url(tmp_path)) == wanted


def test_the_database_deleted_while_all_runs(fleet: Fleet, tmp_path: Path) -> None:
    """Projector and API run; the file goes, with or without its companions: the API says 503 and then gives the very answers of before."""
    fill(fleet)
    process = start(fleet, tmp_path)
    url = sqlite_url(tmp_path)
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "donald")

        def told() -> Any:
            answer = client.get(f"/api/containers/{DUCKS[0]}/timeline", headers=headers)
            assert answer.status_code in (200, 503), answer.text
            return answer.json()["items"] if answer.status_code == 200 else None

        until(lambda: told() is not None, "the first answer")
        before, rows = told(), table_rows(url)
        for companions in (False, True):
            (tmp_path / "serving.db").unlink()
            if companions:
                for name in ("serving.db-wal", "serving.db-shm"):
                    (tmp_path / name).unlink(missing_ok=True)
            until(lambda: told() == before, "the answers of before")
            assert table_rows(url) == rows
    process.send(signal.SIGTERM)
    assert process.wait(STARTED_S_MAX) == 0


def test_health_and_new_records(fleet: Fleet, tmp_path: Path) -> None:
    """/healthz answers 200 once the store is whole; what is appended later is there a moment after."""
    port = free_port()
    process = start(fleet, tmp_path, port=port)

    def healthy() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                return bool(json.load(answer)["ready"])
        except OSError:
            return False

    until(healthy, "health")
    fleet.readings("ship-one", DUCKS[:1], count=4)
    until(lambda: len(rows_or_none(sqlite_url(tmp_path)).get("reading", [])) == 4, "the new readings")
    process.send(signal.SIGTERM)
    assert process.wait(STARTED_S_MAX) == 0
