"""Goal: a backup comes back where the log lies: inside a mount, behind a link, on the disk that was meant; else nothing is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from landfall.storage.backup import backup, restore
from landfall.storage.file_log import FileLog
from landfall.storage.log_location import is_mount
from streams.commit_points import CRASH_VARIABLE
from streams.model.clock import StillClock
from streams.model.errors import Misuse, RetryLater
from tests.streams.logkit import NOW_MS, append_rows, numbers, open_log, rows
from tests.support.forked import ROOT

OLD = list(range(50))
BACKED_UP = list(range(30))
PASSED = {"log.restore.entry.aside": 2}
"""Killed when it comes by there for this time."""
USER_NAMESPACE = [] if os.geteuid() == 0 else ["--map-root-user"]


def node_with_backup(home: Path, copy: Path) -> None:
    """A stopped node in `home` with 50 records; its backup `copy` has 30."""
    log = open_log(home, "tokyo")
    append_rows(log, rows(30))
    backup(home / "log", copy)
    append_rows(log, rows(20, start=30))
    log.close()


def opened_again(home: Path) -> FileLog:
    return open_log(home, "tokyo", clock=StillClock(NOW_MS + 1000))


def in_mount(home: Path, disk: Path, *words: object, crash_at: str | None = None) -> subprocess.CompletedProcess[str]:
    """`landfall log …` where `disk` is mounted at `home`/log, for this one process."""
    mounted = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = ["unshare", "--mount", *USER_NAMESPACE, "sh", "-c", mounted, "sh", str(disk), str(home / "log")]
    environment = os.environ | ({} if crash_at is None else {CRASH_VARIABLE: crash_at})
    called = [*command, sys.executable, "-m", "landfall", "log", *map(str, words)]
    return subprocess.run(called, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def on_a_disk(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A node whose log's entries lie in a folder `disk`, which is to be mounted at the empty `home`/log; and a backup of it."""
    home, disk, copy = tmp_path / "home", tmp_path / "disk", tmp_path / "copy"
    node_with_backup(home, copy)
    (home / "log").rename(disk)
    (home / "log").mkdir()
    return home, disk, copy


def without_mount(home: Path, disk: Path) -> None:
    """What is in `disk` lies in `home`/log itself, so that this process can open it."""
    (home / "log").rmdir()
    disk.rename(home / "log")


@pytest.mark.long  # a container may not mount
def test_inside_a_mount_its_contents_are_replaced(tmp_path: Path) -> None:
    home, disk, copy = on_a_disk(tmp_path)
    (disk / "lost+found").mkdir()
    done = in_mount(home, disk, "restore", copy, "-f", home)
    assert done.returncode == 0, done.stderr
    assert "replaced-1" in done.stdout
    assert (list((home / "log").iterdir()), (home / "marker").exists()) == ([], False), "all of it is on the disk that is mounted"
    names = {entry.name for entry in disk.iterdir()}
    assert names == {"index.sqlite", "segments", "merged", "lock", "lost+found", "replaced-1"}
    without_mount(home, disk)
    log = opened_again(home)
    assert numbers(log) == BACKED_UP
    log.close()
    (tmp_path / "old").mkdir()
    (home / "log" / "replaced-1").rename(tmp_path / "old" / "log")
    old = open_log(tmp_path / "old", "tokyo")
    assert numbers(old) == OLD
    old.close()


@pytest.mark.long  # a container may not mount
def test_a_new_disk_takes_a_backup(tmp_path: Path) -> None:
    home, _, copy = on_a_disk(tmp_path)
    new = tmp_path / "new"
    new.mkdir()
    done = in_mount(home, new, "restore", copy, "-f", home)
    assert (done.returncode, "replaced" in done.stdout) == (0, False), done
    without_mount(home, new)
    log = opened_again(home)
    assert numbers(log) == BACKED_UP
    log.close()


