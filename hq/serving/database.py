"""The serving database's doors: the projector's, which makes it again when it is gone, and the readers', which say so meanwhile."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from hq.serving.address import serving_url
from hq.serving.models import Base
from streams.errors import RetryLater
from streams.privatefiles import keep_private
from streams.sqlitefiles import ReadingConnection, connect_to_read

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_MS_MAX = 10_000
READERS_MAX = 16
POOL = "pool"
"""Where a connection's record holds the pool that it was opened for."""
_GONE_STATES = {"42P01", "42703", "3D000", "3F000", "57P01", "57P03", "08006", "08003", "08001"}
_GONE_WORDS = ("no such table", "unable to open database", "readonly database", "disk i/o error", "no such column")


class DatabaseGone(RetryLater):
    """The serving database is not there, or not whole: it was dropped, and is being built again."""


def open_engine(database_url: str, *, read_only: bool) -> Engine:
    """An engine on `database_url`: SQLite in WAL mode with explicit transactions, or PostgreSQL through psycopg.

    A read-only SQLite engine never makes a file. Raises Misuse for another address, see `serving_url`.
    """
    url = serving_url(database_url)
    if url.get_backend_name() == "sqlite":
        return _open_sqlite(url, read_only=read_only)
    return create_engine(
        url,
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        pool_size=READERS_MAX if read_only else 1,
        pool_pre_ping=True,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )


def _open_sqlite(url: URL, *, read_only: bool) -> Engine:
    path = Path(url.database or "").absolute()

    def connect() -> sqlite3.Connection:
        timeout_s = BUSY_MS_MAX / 1000
        if read_only:
            return connect_to_read(path, timeout_s)
        with suppress(OSError):  # SQLite says it in its own words
            keep_private(path)
        return sqlite3.connect(f"{path.as_uri()}?mode=rwc", timeout_s, check_same_thread=False, uri=True)

    engine = create_engine(
        url,
        creator=connect,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
        poolclass=QueuePool,
        pool_size=READERS_MAX if read_only else 1,
    )

    @event.listens_for(engine, "checkout")
    def _taken(connection: Any, _: ConnectionPoolEntry, __: Any) -> None:
        if isinstance(connection, ReadingConnection) and connection.is_outdated():
            raise DisconnectionError("the projector has written since this was opened")  # SQLAlchemy opens it again

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[POOL] = engine.pool
        connection.isolation_level = None
        pragmas = ["PRAGMA query_only=ON"] if read_only else ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"]
        with ExitStack() as failed:
            failed.callback(connection.close)  # the pool does not know it yet
            for pragma in [*pragmas, "PRAGMA cache_size=-65536", "PRAGMA temp_store=MEMORY"]:
                connection.execute(pragma)
            failed.pop_all()

    @event.listens_for(engine, "checkin")
    def _returned(_: Any, record: ConnectionPoolEntry) -> None:
        if record.info.get(POOL) is not engine.pool:  # the pool was disposed of meanwhile, and closes nothing that comes back
            record.invalidate()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


class ServingDatabase:
    """The projector's door: makes the database when it is missing and brings its tables up to date. For one thread."""

    def __init__(self, database_url: str) -> None:
        self._url = serving_url(database_url)
        self._engine = open_engine(database_url, read_only=False)
        self._inode: int | None = None

    def prepare(self) -> None:
        """After it the database exists with all tables of this version. Raises RetryLater when its server can not be reached."""
        if (path := _sqlite_path(self._url)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                for stale in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                    stale.unlink(missing_ok=True)
        else:
            _make_postgres_database(self._url)
        self._engine.dispose()
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(text("CREATE SCHEMA IF NOT EXISTS public"))
                _drop_what_is_left(connection)
                migrate(connection)
        except DBAPIError as problem:
            _raise_if_gone(problem)
            raise
        self._inode = _inode(self._url)

    def check(self) -> None:
        """Raises DatabaseGone when the database's file is no longer the one that was prepared. Costs a look at the folder."""
        if _inode(self._url) != self._inode:
            raise DatabaseGone("the serving database's file is gone", hint="nothing to do: it is made again")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction; commits at the end of the block. Raises DatabaseGone when the database was dropped under it."""
        self.check()
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as problem:
            _raise_if_gone(problem)
            raise

    def close(self) -> None:
        """Releases the connections."""
        self._engine.dispose()


class ServingReader:
    """The readers' door: a consistent snapshot a block. Safe from any thread; never makes, migrates or changes anything."""

    def __init__(self, database_url: str) -> None:
        self._url = serving_url(database_url)
        self._engine = open_engine(database_url, read_only=True)
        self._inode = _inode(self._url)
        self._lock = threading.Lock()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """One read transaction over one state of the database. Raises DatabaseGone when the database, or a part of it, is missing."""
        with self._lock:
            if (inode := _inode(self._url)) != self._inode:
                self._engine.dispose()
                self._inode = inode
        if inode == 0:
            raise DatabaseGone("there is no serving database yet", hint="the projector makes it")
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as problem:
            _raise_if_gone(problem)
            raise

    def close(self) -> None:
        """Releases the connections."""
        self._engine.dispose()


def migrate(connection: Connection) -> None:
    """Bring the tables to this program's version with Alembic, and commit."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))  # a percent sign there begins an interpolation
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


def _drop_what_is_left(connection: Connection) -> None:
    """Where some of the tables are missing the others go too: only all of them together say what the log says."""
    wanted = set(Base.metadata.tables)
    there = set(inspect(connection).get_table_names())
    if there & wanted and wanted - there:
        for name in sorted(there & (wanted | {"alembic_version"})):
            connection.execute(text(f"DROP TABLE {connection.dialect.identifier_preparer.quote(name)}"))
    connection.commit()


def _to_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _sqlite_path(url: URL) -> Path | None:
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _inode(url: URL) -> int:
    """Which file stands at the database's path: 0 when there is none; always 1 for a database server."""
    if (path := _sqlite_path(url)) is None:
        return 1
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def _raise_if_gone(problem: DBAPIError) -> None:
    state = getattr(problem.orig, "sqlstate", None)
    lost = isinstance(problem.orig, sqlite3.OperationalError) and any(word in str(problem.orig).lower() for word in _GONE_WORDS)
    away = isinstance(problem, OperationalError) and state is None and not isinstance(problem.orig, sqlite3.Error)
    if state in _GONE_STATES or lost or away or problem.connection_invalidated:
        raise DatabaseGone("the serving database is gone, or not whole", hint="nothing to do: the projector makes it again") from problem


def _make_postgres_database(url: URL) -> None:
    server = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        with server.connect() as connection:
            known = connection.execute(text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": url.database}).first()
            if known is None:
                name = server.dialect.identifier_preparer.quote(url.database or "")
                connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError as problem:
        raise DatabaseGone("the database server does not answer", hint="start PostgreSQL, or mend database_url") from problem
    finally:
        server.dispose()
