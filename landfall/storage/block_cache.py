"""The blocks that topics were looked up in last, as far as they were read for that."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from landfall.storage.log_state import FileLocation
from streams.model.block import HEAD_BYTES_MAX, BlockHead, Codec, OpenedBlock, ReadBytes, TopicRows
from streams.model.errors import Corrupt

KEPT_MAX = 1024
"""Blocks that stay known: some 12 KB each, of 16 columns and 250 groups."""


@dataclass(frozen=True, slots=True)
class CachedBlock:
    """A block's head, where in it the payload begins, and what its codec has read of that."""

    head: BlockHead
    payload_at: int
    opened: OpenedBlock

    def topic_rows(self, read: ReadBytes, topic: str) -> TopicRows | None:
        """See `streams.model.block.OpenedBlock`; `read` gives spans of the whole block."""
        return self.opened.topic_rows(lambda at, length: read(self.payload_at + at, length), topic)

    def spans(self, topic: str) -> list[tuple[int, int]]:
        """Which spans of the whole block `topic_rows` will ask for: first byte, length."""
        return [(self.payload_at + at, length) for at, length in self.opened.spans(topic)]


class OpenBlocks:
    """Of one log. Safe from any thread.

    No place of a log has another block later, as long as it is one log: what was put there by hand, or what was damaged meanwhile, does not
    verify with what is known of the block, and is then read again.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._kept: OrderedDict[FileLocation, CachedBlock] = OrderedDict()
        self._lock = threading.Lock()

    def topic_rows(
        self, location: FileLocation, read: ReadBytes, topic: str, outline: bytes | None = None
    ) -> tuple[BlockHead, TopicRows | None]:
        """The head of the block there, and its rows of the topic; where it does not read by what is kept as its `outline`, without that.
        Raises Corrupt, and what `read` does.
        """
        with self._lock:
            known = self._kept.get(location)
            if known is not None:
                self._kept.move_to_end(location)
        if known is not None:
            try:
                return known.head, known.topic_rows(read, topic)
            except Corrupt:
                with self._lock:
                    self._kept.pop(location, None)
        if outline is not None:
            with suppress(Corrupt):
                known = self._opened(location, read, outline)
                return known.head, known.topic_rows(read, topic)
        known = self._opened(location, read)
        return known.head, known.topic_rows(read, topic)

    def knows(self, location: FileLocation) -> bool:
        """Whether the block there was opened, and stayed known."""
        with self._lock:
            return location in self._kept

    def spans(self, location: FileLocation, read: ReadBytes, topic: str) -> list[tuple[int, int]]:
        """Which spans of the block there `topic_rows` will ask for, of one that was not opened yet once it is. Raises as that."""
        with self._lock:
            known = self._kept.get(location)
        return (known or self._opened(location, read)).spans(topic)

    def _opened(self, location: FileLocation, read: ReadBytes, outline: bytes | None = None) -> CachedBlock:
        """Read again; from now on it is known, if it lasts."""
        known = self._read(location, read, outline)
        if known.opened.lasting:
            with self._lock:
                self._kept[location] = known
                if len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
        return known

    def _read(self, location: FileLocation, read: ReadBytes, outline: bytes | None) -> CachedBlock:
        head, payload_at = BlockHead.from_bytes(read(0, min(HEAD_BYTES_MAX, location.length)))
        return CachedBlock(head, payload_at, self._codec.opened(head, lambda at, length: read(payload_at + at, length), outline))
