"""A log's files: numbered, append-only, each with a head and a row of frames. Segments hold commits; merged files hold what was merged from
them.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from landfall.storage.disk import CLOSED, Disk
from landfall.storage.file_header import HEAD_BYTES, Secret, read_head
from landfall.system.sqlite_files import owner_of, user_name
from streams.model.errors import Corrupt, RetryLater, Unclear, Unreadable

SEGMENTS, MERGED = "segments", "merged"
_NAMES = {SEGMENTS: re.compile(r"([0-9]{10})\.segment"), MERGED: re.compile(r"([0-9]{10})\.merged")}


def unreadable(path: Path, problem: Exception) -> Unreadable:
    """Return the error that the log raises where the file `path` can not be read."""
    reason = problem.strerror if isinstance(problem, OSError) else problem
    return Unreadable(f"{path.name} can not be read: {reason}", hint="look at the disk's health, and whose file it is")


def file_path(log: Path, number: int) -> Path:
    """Return the path of a file of the log in folder `log`: 1, 2, … are its segments, -1, -2, … its merged files."""
    return log / SEGMENTS / f"{number:010}.segment" if number > 0 else log / MERGED / f"{-number:010}.merged"


def segment_numbers(log: Path) -> list[int]:
    """Return the numbers of the existing segments, the oldest first. Raises Unreadable."""
    return sorted(_numbers(log, SEGMENTS))


def merged_numbers(log: Path) -> list[int]:
    """Return the numbers of the existing merged files, the newest first. Raises Unreadable."""
    return sorted(-number for number in _numbers(log, MERGED))


class OpenFile:
    """A reader of spans of a log's files, for one look-up. It keeps the last file open: neighbours are mostly in one file.

    A file that is freed meanwhile is read until the look-up ends. It is not safe to use from several threads.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._number, self._descriptor = 0, CLOSED

    def span(self, number: int, at: int, length: int) -> bytes:
        """Return `length` bytes at `at` of a file. Raises Corrupt when it is shorter, FileNotFoundError when it was freed, Unreadable."""
        try:
            data = os.pread(self._opened(number), length, at)
        except OSError as problem:
            path = file_path(self._log, number)
            if isinstance(problem, FileNotFoundError) and os.path.isdir(path.parent):
                raise
            raise unreadable(path, problem) from problem
        if len(data) != length:
            raise Corrupt(f"{file_path(self._log, number).name} ends before byte {at + length}", code="segment_short")
        return data

    def expect(self, number: int, at: int, length: int) -> None:
        """Announce that `length` bytes at `at` of a file are about to be read: the disk may begin to read them, but need not."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # the reader that asks for them gets the error
                os.posix_fadvise(self._opened(number), at, length, os.POSIX_FADV_WILLNEED)

    def _opened(self, number: int) -> int:
        if number != self._number:
            self.close()
            self._descriptor = os.open(file_path(self._log, number), os.O_RDONLY | os.O_CLOEXEC)
            self._number = number
        return self._descriptor

    def close(self) -> None:
        """Release the file."""
        if self._number:
            os.close(self._descriptor)
            self._number = 0


def read_span(log: Path, number: int, at: int, length: int) -> bytes:
    """Return `length` bytes at `at` of a file. Raises Corrupt when it is shorter, FileNotFoundError when it was freed, Unreadable."""
    with closing(OpenFile(log)) as file:
        return file.span(number, at, length)


def secret_of(log: Path, number: int) -> Secret | None:
    """Return the secret in the head of a file; None when the file is empty, or its head does not verify.

    Raises FileNotFoundError when it was freed, Unreadable, and Misuse when another version of Landfall wrote the file.
    """
    path = file_path(log, number)
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise unreadable(path, problem) from problem
    return read_head(head)[0]


@contextmanager
def mapped(log: Path, number: int) -> Iterator[memoryview]:
    """Yield all bytes of a file, without reading them yet. Raises FileNotFoundError when it was freed, Unreadable."""
    path = file_path(log, number)
    with ExitStack() as open_:
        try:
            file = open_.enter_context(path.open("rb"))
            length = os.fstat(file.fileno()).st_size
            pages = open_.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if length else b""
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise unreadable(path, problem) from problem
        yield open_.enter_context(memoryview(pages))


class SegmentWriter:
    """A writer that appends frames to the last segment or merged file. It is not safe to use from several threads: the log's lock guards
    it.

    A failed write or sync leaves nothing behind: the file is cut back to its last whole frame before anything else is written. While the
    disk refuses that, the next opening of the log may find the refused frame: that is Unclear. `secret` is the file's; its frames are made
    with it. A new file's head is written with its first frame.
    """

    def __init__(self, log: Path, disk: Disk, number: int, end: int) -> None:
        """Continue in file `number` at byte `end`; bytes beyond it are cut off.

        Raises RetryLater when the disk refuses, Corrupt when the head before `end` does not verify.
        """
        secret = secret_of(log, number) if end else Secret.new()
        if secret is None:
            raise Corrupt(
                f"{file_path(log, number).name} has no secret that verifies, and can not be written on", code="segment_head_damaged"
            )
        self.secret = secret
        self._log = log
        self._disk = disk
        self.place = number, end
        """The file, and where the next frame goes in it, both of one moment, for readers without the log's lock."""
        path = file_path(log, number)
        with ExitStack() as undo:
            try:
                self._descriptor = disk.open_to_append(path)
                undo.callback(os.close, self._descriptor)
                disk.sync_names(path.parent)  # a file is as lasting as its names, and who made them may have been killed before
            except OSError as problem:
                raise disk_refused(problem) from problem
            self._torn, self._whole = True, False
            self._cut_off_torn()
            undo.pop_all()

    @property
    def number(self) -> int:
        """Number of the file that is being written."""
        return self.place[0]

    @property
    def end(self) -> int:
        """Length of the file; 0 while nothing in it counts."""
        return self.place[1]

    def write(self, data: bytes, *, more: bool = False) -> int:
        """Write `data` after the last frame, or after the head, and return where the frame begins. It is not durable, and does not count,
        before `keep`.

        With `more`, the rest of a frame goes after the part that was written. Raises RetryLater when the disk does not take it: no whole
        frame remains then. Raises Unclear while a whole frame from before remains.
        """
        if not more:
            self._cut_off_torn()
        self._torn = True
        try:
            self._disk.write(self._descriptor, data if self.end or more else self.secret.head() + data)
        except OSError as problem:
            raise self._refused(problem) from problem
        self._whole = True
        return self.end or HEAD_BYTES

    def sync(self) -> None:
        """Sync what was written to the disk, in a file that can be found there again.

        Raises RetryLater when the disk can not confirm it: nothing remains then. Raises Unclear when something may remain.
        """
        try:
            self._disk.sync(self._descriptor)
            if not os.fstat(self._descriptor).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "it was deleted while it was written", file_path(self._log, self.number).name)
        except OSError as problem:
            raise self._refused(problem) from problem

    def keep(self, length: int) -> None:
        """Count the `length` bytes of frames written since the last `keep` from now on."""
        self.place = self.number, (self.end or HEAD_BYTES) + length
        self._torn = self._whole = False

    def drop(self) -> None:
        """Discard what was written since the last `keep`. Raises Unclear when that fails; it is tried again before the next write."""
        self._cut_off_torn()

    def roll(self) -> None:
        """Continue in a new file. Raises RetryLater; then the old file continues."""
        self._cut_off_torn()
        try:
            self._roll()
        except OSError as problem:
            raise disk_refused(problem) from problem

    def _roll(self) -> None:
        number = self.number + 1
        path = file_path(self._log, number)
        with ExitStack() as undo:
            descriptor = self._disk.open_to_append(path)
            undo.callback(os.close, descriptor)
            self._disk.sync_folder(path.parent)
            undo.pop_all()
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.place = number, 0
        self.secret = Secret.new()
        self._torn = self._whole = False

    def close(self) -> None:
        """Release the file. From then on `write`, `drop` and `roll` raise RetryLater: the descriptor may be another file's, which must not
        be written, and the folder another log's.
        """
        os.close(self._descriptor)
        self._descriptor, self._torn = CLOSED, True

    def _cut_off_torn(self) -> None:
        if not self._torn:
            return
        try:
            if self._whole or os.fstat(self._descriptor).st_size != self.end:
                self._disk.truncate(self._descriptor, self.end)
        except OSError as problem:
            if self._whole:
                hint = "whether it was kept shows when the disk takes writes again: it is cut off then; or when the log is opened again"
                raise Unclear(f"the disk did not take it, nor let it be cut off: {problem}", hint=hint, code="disk_unclear") from problem
            raise disk_refused(problem) from problem
        self._torn = self._whole = False

    def _refused(self, problem: OSError) -> RetryLater:
        try:
            self._cut_off_torn()
        except RetryLater as worse:
            return worse
        return disk_refused(problem)


