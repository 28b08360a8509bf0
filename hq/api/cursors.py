"""Which rows of a list are asked for: those after the last row seen, whose key can stand in an address, or those that begin with a text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, func, or_, tuple_

from cargo.vocabulary.trade_codes import compact_container
from hq.api.error_answers import ApiError

LIMIT_DEFAULT = 50
LIMIT_MAX = 500

Key = tuple[str | int, ...]
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
"""The least and the greatest number that a column of 64 bits holds."""
TEXT_MAX = "\U0010ffff"
"""A text that no ordinary text comes after, in the order of bytes."""


def write_cursor(key: Key) -> str:
    """Return the cursor of a row's key."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def read_cursor(cursor: str | None, kinds: Sequence[type]) -> Key | None:
    """Return the key in a cursor, whose parts are of `kinds`; None for no cursor. Raises ApiError 400 for a text that `write_cursor` never
    wrote."""
    if cursor is None:
        return None
    try:
        key = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError) as problem:
        raise no_cursor() from problem
    if not isinstance(key, list) or [type(part) for part in key] != list(kinds) or not all(map(_comparable, key)):
        raise no_cursor()
    return tuple(key)


def beyond(columns: Sequence[Any], key: Key | None, *, descending: bool = False) -> list[ColumnElement[bool]]:
    """Return the condition "after `key`" over the columns that order the rows; no condition without a key."""
    if key is None:
        return []
    row = tuple_(*columns)
    return [row < tuple_(*key)] if descending else [row > tuple_(*key)]


def beginning(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Return the condition that a text begins with `text`, to the letter. Such texts are adjacent in the order of bytes, so an index finds
    them."""
    return and_(column >= text, column < text + TEXT_MAX)


def number_beginning(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Return the condition that a container number begins with `text` as it is or without blanks, dashes and dots; A to Z in either
    case, in both databases alike."""
    number, written = func.upper(column), text.strip().encode().upper().decode()
    return or_(beginning(number, written), beginning(number, compact_container(text)))


def no_cursor() -> ApiError:
    """Return the error for a text that is no cursor, or no cursor of this list."""
    hint = "Take the `next` of the page before, or leave it out to begin again."
    return ApiError(400, "cursor_invalid", "This is no cursor of ours.", hint)


def _comparable(part: str | int) -> bool:
    """Return whether every store can compare a column with the value."""
    return INT_MIN <= part <= INT_MAX if isinstance(part, int) else "\0" not in part
