"""Reading a file log: where the bytes of its blocks come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from streams.block import Codec, ReadBytes
from streams.errors import Corrupt, LandfallError
from streams.logs.book import LineKey, Location, Piece
from streams.logs.reading import IndexedReader, Moved, Parts
from streams.logs.segments import OpenFile
from streams.logs.topics import Asked

BEGUN_BYTES = 9 << 10
"""What is read of a block at first: its head and, of most, its directory."""
AT_ONCE_BYTES = 64 << 10
"""A block of no more bytes is mostly one group, which is read whole."""


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

    def _coming(self, asked: Asked, pieces: Sequence[Piece]) -> None:
        """The disk is told of the heads of all blocks, then of what the look-up needs of each: it reads many at a time, and sooner."""
        wanted = [piece for piece in pieces if asked.may_be_in(piece)]
        with closing(OpenFile(self._folder)) as file:
            for place in (piece.location for piece in wanted):
                if place.length <= AT_ONCE_BYTES or not self._open.knows(place):
                    file.expect(place.segment, place.at, place.length if place.length <= AT_ONCE_BYTES else BEGUN_BYTES)
            for piece in wanted:
                place = piece.location
                if place.length > AT_ONCE_BYTES:
                    with suppress(LandfallError):  # the look-up itself meets it again
                        for at, length in self._open.spans(place, self._part(file, piece), asked.topic):
                            file.expect(place.segment, place.at + at, length)

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
