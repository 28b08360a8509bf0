"""The writer of the index: one SQLite transaction for each list of changes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from landfall.storage.disk import Disk
from landfall.storage.index import (
    BUSY_S,
    MARK,
    PIECE_COLUMNS,
    REBUILT,
    SCHEMA_VERSION,
    UNREADABLE,
    IndexDamaged,
    IndexReader,
    is_refusal,
    mark_of,
    piece_of,
    summed,
)
from landfall.storage.index_integrity import SUM_SUFFIX, drop_sum, keep_sum, sum_problem
from landfall.storage.log_state import Book, FileLocation, FrameChange, LineKey, OriginState, Piece, state_of
from landfall.storage.segments import disk_refused, not_writable
from landfall.system.sqlite_files import foreign_file
from streams.model.ranges import RangeSet

SCHEMA = """
CREATE TABLE mark (one INTEGER PRIMARY KEY CHECK (one = 1), commits INTEGER, segment INTEGER, end INTEGER, others INTEGER, sum INTEGER);
CREATE TABLE lines (id INTEGER PRIMARY KEY, stream TEXT, origin TEXT, state BLOB, sum INTEGER, UNIQUE (stream, origin));
CREATE TABLE pieces (line INTEGER, first INTEGER, end INTEGER, segment INTEGER, at INTEGER, length INTEGER,
    order_first_ms INTEGER, order_last_ms INTEGER, topics BLOB, admitted BLOB, sum INTEGER);
CREATE UNIQUE INDEX pieces_by_offset ON pieces (line, first, end);
CREATE TABLE producers (stream TEXT, producer TEXT, sequence INTEGER, first INTEGER, count INTEGER, generation INTEGER,
    sum INTEGER,
    PRIMARY KEY (stream, producer)) WITHOUT ROWID;
