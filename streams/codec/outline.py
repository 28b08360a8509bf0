"""What of a large block's directory tells where its topics are: for who keeps that beside the block's place."""

from __future__ import annotations

from array import array

import msgspec

from streams.block import BlockHead, ReadBytes
from streams.codec.directory import Directory
from streams.codec.groups import Groups, Payload, Spans, read_groups
from streams.codec.pages import GroupPages
from streams.codec.topics import groups_of, read_names
from streams.codec.wire import Budget
from streams.errors import Corrupt

_FENCE_STEP = 1 << 8
"""Container numbers are kept less their last byte: a group more is looked into where two fences are nearer than that."""
_PLACES, _PLACE_BYTES = "I", 4
"""Four bytes each, which a row of an index has room for: all of a large block then lie in one page of it."""


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """Of a block of several groups: how many rows it and each group has, the first topic of each group (`numbers`: container numbers by
    _FENCE_STEP, then `others`), and where in the block each begins and the last ends (`starts`), with their checksums.
    """

    rows: int
    group_rows: int
    numbers: bytes
    others: list[str]
    starts: bytes
    checksums: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Outline:
        """What `outline_of` gave. Raises Corrupt."""
        try:
            outline = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise Corrupt(f"what is kept of a block's directory does not read: {problem}") from problem
        groups = len(Groups(outline.rows, outline.group_rows)) if outline.group_rows > 0 else 0
        sizes = (len(outline.numbers) + _PLACE_BYTES * len(outline.others), len(outline.starts) - _PLACE_BYTES, len(outline.checksums))
        if set(sizes) != {_PLACE_BYTES * groups}:
            raise Corrupt(f"what is kept of a block's directory is not of {groups} groups")
        return outline

    def spans(self, topic: str) -> list[tuple[int, int]]:
        """See `streams.block.OutlinedBlock`."""
        return [(at, length) for _, at, length in self._spans().runs(self._groups_of(topic))]

    def lacks(self, read: ReadBytes, topic: str) -> bool:
        """See `streams.block.OutlinedBlock`."""
        chosen = self._groups_of(topic)
        groups = read_groups(read, self._spans(), chosen, Budget())
        sizes = Groups(self.rows, self.group_rows).sizes(chosen)
        pages = (GroupPages(group, sized=True).next() for group in groups)
        return all(read_names(page, rows).topics.place(topic) is None for page, rows in zip(pages, sizes, strict=True))

    def _groups_of(self, topic: str) -> range:
        return groups_of((_listed(self.numbers), self.others), topic, by=_FENCE_STEP)

    def _spans(self) -> Spans:
        return Spans(_listed(self.starts), self.checksums)


def outline_of(head: BlockHead, read: ReadBytes) -> bytes:
    """The outline of the block with this head, whose payload `read` gives spans of; nothing of a block of one group. Raises Corrupt."""
    payload = Payload(read, head.payload_bytes, head.count, Budget())
    if payload.group is not None:
        return b""
    directory, groups, payload_at = Directory.read(payload, head), payload.groups, len(head.to_bytes())
    numbers, others = directory.fences
    fences = array(_PLACES, [number // _FENCE_STEP for number in numbers])
    starts = array(_PLACES, [payload_at + start for start in directory.spans.starts])
    return msgspec.msgpack.encode(
        Outline(groups.rows, groups.group_rows, fences.tobytes(), others, starts.tobytes(), directory.spans.checksums)
    )


_decoder = msgspec.msgpack.Decoder(Outline)


def _listed(numbers: bytes) -> array[int]:
    found = array(_PLACES)
    found.frombytes(numbers)
    return found