@pytest.mark.long  # a container may not mount
@pytest.mark.parametrize("point", ["log.restore.copied", "log.restore.entry.aside", "log.restore.aside", "log.restore.entry"])
def test_a_restore_killed_inside_a_mount_goes_on(tmp_path: Path, point: str) -> None:
    """The node starts with the log that was there, or not at all; the restore done again ends what was begun."""
    home, disk, copy = on_a_disk(tmp_path)
    assert in_mount(home, disk, "restore", copy, "-f", home, crash_at=f"{point}:{PASSED.get(point, 1)}").returncode == -9
    without_mount(home, disk)
    if point == "log.restore.copied":
        log = open_log(home, "tokyo")
        assert numbers(log) == OLD
        log.close()
    else:
        with pytest.raises(Misuse) as refused:
            open_log(home, "tokyo")
        assert refused.value.code == "restore_unfinished"
    (home / "log").rename(disk)
    (home / "log").mkdir()
    done = in_mount(home, disk, "restore", copy, "-f", home)
    assert done.returncode == 0, done.stderr
    without_mount(home, disk)
    log = opened_again(home)
    assert numbers(log) == BACKED_UP
    log.close()
    (tmp_path / "old").mkdir()
    (home / "log" / "replaced-1").rename(tmp_path / "old" / "log")
    old = open_log(tmp_path / "old", "tokyo")
    assert numbers(old) == OLD, "nothing of the old log is lost, nor mixed with the backup"
    old.close()


def test_a_log_behind_a_link_stays_on_its_disk(tmp_path: Path) -> None:
    home, disk, copy = tmp_path / "home", tmp_path / "disk", tmp_path / "copy"
    node_with_backup(home, copy)
    disk.mkdir()
    (home / "log").rename(disk / "tokyo")
    (home / "log").symlink_to(disk / "tokyo")
    assert restore(copy, home) == disk / "tokyo.replaced-1"
    assert (home / "log").readlink() == disk / "tokyo"
    assert sorted(entry.name for entry in home.iterdir()) == ["log"]
    log = opened_again(home)
    assert numbers(log) == BACKED_UP
    log.close()


def test_a_link_whose_disk_is_away_changes_nothing(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    node_with_backup(home, copy)
    (home / "log").rename(tmp_path / "aside")
    (home / "log").symlink_to(tmp_path / "away")
    with pytest.raises(Misuse) as refused:
        restore(copy, home)
    assert refused.value.code == "log_link_broken"
    assert ((home / "marker").exists(), (tmp_path / "away").exists()) == (True, False)


def test_a_log_whose_parts_lie_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """A rename would take the link along, and the backup would land on another disk."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    node_with_backup(home, copy)
    (home / "log" / "segments").rename(tmp_path / "segments")
    (home / "log" / "segments").symlink_to(tmp_path / "segments")
    with pytest.raises(Misuse) as refused:
        restore(copy, home)
    assert refused.value.code == "log_in_parts"
    log = open_log(home, "tokyo")
    assert numbers(log) == OLD
    log.close()


def test_a_log_that_can_not_be_moved_keeps_its_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a mount is not seen as one, or the folder's user may not rename."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    node_with_backup(home, copy)
    before = open_log(home, "tokyo")
    origin = before.origin
    before.close()

    def busy(path: Path, target: Path) -> Path:
        raise OSError(16, "Device or resource busy", str(path), None, str(target))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", busy)
        with pytest.raises(RetryLater):
            restore(copy, home)
    assert sorted(entry.name for entry in home.iterdir()) == ["log", "marker"]
    log = open_log(home, "tokyo")
    assert (numbers(log), log.origin) == (OLD, origin)
    log.close()


@pytest.mark.long  # a container may not mount
def test_a_folder_of_the_same_disk_that_is_mounted_is_a_mount(tmp_path: Path) -> None:
    home, disk = tmp_path / "home of tokyo", tmp_path / "disk"
    for folder in (home / "log", disk):
        folder.mkdir(parents=True)
    looked = "import sys, pathlib, landfall.storage.log_location as place; sys.exit(not place.is_mount(pathlib.Path(sys.argv[1])))"
    mounted = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    command = ["unshare", "--mount", *USER_NAMESPACE, "sh", "-c", mounted, "sh", str(disk), str(home / "log"), sys.executable, looked]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert not is_mount(home / "log")
