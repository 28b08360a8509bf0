"""The SQLite index of a log's segments: look-ups use it, and all of it can be rebuilt from the segments.

Every row carries a checksum of its values. The mark carries one of all other rows but the pieces, which are checked against the lines. A
mismatch raises IndexDamaged, and the index is rebuilt.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import xxhash

from landfall.storage.frames import Admitted, LineState, Opening, Produced
from landfall.storage.log_state import Book, FileLocation, LineKey, Piece, line_of
from landfall.storage.segments import unreadable
from landfall.system.sqlite_files import ReadingConnection, connect_to_read
from streams.core_limit import give_way
from streams.model.errors import LandfallError, Unreadable
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet

INDEX_NAME = "index.sqlite"
SCHEMA_VERSION = 8
"""Version of the index. It changes whenever the tables, or the filters of topics in them, are made differently, or another codec is read.
With older filters, or none for blocks that could not be read, rows would not be found.
"""
PIECES_PAGE = 512
BUSY_S = 30.0
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Exceptions that SQLite raises for a damaged database. SQLite's own message may be the text that does not decode."""
_REFUSALS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
)
REBUILT = "the node builds its index again when it meets the damage itself, or starts again"
PIECE_COLUMNS = "first, end, segment, at, length, order_first_ms, order_last_ms, topics, admitted, sum"

MARK = "SELECT commits, segment, end, others, sum FROM mark"
"""Query for the mark. `others` is the xor of the checksums of all rows but the pieces', so that no row is of another time."""
_FROM = "first >= coalesce((SELECT max(first) FROM pieces WHERE line = ? AND first <= ?), ?)"
"""Condition for the pieces from the first that may hold an offset. It is one statement, because a merge may come between two."""


class IndexDamaged(LandfallError):
    """The index is missing, of another version, or its rows do not verify: it is rebuilt from the segments."""

    code = "index_damaged"


