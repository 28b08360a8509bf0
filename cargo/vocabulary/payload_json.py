"""The JSON of a sensor's payload, with the slips of common writers put right, and its texts of a time."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import msgspec
import orjson

READINGS_MAX = 1_000
"""Maximum number of readings in one payload."""
_BOM = b"\xef\xbb\xbf"
_PADDING = b"\0 \t\r\n"
_MARK = "\ufdd0"
"""A code point that is no character (Unicode 3.4). It begins the text that stands for a number JSON can not write."""
_TOKENS = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"?|(?P<constant>[-+]?\b(?:nan|inf(?:inity)?)\b)|-?[0-9][0-9.e+-]*', re.IGNORECASE | re.DOTALL
)
"""Strings, numbers and the constants that JSON lacks. Each alternative takes all it can, so that the search is linear."""
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
INEXACT_FROM = float(1 << 63)
"""Limit below which orjson reads whole numbers exactly; it reads those from 2^64 on as floats."""

_LEAP_YEAR = "(?:19(?:7[26]|8[048]|9[26])|[2-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[3579][26])00)"
_DAY = (
    "(?:(?:19[7-9][0-9]|[2-9][0-9]{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_ZONE = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])"
TIME_TEXT = rf"^(?!1970-01-01.*\+(?!00:?00)){_DAY}[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?{_ZONE}$(?!\n)"
"""Pattern of the texts that are a time, for JSON Schema (ECMA 262) and Python alike.

RFC 3339 from 1970 on, any fraction, a zone also without its colon. The last part keeps `$` from matching before a last line break, as it
does in Python."""
_TIME = re.compile(TIME_TEXT)


class NotANumber(str):
    """A field's value as it was written, that is or holds a number no JSON has: `NaN`, `Infinity`, `1e999`. Always refused."""

    __slots__ = ()


def read_json(payload: bytes) -> Any:
    """Return the JSON value of a payload. Raises ValueError for what is no JSON.

    A byte order mark, NULs and blanks around it are skipped. A top-level field that is or holds `nan`, an infinity or a number beyond all
    floats is a NotANumber, in any spelling.

    Whole numbers of 20 digits and more are floats, except those of a list: `read_exactly` keeps their digits."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        value = _read_odd(payload)
    return read_exactly(payload, value) if type(value) is list and _LONG_NUMBER.search(payload) else value


def read_exactly(payload: bytes, value: Any) -> Any:
    """Return `value`, which orjson read from `payload`, with all digits of its whole numbers; as it is where a number has hundreds of
    digits."""
    try:
        return _without_marks(msgspec.json.decode(_marked(payload)))
    except (ValueError, RecursionError):
        return value


def is_inexact(value: Any) -> bool:
    """Return whether a JSON value holds a float that may have been a longer whole number; False for one that nests too deep to be kept."""
    try:
        return _is_inexact(value)
    except RecursionError:
        return False


def time_text_ms(text: str) -> int | None:
    """Return the time of a text of the form TIME_TEXT, UTC ms; None for any other text. A leap second is the first of the next minute."""
    if _TIME.fullmatch(text) is None:
        return None
    days = date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - date(1970, 1, 1).toordinal()
    seconds = days * 86_400 + int(text[11:13]) * 3_600 + int(text[14:16]) * 60 + int(text[17:19])
    rest = text[19:]
    zone = rest.lstrip(".0123456789")
    fraction = rest[1 : len(rest) - len(zone)]
    if zone not in ("Z", "z"):
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        seconds -= minutes * 60 if zone[0] == "+" else -minutes * 60
    return seconds * 1_000 + round(int(fraction[:6].ljust(6, "0")) / 1_000)


def _is_inexact(value: Any) -> bool:
    if type(value) is float:
        return abs(value) >= INEXACT_FROM
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return any(map(_is_inexact, inner))


def _read_odd(payload: bytes) -> Any:
    try:
        return _without_marks(orjson.loads(_marked(payload)))
    except (RecursionError, orjson.JSONEncodeError):
        raise ValueError("it nests too deep") from None


def _marked(payload: bytes) -> bytes:
    return _TOKENS.sub(_mark, payload.removeprefix(_BOM).rstrip(_PADDING))


def _mark(match: re.Match[bytes]) -> bytes:
    token = match[0]
    if match.lastgroup == "constant" or _is_infinite(token):
        return b'"' + _MARK.encode() + token + b'"'
    return token


def _is_infinite(token: bytes) -> bool:
    try:
        return token[:1] != b'"' and float(token) in (float("inf"), float("-inf"))
    except ValueError:
        return False  # no number: no JSON either


def _without_marks(value: Any) -> Any:
    if type(value) is list:
        return [_without_marks(one) for one in value]
    if type(value) is not dict:
        return value
    if any(name.startswith(_MARK) for name in value):
        raise ValueError("a field's name is no text")
    return {name: NotANumber(_as_written(field)) if _has_mark(field) else field for name, field in value.items()}


def _has_mark(value: Any) -> bool:
    if type(value) is str:
        return value.startswith(_MARK)
    inner = [*value, *value.values()] if type(value) is dict else value if type(value) is list else ()
    return any(map(_has_mark, inner))


def _as_written(value: Any) -> str:
    return value.removeprefix(_MARK) if type(value) is str else orjson.dumps(value).decode().replace(f'"{_MARK}', '"')
