"""A consistent copy of a file log while its node runs, and its restore: without the marker, so that the node opens a new generation."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from landfall.storage.disk import Disk
from landfall.storage.epoch_marker import marked_node
from landfall.storage.index import BUSY_S, INDEX_NAME, REBUILT, UNREADABLE, IndexDamaged, IndexReader, is_refusal
from landfall.storage.index_recovery import index_problem
from landfall.storage.log_location import LogPlace
from landfall.storage.log_opener import lock_folder
from landfall.storage.peers_file import PEERS
from landfall.storage.rejected_records import DISOWNED_NAME
from landfall.storage.segments import MERGED, SEGMENTS, file_path, merged_numbers, segment_numbers
from landfall.system.shared_folders import FOLDER_MODE
from landfall.system.sqlite_files import connect_to_read
from streams.commit_points import commit_point
from streams.model.errors import Misuse, RetryLater, Unreadable

ATTEMPTS_MAX = 20
CHUNK_BYTES = 4 << 20
PAGES_AT_ONCE = 1_024
DISK = Disk()


@dataclass(frozen=True, slots=True)
class Copied:
    """The contents of a backup: everything up to `commit` of `node`'s log, with the number of its files and bytes, the index included."""

    node: str
    commit: int
    files: int
    bytes: int


def backup(log: Path, target: Path) -> Copied:
    """Copy the log in folder `log`, as of one commit, to `target`, which must not exist. The copy is durable, and has no marker and no key.

    The node may run: it is neither delayed nor stopped. Raises Misuse when `target` exists or is inside a log, RetryLater when the log
    changes too fast or the disk refuses the copy, IndexDamaged; then there is no `target`.
    """
    if target.exists() and not target.resolve().is_relative_to(log.resolve()):
        raise Misuse(f"{target} is there already", hint="a backup goes into a folder of its own: name a new one", code="folder_exists")
    if target.resolve().is_relative_to(log.resolve()) or log_around(target):
        raise Misuse(
            f"{target} is in a log's own folder", hint="name a folder on another disk: this one is lost with the log", code="folder_in_log"
        )
    made = None
    try:
        if (why := index_problem(log)) is not None:
            raise IndexDamaged(f"the index of the log in {log} does not have all that is in its files: {why}", hint=REBUILT)
        _make_folder(target)
        made = _copied(log, target)
    except (OSError, sqlite3.OperationalError, Unreadable) as problem:
        hint = "make room or name another disk; `landfall log check` says whether the log itself is whole"
        raise RetryLater(f"the log in {log} can not be copied to {target}: {problem}", hint=hint, code="log_not_copied") from problem
    except sqlite3.Error as problem:
        raise IndexDamaged(f"the index of the log in {log} does not read: {problem}", hint=REBUILT) from problem
    finally:
        if made is None:
            shutil.rmtree(target, ignore_errors=True)  # half a backup is none, and would be in the way of the next
    return made


def _copied(log: Path, target: Path) -> Copied:
    for _ in range(ATTEMPTS_MAX):
        with ExitStack() as stack:
            size = _copy_index(log / INDEX_NAME, target / INDEX_NAME)
            with closing(IndexReader.open(target / INDEX_NAME)) as index:
                (commit, last, end), book, holding = index.mark(), index.load(), index.files()
            try:
                numbers = sorted(holding | {n for n in _numbers(log) if n <= last})
                files = {n: stack.enter_context(file_path(log, n).open("rb", buffering=0)) for n in numbers}
            except FileNotFoundError:
                continue  # freed between the index and now: what has taken its place is in the next index
            for number, file in files.items():
                size += _copy(file.fileno(), file_path(target, number), end if number == last else None)
            _copy_small_files(log, target)
            _sync(target)
            return Copied(book.openings[-1].node, commit, len(files) + 1, size)
    raise RetryLater(f"the log in {log} changed under each of {ATTEMPTS_MAX} attempts to copy it", hint="try again", code="log_changing")


def restore(source: Path, home: Path) -> Path | None:
    """Replace the log of the node whose folder is `home` by the backup `source`, and return where the old log lies now.

    Where the log's folder is a link, the log stays on the disk that the link leads to. Where it is a mount, its contents are replaced. The
    node's marker is removed, so that the node opens a new generation when it starts. An interrupted restore leaves the old log, or a folder
    in which no node starts: called again, it does all of it.

    Raises Misuse when `source` is no backup or is another node's, or when `home` is no node's folder or lies in a log's folder. Raises
    Misuse also when the log is not in one place, or the node runs. Raises RetryLater when the disk refuses it: if there was a log, it is
    then as it was.
    """
    check_backup(source)
    with ExitStack() as stack:
        stack.enter_context(_as_retry_later(source, home))
        place = LogPlace.of(home)
        _check_home(source, place)
        place.check()
        if place.log.exists():
            stack.callback(os.close, lock_folder(place.log))  # raises Misuse while a node writes it, and keeps it from starting
        place.finish()
        if place.copy.exists():
            shutil.rmtree(place.copy)
        home.mkdir(parents=True, exist_ok=True)
        with ExitStack() as half:
            if place.log.exists():  # the log that was there is to start as before
                half.callback(shutil.rmtree, place.copy, ignore_errors=True)
            _copy_folder(source, place.copy)
            commit_point("log.restore.copied")
            aside = place.begin()
            half.pop_all()
        return place.end() or aside


