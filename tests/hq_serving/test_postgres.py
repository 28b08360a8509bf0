"""The serving store in PostgreSQL: the same rows and answers as in SQLite, and made again when it is dropped under everyone."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, func, select, text

from hq.serving import models as m
from hq.serving.database import DatabaseGone, ServingReader
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, still_clock, table_rows
from tests.hq_serving.fleet import DUCKS, NOW_MS, Fleet, fill

PATHS = (
    "fleet",
    "map",
    "containers?limit=3",
    "containers?q=DUC",
    "containers?booking=bk-1&limit=3",
    "containers?booking=BK-2",
    f"containers/{DUCKS[3]}",
    f"containers/{DUCKS[0]}/timeline?limit=2",
    "alerts?state=open&limit=1",
    "incidents",
    "bookings",
    "ports/SGSIN",
    "story",
)


def answers(client: httpx.Client, username: str) -> list[httpx.Response]:
    """What one viewer is told, the next page of each list too."""
    headers = log_in(client, username)
    told = []
    for path in PATHS:
        told.append(client.get(f"/api/{path}", headers=headers))
        if more := told[-1].json().get("next"):
            told.append(client.get(f"/api/{path}&cursor={more}", headers=headers))
    return told


def test_postgresql_and_sqlite_hold_and_answer_the_same(postgres: str, fleet: Fleet, tmp_path: Path) -> None:
    """Row by row, and answer by answer for each role."""
    fill(fleet)
    urls = (sqlite_url(tmp_path), postgres.format("same"))
    for url in urls:
        project(make_projector(fleet.hq_dir, url))
    assert table_rows(urls[1]) == table_rows(urls[0])
    settings = [settings_for(fleet.hq_dir, tmp_path, database_url=url) for url in urls]
    clock = still_clock()
    with api_of(settings[0], clock) as one, api_of(settings[1], clock) as other:
        for username in ("mira", "donald", "crew"):
            for ours, theirs in zip(answers(one, username), answers(other, username), strict=True):
                assert (theirs.status_code, theirs.json()) == (ours.status_code, ours.json()), ours.url


@pytest.mark.parametrize("how", ["DROP DATABASE {} WITH (FORCE)", "DROP SCHEMA public CASCADE", "DROP TABLE reading"])
def test_a_dropped_database_is_made_again_identical(postgres: str, fleet: Fleet, how: str) -> None:
    """The database, its schema or a table goes while projector and reader are connected: it is made again, and reads as before."""
    fill(fleet)
    name = f"dropped{len(how)}"
    url = postgres.format(name)
    one = make_projector(fleet.hq_dir, url)
    one.start()
    one.step()
    before = table_rows(url)
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        connection.execute(select(func.count()).select_from(m.Reading)).scalar()
    engine = create_engine(postgres.format("postgres" if "DATABASE" in how else name), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(how.format(name)))
    engine.dispose()
    with pytest.raises(DatabaseGone), reader.snapshot() as connection:
        connection.execute(select(func.count()).select_from(m.Reading)).scalar()
    fleet.readings("ship-one", DUCKS[:1], count=1, at_ms=NOW_MS)
    with pytest.raises(DatabaseGone):
        one.step()
    one.start()
    one.step()
    again = table_rows(url)
    assert {name: rows for name, rows in again.items() if name not in ("reading", "projected", "stream_age")} == {
        name: rows for name, rows in before.items() if name not in ("reading", "projected", "stream_age")
    }
    assert len(again["reading"]) == len(before["reading"]) + 1
    assert set(before["reading"]) < set(again["reading"])
    one.database.close()
    reader.close()