def is_refusal(problem: Exception) -> bool:
    """Return whether the disk is full, busy, read-only or failing, rather than the index damaged."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _REFUSALS


class IndexReader:
    """A reader of the index. It is safe to use from any thread, and from processes other than the log's."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.is_still = isinstance(connection, ReadingConnection) and connection.is_still
        self._path = path
        self._file = path.stat().st_ino
        self._lock = threading.Lock()
        self._line_ids: dict[LineKey, int] = {}

    @classmethod
    def open(cls, path: Path) -> IndexReader:
        """Open the index at `path`, whether or not its writer runs. The reader never blocks the writer, and makes no file there.

        Raises Unreadable, IndexDamaged.
        """
        try:
            return cls.over(connect_to_read(path, BUSY_S), path)
        except (OSError, sqlite3.OperationalError) as problem:
            raise unreadable(path, problem) from problem
        except sqlite3.DatabaseError as problem:
            raise IndexDamaged(f"the log's index does not read: {problem}", hint=REBUILT) from problem

    @classmethod
    def over(cls, connection: sqlite3.Connection, path: Path) -> Self:
        """Return a reader over `connection`, which is closed with it, and at once when `path` does not open. Raises OSError."""
        with ExitStack() as failed:
            failed.enter_context(closing(connection))
            reader = cls(connection, path)
            failed.pop_all()
        return reader

    def close(self) -> None:
        """Release the database."""
        with self._lock:
            self._connection.close()

    def mark(self) -> tuple[int, int, int]:
        """Return the last indexed commit, its segment, and where in the segment the commit ends."""
        commit, segment, end, _ = mark_of(self.rows(MARK))
        return commit, segment, end

    def load(self) -> Book:
        """Return everything but the pieces. Raises IndexDamaged, Unreadable."""
        with self._at_one_time():
            return self._load()

    def replaced(self) -> bool:
        """Return whether this reader will see nothing new: a writer has come since it was opened, or the log has rebuilt its index."""
        try:
            outdated = isinstance(self._connection, ReadingConnection) and self._connection.is_outdated()
            return outdated or self._path.stat().st_ino != self._file
        except FileNotFoundError:
            return False  # the new one is about to take its place
        except OSError as problem:
            raise unreadable(self._path, problem) from problem

    def version(self) -> int:
        """Return a number that changes with every commit of another connection."""
        version: int = self.rows("PRAGMA data_version")[0][0]
        return version

    def node(self) -> str | None:
        """Return the node whose log it is; None before the first generation. Raises IndexDamaged, Unreadable."""
        rows = self.rows("SELECT node, generation, predecessor, why, at_ms, ends, sum FROM openings ORDER BY generation DESC LIMIT 1")
        return str(_verified(rows[0])[0]) if rows else None

    def line_keys(self) -> list[LineKey]:
        """Return every (stream, origin) in the index."""
        return [_line_key(*row) for row in self.rows("SELECT stream, origin FROM lines ORDER BY id")]

    def outlines(self, key: LineKey) -> Iterator[Piece]:
        """Yield every piece of the line, ascending, without its topics (None still: unreadable here). The pieces are not verified: they
        serve for planning.
        """
        line, after = self._line_id(key), -1
        columns = "first, end, segment, at, length, order_first_ms, order_last_ms, topics IS NULL"
        statement = f"SELECT {columns} FROM pieces WHERE line = ? AND first > ? ORDER BY first LIMIT {PIECES_PAGE}"
        while line is not None and (rows := _numbers(self.rows(statement, (line, after)))):
            for first, end, segment, at, length, order_first_ms, order_last_ms, undecoded in rows:
                yield Piece(first, end, FileLocation(segment, at, length), order_first_ms, order_last_ms, None if undecoded else b"")
            after = rows[-1][0]

    def lasts(self) -> dict[LineKey, int]:
        """Return where the last piece of each line begins. The values are not verified: they serve for planning."""
        last = "SELECT max(first) FROM pieces WHERE line = lines.id"
        rows = self.rows(f"SELECT stream, origin, ({last}) FROM lines")
        return {_line_key(stream, origin): first for stream, origin, first in rows if isinstance(first, int)}

    def held_bytes(self, around: int) -> dict[int, int]:
        """Return how many bytes of each file are blocks that hold a piece, each with `around` more. Files without any piece are not named.
        The values are not verified: they serve for planning.
        """
        held = "SELECT DISTINCT segment, at, length FROM pieces"
        return dict(_numbers(self.rows(f"SELECT segment, sum(length + ?) FROM ({held}) GROUP BY segment", (around,))))

    def pieces_in(self, number: int) -> list[tuple[LineKey, Piece]]:
        """Return every piece in file `number`, by line and offset."""
        rows = self.rows(f"SELECT line, {PIECE_COLUMNS} FROM pieces WHERE segment = ? ORDER BY line, first", (number,))
        pieces = [(line, piece_of(line, tuple(row))) for line, *row in rows]
        names = {line: _line_key(stream, origin) for line, stream, origin in self.rows("SELECT id, stream, origin FROM lines")}
        if lost := [line for line, _ in pieces if line not in names]:
            raise IndexDamaged(f"the index does not say whose its line {lost[0]} is", hint=REBUILT)
        return [(names[line], piece) for line, piece in pieces]

    def file_ends(self) -> dict[int, int]:
        """Return where in each file the last block that holds a piece ends; files without any piece are not named."""
        return dict(_numbers(self.rows("SELECT segment, max(at + length) FROM pieces GROUP BY segment")))

    def files(self) -> set[int]:
        """Return the numbers of all files that hold a piece. Raises IndexDamaged."""
        return {number for (number,) in _numbers(self.rows("SELECT DISTINCT segment FROM pieces"))}

    def verified_files(self) -> set[int]:
        """Return the numbers of all files that hold a piece. Before that, each piece is read as a look-up reads it, and compared with the
        ledgers.

        Raises IndexDamaged where the pieces are not what the ledgers hold: nothing may be deleted because of such an index. Raises
        Unreadable.
        """
        with self._at_one_time():
            return self._verified_files(self._load())

    def pieces(self, key: LineKey, first: int, end: int) -> list[Piece]:
        """Return at most PIECES_PAGE pieces that hold offsets of `first .. end - 1`, in order."""
        line = self._line_id(key)
        if line is None:
            return []
        rows = self.rows(
            f"SELECT {PIECE_COLUMNS} FROM pieces WHERE line = ? AND {_FROM} AND first < ? ORDER BY first LIMIT {PIECES_PAGE}",
            (line, line, first, first, end),
        )
        return [piece for piece in (piece_of(line, row) for row in rows) if piece.end > first]

    def pieces_between(self, key: LineKey, since_at_ms: int, until_at_ms: int, after: int) -> list[Piece]:
        """Return at most PIECES_PAGE pieces with offsets from `after` on whose blocks may have order times since <= time < until."""
        line = self._line_id(key)
        if line is None:
            return []
        rows = self.rows(
            f"SELECT {PIECE_COLUMNS} FROM pieces WHERE line = ? AND {_FROM} AND end > ? AND order_last_ms >= ? AND order_first_ms < ? "
            f"ORDER BY first LIMIT {PIECES_PAGE}",
            (line, line, after, after, after, since_at_ms, until_at_ms),
        )
        return [piece_of(line, row) for row in rows]

    def pieces_backwards(self, key: LineKey, before: int) -> list[Piece]:
        """Return at most PIECES_PAGE pieces that begin before offset `before`, the last first."""
        line = self._line_id(key)
        if line is None:
            return []
        rows = self.rows(
            f"SELECT {PIECE_COLUMNS} FROM pieces WHERE line = ? AND first < ? ORDER BY first DESC LIMIT {PIECES_PAGE}", (line, before)
        )
        return [piece_of(line, row) for row in rows]

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows at once, so that no reader holds the database. Raises IndexDamaged for what SQLite finds damaged, Unreadable."""
        with self._lock:
            return self._execute(statement, values)

    @contextmanager
    def _at_one_time(self) -> Iterator[None]:
        """Hold the lock. All that is read inside the block is of one commit."""
        with self._lock:
            self._execute("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.ProgrammingError:
            raise
        except UNREADABLE as problem:
            raise self._unread(problem) from problem

    def _unread(self, problem: Exception) -> IndexDamaged | Unreadable:
        if is_refusal(problem):
            return unreadable(self._path, problem)
        return IndexDamaged(f"the log's index does not read: {problem}", hint=REBUILT)

    def _verified_files(self, book: Book) -> set[int]:
        """Return the numbers of the files of all pieces, which together must be what `book` holds. The caller holds the lock."""
        found: dict[int, RangeSet] = {}
        files: set[int] = set()
        for line, *row in self._each(f"SELECT line, {PIECE_COLUMNS} FROM pieces INDEXED BY pieces_by_offset ORDER BY line, first"):
            piece = piece_of(line, tuple(row))
            if piece.first < found.setdefault(line, RangeSet()).end():
                raise IndexDamaged(f"the index has two pieces that hold offset {piece.first}")
            found[line].add(piece.first, piece.end)
            files.add(piece.location.segment)
        for stream, lines in book.lines.items():
            for origin, line in lines.items():
                number = self._line_id((stream, origin), locked=True)
                if line.ledger.held != found.get(number or 0, RangeSet()):
                    raise IndexDamaged(f"the index has other pieces of {stream}:{origin} than it says it holds")
        return files

    def _each(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield every row, some at a time. Raises the same errors as `_execute`."""
        try:
            cursor = self._connection.execute(statement)
            while rows := cursor.fetchmany(PIECES_PAGE):
                yield from rows
                give_way()
        except sqlite3.ProgrammingError:
            raise
        except UNREADABLE as problem:
            raise self._unread(problem) from problem

    def _line_id(self, key: LineKey, *, locked: bool = False) -> int | None:
        """Return the line's number in the index; `locked`: within a transaction of this connection."""
        if key not in self._line_ids:
            rows = (self._execute if locked else self.rows)("SELECT id FROM lines WHERE stream = ? AND origin = ?", (key[0], str(key[1])))
            if not rows:
                return None
            self._line_ids[key] = rows[0][0]
        return self._line_ids[key]

    def _load(self) -> Book:
        [(version,)] = self._execute("PRAGMA user_version")
        if version != SCHEMA_VERSION:
            raise IndexDamaged(f"the index is of version {version}, not {SCHEMA_VERSION}", hint=REBUILT)
        book, others, lines = Book(), 0, {}
        for row in self._execute("SELECT id, stream, origin, state, sum FROM lines"):
            _, stream, origin, state = _verified(row)
            others ^= row[-1]
            lines[stream, Origin.parse(origin)] = line_of(msgspec.msgpack.decode(state, type=LineState))
        book.set_lines(lines)
        for row in self._execute("SELECT stream, producer, sequence, first, count, generation, sum FROM producers"):
            produced = Produced(*_verified(row))
            others ^= row[-1]
            book.produced[produced.stream, produced.producer] = produced
        for row in self._execute("SELECT topic, next, sum FROM followed"):
            topic, after = _verified(row)
            others ^= row[-1]
            book.followed[topic] = after
        rows = self._execute("SELECT node, generation, predecessor, why, at_ms, ends, sum FROM openings ORDER BY generation")
        book.openings = [msgspec.convert((*values[:-1], msgspec.msgpack.decode(values[-1])), Opening) for values in map(_verified, rows)]
        book.commit, _, _, marked = mark_of(self._execute(MARK))
        for row in rows:
            others ^= row[-1]
        if others != marked:
            raise IndexDamaged("some rows of the index are older than its mark, or newer", hint=REBUILT)
        return book


