"""A cache of the blocks in which topics were looked up last, as far as they were read for that."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from landfall.storage.log_state import FileLocation
from streams.model.block import HEAD_BYTES_MAX, BlockHead, Codec, OpenedBlock, ReadBytes, TopicRows
from streams.model.errors import Corrupt

KEPT_MAX = 1024
"""Maximum number of cached blocks: some 12 KB each, of 16 columns and 250 groups."""


@dataclass(frozen=True, slots=True)
class CachedBlock:
    """A block's head, where in it the payload begins, and what its codec has read of the payload."""

    head: BlockHead
    payload_at: int
    opened: OpenedBlock

    def topic_rows(self, read: ReadBytes, topic: str) -> TopicRows | None:
        """Return what `streams.model.block.OpenedBlock` describes; `read` returns spans of the whole block."""
        return self.opened.topic_rows(lambda at, length: read(self.payload_at + at, length), topic)

    def spans(self, topic: str) -> list[tuple[int, int]]:
        """Return the spans of the whole block that `topic_rows` will read: first byte, length."""
        return [(self.payload_at + at, length) for at, length in self.opened.spans(topic)]


class OpenBlocks:
    """The cached blocks of one log. It is safe to use from any thread.

    No place of a log has another block later, as long as it is one log. A block that was put there by hand, or was damaged meanwhile, does
    not verify with what is known of the block, and is then read again.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._kept: OrderedDict[FileLocation, CachedBlock] = OrderedDict()
        self._lock = threading.Lock()

    def topic_rows(
        self, location: FileLocation, read: ReadBytes, topic: str, outline: bytes | None = None
    ) -> tuple[BlockHead, TopicRows | None]:
        """Return the head of the block at `location`, and its rows of the topic. Where the block does not read with its kept `outline`, it
        is read without.

        Raises Corrupt, and what `read` raises.
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
        """Return whether the block at `location` was opened and is still cached."""
        with self._lock:
            return location in self._kept

    def spans(self, location: FileLocation, read: ReadBytes, topic: str) -> list[tuple[int, int]]:
        """Return the spans of the block at `location` that `topic_rows` will read. A block that was not opened yet is opened first. Raises
        the same errors as `topic_rows`.
        """
        with self._lock:
            known = self._kept.get(location)
        return (known or self._opened(location, read)).spans(topic)

    def _opened(self, location: FileLocation, read: ReadBytes, outline: bytes | None = None) -> CachedBlock:
        """Read the block again, and return it. It is cached from now on, if it lasts."""
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
