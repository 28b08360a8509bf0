"""Reading a file log: where the bytes of its blocks come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from streams.block import Codec, ReadBytes
from streams.errors import Corrupt
from streams.logs.book import LineKey, Location, Piece
from streams.logs.reading import IndexedReader, Moved, Parts
from streams.logs.segments import OpenFile

BEGUN_BYTES = 9 << 10
"""What is read of a block at first: its head and, of most, its directory."""


class FileLogReader(IndexedReader):
    """Reads a node's file log from any process. A file that was merged or freed meanwhile is looked up again."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        """Raises FileNotFoundError when `folder` holds no log yet."""
        self._folder = folder
        super().__init__(folder, codec)

    def _bytes(self, key: LineKey, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes | Corrupt]]:
        with closing(OpenFile(self._folder)) as file:
            for piece in pieces:
                try:
                    yield piece, _read(file, piece.location, 0, piece.location.length)
                except Moved:
                    yield from self._bytes_moved(key, piece)
                except Corrupt as problem:
                    yield piece, problem

    def _bytes_moved(self, key: LineKey, piece: Piece) -> Iterator[tuple[Piece, bytes | Corrupt]]:
        try:
            yield from self._bytes(key, self._moved(key, piece))
        except Corrupt as problem:
            yield piece, problem

    @contextmanager
    def _parts(self, key: LineKey) -> Iterator[Parts]:
        with closing(OpenFile(self._folder)) as file:
            yield partial(self._part, file)

    def _part(self, file: OpenFile, piece: Piece) -> ReadBytes:
        begun = b""

        def read(at: int, length: int) -> bytes:
            nonlocal begun
            if at + length > BEGUN_BYTES:
                return _read(file, piece.location, at, length)
            begun = begun or _read(file, piece.location, 0, min(BEGUN_BYTES, piece.location.length))
            return begun[at : at + length]

        return read


def _read(file: OpenFile, place: Location, at: int, length: int) -> bytes:
    if not 0 <= at <= at + length <= place.length:
        raise Corrupt(f"bytes {at} to {at + length} are asked for of a block of {place.length}")
    try:
        return file.span(place.segment, place.at + at, length)
    except FileNotFoundError as problem:
        raise Moved(f"{place} is no longer there") from problem
