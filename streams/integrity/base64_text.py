"""Bytes as text in JSON: base64url without padding, with exactly one valid text for any bytes."""

from __future__ import annotations

import base64

SHOWN_MAX = 100
"""Maximum characters of an invalid text that the error message shows."""


def to_text(data: bytes) -> str:
    """Return the bytes as base64url (RFC 4648, section 5) without `=`."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str, what: str = "") -> bytes:
    """Return the bytes that `to_text` wrote. Raises ValueError for any other text, naming `what` the text stands for."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:  # no such length, or no ASCII
        data = b""
    if to_text(data) != text:
        shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
        raise ValueError(f"{what} {shown!r} is no base64url".lstrip())
    return data