CREATE TABLE openings (node TEXT, generation INTEGER PRIMARY KEY, predecessor INTEGER, why TEXT, at_ms INTEGER, ends BLOB, sum INTEGER);
CREATE TABLE followed (topic TEXT PRIMARY KEY, next INTEGER, sum INTEGER) WITHOUT ROWID;
"""
WAL_BYTES_MAX = 64 << 20
"""Size of SQLite's write-ahead log, bytes, above which a commit itself brings it into the database; upkeep does that much earlier. Where a
reader that stands still keeps the file from starting again, a commit does so after each further WAL_BYTES_MAX.
"""
_bringing_down = threading.Lock()


class IndexWriter(IndexReader):
    """A writer of the index, with one transaction for each list of changes. The log's lock guards it."""

    _others = 0
    """Change that the transaction's rows make to the mark's `others`."""
    _disk: Disk | None = None
    _brought_down_bytes = 0
    """Size of SQLite's write-ahead log when a commit last brought it into the database, bytes; 0 when it has started again since."""

    @classmethod
    def open_for(cls, path: Path, disk: Disk) -> IndexWriter:
        """Open the index at `path`, empty when there was none, and return its writer.

        Raises IndexDamaged when the index there is of another version or damaged. Raises RetryLater when the disk refuses, or one of its
        files is another user's.
        """
        try:
            if (foreign := foreign_file(path)) is not None:
                raise not_writable(foreign)
            if path.exists() and (damaged := sum_problem(path)) is not None:
                raise IndexDamaged(damaged)
            writer = cls.over(disk.connect(path), path)
        except (OSError, sqlite3.OperationalError) as problem:
            raise disk_refused(problem) from problem
        try:
            with ExitStack() as failed:
                failed.callback(writer.close)
                writer._prepare()
                writer._disk = disk
                failed.pop_all()
        except (*UNREADABLE, IndexDamaged) as problem:
            if is_refusal(problem):
                raise disk_refused(problem) from problem
            raise IndexDamaged(f"the log's index does not open: {problem}") from problem
        return writer

    def close(self) -> None:
        """Release the database. SQLite brings its write-ahead log into it, unless a reader is in the way."""
        with self._lock, suppress(OSError), _bringing_down:
            if self._disk is not None:
                drop_sum(self._path, self._disk)
        super().close()
        with suppress(OSError), _bringing_down:
            if self._disk is not None:
                keep_sum(self._path, self._disk)

    def verify(self, book: Book) -> None:
        """Read every piece as a look-up reads it. Raises IndexDamaged when the pieces together are not what `book` holds."""
        with self._lock:
            self._verified_files(book)

    def apply(self, changes: Iterable[FrameChange]) -> None:
        """Apply all of `changes` and the mark of the last, or nothing. Raises RetryLater, IndexDamaged."""
        ids: dict[LineKey, int] = {}

        def write() -> None:
            for change in changes:
                self._apply(change, ids)

        self._transact(write)
        self._line_ids.update(ids)

    def set_aside(self, key: LineKey, first: int, end: int, line: OriginState) -> None:
        """Drop offsets `first .. end - 1`, which are no longer held; `line` is the state of `key` without them. Raises the same errors as
        `apply`.
        """

        def drop() -> None:
            number = self._write_line(key, line, {})
            self._drop(number, first, end)

        self._transact(drop)

    def swap(self, key: LineKey, old: Collection[FileLocation], new: Sequence[Piece]) -> None:
        """Replace the pieces still held in blocks at `old` by those in `new`. Where a piece was cut or dropped, it stays so.

        Raises the same errors as `apply`.
        """

        def move() -> None:
            number = self._line_id(key, locked=True)
            if number is None or not new:
                return
            touched = "line = ? AND first < ? AND end > ?"
            between = (number, max(piece.end for piece in new), min(piece.first for piece in new))
            rows = self._execute(f"SELECT {PIECE_COLUMNS} FROM pieces WHERE {touched}", between)
            moved = [piece for piece in (piece_of(number, row) for row in rows) if piece.location in old]
            for piece in moved:
                self._connection.execute("DELETE FROM pieces WHERE line = ? AND first = ? AND end = ?", (number, piece.first, piece.end))
            held = RangeSet((piece.first, piece.end) for piece in moved)
            for piece in new:
                for first, end in held.within(piece.first, piece.end):
                    self._add(number, replace(piece, first=first, end=end))
                held.remove(piece.first, piece.end)  # the block after it may hold some of it too

        self._transact(move)

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA wal_autocheckpoint = 0")  # `bring_down` does it, which keeps the digest; first, for the next one writes
        execute("PRAGMA auto_vacuum = FULL")  # what merging leaves free in it goes back to the disk; before anything else is written
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA journal_size_limit = 0")  # what SQLite would leave behind the frames that count, nobody could verify
        execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._transact(self._create)
        elif version != SCHEMA_VERSION:
            raise IndexDamaged(f"the index is of version {version}, not {SCHEMA_VERSION}")

    def _create(self) -> None:
        for statement in SCHEMA.split(";"):
            self._connection.execute(statement)
        self._write_mark(0, 1, 0, 0)
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _transact(self, work: Callable[[], object]) -> None:
        """Run `work` in one transaction. Raises RetryLater, IndexDamaged; then none of it was done."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._others = 0
                work()
                self._mark_others()
                self._connection.execute("COMMIT")
            except (*UNREADABLE, IndexDamaged) as problem:
                if is_refusal(problem):
                    raise disk_refused(problem) from problem
                raise IndexDamaged(f"the log's index does not take a change: {problem}", hint=REBUILT) from problem
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        self._keep_short()

    def _keep_short(self) -> None:
        """Bring the write-ahead log into the database when it is too long. When the disk is full, a later commit does it."""
        if self._disk is None:
            return
        with suppress(OSError, sqlite3.Error):
            bytes_ = self._path.with_name(f"{self._path.name}-wal").stat().st_size
            if bytes_ < self._brought_down_bytes:
                self._brought_down_bytes = 0
            if bytes_ > self._brought_down_bytes + WAL_BYTES_MAX:
                bring_down(self._path, self._disk)
                self._brought_down_bytes = bytes_

    def _apply(self, change: FrameChange, ids: dict[LineKey, int]) -> None:
        for key, line in change.lines.items():
            self._write_line(key, line, ids)
        for key, piece in change.added:
            self._add(ids[key], piece)
        for key, first, end in change.dropped:
            self._drop(ids[key], first, end)
        for produced in change.produced:
            values = msgspec.structs.astuple(produced)
            self._put("producers", "stream = ? AND producer = ?", values[:2], values)
        for opening in change.openings:
            fields = msgspec.structs.astuple(opening)
            row = (*fields[:-1], msgspec.msgpack.encode(opening.ends))
            self._put("openings", "generation = ?", (opening.generation,), row)
        for topic, after in change.followed.items():
            self._put("followed", "topic = ?", (topic,), (topic, after))
        self._write_mark(change.commit, change.segment, change.end, mark_of(self._execute(MARK))[3])

    def _write_mark(self, commit: int, segment: int, end: int, others: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO mark VALUES (1, ?, ?, ?, ?, ?)", summed((commit, segment, end, others)))

    def _mark_others(self) -> None:
        """Include the rows that this transaction wrote in the mark's checksum."""
        if self._others:
            commit, segment, end, others = mark_of(self._execute(MARK))
            self._write_mark(commit, segment, end, others ^ self._others)

    def _write_line(self, key: LineKey, line: OriginState, ids: dict[LineKey, int]) -> int:
        state = msgspec.msgpack.encode(state_of(line))
        number = ids.get(key) or self._line_ids.get(key)
        if number is None:
            found = self._execute("SELECT id FROM lines WHERE stream = ? AND origin = ?", (key[0], str(key[1])))
            number = found[0][0] if found else self._execute("SELECT coalesce(max(id), 0) + 1 FROM lines")[0][0]
        ids[key] = number
        self._put("lines", "id = ?", (number,), (number, key[0], str(key[1]), state))
        return number

    def _put(self, table: str, where: str, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Write the row `values`, in place of the one with this `key`."""
        row = summed(values)
        for (old,) in self._execute(f"SELECT sum FROM {table} WHERE {where}", key):
            if not isinstance(old, int):
                raise IndexDamaged("a row of the log's index has no checksum")
            self._others ^= old
        self._others ^= row[-1]
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def _add(self, line: int, piece: Piece) -> None:
        place = piece.location
        fixed = (
            line,
            piece.first,
            piece.end,
            place.segment,
            place.at,
            place.length,
            piece.order_first_ms,
            piece.order_last_ms,
            piece.topics,
            msgspec.msgpack.encode(piece.admitted) if piece.admitted else None,
        )
        self._connection.execute("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", summed(fixed))

    def _drop(self, line: int, first: int, end: int) -> None:
        touched = "line = ? AND first < ? AND end > ?"
        pieces = [piece_of(line, row) for row in self._execute(f"SELECT {PIECE_COLUMNS} FROM pieces WHERE {touched}", (line, end, first))]
        self._connection.execute(f"DELETE FROM pieces WHERE {touched}", (line, end, first))
        for piece in pieces:
            for low, high in RangeSet([(piece.first, piece.end)]).without([(first, end)]):
                self._add(line, piece.clipped(low, high))


def bring_down(index: Path, disk: Disk) -> None:
    """Bring SQLite's write-ahead log into the database, both to the disk, and write the digest of the database as it is then.

    Commits continue meanwhile; the part of the write-ahead log that they hold back stays for the next time. Raises
    sqlite3.OperationalError, OSError.
    """
    with _bringing_down:
        drop_sum(index, disk)
        with closing(disk.connect(index)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with suppress(OSError):  # a full disk has to be made room on, and that needs none
            keep_sum(index, disk)


def put_in_place(built: Path, index: Path) -> None:
    """Move the index `built`, which is closed, to the place of `index`, which was removed. Raises OSError."""
    built.rename(index)
    with suppress(FileNotFoundError):
        built.with_name(built.name + SUM_SUFFIX).rename(index.with_name(index.name + SUM_SUFFIX))


def remove_index(path: Path) -> None:
    """Delete the index: the next to open it finds an empty one."""
    for suffix in (SUM_SUFFIX, "", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
