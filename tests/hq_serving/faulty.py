"""Faults of a real database, each made when a block begins and lifted when it ends."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from tests.hq_serving.postgres import Postgres

SOON_S = 60.0
Fault = Callable[[str], AbstractContextManager[None]]
"""Makes a fault of the database of this address."""


@contextmanager
def sqlite_busy(url: str) -> Iterator[None]:
    """Another program writes, and does not end."""
    with closing(sqlite3.connect(Path(make_url(url).database or ""), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def server_of(url: str, database: str | None = None) -> Iterator[Connection]:
    """A connection of an operator to the same database, or another one there."""
    address = make_url(url)
    engine = create_engine(address.set(database=database or address.database), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def disconnect(url: str) -> None:
    """Everyone else's connections to the database end: the next ones have its settings of now."""
    with server_of(url, "postgres") as operator:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name AND pid <> pg_backend_pid()"
        operator.execute(text(ended), {"name": make_url(url).database})


@contextmanager
def with_setting(url: str, setting: str, value: str) -> Iterator[None]:
    """Connections to the database have this setting."""
    name = make_url(url).database
    with server_of(url, "postgres") as operator:
        operator.execute(text(f"ALTER DATABASE {name} SET {setting} = '{value}'"))
    disconnect(url)
    try:
        yield
    finally:
        with server_of(url, "postgres") as operator:
            operator.execute(text(f"ALTER DATABASE {name} RESET {setting}"))
        disconnect(url)


@contextmanager
def with_trigger(url: str, table: str, does: str) -> Iterator[None]:
    """Every row that is written to `table` first runs this PL/pgSQL."""
    function = f"CREATE OR REPLACE FUNCTION faulty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does} RETURN NEW; END $$"
    with server_of(url) as operator:
        operator.execute(text(function))
        operator.execute(text(f"CREATE TRIGGER faulty BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION faulty()"))
    yield
    with server_of(url) as operator:
        operator.execute(text(f"DROP TRIGGER faulty ON {table}"))


@contextmanager
def postgres_cancelling(url: str) -> Iterator[None]:
    """Who writes where a stream stands takes longer than a statement may."""
    with with_trigger(url, "projected", "PERFORM pg_sleep(60);"), with_setting(url, "statement_timeout", "300ms"):
        yield


@contextmanager
def postgres_full(url: str) -> Iterator[None]:
    """A write fails as on a full disk."""
    with with_trigger(url, "projected", "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100';"):
        yield


@contextmanager
def postgres_read_only(url: str) -> Iterator[None]:
    """Transactions are read-only."""
    with with_setting(url, "default_transaction_read_only", "on"):
        yield


@contextmanager
def postgres_busy(url: str) -> Iterator[None]:
    """Another program holds a lock on a table that everyone needs, and statements may not take long: the wait for it ends before that."""
    with with_setting(url, "statement_timeout", "1s"), server_of(url) as other:
        other.execute(text("SET statement_timeout = 0"))
        other.execute(text("BEGIN"))
        other.execute(text("LOCK TABLE projection IN ACCESS EXCLUSIVE MODE"))
        yield
        other.execute(text("ROLLBACK"))


@contextmanager
def postgres_crowded(url: str) -> Iterator[None]:
    """Others have every connection that the server gives."""
    name, deadline_s = make_url(url).database, time.monotonic() + SOON_S
    with ExitStack() as others:
        operator = others.enter_context(server_of(url, "postgres"))
        ended = text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name")
        refused, is_ended = False, False
        while not (refused and is_ended):
            assert time.monotonic() < deadline_s, "the projector kept its connection"
            is_ended = operator.execute(ended, {"name": name}).scalar() == 0
            try:
                others.enter_context(server_of(url, "postgres"))
            except OperationalError:
                refused = True
        yield


@contextmanager
def postgres_stopped(server: Postgres) -> Iterator[None]:
    """The server is away; it is started again."""
    server.stop()
    yield
    server.start()
