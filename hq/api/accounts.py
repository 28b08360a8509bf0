"""Local accounts and their sessions, in a small SQLite file of their own that is never dropped with the serving store."""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from cargo.vocabulary.trade_codes import is_imo
from hq.serving.database_faults import BUSY, fault_of, faults_named
from landfall.access.password_checks import hash_password
from landfall.system.private_files import keep_private
from streams.model.errors import Misuse
from streams.model.identifiers import composed

Role = Literal["operations", "clerk", "customer", "crew"]
ROLES: tuple[Role, ...] = get_args(Role)
USERNAME_CHARS_MAX = 100
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$V+EU52lC/79lEQX8EblS8Q$l6uC2jKYdkGIRhHF5VK8jKFz6Y3o6v/1roWpf52Rq3s"
"""Password hash that a login of an unknown username is checked against, at the same cost as a known one."""
SESSIONS_MAX = 1_000
"""Sessions of one account at a time: of more, those used longest ago end."""
USED_EVERY_MS = 60_000
"""The last use of a session is written at most so often."""
ACCOUNTS = "the file of accounts"
BUSY_S = 10.0
"""Maximum time to wait while another process writes the file, seconds."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS account (
    username TEXT PRIMARY KEY, password_hash TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, customer TEXT, ship TEXT) STRICT;
CREATE TABLE IF NOT EXISTS session (
    token_sha256 BLOB PRIMARY KEY, username TEXT NOT NULL, password_hash TEXT NOT NULL, used_at_ms INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS change (
    number INTEGER PRIMARY KEY AUTOINCREMENT, by TEXT NOT NULL, wall_at_ms INTEGER NOT NULL, username TEXT NOT NULL,
    role TEXT, customer TEXT, ship TEXT, role_before TEXT) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Account:
    """A person or program that may log in. A customer's account names its customer, a crew's its ship (IMO number); no other does."""

    username: str
    role: Role
    name: str
    customer: str | None = None
    ship: str | None = None

    def __post_init__(self) -> None:
        if not (0 < len(self.username) <= USERNAME_CHARS_MAX and self.username.isprintable() and self.username == self.username.strip()):
            raise Misuse(
                f"a username is 1 to {USERNAME_CHARS_MAX} printable characters, not {self.username!r}",
                hint="choose another",
                code="username_invalid",
            )
        if self.ship is not None and not is_imo(self.ship):
            raise Misuse(
                f"{self.ship!r} is no ship's IMO number",
                hint="seven digits, of which the last checks the others",
                code="imo_number_invalid",
            )
        if self.role not in ROLES:
            raise Misuse(f"there is no role {self.role!r}", hint=f"use one of {', '.join(ROLES)}", code="role_unknown")
        if (self.role == "customer") != (self.customer is not None) or (self.role == "crew") != (self.ship is not None):
            raise Misuse(
                f"{self.username}: a customer's account names a customer, a crew's a ship, and no other does",
                hint="as `landfall account add` takes them: --role customer --customer ID, --role crew --ship IMO",
                code="account_role_mismatch",
            )


@dataclass(frozen=True, slots=True)
class AccountChange:
    """A change of an account, and the user of the system who made it. `role` is None for a removed account, `role_before` for a new one."""

    number: int
    by: str
    wall_at_ms: int
    username: str
    role: str | None
    customer: str | None
    ship: str | None
    role_before: str | None


class Accounts:
    """The accounts of one file, which only its owner may read, and what was changed of them. Safe from any thread and for several
    processes."""

    def __init__(self, path: Path) -> None:
        """Make the file if there is none. Raises Misuse when the file can not be an accounts file, DatabaseAway while another program locks
        it."""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            keep_private(path)
            with closing(self._opened()) as connection:
                connection.executescript(_SCHEMA)
        except (OSError, sqlite3.DatabaseError) as problem:
            if (fault := fault_of(problem, ACCOUNTS)) and fault.code == BUSY.code:
                raise fault from problem
            raise Misuse(
                f"{path} can not hold the accounts: {problem}", hint="name a file that this process may write", code="accounts_unavailable"
            ) from None

    def add(self, account: Account, password: str) -> None:
        """Add the account, or replace the one of the same username, whose sessions end. Raises Misuse as `hash_password`."""
        account = replace(account, username=composed(account.username), name=composed(account.name))
        row = (account.username, hash_password(password), account.role, account.name, account.customer, account.ship)
        with self._connected() as connection, _one_write(connection):
            before = _role(connection, account.username)
            connection.execute("INSERT OR REPLACE INTO account VALUES (?, ?, ?, ?, ?, ?)", row)
            _note(connection, account.username, (account.role, account.customer, account.ship, before))

    def all(self) -> list[Account]:
        """Return every account, by username."""
        with self._connected() as connection:
            rows = connection.execute("SELECT username, role, name, customer, ship FROM account ORDER BY username").fetchall()
        return [Account(*row) for row in rows]

    def remove(self, username: str) -> bool:
        """Remove the account, and return whether there was one. Its sessions end."""
        username = composed(username)
        with self._connected() as connection, _one_write(connection):
            if (before := _role(connection, username)) is None:
                return False
            connection.execute("DELETE FROM account WHERE username = ?", (username,))
            _note(connection, username, (None, None, None, before))
            return True

    def changes(self, changes_max: int) -> list[AccountChange]:
        """Return the recorded additions, changes and removals that `remove_changes` has not removed, the oldest first."""
        with self._connected() as connection:
            return [AccountChange(*row) for row in connection.execute("SELECT * FROM change ORDER BY number LIMIT ?", (changes_max,))]

    def remove_changes(self, number: int) -> None:
        """Remove the changes up to this one, which need not be kept here any longer."""
        with self._connected() as connection:
            connection.execute("DELETE FROM change WHERE number <= ?", (number,))

    def get(self, username: str) -> Account | None:
        """Return the account of this username, or None."""
        found = self._find(username)
        return found[0] if found else None

    def login(self, username: str) -> tuple[Account | None, str]:
        """Return the account of this username, and the hash that its password is checked against. An unknown username has a hash too, which
        takes as long to check."""
        return self._find(username) or (None, NOBODY)

    def open_session(self, username: str, argon2_hash: str, now_ms: int) -> str:
        """Return the token of a new session of the account whose password had this hash. The token has 256 random bits, of which the file
        keeps the SHA-256. `now_ms`: UTC ms. The session ends with the password, or the account."""
        token = secrets.token_urlsafe(32)
        keep = "SELECT token_sha256 FROM session WHERE username = ? ORDER BY used_at_ms DESC LIMIT ?"
        with self._connected() as connection:
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (_digest(token), username, argon2_hash, now_ms))
            more = f"DELETE FROM session WHERE username = ? AND token_sha256 NOT IN ({keep})"
            connection.execute(more, (username, username, SESSIONS_MAX))
        return token

    def of_session(self, token: str, now_ms: int, idle_ms: int) -> Account | None:
        """Return the session's account; None when the session has ended or was not used for `idle_ms`. Counts as a use. A session has also
        ended if its last use, by a clock that was ahead, is later than `idle_ms` from now."""
        query = (
            "SELECT username, role, name, customer, ship, used_at_ms FROM session JOIN account USING (username, password_hash)"
            " WHERE token_sha256 = ? AND used_at_ms BETWEEN ? AND ?"
        )
        with self._connected() as connection:
            row = connection.execute(query, (_digest(token), now_ms - idle_ms + 1, now_ms + idle_ms)).fetchone()
            if row is not None and now_ms - row[5] >= min(USED_EVERY_MS, idle_ms // 2):
                connection.execute("UPDATE session SET used_at_ms = ? WHERE token_sha256 = ?", (now_ms, _digest(token)))
        return Account(*row[:5]) if row else None

    def close_session(self, token: str) -> None:
        """End the session, if there is one."""
        with self._connected() as connection:
            connection.execute("DELETE FROM session WHERE token_sha256 = ?", (_digest(token),))

    def _find(self, username: str) -> tuple[Account, str] | None:
        with self._connected() as connection:
            query = "SELECT username, role, name, customer, ship, password_hash FROM account WHERE username = ?"
            row = connection.execute(query, (composed(username),)).fetchone()
        return (Account(*row[:5]), row[5]) if row else None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection. Raises DatabaseAway while the file is locked, full or read-only."""
        with faults_named(sqlite3.Error, database=ACCOUNTS), closing(self._opened()) as connection:
            yield connection

    def _opened(self) -> sqlite3.Connection:
        with ExitStack() as failed:
            connection = failed.enter_context(closing(sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_S)))
            connection.execute("PRAGMA synchronous=FULL")
            failed.pop_all()
        return connection


@contextmanager
def _one_write(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all of the block's writes, or none."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back
        yield


def _role(connection: sqlite3.Connection, username: str) -> str | None:
    row = connection.execute("SELECT role FROM account WHERE username = ?", (username,)).fetchone()
    return row[0] if row else None


def _note(connection: sqlite3.Connection, username: str, what: tuple[str | None, ...]) -> None:
    row = (_user(), time.time_ns() // 1_000_000, username, *what)
    connection.execute("INSERT INTO change (by, wall_at_ms, username, role, customer, ship, role_before) VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _user() -> str:
    """Return the name of the system's user that this process belongs to, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="backslashreplace")).digest()
