"""Files that a command writes for a person: where that can not be, it says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.errors import Misuse


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """While `path` (None: standard output) is being written. An OSError becomes a Misuse that names it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        what = "standard output" if path is None else str(path)
        why = os.strerror(problem.errno) if problem.errno else str(problem)
        raise Misuse(f"{what} can not be written: {why}", hint="name a file in a folder that is there, on a disk with room") from problem
