"""Blocks of which only the first part has come. They are kept after a cut, so that the transfer continues where it stopped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from streams.replication.link_terms import Key
from streams.replication.sync_messages import PARTIALS_MAX, PartialBlock

PARTIAL_BYTES_MAX = 32 << 20
"""Maximum size of the partial blocks that one node keeps, over all peers, bytes."""


@dataclass(frozen=True, slots=True)
class Partial:
    """First bytes of the block with this digest."""

    key: Key
    first: int
    end: int
    digest: bytes
    data: bytes

    def message(self) -> PartialBlock:
        """Return the message that reports this partial block to a peer."""
        stream, origin = self.key
        return PartialBlock(stream, origin.node, origin.generation, self.first, self.end, self.digest, len(self.data))


class Partials:
    """Partial blocks of one node, at most PARTIALS_MAX with PARTIAL_BYTES_MAX in all. The oldest make room for new ones. They do not
    survive a crash."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Partial] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, partial: Partial) -> None:
        """Keep this partial block for the next session that offers the same block."""
        self._kept[partial.digest] = partial
        self._kept.move_to_end(partial.digest)
        while len(self._kept) > PARTIALS_MAX or sum(len(p.data) for p in self._kept.values()) > PARTIAL_BYTES_MAX:
            self._kept.popitem(last=False)

    def take(self, digest: bytes) -> Partial | None:
        """Remove the partial block with this digest and return it; None when there is none."""
        return self._kept.pop(digest, None)

    def messages(self, allowed: Callable[[Key], bool]) -> list[PartialBlock]:
        """Return the messages to a peer that may send this node these (stream, origin)s."""
        return [partial.message() for partial in self._kept.values() if allowed(partial.key)]
