"""Files that only their owner may read: keys, tokens, credentials."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from streams.model.errors import Misuse


def write_private(path: Path, content: bytes) -> None:
    """Replace the file by one that only its owner may read, durable before it takes the other's place. Raises OSError."""
    new_path = path.with_name(f"new-{path.name}")
    new_path.unlink(missing_ok=True)
    descriptor = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new_path.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_private(path: Path) -> bytes:
    """Return the content of a file that only its owner may read. Raises Misuse for one that others may read or write, else OSError."""
    check_private(path)
    return path.read_bytes()


def keep_private(path: Path) -> None:
    """Create the file, empty, where there is none. Raises as `read_private`."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    check_private(path)


def check_private(path: Path) -> None:
    """Raise Misuse (`file_open`) for a file that others than its owner may read or write, else OSError where there is none."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        what = f"{path} can be read by others (mode {mode:04o})"
        raise Misuse(what, hint=f"chmod 600 {path}, and replace what is in it", code="file_open")
