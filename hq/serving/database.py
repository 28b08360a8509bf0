"""The serving database's doors: the projector's, which makes it again when it is gone, and the readers', which say so meanwhile."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import JSON, Column, Connection, Engine, MetaData, Table, create_engine, event, inspect, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from hq.serving.address import serving_url
from hq.serving.columns import Base
from hq.serving.database_faults import GONE, READ_ONLY, SERVING, faults_named
from hq.serving.models import METADATA
from landfall.system.private_files import keep_private
from landfall.system.sqlite_files import ReadingConnection, connect_to_read

ROWS_VERSION = 1
"""Raised when the rows have to be made again though no table changes."""
SCHEMA = Table("schema", MetaData(), Column("hash", Base.type_annotation_map[str], nullable=False), Column("tables", JSON, nullable=False))
"""One row: the hash of the schema that the tables were made by, and their names."""
BUSY_MS_MAX = 10_000
"""Maximum time to wait for a lock, or for one of READERS_MAX connections."""
READERS_MAX = 16
POOL = "pool"
"""Key of a connection's record under which the pool is kept that it was opened for."""
_LOCK_TIMEOUT = f"""SELECT set_config('lock_timeout', least({BUSY_MS_MAX}, nullif(setting::int, 0) / 2)::text, false)
    FROM pg_settings WHERE name = 'statement_timeout'"""
"""A wait for a lock ends before the statement is cancelled, so that the two have codes of their own."""


def open_engine(database_url: str, *, read_only: bool) -> Engine:
    """Return an engine on `database_url`: SQLite in WAL mode with explicit transactions, or PostgreSQL through psycopg. A read-only SQLite
    engine never makes a file. Raises Misuse for another address, see `serving_url`."""
    url = serving_url(database_url)
    if url.get_backend_name() == "sqlite":
        return _open_sqlite(url, read_only=read_only)
    engine = create_engine(
        url,
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        pool_size=READERS_MAX if read_only else 1,
        pool_timeout=BUSY_MS_MAX / 1000,
        pool_pre_ping=True,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _: ConnectionPoolEntry) -> None:
        with ExitStack() as failed:
            failed.callback(connection.close)  # the pool does not know it yet
            connection.execute(_LOCK_TIMEOUT)
            connection.commit()
            failed.pop_all()

    return engine


