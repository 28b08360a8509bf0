"""Standard output in any encoding: characters that the encoding lacks are written as JSON's escapes for them."""

from __future__ import annotations

import codecs
import io
import json
import sys

ESCAPED = "landfall.escaped"
_REFUSING = ("strict", "surrogateescape")
"""Python's default error handlers for characters that an encoding lacks: it fails, or fails except for bytes of a name."""


def escape_what_is_not_encoded() -> None:
    """Let every text be written to standard output from now on. A character that its encoding lacks (in UTF-8 only half a surrogate pair)
    is written as `\\uXXXX`, so that JSON stays the same JSON. Where PYTHONIOENCODING sets an error handler itself, that one is used.
    """
    codecs.register_error(ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in _REFUSING:
        sys.stdout.reconfigure(errors=ESCAPED)


def say(text: str, *, err: bool = False) -> None:
    """Write `text` and a line end to standard output or standard error, like all other output. typer's own echo takes an ASCII stream for a
    mistake, and writes UTF-8.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return json.dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
