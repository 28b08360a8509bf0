"""Opening a log: it locks the folder, brings the index up to date, finds the end of the segments, and checks that this is the latest
copy.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from landfall.storage.disk import Disk
from landfall.storage.epoch_marker import Marker
from landfall.storage.index import INDEX_NAME, IndexDamaged
from landfall.storage.index_integrity import wal_problem
from landfall.storage.index_writer import IndexWriter, put_in_place, remove_index
from landfall.storage.log_location import LOCK_NAME
from landfall.storage.log_replay import OtherFiles, Placing, Replay, ReplayedLog
from landfall.storage.quarantine import Aside
from landfall.storage.rejected_records import Disowned
from landfall.storage.segments import disk_refused, merged_numbers, secret_of, segment_numbers
from landfall.system.shared_folders import FOLDER_MODE, make_shared
from streams.model.block import Codec
from streams.model.errors import Misuse


def lock_folder(folder: Path, *kinds: str, group: str = "") -> int:
    """Return a descriptor that keeps all other writers out of `folder` until it is closed. The folder, and the folders `kinds` in it, are
    made if they are missing.

    `group` may read the folder, and nobody else may (`make_shared`). Raises Misuse when there is a writer already, or others may read or
    write there; RetryLater when the disk is full, read-only or failing, or the process's user may not write there.
    """
    try:
        make_shared(folder, group)
        for kind in kinds:
            (folder / kind).mkdir(FOLDER_MODE, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as problem:
        raise disk_refused(problem) from problem
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        raise Misuse(
            f"another process writes the log in {folder}",
            hint="a log has one writer: stop the other, or use its append door",
            code="log_locked",
        ) from problem
    return descriptor


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder of a log in files, and how its index is brought up to date with the files. The caller holds the folder's lock."""

    path: Path
    disk: Disk
    codec: Codec
    aside: Aside
    disowned: Disowned
    marker: Marker

    def open(self) -> ReplayedLog:
        """Bring the index up to date with the files: from its mark on, or completely when it is missing, damaged, or belongs to other
        files.

        The part of SQLite's write-ahead log that SQLite does not accept, because of damage or a power cut, is reported; the files have it.
        Raises RetryLater when the disk is full or fails, Misuse when another version of Landfall wrote the files.
        """
        for number in (*segment_numbers(self.path), *merged_numbers(self.path)):
            secret_of(self.path, number)
        path = self.path / INDEX_NAME
        why, seen = None, 0
        if path.exists():
            try:
                if (damaged := wal_problem(path)) is not None:
                    self.aside.write_ahead_log(path, damaged)
                return self._replay(IndexWriter.open_for(path, self.disk), whole=False)
            except OtherFiles as problem:
                seen = problem.commit
            except IndexDamaged as problem:
                why = str(problem)
            except OSError as problem:
                raise disk_refused(problem) from problem
        return self.rebuilt(why, seen)

    def rebuilt(self, why: str | None, seen: int, release: Callable[[], None] = lambda: None) -> ReplayedLog:
        """Build the index again next to the old one, and put it in place when it is whole. Readers see either the old or the new index.

        `why`: what is wrong with the old index, which is then set aside. `seen`: a commit that the old index had. `release` closes the old
        index: SQLite would delete the new one's files by name. Raises RetryLater when the disk is full or fails. The old index is then as
        it was, or there is none.
        """
        path, new_path = self.path / INDEX_NAME, self.path / f"new-{INDEX_NAME}"
        try:
            remove_index(new_path)
            opened = self._replay(IndexWriter.open_for(new_path, self.disk), whole=True)
            opened.index.close()
            release()
            if why is not None:
                self.aside.index(path, why)
            remove_index(path)
            put_in_place(new_path, path)
            self.disk.sync_folder(self.path)
        except OSError as problem:
            raise disk_refused(problem) from problem
        lost = f"the log's files end at commit {opened.book.commit}, but {seen} were indexed" if opened.book.commit < seen else None
        return replace(opened, index=IndexWriter.open_for(path, self.disk), doubt=lost or opened.doubt)

    def _replay(self, index: IndexWriter, *, whole: bool) -> ReplayedLog:
        placing = Placing(self.codec, self.disowned, self.marker.reached)
        return Replay(self.path, placing, self.aside, index, whole=whole).run()
