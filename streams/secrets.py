"""Secrets in bytes that are kept for people to look at, such as the payload of a message that was refused: their values are left out."""

from __future__ import annotations

import re

MASK = b"***"
_SECRET = re.compile(
    rb"""
    ( (?:pass(?:word|wd|phrase|code)|pwd|secret|token|authori[sz]ation|credential|api[_-]?key|private[_-]?key|access[_-]?key)
      [\w.-]{0,40} (?:\\?["'])? [ \t\r\n]{0,20} (?: => | [:=] ) [ \t\r\n]{0,20} )   # the name, and what ends it
    (?: (["']) (?: \\.? | (?!\2) [^\\] )* (\2?)                       # a quoted value, which may be cut off,
      | (\\["']) (?: (?!\4) . )* ((?:\4)?)                            # one in a text that is itself quoted,
      | (?: (?:basic|bearer|digest|token) [ \t]+ )? [^\s"',;&{}\[\]\\]+ )  # or a bare one
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def mask_secrets(data: bytes) -> tuple[bytes, int]:
    """`data` with MASK for the value after each name like password, token, authorization or secret, and how many these were. It need not
    parse as anything, and may be cut off in the middle of a value."""

    def masked(found: re.Match[bytes]) -> bytes:
        name, quote, end, escaped_quote, escaped_end = (part or b"" for part in found.groups())
        return name + quote + escaped_quote + MASK + end + escaped_end

    return _SECRET.subn(masked, data)
