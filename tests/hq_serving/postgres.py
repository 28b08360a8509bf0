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


class Postgres:
    """A server over a folder of its own, which can be stopped and started again. `address`: `{}` in it stands for the database's name."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Fails when no PostgreSQL is installed. `options`: what `postgres -c` takes."""
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        assert binaries, "PostgreSQL is not installed: make test installs it, or apt-get install postgresql"
        self._folder, self._binaries, self._user = folder, binaries[-1], "postgres" if os.geteuid() == 0 else None
        self._options = [part for option in options for part in ("-c", option)]
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgresql+psycopg://landfall@/{{}}?host={folder}"
        if self._user:
            shutil.chown(folder, self._user, self._user)
        make = [str(self._binaries / "initdb"), "-D", str(folder / "data"), *_MADE]
        subprocess.run(make, user=self._user, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self) -> None:
        """It answers when this returns."""
        server = [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder), *_QUICK, *self._options]
        self._process = subprocess.Popen(server, user=self._user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        SHARED.add(self._process.pid)
        _wait(self._binaries, self._folder)

    def stop(self) -> None:
        """Nothing answers any more, and whoever is connected is disconnected."""
        if self._process is not None:
            SHARED.remove(self._process.pid)
            self._process.send_signal(signal.SIGINT)  # fast: it does not wait for whoever is still connected
            self._process.wait(READY_S_MAX)
            self._process = None


@contextmanager
def running_postgres(*options: str) -> Iterator[Postgres]:
    """While the block runs a server does."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        server = Postgres(folder, *options)
        try:
            server.start()
            yield server
        finally:
            server.stop()
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