def _line_key(stream: object, origin: object) -> LineKey:
    """Return the key in a row that is not verified. Raises IndexDamaged where it is not a key."""
    try:
        return str(stream), Origin.parse(str(origin))
    except ValueError as problem:
        raise IndexDamaged(f"the index has a line {stream!r}, {origin!r}: {problem}", hint=REBUILT) from problem


def _numbers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return `rows` of numbers, which are not verified. Raises IndexDamaged where a value is not a number."""
    if odd := [value for row in rows for value in row if not isinstance(value, int)]:
        raise IndexDamaged(f"the index has {odd[0]!r} in a piece instead of a number", hint=REBUILT)
    return rows


def mark_of(rows: Sequence[tuple[Any, ...]]) -> tuple[int, int, int, int]:
    """Return the one row that MARK selects, without its checksum. Raises IndexDamaged when the checksum does not match."""
    if len(rows) != 1:
        raise IndexDamaged("the index has no mark")
    commit, segment, end, others = _verified(rows[0])
    return commit, segment, end, others


def summed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a row with their checksum as the last value."""
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
        raise IndexDamaged("a row of the log's index does not match its checksum", hint=REBUILT)
    return values


def piece_of(line: int, row: tuple[Any, ...]) -> Piece:
    """Return the piece in a row of PIECE_COLUMNS. Raises IndexDamaged when its checksum does not match."""
    _, first, end, segment, at, length, order_first_ms, order_last_ms, topics, admitted = _verified((line, *row))
    runs = () if admitted is None else msgspec.msgpack.decode(admitted, type=Admitted)
    return Piece(first, end, FileLocation(segment, at, length), order_first_ms, order_last_ms, topics, runs)