def _open_sqlite(url: URL, *, read_only: bool) -> Engine:
    path = Path(url.database or "").absolute()

    def connect() -> sqlite3.Connection:
        timeout_s = BUSY_MS_MAX / 1000
        if read_only:
            with faults_named(OSError):
                return connect_to_read(path, timeout_s)
        if path.parent.exists() and not os.access(path.parent, os.W_OK):
            raise READ_ONLY.error(SERVING)  # SQLite's code for it is that of any file that can not be opened
        with suppress(OSError):  # SQLite says it in its own words
            keep_private(path)
        return sqlite3.connect(f"{path.as_uri()}?mode=rwc", timeout=timeout_s, check_same_thread=False, uri=True)

    engine = create_engine(
        url,
        creator=connect,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
        poolclass=QueuePool,
        pool_size=READERS_MAX if read_only else 1,
        pool_timeout=BUSY_MS_MAX / 1000,
    )

    @event.listens_for(engine, "checkout")
    def _taken(connection: Any, _: ConnectionPoolEntry, __: Any) -> None:
        with faults_named(OSError):
            outdated = isinstance(connection, ReadingConnection) and connection.is_outdated()
        if outdated:
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
    """The projector's door: makes the database and its tables where they are missing or of another version. For one thread."""

    def __init__(self, database_url: str) -> None:
        self._url = serving_url(database_url)
        self._engine = open_engine(database_url, read_only=False)
        self._inode: int | None = None

    def prepare(self) -> None:
        """Make the database exist with all tables of this version. Raises DatabaseAway while it can not be reached or written."""
        with faults_named(SQLAlchemyError, OSError):
            if (path := _sqlite_path(self._url)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    for stale in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                        stale.unlink(missing_ok=True)
            else:
                _make_postgres_database(self._url)
            self._engine.dispose()
            with self._engine.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(text("CREATE SCHEMA IF NOT EXISTS public"))
                make_tables(connection)
            self._inode = _inode(self._url)

    def check(self) -> None:
        """Raise DatabaseGone when the database's file is no longer the one that was prepared. Costs a look at the folder."""
        if _inode(self._url) != self._inode:
            raise GONE.error(SERVING)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield one transaction, which commits at the end of the block. Raises DatabaseAway; DatabaseGone when the database was dropped."""
        self.check()
        with faults_named(SQLAlchemyError), self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Release the connections."""
        self._engine.dispose()


class ServingReader:
    """The readers' door: a consistent snapshot a block. Safe from any thread; never makes or changes anything."""

    def __init__(self, database_url: str) -> None:
        self._url = serving_url(database_url)
        self._engine = open_engine(database_url, read_only=True)
        self._inode = 0
        self._lock = threading.Lock()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield one read transaction over one state of the database. Raises DatabaseAway; DatabaseGone when it, or a part of it, is
        missing."""
        with self._lock:
            if (inode := _inode(self._url)) != self._inode:
                self._engine.dispose()
                self._inode = inode
        if inode == 0:
            raise GONE.error(SERVING)
        with faults_named(SQLAlchemyError), self._engine.connect() as connection:
            yield connection

    def close(self) -> None:
        """Release the connections."""
        self._engine.dispose()


def make_tables(connection: Connection) -> bool:
    """Make the tables of this program, and commit. Returns whether they were made: not where they are there already.

    All that they hold comes from the log. So where one is missing, or another version made them, all are dropped, and the projector begins
    again. Other tables of the database are left alone.
    """
    there, wanted = set(inspect(connection).get_table_names()), schema_hash(connection)
    known = connection.execute(select(SCHEMA)).one_or_none() if SCHEMA.name in there else None
    made = known is None or known.hash != wanted or not METADATA.tables.keys() <= there
    if made:
        ours = METADATA.tables.keys() | {SCHEMA.name} | set(known.tables if known else ())
        for name in sorted(there & ours):
            connection.execute(text(f"DROP TABLE {connection.dialect.identifier_preparer.quote(name)}"))
        for metadata in (METADATA, SCHEMA.metadata):
            metadata.create_all(connection)
        connection.execute(SCHEMA.insert().values(hash=wanted, tables=sorted(METADATA.tables)))
    connection.commit()
    return made


def schema_hash(connection: Connection, rows_version: int = ROWS_VERSION) -> str:
    """Return the SHA-256 (hexadecimal) of `rows_version` and the statements that make the tables in this kind of database."""
    tables = METADATA.sorted_tables
    indexes = [index for table in tables for index in sorted(table.indexes, key=lambda index: str(index.name))]
    made_by: list[ExecutableDDLElement] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    statements = [str(one.compile(dialect=connection.dialect)) for one in made_by]
    return hashlib.sha256("\0".join([str(rows_version), *statements]).encode()).hexdigest()


def _to_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _sqlite_path(url: URL) -> Path | None:
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _inode(url: URL) -> int:
    """Return the inode of the file at the database's path: 0 when there is none; always 1 for a database server. Raises DatabaseAway."""
    if (path := _sqlite_path(url)) is None:
        return 1
    with faults_named(OSError):
        try:
            return os.stat(path).st_ino
        except FileNotFoundError:
            return 0


def _make_postgres_database(url: URL) -> None:
    server = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        with server.connect() as connection:
            known = connection.execute(text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": url.database}).first()
            if known is None:
                name = server.dialect.identifier_preparer.quote(url.database or "")
                connection.execute(text(f"CREATE DATABASE {name}"))
    finally:
        server.dispose()