def disk_refused(problem: Exception) -> RetryLater:
    """Return the error that the log raises when the disk is full or failing, or the process's user may not write there."""
    what, code = "free some space, or look at the disk's health", "disk_refused"
    if isinstance(problem, PermissionError) and isinstance(problem.filename, str) and _is_of_another(Path(problem.filename)):
        return not_writable(Path(problem.filename))
    if isinstance(problem, PermissionError):
        what, code = "let the user that runs this write there", "folder_not_writable"
    elif isinstance(problem, FileNotFoundError | NotADirectoryError | FileExistsError):
        what, code = "see that this folder is there, or can be made", "folder_missing"
    return RetryLater(f"the disk did not take it: {problem}", hint=f"{what}; nothing was changed", code=code)


def not_writable(file: Path) -> RetryLater:
    """Return the error that the log raises where another user's file is in its way."""
    me = user_name(os.geteuid())
    what = f"{file} belongs to {owner_of(file)}, and {me}, who runs this, may not write it"
    return RetryLater(what, hint=f"give it back: `chown {me} {file}`; nothing was changed", code="file_of_another")


def _is_of_another(file: Path) -> bool:
    return file.is_file() and file.stat().st_uid != os.geteuid()


def _numbers(log: Path, kind: str) -> Iterator[int]:
    folder = log / kind
    try:
        names = os.listdir(folder)
    except OSError as problem:
        raise unreadable(folder, problem) from problem
    for name in names:
        if match := _NAMES[kind].fullmatch(name):
            yield int(match[1])
