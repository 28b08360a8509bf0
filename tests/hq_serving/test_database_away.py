"""Goal: while its databases can not, the API answers 503 with `Retry-After` and the cause's code, and by itself comes back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError

from hq.api import accounts
from hq.serving import database
from hq.serving.database import READERS_MAX, ServingReader
from hq.serving.database_faults import DatabaseAway, fault_of
from tests.hq_serving import faulty
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import Fleet, fill
from tests.hq_serving.postgres import Postgres, running_postgres

OVERFLOW = 10
"""Connections that SQLAlchemy opens above those it keeps."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL that gives few connections, and can be stopped."""
    with running_postgres("max_connections=8", "superuser_reserved_connections=0") as one:
        yield one


@contextmanager
def slow_to_read(url: str) -> Iterator[None]:
    """What every answer reads takes longer than a statement may."""
    with faulty.server_of(url) as operator:
        operator.execute(text("ALTER TABLE projection RENAME TO kept"))
        operator.execute(text("CREATE VIEW projection AS SELECT kept.* FROM kept, pg_sleep(60)"))
    with faulty.with_setting(url, "statement_timeout", "300ms"):
        yield
    with faulty.server_of(url) as operator:
        operator.execute(text("DROP VIEW projection"))
        operator.execute(text("ALTER TABLE kept RENAME TO projection"))


@contextmanager
def replaced(url: str, link: str) -> Iterator[None]:
    """A link to `link` stands where the database's file was."""
    path = Path(make_url(url).database or "")
    aside = path.rename(path.with_name("aside"))
    path.symlink_to(link)
    yield
    path.unlink()
    aside.rename(path)


def check_answers(fleet: Fleet, folder: Path, url: str, fault: AbstractContextManager[None], codes: set[str]) -> None:
    """200 before, 503 as long as the fault lasts, 200 after it."""
    fill(fleet)
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, folder, database_url=url)) as client:
        headers = log_in(client, "mira")
        assert client.get("/api/fleet", headers=headers).status_code == 200
        with fault:
            answer = client.get("/api/fleet", headers=headers)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1"), answer.text
            assert answer.json()["code"] in codes
            assert "rebuilding" not in answer.json()
        assert client.get("/api/fleet", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (faulty.postgres_busy, "database_busy"),
        (slow_to_read, "database_cancelled"),
        (faulty.postgres_crowded, "database_unreachable"),
    ],
)
def test_postgresql(server: Postgres, fleet: Fleet, tmp_path: Path, fault: faulty.Fault, code: str) -> None:
    url = server.address.format(fault.__name__)
    check_answers(fleet, tmp_path, url, fault(url), {code})


def test_postgresql_restarted(server: Postgres, fleet: Fleet, tmp_path: Path) -> None:
    codes = {"database_restarting", "database_unreachable"}
    check_answers(fleet, tmp_path, server.address.format("restarted"), faulty.postgres_stopped(server), codes)


def test_postgresql_that_is_read_only_is_read(server: Postgres, fleet: Fleet, tmp_path: Path) -> None:
    project(make_projector(fleet.hq_dir, url := server.address.format("read")))
    with api_of(settings_for(fleet.hq_dir, tmp_path, database_url=url)) as client, faulty.postgres_read_only(url):
        assert client.get("/api/fleet", headers=log_in(client, "mira")).status_code == 200


@pytest.mark.parametrize("link", [".", "serving.db"], ids=["a folder", "itself"])
def test_a_sqlite_file_that_does_not_read(fleet: Fleet, tmp_path: Path, link: str) -> None:
    url = sqlite_url(tmp_path)
    check_answers(fleet, tmp_path, url, replaced(url, link), {"database_disk", "database_unopened"})


def test_accounts_that_another_program_locks(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is let in, and nobody is answered that something is broken."""
    monkeypatch.setattr(accounts, "BUSY_S", 0.1)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    settings = settings_for(fleet.hq_dir, tmp_path)
    with api_of(settings) as client, closing(sqlite3.connect(settings.accounts, isolation_level=None)) as other:
        headers = log_in(client, "mira")
        other.execute("BEGIN EXCLUSIVE")
        login = {"username": "mira", "password": "quack"}
        for answer in (client.get("/api/fleet", headers=headers), client.post("/api/token", data=login)):
            assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, "database_busy", "1")
        with pytest.raises(DatabaseAway):
            accounts.Accounts(settings.accounts)
        other.execute("ROLLBACK")
        assert client.get("/api/fleet", headers=headers).status_code == 200


def test_more_readers_than_there_are_connections(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_MS_MAX", 100)
    project(make_projector(fleet.hq_dir, url := sqlite_url(tmp_path)))
    with ExitStack() as readers:
        reader = readers.enter_context(closing(ServingReader(url)))
        for _ in range(READERS_MAX + OVERFLOW):
            readers.enter_context(reader.snapshot())
        with pytest.raises(DatabaseAway) as caught, reader.snapshot():
            pass
        assert caught.value.code == "database_crowded"


def test_what_does_not_pass_by_itself_is_no_fault_of_the_moment() -> None:
    """A statement that is wrong, a value that does not fit, a file that is damaged."""
    damaged = sqlite3.DatabaseError("malformed")
    damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    wrong = sqlite3.OperationalError("syntax error")
    wrong.sqlite_errorcode = sqlite3.SQLITE_ERROR
    for problem in (damaged, wrong, psycopg.errors.NumericValueOutOfRange("too large"), psycopg.errors.SyntaxError("wrong")):
        assert fault_of(DBAPIError.instance("", None, problem, (sqlite3.Error, psycopg.Error)[isinstance(problem, psycopg.Error)])) is None
