"""The SQLite index of a log's segments: what is looked up lives here, and all of it can be built again from the segments.

Every row carries a checksum of its values; a row that does not match raises IndexDamaged, and the index is built anew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from streams.errors import LandfallError
from streams.ledger import GoneReason, OriginLedger
from streams.logs.book import Book, Change, Line, LineKey, Location, Piece
from streams.logs.disk import Disk
from streams.logs.frames import Opening, Produced
from streams.ranges import RangeSet
from streams.words import Origin

SCHEMA_VERSION = 1
PIECES_PAGE = 512
_BUSY_S = 30.0
_SCHEMA = """
CREATE TABLE mark (one INTEGER PRIMARY KEY CHECK (one = 1), commits INTEGER, segment INTEGER, end INTEGER, sum INTEGER);
CREATE TABLE lines (id INTEGER PRIMARY KEY, stream TEXT, origin TEXT, state BLOB, sum INTEGER, UNIQUE (stream, origin));
CREATE TABLE pieces (line INTEGER, first INTEGER, end INTEGER, segment INTEGER, at INTEGER, length INTEGER,
    order_first_ms INTEGER, order_last_ms INTEGER, topics BLOB, sum INTEGER);
CREATE UNIQUE INDEX pieces_by_offset ON pieces (line, first, end);
CREATE TABLE producers (stream TEXT, producer TEXT, sequence INTEGER, first INTEGER, count INTEGER, sum INTEGER,
    PRIMARY KEY (stream, producer)) WITHOUT ROWID;
