"""The identity of a reading, by which two messages with the same content are the same, whatever their way and number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

IDENTITY_BYTES = 16
CLOCK_STOPPED = "clock_stopped"
"""Flag of a reading that its device, whose clock stands still, reports again: nothing is a repeat of it, nor it of anything."""
HEARD_BY = frozenset({"gateway", "rssi_dbm"})
"""Signals about the reception of a reading, not about what was measured: the same reading through two gateways is one."""

_Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
_LANES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def identities(
    topics: Sequence[str],
    devices: Sequence[str | None],
    device_at_ms: Sequence[int | None],
    signals: Mapping[str, pa.Array],
    bodies: Mapping[int, str],
) -> list[bytes]:
    """Return 16 bytes per reading: equal for equal (topic, device, device time, signals, unknown fields), else different.

    `signals` are Arrow columns of the declared types; a null and a missing column are the same. `bodies`: by row, the canonical JSON of
    what is no signal, less our own flags (see `core_body`). Readings of a device whose clock stands still differ by their values. The
    identities are stable over processes and versions, so that a window of them can be rebuilt from the log. Two different readings have the
    same one with a chance of 2^-128. They do not resist a deliberate search for such a pair."""
    rows = len(topics)
    sums = [np.zeros(rows, np.uint64) for _ in _LANES]
    _add(sums, "topic", _text_words(topics), None)
    _add(sums, "device", _text_words(devices), None)
    at_column = pa.array(device_at_ms, pa.int64())
    _add(sums, "device_at_ms", _column_words(at_column), _valid(at_column))
    for name, column in signals.items():
        if name not in HEARD_BY:
            _add(sums, name, _column_words(column), _valid(column))
    if bodies:
        body_column = pa.array([bodies.get(row) for row in range(rows)], pa.string())
        _add(sums, "body", _column_words(body_column), _valid(body_column))
    both = np.stack([_mix(lane) for lane in sums], axis=1)
    return _cut(both.tobytes())


def core_body(body: str) -> str | None:
    """Return the body's text without `flags`, which depend on when it was received; None when nothing else is in it.

    A body that is no JSON object is returned whole."""
    if '"flags"' not in body:
        return body
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        fields.pop("flags", None)
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if fields else None
    except (msgspec.MsgspecError, RecursionError):
        return body


def says_again(body: str) -> bool:
    """Return whether the body is that of a reading flagged CLOCK_STOPPED."""
    if CLOCK_STOPPED not in body:
        return False
    try:
        return CLOCK_STOPPED in (msgspec.json.decode(body, type=dict[str, Any]).get("flags") or ())
    except (msgspec.MsgspecError, RecursionError, TypeError):
        return False


def _cut(words: bytes) -> list[bytes]:
    return [words[at : at + IDENTITY_BYTES] for at in range(0, len(words), IDENTITY_BYTES)]


def _add(sums: list[_Words], name: str, words: _Words, valid: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> None:
    seed = np.uint64(xxhash.xxh3_64_intdigest(name.encode()))
    for lane, multiplier in zip(sums, _LANES, strict=True):
        mixed = _mix((words ^ seed) * multiplier + seed)
        lane += mixed if valid is None else mixed * valid


def _mix(words: _Words) -> _Words:
    """Return the finaliser of splitmix64 of the words: every bit of a word changes about half of the result's."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _valid(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def _column_words(column: pa.Array) -> _Words:
    if pa.types.is_string(column.type):
        return _text_words(column.to_pylist())
    values = column.fill_null(False if pa.types.is_boolean(column.type) else 0).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        words: _Words = (values + 0.0).view(np.uint64)  # -0.0 and 0.0 are one value
    else:
        words = values.astype(np.int64).view(np.uint64)
    return words


def _text_words(texts: Sequence[str | None]) -> _Words:
    seen: dict[str | None, int] = {None: 0}
    for text in set(texts):
        if text is not None:
            seen[text] = xxhash.xxh3_64_intdigest(text.encode())
    return np.fromiter(map(seen.__getitem__, texts), np.uint64, len(texts))
