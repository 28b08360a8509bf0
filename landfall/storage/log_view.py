"""A log as its index shows it, from any process: its streams, ledgers and Positions, and the places of its blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from landfall.storage.index import INDEX_NAME, IndexDamaged, IndexReader
from landfall.storage.log_state import LineKey, Lines, OriginState, Piece, Positions
from streams.model.errors import Corrupt, RetryLater
from streams.model.identifiers import Origin, Position
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet

PassedOver = Callable[[str], None]
"""A function that receives a sentence about offsets whose block does not verify. They count as not held from then on."""

Found = TypeVar("Found")


class IndexView:
    """A consistent view of a node's log by its index. It never blocks the log's writer and changes nothing."""

    def __init__(self, folder: Path, index: Path | None = None, passed_over: PassedOver | None = None) -> None:
        """Open the index of the log in `folder`, or `index` in its place. With `passed_over`, a reader continues past blocks that do not
        verify; with None, such a block raises Corrupt.

        Raises FileNotFoundError when `folder` holds no log yet.
        """
        self._folder = folder
        self._index_path = index or folder / INDEX_NAME
        if not self._index_path.exists():
            raise FileNotFoundError(f"no log in {folder}")
        self._index = IndexReader.open(self._index_path)
        self._retired: list[IndexReader] = []
        self._view_lock = threading.Lock()
        self._seen: tuple[int, tuple[Lines, Positions]] | None = None
        self._builds = 0
        self._passed_over, self._unread = passed_over, dict[LineKey, RangeSet]()

    def close(self) -> None:
        """Release the files."""
        for index in (*self._retired, self._index):
            index.close()

    @property
    def node(self) -> str:
        """The node whose log this is. Raises RetryLater while the log has no generation yet."""
        self._view()  # of the index that is there now
        if (node := self._with_index(lambda: self._index.node())) is None:
            raise RetryLater(f"the log {self._index_path.parent} has no generation yet", hint="start its node", code="log_missing")
        return node

    def streams(self) -> list[str]:
        """Return the names of all streams that this copy knows, sorted."""
        return sorted(self._lines())

    def ledger(self, stream: str) -> dict[Origin, OriginLedger]:
        """Return a snapshot of what this copy knows of `stream`, per origin."""
        return {origin: line.ledger.copy() for origin, line in self._lines().get(stream, {}).items()}

    def position(self, stream: str) -> Position:
        """Return the Position of this copy of `stream`."""
        return self.positions().get(stream, Position())

    def positions(self) -> Positions:
        """Return the Position of every stream, all as of one commit."""
        return self._view()[1]

    def _lines(self) -> Lines:
        return self._view()[0]

    def _view(self) -> tuple[Lines, Positions]:
        """Return the lines and Positions, both as of one commit."""
        return self._with_index(self._seen_now)

    def _with_index(self, look: Callable[[], Found]) -> Found:
        """Return what `look` finds in the index. Where the index turns out to be damaged, look again once it is repaired."""
        builds = self._builds
        try:
            return look()
        except IndexDamaged as problem:
            if not self._opened_again():
                self._repair_index(builds, problem)
            return look()

    def _opened_again(self) -> bool:
        """Return whether the index was opened as unchanging and a writer has come since; it is then opened again."""
        with self._view_lock:
            if not (self._index.is_still and self._index.replaced()):
                return False
            self._retired.append(self._index)
            self._index, self._seen = IndexReader.open(self._index_path), None
            return True

    def _repair_index(self, seen: int, problem: IndexDamaged) -> None:
        """Repair the index, which is damaged; it was rebuilt `seen` times since the log was opened. Raises `problem` where it can not be
        repaired: only the log's own process rebuilds it.
        """
        raise problem

    def _index_replaced(self) -> None:
        """Open the index again, after another has taken its place."""
        with self._view_lock:
            self._retired.append(self._index)
            self._index, self._seen = IndexReader.open(self._index_path), None
            self._builds += 1

    def _seen_now(self) -> tuple[Lines, Positions]:
        with self._view_lock:
            if self._index.replaced():
                self._retired.append(self._index)  # another thread may be looking something up in it
                self._index, self._seen = IndexReader.open(self._index_path), None
            version = self._index.version()
            if self._seen is None or self._seen[0] != version:
                book = self._index.load()
                for key, ranges in self._unread.items():
                    for first, end in ranges:
                        book.set_lines({key: book.line(key).without(first, end)})
                self._seen = (version, book.view)
            return self._seen[1]

    def _set_aside(self, key: LineKey, piece: Piece, problem: Corrupt) -> None:
        """Report a piece whose block does not verify. Raises Corrupt, unless the reader continues past such blocks."""
        what = f"{key[0]}:{key[1]} offsets {piece.first}..{piece.end - 1}: {problem}"
        if self._passed_over is None:
            raise Corrupt(what, hint="the node itself fetches them again once it reads them", code="records_damaged") from problem
        with self._view_lock:
            unread = self._unread.setdefault(key, RangeSet())
            is_new = bool(RangeSet([(piece.first, piece.end)]).without(unread))
            unread.add(piece.first, piece.end)
            self._seen = None
        if is_new:
            self._passed_over(what)

    def _line(self, key: LineKey) -> OriginState:
        return self._lines().get(key[0], {}).get(key[1], OriginState())

    def _pieces(self, key: LineKey, first: int, end: int) -> Iterator[Piece]:
        at = first
        while at < end and (pieces := self._pieces_of(key, at, end)):
            yield from pieces
            at = pieces[-1].end

    def _pieces_of(self, key: LineKey, first: int, end: int) -> list[Piece]:
        return self._with_index(lambda: self._index.pieces(key, first, end))
