"""What the frames of a carried file say, as MessagePack arrays, each starting with its number."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from streams.model.errors import Corrupt
from streams.model.identifiers import Origin, check_stream

ENTRIES_MAX = 1_000
RANGES_MAX = 4_096

Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, Meta(max_length=300)]
Ranges = Annotated[list[tuple[Offset, Offset]], Meta(max_length=RANGES_MAX)]


class BundleEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Offsets of one (stream, origin)."""

    stream: Name
    node: Name
    generation: Offset
    ranges: Ranges

    def key(self) -> tuple[str, Origin]:
        """Return the (stream, origin). Raises Corrupt when there can be none such."""
        try:
            return check_stream(self.stream), Origin(self.node, self.generation)
        except ValueError as problem:
            raise Corrupt(str(problem), code="bundle_message_corrupt") from problem


class Contents(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """List of what the file is to carry, or a part of that; `last` closes the list. `at_ms`: wall time (UTC ms) when it was begun."""

    node: Name
    receiver: Name
    at_ms: Offset
    entries: Annotated[list[BundleEntry], Meta(max_length=ENTRIES_MAX)]
    last: bool


class Carried(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Block, as it is sent."""

    block: bytes


class BundleGone(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """Offsets that will never come, by the report of their origin: `thinned`, `expired` or `lost`."""

    entry: BundleEntry
    reason: Name


class End(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """End of the file."""


Message = Contents | Carried | BundleGone | End

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the bytes of `message`."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes) -> Message:
    """Return the message that `encode` wrote. Raises Corrupt for anything else."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Corrupt(f"it does not read: {problem}", code="bundle_message_corrupt") from problem