@contextmanager
def _as_retry_later(source: Path, home: Path) -> Iterator[None]:
    """Raise RetryLater in place of the disk's errors."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as problem:
        hint = "make room, or look at the disk's health, and run `landfall log restore` again: no node starts on a half of it"
        if isinstance(problem, OSError) and problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "let the user that runs this write there, or run it as the user that the node runs as"
        raise RetryLater(f"{source} can not be put back into {home}: {problem}", hint=hint, code="log_not_restored") from problem


def check_backup(source: Path) -> None:
    """Raise Misuse when the folder `source` can not be a backup."""
    if not (source / INDEX_NAME).exists():
        raise Misuse(f"{source} is no backup of a log", hint="name a folder that `landfall log backup` made", code="not_a_backup")


def _check_home(source: Path, place: LogPlace) -> None:
    """Raise Misuse when the node's folder is a log's folder, lies in one, or belongs to another node than the backup's."""
    home = place.home
    if log := log_around(home):
        where = f"is in the folder of the log {log}" if log != home.resolve() else "is a log's folder"
        raise Misuse(f"{home} {where}", hint=f"name the node's folder, in which its log lies: {log.parent}", code="not_a_node_folder")
    node = _node_of(source)
    left = place.unfinished()
    for known in (marked_node(home / "marker"), _node_of(place.log), None if left is None else _node_of(left)):
        if None not in (known, node) and known != node:
            raise Misuse(
                f"the backup {source} is {node}'s, and {home} is {known}'s",
                hint=f"name the folder of {node}, or a new one",
                code="log_of_another",
            )


def log_around(place: Path) -> Path | None:
    """Return the folder of the log if `place` is one or lies in one, through whatever links; else None."""
    return next((folder for folder in (place.resolve(), *place.resolve().parents) if _is_log(folder)), None)


def _is_log(folder: Path) -> bool:
    return (folder / INDEX_NAME).exists() or ((folder / SEGMENTS).is_dir() and (folder / MERGED).is_dir())


def _node_of(log: Path) -> str | None:
    """Return the node whose log it is; None when its index can not give it."""
    if not (log / INDEX_NAME).exists():
        return None
    try:
        with closing(IndexReader.open(log / INDEX_NAME)) as index:
            return index.node()
    except (IndexDamaged, *UNREADABLE):
        return None


def _copy_folder(source: Path, target: Path) -> None:
    _make_folder(target)
    try:
        _copy_index(source / INDEX_NAME, target / INDEX_NAME)
    except UNREADABLE as problem:
        if is_refusal(problem):
            raise
        (target / INDEX_NAME).unlink(missing_ok=True)  # the node builds it from the files
    for number in _numbers(source):
        with file_path(source, number).open("rb", buffering=0) as file:
            _copy(file.fileno(), file_path(target, number), None)
    _copy_small_files(source, target)
    _sync(target)


def _make_folder(target: Path) -> None:
    target.mkdir(FOLDER_MODE, parents=True, exist_ok=True)  # another disk's file system may have no modes
    for kind in (SEGMENTS, MERGED):
        (target / kind).mkdir(FOLDER_MODE)


def _numbers(log: Path) -> list[int]:
    return [*segment_numbers(log), *merged_numbers(log)]


def _copy_index(source: Path, target: Path) -> int:
    """Copy the index, as of one commit, into one file, and return its size in bytes."""
    while True:
        target.unlink(missing_ok=True)
        with closing(connect_to_read(source, BUSY_S)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new, pages=PAGES_AT_ONCE)
        if not old.is_outdated():  # else a writer came meanwhile, and may have changed it under the copy
            return target.stat().st_size


def _copy(source: int, target: Path, length: int | None) -> int:
    """Copy the first `length` bytes (None: all) of an open file, and return how many. Raises OSError where `target` did not take all of
    them.
    """
    length = os.fstat(source).st_size if length is None else length
    with target.open("wb", buffering=0) as file:
        at = 0
        while at < length and (chunk := os.pread(source, min(CHUNK_BYTES, length - at), at)):
            DISK.write(file.fileno(), chunk)
            at += len(chunk)
        os.fsync(file.fileno())
    return at


def _copy_small_files(source: Path, target: Path) -> None:
    """Copy the rejected records and the node's peers. A version that replaced them meanwhile is as good."""
    for name in (DISOWNED_NAME, PEERS):
        if (source / name).exists():
            with (source / name).open("rb", buffering=0) as file:
                _copy(file.fileno(), target / name, None)


def _sync(folder: Path) -> None:
    """Sync the index, if there is one, and the names in `folder` to the disk."""
    if (folder / INDEX_NAME).exists():
        with (folder / INDEX_NAME).open("rb") as index:
            os.fsync(index.fileno())
    for one in (*(entry for entry in folder.iterdir() if entry.is_dir()), folder, folder.parent):
        _sync_folder(one)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