CREATE TABLE openings (generation INTEGER PRIMARY KEY, predecessor INTEGER, why TEXT, at_ms INTEGER, sum INTEGER);
"""
_PIECE = "first, end, segment, at, length, order_first_ms, order_last_ms, topics, sum"


class IndexDamaged(LandfallError):
    """The index is missing, of another version, or its rows do not verify: it is built again from the segments."""


class _State(msgspec.Struct, array_like=True, frozen=True):
    held: list[tuple[int, int]]
    gone: dict[GoneReason, list[tuple[int, int]]]
    floor: int
    end: int
    received_at_ms: int


class IndexReader:
    """Looks things up. Safe from any thread, and from processes other than the log's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._line_ids: dict[LineKey, int] = {}

    @classmethod
    def open(cls, path: Path) -> IndexReader:
        """Reads the index at `path` beside its writer, without ever blocking it."""
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return cls(sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_S))

    def close(self) -> None:
        """Release the database."""
        with self._lock:
            self._connection.close()

    def mark(self) -> tuple[int, int, int]:
        """The last commit indexed, its segment, and where in it the commit ends."""
        rows = self.rows("SELECT commits, segment, end, sum FROM mark")
        if len(rows) != 1:
            raise IndexDamaged("the index has no mark")
        commit, segment, end = _verified(rows[0])
        return commit, segment, end

    def load(self) -> Book:
        """All but the pieces; these are only counted: they must be exactly what is held."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                return self._load()
            finally:
                self._connection.execute("ROLLBACK")

    def version(self) -> int:
        """A number that changes with every commit of another connection."""
        version: int = self.rows("PRAGMA data_version")[0][0]
        return version

    def pieces(self, key: LineKey, first: int, end: int) -> list[Piece]:
        """At most PIECES_PAGE pieces that hold offsets of `first .. end - 1`, in order."""
        line = self._line_id(key)
        if line is None:
            return []
        found = self.rows("SELECT max(first) FROM pieces WHERE line = ? AND first <= ?", (line, first))
        start = found[0][0] if found[0][0] is not None else first
        rows = self.rows(
            f"SELECT {_PIECE} FROM pieces WHERE line = ? AND first >= ? AND first < ? ORDER BY first LIMIT {PIECES_PAGE}",
            (line, start, end),
        )
        return [piece for piece in (_piece(line, row) for row in rows) if piece.end > first]

    def pieces_between(self, key: LineKey, since_at_ms: int, until_at_ms: int, after: int) -> list[Piece]:
        """At most PIECES_PAGE pieces from offset `after` on whose blocks may have order times from `since_at_ms` to before `until`."""
        line = self._line_id(key)
        if line is None:
            return []
        rows = self.rows(
            f"SELECT {_PIECE} FROM pieces WHERE line = ? AND first >= ? AND order_last_ms >= ? AND order_first_ms < ? "
            f"ORDER BY first LIMIT {PIECES_PAGE}",
            (line, after, since_at_ms, until_at_ms),
        )
        return [_piece(line, row) for row in rows]

    def pieces_backwards(self, key: LineKey, before: int) -> list[Piece]:
        """At most PIECES_PAGE pieces that begin before offset `before`, the last first."""
        line = self._line_id(key)
        if line is None:
            return []
        rows = self.rows(
            f"SELECT {_PIECE} FROM pieces WHERE line = ? AND first < ? ORDER BY first DESC LIMIT {PIECES_PAGE}", (line, before)
        )
        return [_piece(line, row) for row in rows]

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows at once, so that no reader holds the database. Raises IndexDamaged for what SQLite finds damaged."""
        with self._lock:
            return self._execute(statement, values)

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.ProgrammingError):
                raise
            raise IndexDamaged(f"the log's index does not read: {problem}") from problem

    def _line_id(self, key: LineKey) -> int | None:
        if key not in self._line_ids:
            rows = self.rows("SELECT id FROM lines WHERE stream = ? AND origin = ?", (key[0], str(key[1])))
            if not rows:
                return None
            self._line_ids[key] = rows[0][0]
        return self._line_ids[key]

    def _load(self) -> Book:
        book = Book()
        counts = dict(self._execute("SELECT line, sum(end - first) FROM pieces INDEXED BY pieces_by_offset GROUP BY line"))
        for row in self._execute("SELECT id, stream, origin, state, sum FROM lines"):
            number, stream, origin, state = _verified(row)
            line = _line(state)
            if counts.pop(number, 0) != line.ledger.held.count():
                raise IndexDamaged(f"the index has other pieces of {stream}:{origin} than it says it holds")
            book.set_line((stream, Origin.parse(origin)), line)
        if counts:
            raise IndexDamaged(f"the index has pieces of {len(counts)} lines it does not know")
        for row in self._execute("SELECT stream, producer, sequence, first, count, sum FROM producers"):
            produced = Produced(*_verified(row))
            book.produced[produced.stream, produced.producer] = produced
        rows = self._execute("SELECT generation, predecessor, why, at_ms, sum FROM openings ORDER BY generation")
        book.openings = [Opening(*_verified(row)) for row in rows]
        marks = self._execute("SELECT commits, segment, end, sum FROM mark")
        if len(marks) != 1:
            raise IndexDamaged("the index has no mark")
        book.commit = _verified(marks[0])[0]
        return book


