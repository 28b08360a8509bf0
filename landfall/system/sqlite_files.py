"""Reading a SQLite database that another process writes with a write-ahead log, without leaving files that its writer could not open."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

RECOVERY_POLL_S = 0.01


class _ReadingCursor(sqlite3.Cursor):
    """Cursor that waits where SQLite requires a recovery that a reader without write permission can not do.

    That happens while the memory that readers and writers share is being written, or after a writer was killed as it wrote there. The
    writer has it right in a moment, or once it starts.
    """

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        assert isinstance(self.connection, ReadingConnection)
        deadline_s = time.monotonic() + self.connection.wait_s
        while True:
            try:
                return super().execute(sql, parameters)
            except sqlite3.OperationalError as problem:
                if problem.sqlite_errorcode != sqlite3.SQLITE_READONLY_RECOVERY or time.monotonic() >= deadline_s:
                    raise
                time.sleep(RECOVERY_POLL_S)


class ReadingConnection(sqlite3.Connection):
    """Connection of `connect_to_read`. `is_still`: the database was not in use then, and later changes are not seen."""

    wait_s = 0.0
    _database: Path | None = None
    _seen: tuple[object, ...] = ()

    def cursor(self, factory: Any = _ReadingCursor) -> Any:
        """Return a cursor that waits for a writer, for `wait_s` at most."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Execute `sql` by a cursor that waits for a writer."""
        return self.cursor().execute(sql, parameters)

    @property
    def is_still(self) -> bool:
        """Whether it reads the database as if it never changed."""
        return self._database is not None

    def is_outdated(self) -> bool:
        """Return whether it is still, and a writer has come since, or has been. Costs a look at three files. Raises OSError."""
        return self._database is not None and (is_in_use(self._database) or _state(self._database) != self._seen)

    def hold_still(self, database: Path, seen: tuple[object, ...]) -> None:
        """Mark it as reading `database` in the state of its files that is given as `seen`."""
        self._database, self._seen = database, seen


def is_in_use(database: Path) -> bool:
    """Return whether the memory that readers and writers share is there: a writer runs, or was killed.

    Only then SQLite makes no file to read.
    """
    return database.with_name(f"{database.name}-shm").exists()


def connect_to_read(database: Path, timeout_s: float) -> ReadingConnection:
    """Return a connection that reads all of `database`, writes nothing and leaves no file.

    It is usable from any thread, with transactions begun by hand. A database that is not in use is read as if it never changed, from a
    copy where it has a write-ahead log. Open it again once it `is_outdated`. Raises OSError, sqlite3.DatabaseError.
    """
    if is_in_use(database):
        return _connect(database, timeout_s)
    seen = _state(database)
    connection = _connect_still(database, timeout_s)
    connection.hold_still(database, seen)
    return connection


def _connect_still(database: Path, timeout_s: float) -> ReadingConnection:
    log = database.with_name(f"{database.name}-wal")
    if not (log.exists() and log.stat().st_size):
        return _connect(database, timeout_s, "&immutable=1")
    with TemporaryDirectory(prefix="landfall-index-") as folder:
        copy = Path(folder) / database.name
        for source in (database, log):
            shutil.copyfile(source, copy.with_name(source.name))
        with closing(sqlite3.connect(copy)) as whole:
            whole.execute("PRAGMA journal_mode = DELETE")
        connection = _connect(copy, timeout_s, "&immutable=1")
        try:
            connection.execute("PRAGMA schema_version")  # the file is open from here on, and needs its name no more
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection


def foreign_file(database: Path) -> Path | None:
    """Return the first of the database's files that is another user's and that this process may not write; None if there is none."""
    files = (database.with_name(f"{database.name}{suffix}") for suffix in ("", "-wal", "-shm"))
    return next((file for file in files if file.exists() and file.stat().st_uid != os.geteuid() and not os.access(file, os.W_OK)), None)


def owner_of(file: Path) -> str:
    """Return the name of the user that owns `file`, or its number. Raises OSError."""
    return user_name(file.stat().st_uid)


def user_name(number: int) -> str:
    """Return the name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _connect(database: Path, timeout_s: float, option: str = "") -> ReadingConnection:
    uri = f"{database.absolute().as_uri()}?mode=ro{option}"  # without `immutable` SQLite makes the files that are missing
    connection = sqlite3.connect(uri, timeout=timeout_s, uri=True, isolation_level=None, check_same_thread=False, factory=ReadingConnection)
    connection.wait_s = timeout_s
    return connection


def _state(database: Path) -> tuple[object, ...]:
    """Return values that differ once the database was written: file, length and time of change of it and of its write-ahead log.

    Raises OSError.
    """
    found: list[object] = []
    for file in (database, database.with_name(f"{database.name}-wal")):
        try:
            status = file.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
