"""The part of a large block's directory that gives the places of its topics. An index stores it next to the block's place."""

from __future__ import annotations

from array import array

import msgspec

from streams.codec.block_directory import Directory, Guide
from streams.codec.column_pages import GroupPages
from streams.codec.row_groups import Groups, Payload, Spans, read_groups
from streams.codec.topic_columns import read_names
from streams.codec.wire import DecodeBudget
from streams.model.block import BlockHead, ReadBytes
from streams.model.errors import Corrupt

_FENCE_STEP = 1 << 8
"""Divisor of the container numbers in an outline: they are kept without their last byte. Where two fences are nearer than that, one more
group is read."""
_PLACES, _PLACE_BYTES = "I", 4
"""Array type of places and size of one, bytes. A row of an index has room for four bytes each: all places of a large block then lie in one
page of it."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """Stored outline of a block of several groups. `rows`, `group_rows`: number of rows of the block and of each group. `payload_at`: index
    in the block where its payload begins. `layout_at`: index in the payload where the layout of its columns begins. `numbers`, `others`:
    the first topic of each group, container numbers divided by _FENCE_STEP, then other topics. `starts`: index in the payload where each
    group begins and the last ends. `checksums`: checksums of the groups."""

    rows: int
    group_rows: int
    payload_at: int
    layout_at: int
    numbers: bytes
    others: list[str]
    starts: bytes
    checksums: bytes


class Outline:
    """Places of topics in a block: see `streams.model.block.OutlinedBlock`. Safe from any thread."""

    __slots__ = ("_groups", "_payload_at", "guide")

    def __init__(self, kept: _Kept) -> None:
        self._groups, self._payload_at = Groups(kept.rows, kept.group_rows), kept.payload_at
        fences = _listed(kept.numbers), kept.others
        self.guide = Guide(kept.layout_at, fences, _FENCE_STEP, Spans(_listed(kept.starts), kept.checksums))
        """Guide that opens the block without its own fences and places of groups."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Outline:
        """Return the outline that `outline_of` wrote. Raises Corrupt."""
        try:
            kept = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise Corrupt(f"what is kept of a block's directory does not read: {problem}", code="block_outline_corrupt") from problem
        groups = len(Groups(kept.rows, kept.group_rows)) if kept.group_rows > 0 else 0
        sizes = (len(kept.numbers) + _PLACE_BYTES * len(kept.others), len(kept.starts) - _PLACE_BYTES, len(kept.checksums))
        if set(sizes) != {_PLACE_BYTES * groups}:
            raise Corrupt(f"what is kept of a block's directory is not of {groups} groups", code="block_outline_corrupt")
        return cls(kept)

    def spans(self, topic: str) -> list[tuple[int, int]]:
        """Return the spans for which `lacks` will call `read`: see `streams.model.block.OutlinedBlock`."""
        return [(self._payload_at + at, length) for _, at, length in self.guide.spans.runs(self.guide.groups_of(topic))]

    def lacks(self, read: ReadBytes, topic: str) -> bool:
        """Return whether the block has no row of the topic: see `streams.model.block.OutlinedBlock`."""
        chosen = self.guide.groups_of(topic)
        groups = read_groups(lambda at, length: read(self._payload_at + at, length), self.guide.spans, chosen, DecodeBudget())
        pages = (GroupPages(group, sized=True).next() for group in groups)
        return all(read_names(page, rows).topics.place(topic) is None for page, rows in zip(pages, self._groups.sizes(chosen), strict=True))


def outline_of(head: BlockHead, read: ReadBytes) -> bytes:
    """Return the outline of the block with this head, of whose payload `read` returns spans; empty for a block of one group. Raises
    Corrupt."""
    payload = Payload(read, head.payload_bytes, head.count, DecodeBudget())
    if payload.group is not None:
        return b""
    groups, guide = payload.groups, Directory.read(payload, head).guide
    numbers, others = guide.fences
    fences = array(_PLACES, [number // _FENCE_STEP for number in numbers])
    starts = array(_PLACES, guide.spans.starts)
    kept = (fences.tobytes(), others, starts.tobytes(), guide.spans.checksums)
    return msgspec.msgpack.encode(_Kept(groups.rows, groups.group_rows, len(head.to_bytes()), guide.layout_at, *kept))


_decoder = msgspec.msgpack.Decoder(_Kept)


def _listed(numbers: bytes) -> array[int]:
    found = array(_PLACES)
    found.frombytes(numbers)
    return found