class IndexWriter(IndexReader):
    """Writes the index, one transaction for each list of changes. The log's lock guards it."""

    @classmethod
    def open_for(cls, path: Path, disk: Disk) -> IndexWriter:
        """The index at `path`, empty when there was none. Raises IndexDamaged when what is there is of another version or damaged."""
        writer = cls(disk.connect(path))
        try:
            writer._prepare()
        except (sqlite3.DatabaseError, IndexDamaged) as problem:
            writer.close()
            raise IndexDamaged(f"the log's index does not open: {problem}") from problem
        return writer

    def apply(self, changes: Iterable[Change]) -> None:
        """All of `changes` and the mark of the last, or nothing. Raises sqlite3.DatabaseError."""
        ids: dict[LineKey, int] = {}

        def write() -> None:
            for change in changes:
                self._apply(change, ids)

        self._transact(write)
        self._line_ids.update(ids)

    def set_aside(self, key: LineKey, first: int, end: int, line: Line) -> None:
        """Offsets `first .. end - 1` are no longer held; `line` is how `key` stands without them. Raises sqlite3.DatabaseError."""

        def drop() -> None:
            number = self._write_line(key, line, {})
            self._drop(number, first, end)

        self._transact(drop)

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._transact(self._create)
        elif version != SCHEMA_VERSION:
            raise IndexDamaged(f"the index is of version {version}, not {SCHEMA_VERSION}")

    def _create(self) -> None:
        for statement in _SCHEMA.split(";"):
            self._connection.execute(statement)
        self._write_mark(0, 1, 0)
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _transact(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                work()
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _apply(self, change: Change, ids: dict[LineKey, int]) -> None:
        for key, line in change.lines.items():
            self._write_line(key, line, ids)
        for key, piece in change.added:
            self._add(ids[key], piece)
        for key, first, end in change.dropped:
            self._drop(ids[key], first, end)
        for produced in change.produced:
            values = (produced.stream, produced.producer, produced.sequence, produced.first, produced.count)
            self._connection.execute("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?, ?)", _summed(values))
        for opening in change.openings:
            values_of = (opening.generation, opening.predecessor, opening.why, opening.at_ms)
            self._connection.execute("INSERT OR REPLACE INTO openings VALUES (?, ?, ?, ?, ?)", _summed(values_of))
        self._write_mark(change.commit, change.segment, change.end)

    def _write_mark(self, commit: int, segment: int, end: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO mark VALUES (1, ?, ?, ?, ?)", _summed((commit, segment, end)))

    def _write_line(self, key: LineKey, line: Line, ids: dict[LineKey, int]) -> int:
        ledger = line.ledger
        gone = {reason: list(ranges) for reason, ranges in ledger.gone.items()}
        state = msgspec.msgpack.encode(_State(list(ledger.held), gone, ledger.floor, line.end, line.received_at_ms))
        number = ids.get(key) or self._line_ids.get(key)
        if number is None:
            found = self._execute("SELECT id FROM lines WHERE stream = ? AND origin = ?", (key[0], str(key[1])))
            number = found[0][0] if found else self._execute("SELECT coalesce(max(id), 0) + 1 FROM lines")[0][0]
        ids[key] = number
        self._connection.execute("INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?)", _summed((number, key[0], str(key[1]), state)))
        return number

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
        )
        self._connection.execute("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _summed(fixed))

    def _drop(self, line: int, first: int, end: int) -> None:
        touched = "line = ? AND first < ? AND end > ?"
        pieces = [_piece(line, row) for row in self._execute(f"SELECT {_PIECE} FROM pieces WHERE {touched}", (line, end, first))]
        self._connection.execute(f"DELETE FROM pieces WHERE {touched}", (line, end, first))
        for piece in pieces:
            for low, high in RangeSet([(piece.first, piece.end)]).without([(first, end)]):
                self._add(line, Piece(low, high, piece.location, piece.order_first_ms, piece.order_last_ms, piece.topics))


def remove_index(path: Path) -> None:
    """Delete the index: the next to open it finds an empty one."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _summed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*values, _sum(values))


def _sum(values: tuple[Any, ...]) -> int:
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(values)) >> 1


def _verified(row: tuple[Any, ...]) -> tuple[Any, ...]:
    values = row[:-1]
    try:
        matches = _sum(values) == row[-1]
    except OverflowError:
        matches = False
    if not matches:
        raise IndexDamaged("a row of the log's index does not match its checksum")
    return values


def _piece(line: int, row: tuple[Any, ...]) -> Piece:
    _, first, end, segment, at, length, order_first_ms, order_last_ms, topics = _verified((line, *row))
    return Piece(first, end, Location(segment, at, length), order_first_ms, order_last_ms, topics)


def _line(state: bytes) -> Line:
    read = msgspec.msgpack.decode(state, type=_State)
    ledger = OriginLedger(RangeSet(read.held), {reason: RangeSet(ranges) for reason, ranges in read.gone.items()}, read.floor)
    return Line(ledger, read.end, read.received_at_ms, ledger.next_offset())
