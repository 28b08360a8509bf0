"""Samples of one value, packed: 16 bytes each instead of the 150 of Python's own numbers. A ship of 24,000 reefers holds a million."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Sample = tuple[int, float]
"""When (UTC ms), and the value; a zero has no sign."""
_SAMPLE = struct.Struct("<qd")


def packed(samples: Iterable[Sample]) -> bytes:
    """The samples in this order."""
    return b"".join(_SAMPLE.pack(at_ms, value + 0.0) for at_ms, value in samples)


def unpacked(track: bytes) -> list[Sample]:
    """The samples that were packed."""
    return list(_SAMPLE.iter_unpack(track))


def last(track: bytes, count: int) -> list[Sample]:
    """The last so many, fewer where there are fewer."""
    return unpacked(track[-count * _SAMPLE.size :])


def first(track: bytes) -> Sample | None:
    """The first, if there is one."""
    at_ms, value = _SAMPLE.unpack_from(track) if track else (0, 0.0)
    return (at_ms, value) if track else None


def longer(track: bytes, at_ms: int, value: float, most: int) -> tuple[bytes, Sample | None]:
    """The track with one more sample at its end, and the first of it if that had to go: it holds `most` at most."""
    track += _SAMPLE.pack(at_ms, value + 0.0)
    if len(track) <= most * _SAMPLE.size:
        return track, None
    return track[_SAMPLE.size :], first(track)
