"""Local accounts: names, argon2 hashes and roles, in a small SQLite file of their own that is never dropped with the serving store."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from cargo.identifiers import is_imo
from streams.errors import Misuse
from streams.passwords import hash_password

Role = Literal["operations", "clerk", "customer", "crew"]
ROLES: tuple[Role, ...] = get_args(Role)
USERNAME_CHARS_MAX = 100
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$V+EU52lC/79lEQX8EblS8Q$l6uC2jKYdkGIRhHF5VK8jKFz6Y3o6v/1roWpf52Rq3s"
"""What a login of an unknown username is checked against: it costs what a known one costs."""
_SCHEMA = """CREATE TABLE IF NOT EXISTS account (
    username TEXT PRIMARY KEY, password_hash TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, customer TEXT, ship TEXT) STRICT"""


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
            raise Misuse(f"a username is 1 to {USERNAME_CHARS_MAX} printable characters, not {self.username!r}", hint="choose another")
        if self.ship is not None and not is_imo(self.ship):
            raise Misuse(f"{self.ship!r} is no ship's IMO number", hint="seven digits, of which the last checks the others")
        if self.role not in ROLES:
            raise Misuse(f"there is no role {self.role!r}", hint=f"use one of {', '.join(ROLES)}")
        if (self.role == "customer") != (self.customer is not None) or (self.role == "crew") != (self.ship is not None):
            raise Misuse(
                f"{self.username}: a customer's account names a customer, a crew's a ship, and no other does",
                hint="as `landfall account add` takes them: --role customer --customer ID, --role crew --ship IMO",
            )


class Accounts:
    """The accounts of one file. Safe from any thread and for several processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as connection:
                connection.execute(_SCHEMA)
        except (OSError, sqlite3.DatabaseError) as problem:
            raise Misuse(f"{path} can not hold the accounts: {problem}", hint="name a file that this process may write") from None

    def add(self, account: Account, password: str) -> None:
        """Add the account, or replace the one of the same username. Raises Misuse as `hash_password`."""
        row = (account.username, hash_password(password), account.role, account.name, account.customer, account.ship)
        with closing(self._connect()) as connection:
            connection.execute("INSERT OR REPLACE INTO account VALUES (?, ?, ?, ?, ?, ?)", row)

    def all(self) -> list[Account]:
        """Every account, by username."""
        with closing(self._connect()) as connection:
            rows = connection.execute("SELECT username, role, name, customer, ship FROM account ORDER BY username").fetchall()
        return [Account(*row) for row in rows]

    def remove(self, username: str) -> bool:
        """Remove the account; whether there was one. Its tokens count for nothing from then on."""
        with closing(self._connect()) as connection:
            return connection.execute("DELETE FROM account WHERE username = ?", (username,)).rowcount > 0

    def get(self, username: str) -> Account | None:
        """The account of this username, or None."""
        found = self._find(username)
        return found[0] if found else None

    def login(self, username: str) -> tuple[Account | None, str]:
        """The account of this username, and the hash that its password is checked against. An unknown one has a hash too, which takes as
        long to check."""
        return self._find(username) or (None, NOBODY)

    def _find(self, username: str) -> tuple[Account, str] | None:
        with closing(self._connect()) as connection:
            query = "SELECT username, role, name, customer, ship, password_hash FROM account WHERE username = ?"
            row = connection.execute(query, (username,)).fetchone()
        return (Account(*row[:5]), row[5]) if row else None

    def _connect(self) -> sqlite3.Connection:
        with ExitStack() as failed:
            connection = failed.enter_context(closing(sqlite3.connect(self._path, isolation_level=None, timeout=10)))
            connection.execute("PRAGMA synchronous=FULL")
            failed.pop_all()
        return connection
