"""Secrets in bytes that are kept for people to look at, such as the payload of a message that was refused: their values are left out."""

from __future__ import annotations

import re

MASK = b"***"
# No possessive quantifiers: Python 3.11.2 (Debian 12) loses groups that were matched after one.
_FLAGS = re.IGNORECASE | re.VERBOSE | re.DOTALL
_NAME = re.compile(
    rb"""
    (?P<tag> < [\w.:-]{0,40} )?
    (?: (?P<header> authori[sz]ation | cookie )
      | pass(?:word|wort|wd|phrase|code) | pwd | secret | token | credential | jwt | (?:api|private|access)[_-]?key
      | (?<![a-z])(?:pass|psk|auth)(?![a-z]) )
    [\w.-]*
    """,
    _FLAGS,
)
_SEPARATOR = re.compile(
    rb"""
    (?: (?: \\{0,7} ["'] | [\])] )? \s{0,20} (?: => | [:=] )                                  # "password": or password=
      | \\{0,7} ["'] \s{0,20} ,? \s{0,20} \\{0,7} ["']? value \\{0,7} ["']? \s{0,20} [:=]  # {"name": "password", "value": "hunter2"}
      | \\{0,7} ["'] \s{0,20} , (?= \s{0,20} [bu]? ["'] [^"'\\]* (?: \\. [^"'\\]* )* ["'] \s{0,20} [^\s:] )    # ["password", "hunter2"]
      | \\{0,7} ["'] \s{0,20} >                                                               # <entry key="password">hunter2</entry>
    ) \s{0,20}
    """,
    _FLAGS,
)
_HEADER = re.compile(rb"""(?P<before> [ \t]* [:=] [ \t]* ) (?! [\s"'\\\[{(] ) (?: [^\r\n]+ | \r?\n[ \t] )+""", _FLAGS)
"""Header with all its parameters, and the lines that continue it."""
_QUOTED = rb"""
    (?P<quote>["']) (?: [^\\"']+ | \\.? | (?P=quote)(?= \w | (?P=quote) ) | (?!(?P=quote)) ["'] )* (?P<end> (?P=quote)? )
  | (?P<escaped>\\{1,7}["']) (?: [^\\]+ | (?! (?<!\\) (?P=escaped) (?!\w) ) . )* (?P<escaped_end> (?P=escaped)? )
"""
"""Text in quotes, or in escaped quotes within another text; either may be cut off."""
_VALUE = re.compile(
    rb"(?: [bfru]{0,2} (?:"
    + _QUOTED
    + rb""")
      | (?: -?\d[\d.e+-]* | true | false | null ) (?= \s* (?: [}\]] | , \s* \\{0,7} ["'] ) )       # as in JSON
      | (?: [^\s,;&]+                                                                            # bare, up to the next name
          | (?! [\s,;&]{1,20} \\{0,7} ["']? [\w.-]{1,40} \\{0,7} ["']? [ \t]{0,20} [:=] ) (?: [^\r\n] | \r?\n[ \t] ) )+ )
    """,
    _FLAGS,
)
_NESTED = re.compile(rb"(?P<opens> [\[{(] ) | (?P<closes> [\]})] ) | " + _QUOTED, _FLAGS)
_UNNAMED = re.compile(
    rb"""
    (?P<before> :// [^\s/?\#@:]{0,100} : ) [^\s/?\#@]{1,200} (?= @ )                              # mqtt://user:hunter2@host
  | (?P<scheme> \b bearer [ \t]{1,20} ) [^\s"'<>,;&\\*]+
  | (?P<begins> -----BEGIN[ ][A-Z ]{0,30}PRIVATE[ ]KEY----- ) (?: [^-]+ | (?! -----END ) . )+
    """,
    _FLAGS,
)
"""Secrets that need no name."""
_EMPTY_ELEMENT = re.compile(rb"[^<>]*>(?<=/>)")


def mask_secrets(data: bytes) -> tuple[bytes, int]:
    """Return `data` with MASK for the value after each name like password, token, authorization or secret, and the number of masks.
    A password in an address, a bearer's token and a private key in PEM need no name.

    `data` may be of any format, may not parse, and may be cut off in the middle of a value. The value of a name is all that may belong to
    it: a text, a number, a list or object with all that is in it, an XML element, a whole header, or what follows until the next name.
    Where a value has no clear end, more is masked. The time grows with the length of `data` alone: what was read once is passed over.
    """
    kept: list[bytes] = []
    masks = at = copied = 0
    while (name := _NAME.search(data, at)) is not None:
        at = name.end()
        if (found := _value(data, name)) is not None:
            begin, at, mask = found
            kept += data[copied:begin], mask
            copied, masks = at, masks + 1
    named = b"".join((*kept, data[copied:]))
    masked, others = _UNNAMED.subn(lambda found: (found["before"] or found["scheme"] or found["begins"]) + MASK, named)
    return masked, masks + others


def _value(data: bytes, name: re.Match[bytes]) -> tuple[int, int, bytes] | None:
    """Return the begin and the end of the value that follows `name`, and its replacement; None where no value follows."""
    at = name.end()
    if name["tag"] and data[at : at + 1] in b" \t\r\n/>":
        return at, _element_end(data, name), b">" + MASK
    if name["header"] and (header := _HEADER.match(data, at)) is not None:
        return header.end("before"), header.end(), MASK
    if (separator := _SEPARATOR.match(data, at)) is None:
        return None
    at = separator.end()
    if data[at : at + 1] in (b"[", b"{", b"("):
        return at, _nested_end(data, at), MASK
    if (value := _VALUE.match(data, at)) is None:
        return None
    before, after = value["quote"] or value["escaped"] or b"", value["end"] or value["escaped_end"] or b""
    return at, value.end(), before + MASK + after


def _element_end(data: bytes, name: re.Match[bytes]) -> int:
    """Return where the XML element that begins with `name` ends: before its closing tag, or at the end of `data` where it has none."""
    if (empty := _EMPTY_ELEMENT.match(data, name.end())) is not None:
        return empty.end()
    closes = data.find(b"</" + name[0][1:], name.end())
    return len(data) if closes < 0 else closes


def _nested_end(data: bytes, begin: int) -> int:
    """Return the end of the list or object that begins there; the end of `data` where it does not end."""
    depth = 0
    for part in _NESTED.finditer(data, begin):
        depth += bool(part["opens"]) - bool(part["closes"])
        if depth == 0:
            return part.end()
    return len(data)
