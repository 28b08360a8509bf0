"""The serving store in PostgreSQL: the same rows and answers as in SQLite, and made again when it is dropped under everyone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, func, select, text

from hq.serving import models as m
from hq.serving.database import ServingDatabase, ServingReader
from hq.serving.database_faults import DatabaseAway
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, still_clock, table_rows
from tests.hq_serving.fleet import DUCKS, NOW_MS, SHIP, Fleet, booking, fill
from tests.hq_serving.postgres import english_database

PATHS = (
    "fleet",
    "map",
    "containers?limit=3",
    "containers?sort=place&limit=3",
    "containers?sort=heard_oldest&limit=3",
    "containers?sort=heard_newest&limit=3",
    "containers?q=DUC&count=true",
    "containers?booking=bk-1&limit=3",
    "containers?booking=BK-2",
    f"containers/{DUCKS[3]}",
    f"containers/{DUCKS[0]}/timeline?limit=2",
    f"containers/{DUCKS[0]}/timeline?limit=2&order=newest&count=true",
    f"containers/{DUCKS[0]}/chart",
    "alerts?state=open&limit=1",
    "incidents",
    "bookings",
    "bookings?limit=3",
    "bookings?q=bk-",
    "containers?q=ducu",
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


@pytest.mark.parametrize("english", [False, True])
def test_postgresql_and_sqlite_hold_and_answer_the_same(postgres: str, fleet: Fleet, tmp_path: Path, english: bool) -> None:
    """Row by row, and answer by answer for each role, whatever order of texts is the database's own."""
    fill(fleet)
    fleet.register(*(("booking", one, booking(one, "ducks", [])) for one in ("bk-3", "BK-Ä", "BK-Z", "BK.1", "BK1", "ÄB")))
    urls = (sqlite_url(tmp_path), english_database(postgres, "same_english") if english else postgres.format("same"))
    for url in urls:
        project(make_projector(fleet.hq_dir, url))
    assert table_rows(urls[1]) == table_rows(urls[0])
    settings = [settings_for(fleet.hq_dir, tmp_path, database_url=url) for url in urls]
    clock = still_clock()
    with api_of(settings[0], clock) as one, api_of(settings[1], clock) as other:
        for username in ("mira", "donald", "crew"):
            for ours, theirs in zip(answers(one, username), answers(other, username), strict=True):
                assert (theirs.status_code, theirs.json()) == (ours.status_code, ours.json()), ours.url


def test_pages_neither_skip_nor_repeat_in_a_database_with_an_order_of_its_own(postgres: str, tmp_path: Path) -> None:
    """Of events of one time, of origins that a dictionary orders otherwise than their bytes: `bridge2@1` is before `bridge@1`."""
    nodes = ("bridge", "bridge2", "bridge-2")
    url = english_database(postgres, "pages")
    with closing(Fleet(tmp_path, nodes=nodes)) as fleet:
        fleet.state("container", DUCKS[0], ("ship", SHIP))
        for node in nodes:
            fleet.append(node, "events", [loading(node, number) for number in range(3)])
        project(make_projector(fleet.hq_dir, url))
        with api_of(settings_for(fleet.hq_dir, tmp_path, database_url=url)) as client:
            seen = list[str]()
            more: str | None = ""
            while more is not None:
                page = client.get(f"/api/containers/{DUCKS[0]}/timeline?limit=2{more}", headers=log_in(client, "mira")).json()
                seen += [one["body"]["event_id"] for one in page["items"]]
                more = f"&cursor={page['next']}" if page["next"] else None
    assert seen == [f"{node}-{number}" for node in ("bridge-2", "bridge2", "bridge") for number in range(3)]


def test_no_text_is_left_to_the_databases_own_order(postgres: str) -> None:
    """Of any table."""
    store = ServingDatabase(url := english_database(postgres, "columns"))
    store.prepare()
    store.close()
    texts = "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND data_type IN ('text', 'character varying')"
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        assert connection.execute(text(f"{texts} AND collation_name = 'C'")).scalars().all()
        assert connection.execute(text(f"{texts} AND collation_name IS DISTINCT FROM 'C'")).scalars().all() == []


def loading(node: str, number: int) -> Record:
    """An event now, of `node`, which calls it by this number."""
    body = {"event_id": f"{node}-{number}", "event": "LOAD", "classifier": "ACT", "event_at_ms": NOW_MS, "node": node}
    return Record(DUCKS[0], device_at_ms=NOW_MS, body=body)


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
    with pytest.raises(DatabaseAway), reader.snapshot() as connection:
        connection.execute(select(func.count()).select_from(m.Reading)).scalar()
    fleet.readings("ship-one", DUCKS[:1], count=1, at_ms=NOW_MS)
    with pytest.raises(DatabaseAway):
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
