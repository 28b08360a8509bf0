"""Goal: the serving store and the API over a log in a Kafka are what they are over one in files: the same rows, the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fanout.kafka import Kafka
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, FOREIGN, NOW_MS, SHIP, Fleet, fill
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import copy_all

QUESTIONS = (
    "fleet",
    "map",
    "containers",
    f"containers/{DUCKS[0]}",
    f"containers/{DUCKS[0]}/timeline",
    f"containers/{FOREIGN[0]}/timeline",
    f"containers/{DUCKS[1]}/hours",
    "alerts?state=all",
    "bookings",
    "ports/SGSIN",
)


@pytest.mark.long
def test_store_and_answers_are_the_same_from_a_kafka_and_from_files(kafka: Kafka, fleet: Fleet, tmp_path: Path) -> None:
    """Projected in small steps, and again after more has come; whoever reads finds the log by its folder alone."""
    fill(fleet)
    where = place(kafka, tmp_path / "kafka", "copy")
    log, hq = open_kafka_log(where), fleet.logs["hq"]
    folders = {"files": fleet.hq_dir, "kafka": where.folder}
    projectors = {name: make_projector(folder, sqlite_url(tmp_path, name), 7) for name, folder in folders.items()}
    for more in (0, 5):
        if more:
            fleet.readings("ship-one", DUCKS, count=more, at_ms=NOW_MS)
        copy_all(hq, log, hq.streams())
        taken = {name: project(projector) for name, projector in projectors.items()}
        assert taken["files"] == taken["kafka"] > 0
        assert table_rows(sqlite_url(tmp_path, "files")) == table_rows(sqlite_url(tmp_path, "kafka"))
    answers = {}
    for name, folder in folders.items():
        (tmp_path / f"api-{name}").mkdir()
        settings = settings_for(folder, tmp_path / f"api-{name}", database_url=sqlite_url(tmp_path, name))
        with api_of(settings) as client:
            heads = {who: log_in(client, who) for who in ("mira", "donald", "crew")}
            told = {(who, path): client.get(f"/api/{path}", headers=head) for who, head in heads.items() for path in QUESTIONS}
            answers[name] = {at: (answer.status_code, answer.json()) for at, answer in told.items()}
            answers[name]["mira", "streams"] = (200, client.get("/api/status", headers=heads["mira"]).json()["streams"])
    assert answers["kafka"] == answers["files"]
    assert answers["kafka"]["mira", f"containers/{DUCKS[0]}/timeline"][1]["items"]
    assert any(ship["imo"] == SHIP for ship in answers["kafka"]["mira", "map"][1]["ships"])
    log.close()
