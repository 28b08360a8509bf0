"""A watch's memory as a file: written again each time, next to the one before, and taken up only whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
import xxhash

from cargo.errors import BadEntry
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch_state import WatchSettings, WatchState
from streams.model.identifiers import Position

DIGEST_BYTES, LENGTH_BYTES = 8, 4
"""Sizes of the first two parts of a snapshot, bytes.

A snapshot is: XXH3-64 of all that follows, the length of its Positions, the Positions, and the watch's memory, a line for each part of
it. It is never whole in memory: that would be 30 MiB more for a large ship, each time.
"""
READ_BYTES = 1 << 20


class _Standing(msgspec.Struct, array_like=True):
    positions: dict[str, dict[str, int]]
    committed: dict[str, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory of a watch, the Position of each stream from which it was made, and the Position in `consumers` up to which its steps are."""

    state: WatchState
    positions: Mapping[str, Position]
    committed: Position


def read_kept(path: Path, settings: WatchSettings, reached: Mapping[str, Position]) -> Kept | None:
    """Return the content of `path`; None where there is no such file.

    Raises ValueError (BadEntry) for a file that is damaged, of another version or watch, or beyond `reached`; OSError.
    """
    try:
        with path.open("rb") as file:
            if _digest_of(file) != file.read(DIGEST_BYTES):
                raise BadEntry("its checksum does not match its bytes")
            standing = file.read(int.from_bytes(file.read(LENGTH_BYTES), "little"))
            kept = msgspec.msgpack.decode(standing, type=_Standing)
            at = {stream: Position.from_json(position) for stream, position in kept.positions.items()}
            if at.keys() != reached.keys() or not all(reached[stream].reaches(at[stream]) for stream in at):
                raise BadEntry("it is ahead of this log, or of another watch")
            return Kept(from_snapshot(file, settings), at, Position.from_json(kept.committed))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise BadEntry(f"it does not read: {problem}") from problem


def write_kept(path: Path, kept: Kept) -> None:
    """Replace the content of `path`; where OSError is raised, it keeps what it had. The watch must not step meanwhile."""
    standing = msgspec.msgpack.encode(
        _Standing({stream: position.to_json() for stream, position in kept.positions.items()}, kept.committed.to_json())
    )
    digest = xxhash.xxh3_64()
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(bytes(DIGEST_BYTES))
        for part in chain((len(standing).to_bytes(LENGTH_BYTES, "little") + standing,), _lines(kept.state)):
            digest.update(part)
            file.write(part)
        file.seek(0)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _lines(state: WatchState) -> Iterator[bytes]:
    return (part + b"\n" for part in snapshot_of(state))


def _digest_of(file: BinaryIO) -> bytes:
    """Return the digest of all that follows the digest in a snapshot's `file`; the file is at its beginning afterwards."""
    digest = xxhash.xxh3_64()
    file.seek(DIGEST_BYTES)
    while data := file.read(READ_BYTES):
        digest.update(data)
    file.seek(0)
    return digest.digest()
