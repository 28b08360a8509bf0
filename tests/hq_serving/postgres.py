"""A real PostgreSQL for a test run: Debian's, in a folder of its own, on a socket alone. It refuses to run as root, so it does not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tests.support.leaks import SHARED

READY_S_MAX = 90
_MADE = ("-U", "landfall", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
_QUICK = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "listen_addresses=")


@contextmanager
def running_postgres() -> Iterator[str]:
    """While the block runs a server does; gives an address in which `{}` stands for the database's name. Fails when none is installed."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert binaries, "PostgreSQL is not installed: make test installs it, or apt-get install postgresql"
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if user:
            shutil.chown(folder, user, user)
        make = [str(binaries[-1] / "initdb"), "-D", str(folder / "data"), *_MADE]
        subprocess.run(make, user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")
        server = [str(binaries[-1] / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *_QUICK]
        process = subprocess.Popen(server, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        SHARED.add(process.pid)
        try:
            _wait(binaries[-1], folder)
            yield f"postgresql+psycopg://landfall@/{{}}?host={folder}"
        finally:
            SHARED.remove(process.pid)
            process.send_signal(signal.SIGINT)  # fast: it does not wait for whoever is still connected
            process.wait(READY_S_MAX)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def english_database(address: str, name: str) -> str:
    """The address of a new database, which orders texts as English dictionaries do: small letters beside capitals, and by signs last."""
    server = create_engine(address.format("postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"))
    return address.format(name)


def _wait(binaries: Path, folder: Path) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while subprocess.run([str(binaries / "pg_isready"), "-q", "-h", str(folder)], check=False).returncode:
        assert time.monotonic() < deadline, "PostgreSQL did not start"
        time.sleep(0.05)
