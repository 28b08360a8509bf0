"""Streams made from another stream, which go wherever that goes: `<stream>.kept` of thinning, `<stream>.heads` of the hash chain,
`ships.waiting` in which a ship says what waits on board."""

from __future__ import annotations

KEPT = ".kept"
HEADS = ".heads"
WAITING = "ships.waiting"
DERIVED = (KEPT, HEADS, ".waiting")


def kept_of(stream: str) -> str:
    """Return the stream of the records that thinning keeps of `stream`; for a stream of kept records, itself."""
    return stream if stream.endswith(KEPT) else stream + KEPT


def parent_of(stream: str) -> str:
    """Return the stream from which `stream` was made, over however many steps; itself when it was made from none."""
    while stream.endswith(DERIVED):
        stream = stream.rpartition(".")[0]
    return stream
