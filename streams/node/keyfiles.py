"""Private keys in files of a node's folder: made when missing, readable by their owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from streams.errors import Misuse, RetryLater


class PrivateKey(Protocol):
    """A private key that is kept in a file."""

    def to_pem(self) -> bytes:
        """As the file has it."""
        ...


AnyKey = TypeVar("AnyKey", bound=PrivateKey)


def load_or_make(path: Path, read: Callable[[bytes], AnyKey], make: Callable[[], AnyKey]) -> AnyKey:
    """The key in `path`; a new one, durable there with mode 0600, when there is none.

    Raises Misuse when the file is no key, or others on this machine may read it; RetryLater when it can not be read or made.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise Misuse(f"the key in {path} can be read by others (mode {mode:04o})", hint=f"chmod 600 {path}, and think of a new key")
        told = path.read_bytes()
    except FileNotFoundError:
        told = None
    except OSError as problem:
        raise _unkept(path, "read", problem) from problem
    if told is not None:
        return read(told)
    try:
        return _kept(path, make())
    except OSError as problem:
        raise _unkept(path, "made", problem) from problem


def _unkept(path: Path, what: str, problem: OSError) -> RetryLater:
    hint = "let the user that runs this read and write it, on a disk with room"
    return RetryLater(f"the key in {path} can not be {what}: {problem.strerror}", hint=hint)


def _kept(path: Path, key: AnyKey) -> AnyKey:
    beside = path.with_name(f"new-{path.name}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, key.to_pem())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return key
