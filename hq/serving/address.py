"""Where the serving database is kept, as settings name it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from landfall.system.settings_table import unfit
from streams.model.errors import Misuse

DRIVERS = {"sqlite": "sqlite", "sqlite+pysqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgresql+psycopg": "postgresql+psycopg"}
"""Prefixes that may stand before `://`, each with the driver that SQLAlchemy gets."""
_WRITE = "write sqlite:////path/to/serving.db or postgresql://user@host/landfall"


def serving_url(text: str) -> URL:
    """Return the address `text` with its driver settled: an SQLite file, or a database of a PostgreSQL server. It does not check whether
    the database is there. Raises Misuse, which shows nothing of `text` but its driver: an address may hold a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise Misuse("it is no address of a database", hint=_WRITE, code="database_address_invalid") from None
    driver = DRIVERS.get(url.drivername)
    if driver is None:
        raise Misuse(f"no serving database can be kept in {url.drivername!r}", hint=_WRITE, code="database_kind_unknown")
    if driver == "sqlite" and (not url.database or url.database == ":memory:" or url.host):
        raise Misuse(
            "it names no file, and several processes open the serving database",
            hint="write sqlite:////path/to/serving.db",
            code="database_file_missing",
        )
    if driver != "sqlite" and not (url.database and (url.host or "host" in url.query)):
        raise Misuse("it names no server and database there", hint="write postgresql://user@host/landfall", code="database_server_missing")
    return url.set(drivername=driver)


def file_address(path: Path) -> str:
    """Return the address of an SQLite file, whatever its path has in it: `serving_url` reads the same path back."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


SERVING_URL_DEFAULT = file_address(Path("serving.db"))
"""A file in the working folder: of the projector that makes the serving database, and of the API that reads it."""


def _checked(text: str) -> str:
    try:
        serving_url(text)
    except Misuse as problem:
        raise unfit(problem.args[0], problem.hint) from None
    return text


DatabaseUrl = Annotated[str, AfterValidator(_checked)]
"""A setting that `serving_url` takes."""
