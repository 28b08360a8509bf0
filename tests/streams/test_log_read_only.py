"""Goal: a log that nobody may write, as on a read-only disk, is looked into as any other; who would write it is told why he can not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from landfall.storage.backup import backup
from landfall.storage.file_log import FileLogReader
from landfall.storage.log_check import CheckTally, check
from streams.codec import BlockCodec
from streams.model.errors import RetryLater
from tests.streams.logkit import append_rows, numbers, open_log, rows
from tests.support.refusals import refusal

AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Root is let in everywhere, unless it gives that up."""


@pytest.mark.parametrize("closed", [True, False])
def test_what_is_in_it_is_read_and_whole(tmp_path: Path, closed: bool) -> None:
    """A log that was closed; and one whose write-ahead log is still there, as after a kill."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    if closed:
        log.close()
    command = [*AS_ANYBODY, sys.executable, "-m", "tests.streams.test_log_read_only", str(tmp_path)]
    with read_only(tmp_path):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not closed:
        log.close()
    assert done.returncode == 0, done.stderr


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Meanwhile nothing in it may be written, nor anything made there."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _look_into(folder: Path) -> None:
    assert (folder / "log").is_dir()
    reader = FileLogReader(folder / "log", BlockCodec())
    assert numbers(reader) == list(range(10))
    reader.close()
    assert list(check(folder / "log", BlockCodec(), CheckTally())) == []
    with tempfile.TemporaryDirectory() as elsewhere:
        assert backup(folder / "log", Path(elsewhere) / "copy").files
    for place in (folder, folder / "node"):
        with refusal(RetryLater, "folder_not_writable"):
            open_log(place)


if __name__ == "__main__":
    _look_into(Path(sys.argv[1]))
