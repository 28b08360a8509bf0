"""The log in its own files: frames in append-only segments, one fdatasync per commit, and a SQLite index that can be rebuilt."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from landfall.storage.commit_path import LogWriter, WriteLimits
from landfall.storage.damage import Damage
from landfall.storage.disk import CLOSED, Disk
from landfall.storage.epoch_marker import Marker
from landfall.storage.file_blocks import FileLogReader
from landfall.storage.log_core import KeptLog
from landfall.storage.log_location import check_finished
from landfall.storage.log_opener import LogFolder, lock_folder
from landfall.storage.log_upkeep import FileUpkeep, LogParts
from landfall.storage.merge_levels import LEVELS, Level
from landfall.storage.quarantine import Aside
from landfall.storage.rejected_records import Disowned
from landfall.storage.segments import MERGED, SEGMENTS
from streams.integrity.record_authorization import Entitled
from streams.log import Upkeep
from streams.model.block import Codec
from streams.model.clock import Clock

__all__ = ["Damage", "FileLog", "FileLogOptions", "FileLogReader", "WriteLimits"]


def _silent(damage: Damage) -> None:
    """Ignore the damage: no caller asked for reports."""


@dataclass(frozen=True, slots=True)
class FileLogOptions:
    """The options that an operator or a test may set.

    `group` is the Unix group that may read the log; "": the process's own. `on_damage` is called, from the thread that finds it, for bytes
    that do not verify and are set aside; it must not call the log. `entitled` decides who may write which records; None: all records count.
    `disk` and `randbits` are the operating system's and `levels` those of upkeep, unless a test sets others.
    """

    limits: WriteLimits = field(default_factory=WriteLimits)
    on_damage: Callable[[Damage], None] = _silent
    disk: Disk = field(default_factory=Disk)
    randbits: Callable[[int], int] = secrets.randbits
    levels: Sequence[Level] = LEVELS
    group: str = ""
    entitled: Entitled | None = None


class FileLog(KeptLog, FileLogReader):
    """A node's log in `folder`, written by this process alone. Safe from any thread; commits go one after another.

    A commit is 1 encoded, 2 written as one frame behind the last, 3 synced, 4 indexed in one SQLite transaction, 5 remembered in memory;
    only then is it acknowledged. A failure at 2 to 4 cuts the frame off again; where the disk refuses that too, it is Unclear whether the
    next opening finds it. A crash after 3 keeps it: opening brings the index up.
    """

    def __init__(
        self, folder: Path, marker: Path, node: str, codec: Codec, clock: Clock, options: FileLogOptions = FileLogOptions()
    ) -> None:
        """Open the log, or make it. `marker` lies outside `folder` and in no backup of it.

        Raises Misuse when another process writes the log or it belongs to another node, RetryLater when the disk is full, read-only or
        failing.
        """
        aside = Aside(folder, options.disk, options.on_damage)
        super().__init__(node, codec, clock, aside, options.randbits)
        with ExitStack() as undo:
            check_finished(folder)
            self._lock_descriptor = lock_folder(folder, SEGMENTS, MERGED, group=options.group)
            undo.callback(os.close, self._lock_descriptor)
            self._disowned = Disowned(folder, options.disk, codec)
            if self._disowned.damaged is not None:
                aside.report(self._disowned.damaged)
            place = LogFolder(folder, options.disk, codec, aside, self._disowned, Marker(marker, node, options.disk))
            opened = place.open()
            opening = undo.enter_context(ExitStack())
            opening.callback(opened.index.close)
            self._keeper = self._writer = LogWriter(place, opened, options.limits)
            opening.pop_all()
            undo.callback(self._writer.close)
            self._check_node(folder)
            FileLogReader.__init__(self, folder, codec, entitled=options.entitled)
            undo.callback(super().close)
            parts = LogParts(
                folder,
                codec,
                options.disk,
                self._write_lock,
                self._quiet,
                self._writer,
                self._set_aside,
                aside,
                self._with_index,
                lambda: self._builds,
            )
            self._upkeep = FileUpkeep(parts, options.levels)
            self._enter(opened.doubt or self._writer.why_not_latest())
            undo.pop_all()

    @property
    def upkeep(self) -> Upkeep:
        """The background work that keeps the log small and quick."""
        return self._upkeep

    def close(self) -> None:
        """Release the files. The log can not be used afterwards."""
        self._upkeep.close()
        with self._write_lock:
            if self._lock_descriptor != CLOSED:
                super().close()
                self._writer.refresh_marker()
                self._writer.close()
                os.close(self._lock_descriptor)
                self._lock_descriptor = CLOSED
