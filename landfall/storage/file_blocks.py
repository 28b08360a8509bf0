"""The reader of a file log: where the bytes of its blocks come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

from landfall.storage.log_reader import IndexedReader, Moved, Parts
from landfall.storage.log_state import FileLocation, LineKey, Piece
from landfall.storage.segments import OpenFile
from landfall.storage.topic_filters import TopicQuery, outline_in
from streams.model.block import OutlinedBlock, ReadBytes
from streams.model.errors import Corrupt, LandfallError

BEGUN_BYTES = 9 << 10
"""Number of bytes of a block that are read first: its head and, for most blocks, its directory."""
AT_ONCE_BYTES = 64 << 10
"""Maximum size of a block that is read whole, bytes: such a block is mostly one group."""


class FileLogReader(IndexedReader):
    """A reader of a node's file log from any process. A file that was merged or freed meanwhile is looked up again."""

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

    def _sifted(self, asked: TopicQuery, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the pieces, except those whose outline shows where the topic would be, when it is not there. Announce many reads to the
        disk at once: it then reads them sooner.
        """
        outlined = {place: block for place, piece in enumerate(pieces) if (block := self._outlined(piece)) is not None}
        with closing(OpenFile(self._folder)) as file:
            for place, block in outlined.items():
                for at, length in block.spans(asked.topic):
                    file.expect(pieces[place].location.segment, pieces[place].location.at + at, length)
            lacking = {place for place, block in outlined.items() if self._lacks(file, asked, pieces[place], block)}
            wanted = [place for place, piece in enumerate(pieces) if place not in lacking and asked.may_be_in(piece)]
            if len(wanted) > 1:
                self._expect_heads(file, [pieces[place].location for place in wanted])
                self._expect_rows(file, asked, [pieces[place] for place in wanted if place not in outlined])
        return [pieces[place] for place in wanted]

    def _outlined(self, piece: Piece) -> OutlinedBlock | None:
        """Return the outline of the block that holds the piece, where it is kept and the block is not open; else None."""
        outline = outline_in(piece.topics)
        if outline is None or self._open.knows(piece.location):
            return None
        try:
            return self._codec.outlined(outline)
        except Corrupt:  # the outline is another version's: the block itself gives the answer
            return None

    def _lacks(self, file: OpenFile, asked: TopicQuery, piece: Piece, block: OutlinedBlock) -> bool:
        try:
            return block.lacks(self._part(file, piece), asked.topic)
        except LandfallError:  # the look-up itself meets it again
            return False

    def _expect_heads(self, file: OpenFile, places: Sequence[FileLocation]) -> None:
        """Announce to the disk the reads of all block heads that are not known."""
        for place in places:
            if place.length <= AT_ONCE_BYTES or not self._open.knows(place):
                file.expect(place.segment, place.at, place.length if place.length <= AT_ONCE_BYTES else BEGUN_BYTES)

    def _expect_rows(self, file: OpenFile, asked: TopicQuery, pieces: Sequence[Piece]) -> None:
        """Announce to the disk what the look-up needs of each block, once the block's head is there."""
        for piece in pieces:
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


def _read(file: OpenFile, place: FileLocation, at: int, length: int) -> bytes:
    if not 0 <= at <= at + length <= place.length:
        raise Corrupt(f"bytes {at} to {at + length} are asked for of a block of {place.length}", code="block_corrupt")
    try:
        return file.span(place.segment, place.at + at, length)
    except FileNotFoundError as problem:
        raise Moved(f"{place} is no longer there") from problem
