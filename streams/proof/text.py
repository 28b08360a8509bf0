"""Bytes as text in JSON: base64url without padding, one way only."""

from __future__ import annotations

import base64
import binascii


def to_text(data: bytes) -> str:
    """The bytes as base64url (RFC 4648, section 5) without `=`."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """The bytes `to_text` wrote. Raises ValueError for anything that `to_text` would not have written so."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as problem:
        raise ValueError(str(problem)) from problem
    if to_text(data) != text:
        raise ValueError("not in its one form of base64url")
    return data
