"""What an error of a database means to a process that uses it: one function decides, by the database's own code."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from streams.model.errors import RetryLater

SERVING = "the serving database"


class DatabaseAway(RetryLater):
    """The database can not do it now, and can later. `code` names the cause."""


class DatabaseGone(DatabaseAway):
    """The database is not there, or not whole: it was dropped, and is being built again."""


class DatabaseCancelled(DatabaseAway):
    """The database cancelled what took too long for it, or a person did."""


@dataclass(frozen=True, slots=True)
class DatabaseFault:
    """One cause: its code, what is said of the database, what the operator can do, and the kind of error."""

    code: str
    says: str
    hint: str
    kind: type[DatabaseAway] = DatabaseAway

    def error(self, database: str) -> DatabaseAway:
        """Return the error to raise; `database` names which one it is."""
        return self.kind(f"{database} {self.says}", hint=self.hint, code=self.code)


GONE = DatabaseFault("database_gone", "is gone, or not whole", "nothing to do: the projector makes it again", DatabaseGone)
CANCELLED = DatabaseFault(
    "database_cancelled", "cancelled a statement", "see what slows it down, or raise statement_timeout", DatabaseCancelled
)
BUSY = DatabaseFault("database_busy", "is locked by another program", "wait for that program, or end it")
CROWDED = DatabaseFault("database_crowded", "has no connection left", "end some of its users, or raise max_connections")
READ_ONLY = DatabaseFault(
    "database_read_only", "takes no writes", "see default_transaction_read_only, and the rights and mount of its disk"
)
FULL = DatabaseFault("database_full", "has no room left on its disk", "free some space there")
FAILING = DatabaseFault("database_disk", "can not use its disk", "see the system's log")
MEMORY = DatabaseFault("database_memory", "has no memory left", "see what else runs on its machine")
RESTARTING = DatabaseFault("database_restarting", "starts, ends or was disconnected", "wait for it, or see its log")
UNREACHABLE = DatabaseFault(
    "database_unreachable", "gives no connection", "see that its server runs and has connections left, and database_url"
)
UNOPENED = DatabaseFault("database_unopened", "can not be opened", "see the rights and the mount of its folder, and database_url")

_SQLITE = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_PROTOCOL: BUSY,
    sqlite3.SQLITE_INTERRUPT: CANCELLED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: FAILING,
    sqlite3.SQLITE_IOERR_SHMSIZE: FULL,
    sqlite3.SQLITE_NOMEM: MEMORY,
    sqlite3.SQLITE_PERM: UNOPENED,
    sqlite3.SQLITE_CANTOPEN: UNOPENED,
    sqlite3.SQLITE_READONLY_DBMOVED: GONE,
}
"""Faults by SQLite's extended code, else by its primary code (the lowest eight bits)."""
_MISSING = ("no such table", "no such column")
"""SQLite has no code of its own for these."""
_SQLSTATES = {
    **dict.fromkeys(("3D000", "3F000", "42P01", "42703", "57P04"), GONE),
    **dict.fromkeys(("57014", "25P03", "25P04"), CANCELLED),
    **dict.fromkeys(("55P03", "55006", "40P01", "40001"), BUSY),
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05", "08"), RESTARTING),
    "25006": READ_ONLY,
    "53": CROWDED,
    "53100": FULL,
    "53200": MEMORY,
    "58": FAILING,
}
"""Faults by PostgreSQL's SQLSTATE, else by its class (the first two characters)."""
_ERRNOS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), READ_ONLY),
}


def fault_of(problem: Exception, database: str = SERVING) -> DatabaseAway | None:
    """Return the meaning of `problem`, an error of a database or of its files, for the user of `database`; None: it is no passing trouble.
    A refused connection has no code in PostgreSQL's client library, whatever the server's reason: all of them are UNREACHABLE."""
    fault = _fault(problem)
    return fault.error(database) if fault else None


def _fault(problem: Exception) -> DatabaseFault | None:
    cause = problem.orig if isinstance(problem, DBAPIError) else problem
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_ERROR and any(words in str(cause) for words in _MISSING):
            return GONE
        return _SQLITE.get(code) or _SQLITE.get(code & 0xFF)
    if isinstance(problem, DBAPIError):
        state = getattr(cause, "sqlstate", None)
        if state is not None:
            return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2])
        return UNREACHABLE if problem.connection_invalidated or isinstance(problem, OperationalError) else None
    if isinstance(problem, PoolTimeout):
        return CROWDED
    return _ERRNOS.get(problem.errno or 0, FAILING) if isinstance(problem, OSError) else None


@contextmanager
def faults_named(*kinds: type[Exception], database: str = SERVING) -> Iterator[None]:
    """Raise errors of these kinds in the block as `fault_of` has them, and those that it does not know as they are."""
    try:
        yield
    except kinds as problem:
        if (fault := fault_of(problem, database)) is None:
            raise
        raise fault from problem
