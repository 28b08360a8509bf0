"""Goal: a log on a disk that is mounted read-only is looked into as any other; who would write it is told why that can not be."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streams.codec import BlockCodec
from streams.errors import RetryLater
from streams.logs.backup import backup
from streams.logs.checking import Tally, check
from streams.logs.files import FileLogReader
from tests.streams.logkit import append_rows, numbers, open_log, rows

MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -m tests.streams.test_log_read_only "$1"'
"""In a namespace of mounts that ends with its process."""
MAY_MOUNT = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.skipif(not MAY_MOUNT, reason="this user may not mount anything: run as root")
def test_what_is_on_it_is_read_and_whole(tmp_path: Path, closed: bool) -> None:
    """A log that was closed; and one whose write-ahead log is still there, as after a kill."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    if closed:
        log.close()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", MOUNTED, "sh", str(tmp_path), sys.executable], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    if not closed:
        log.close()


def _look_into(folder: Path) -> None:
    assert (folder / "log").is_dir()
    reader = FileLogReader(folder / "log", BlockCodec())
    assert numbers(reader) == list(range(10))
    reader.close()
    assert list(check(folder / "log", BlockCodec(), Tally())) == []
    with tempfile.TemporaryDirectory() as elsewhere:
        assert backup(folder / "log", Path(elsewhere) / "copy").files
    with pytest.raises(RetryLater, match="Read-only"):
        open_log(folder)


if __name__ == "__main__":
    _look_into(Path(sys.argv[1]))
