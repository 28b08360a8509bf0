"""Text that other programs saved: UTF-8, with or without a byte order mark, which spreadsheets and Windows' editors write in front."""

from __future__ import annotations

import codecs
from typing import TypeVar

import msgspec

from streams.model.identifiers import composed_value

T = TypeVar("T")
Data = TypeVar("Data", bytes, bytearray)
TYPED_NESTING_MAX = 32
ENCODING = "utf-8-sig"
"""Encoding with which a person's file is read: a byte order mark is left out."""


def without_mark(data: Data) -> Data:
    """Return `data` without the byte order mark at its start."""
    return data.removeprefix(codecs.BOM_UTF8)


def json_of(data: Data, kind: type[T]) -> T:
    """Return the JSON that a person's program sent or saved, as a `kind`. Raises msgspec.MsgspecError for anything else."""
    return msgspec.json.decode(without_mark(data), type=kind)


def typed_json(data: Data, kind: type[T]) -> T:
    """Return the JSON that a person typed, as a `kind`, with its texts composed (`streams.model.identifiers.composed`).

    Raises msgspec.MsgspecError for anything else.
    """
    return msgspec.convert(composed_value(json_of(data, dict[str, object]), TYPED_NESTING_MAX), type=kind)
