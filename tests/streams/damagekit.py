"""What the tests of damage share: a log that was written, its copy at a port, and ways to spoil it."""

from __future__ import annotations

from pathlib import Path

from streams.logs.files import Damage, FileLog, FileLogOptions
from tests.streams.logkit import append_rows, copy_all, open_log, rows

COMMITS, ROWS = 12, 10


def written_log(root: Path) -> tuple[Path, FileLog]:
    """The folder of a ship's closed log of COMMITS commits, and a port's copy of it."""
    folder = root / "ship"
    log, copy = open_log(folder), open_log(root / "port", "port-b")
    for commit in range(COMMITS):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    copy_all(log, copy, ["containers"])
    log.close()
    return folder, copy


def reopened(folder: Path, found: list[Damage] | None = None) -> FileLog:
    damages: list[Damage] = [] if found is None else found
    return open_log(folder, options=FileLogOptions(on_damage=damages.append))


def flip(path: Path, at: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)
