"""Standard output, whatever its encoding: what that has no letters for is written as the escapes that JSON has for it."""

from __future__ import annotations

import codecs
import io
import json
import sys

ESCAPED = "landfall.escaped"
_REFUSING = ("strict", "surrogateescape")
"""How Python meets what an encoding lacks where nobody has said how: it fails, or fails but for bytes of a name."""


def escape_what_is_not_encoded() -> None:
    """From now on every text can be written to standard output: of what its encoding lacks (of UTF-8 half a surrogate pair alone) each
    letter is `\\uXXXX`, so that JSON stays the JSON it is. Where PYTHONIOENCODING says itself what becomes of such letters, that holds.
    """
    codecs.register_error(ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in _REFUSING:
        sys.stdout.reconfigure(errors=ESCAPED)


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return json.dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
