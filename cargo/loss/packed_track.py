"""Samples of one value, packed: 16 bytes each instead of the 150 of Python's own numbers. A ship of 24,000 reefers holds a million."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Sample = tuple[int, float]
"""One sample: its time (UTC ms) and its value; a zero has no sign."""
_SAMPLE = struct.Struct("<qd")


def packed(samples: Iterable[Sample]) -> bytes:
    """Return the samples, packed in this order."""
    return b"".join(_SAMPLE.pack(at_ms, value + 0.0) for at_ms, value in samples)


def unpacked(track: bytes) -> list[Sample]:
    """Return the samples that were packed."""
    return list(_SAMPLE.iter_unpack(track))


def last(track: bytes, count: int) -> list[Sample]:
    """Return the last `count` samples, fewer where there are fewer."""
    return unpacked(track[-count * _SAMPLE.size :])


def first(track: bytes) -> Sample | None:
    """Return the first sample, or None."""
    at_ms, value = _SAMPLE.unpack_from(track) if track else (0, 0.0)
    return (at_ms, value) if track else None


def longer(track: bytes, at_ms: int, value: float, most: int) -> tuple[bytes, Sample | None]:
    """Return the track with one more sample at its end, and the first sample if it was removed: the track holds at most `most` samples."""
    track += _SAMPLE.pack(at_ms, value + 0.0)
    if len(track) <= most * _SAMPLE.size:
        return track, None
    return track[_SAMPLE.size :], first(track)
