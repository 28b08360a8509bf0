"""Blocks of which only the first part has come: kept over a cut, so that their transfer goes on where it stopped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from streams.replication.link_terms import Key
from streams.replication.sync_messages import PARTIALS_MAX, PartialBlock

PARTIAL_BYTES_MAX = 32 << 20
"""Bytes of half blocks one node keeps, over all peers."""


@dataclass(frozen=True, slots=True)
class Partial:
    """The first bytes of the block with this digest."""

    key: Key
    first: int
    end: int
    digest: bytes
    data: bytes

    def message(self) -> PartialBlock:
        """Return the same as the message to a peer."""
        stream, origin = self.key
        return PartialBlock(stream, origin.node, origin.generation, self.first, self.end, self.digest, len(self.data))


class Partials:
    """The half blocks of one node, at most PARTIALS_MAX of PARTIAL_BYTES_MAX in all: the oldest make room. A crash forgets them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Partial] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, partial: Partial) -> None:
        """Keep this one for the next session that offers the same block."""
        self._kept[partial.digest] = partial
        self._kept.move_to_end(partial.digest)
        while len(self._kept) > PARTIALS_MAX or sum(len(p.data) for p in self._kept.values()) > PARTIAL_BYTES_MAX:
            self._kept.popitem(last=False)

    def take(self, digest: bytes) -> Partial | None:
        """The half block with this digest, which is kept no longer; None when there is none."""
        return self._kept.pop(digest, None)

    def messages(self, allowed: Callable[[Key], bool]) -> list[PartialBlock]:
        """Return the messages to a peer that may send us these (stream, origin)s."""
        return [partial.message() for partial in self._kept.values() if allowed(partial.key)]
