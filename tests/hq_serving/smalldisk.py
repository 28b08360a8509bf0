"""A program in a mount namespace of its own: a small disk is filled, then made read-only. It prints what becomes of a database there."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import insert

from hq.serving.database import ServingDatabase
from hq.serving.database_faults import DatabaseAway
from hq.serving.models import Rejected
from tests.hq_serving.conftest import sqlite_url

ROW = {"stream": "s", "origin": "o@1", "topic": "t", "reason": "x" * 3_000_000, "body": None}


def written(disk: Path, offset: int) -> str:
    """What becomes of a process that starts, and writes a large row."""
    with closing(ServingDatabase(sqlite_url(disk))) as database:
        try:
            database.prepare()
            with database.transaction() as connection:
                connection.execute(insert(Rejected).values(**ROW, offset=offset))
        except DatabaseAway as problem:
            return problem.code
    return "written"


def main(disk: Path) -> None:
    """Print one word a try."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(disk)], check=True)
    with closing(ServingDatabase(sqlite_url(disk))) as database:
        database.prepare()
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    print(written(disk, 1))
    filler.unlink(missing_ok=True)
    print(written(disk, 2))
    for number, mode in enumerate(("ro", "rw"), 3):
        subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)
        print(written(disk, number))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
