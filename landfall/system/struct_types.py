"""msgspec's tables of the fields of structs, built before several threads decode."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


def build_struct_types() -> None:
    """Build the field table of every struct that is loaded now.

    msgspec 0.22 builds the table of a struct when it first decodes one, and publishes the table before it is complete. Two threads that
    decode a first struct at the same time crash the process. Call this in one thread before others start.
    """
    for struct in _below(msgspec.Struct):
        msgspec.json.Decoder(struct)


def _below(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for child in struct.__subclasses__():
        yield child
        yield from _below(child)
