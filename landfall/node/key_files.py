"""Private keys in files of a node's folder: made when missing, readable by their owner alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from landfall.system.private_files import read_private, write_private
from streams.model.errors import RetryLater


class PrivateKey(Protocol):
    """A private key that is kept in a file."""

    def to_pem(self) -> bytes:
        """Return the key as the file has it."""
        ...


AnyKey = TypeVar("AnyKey", bound=PrivateKey)


def load_or_make(path: Path, read: Callable[[bytes], AnyKey], make: Callable[[], AnyKey]) -> AnyKey:
    """Return the key in `path`; a new one, durable there with mode 0600, when there is none.

    Raises Misuse when the file is no key, or others on this machine may read it; RetryLater when it can not be read or made.
    """
    try:
        return read(read_private(path))
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise _unkept(path, "read", problem) from problem
    key = make()
    try:
        write_private(path, key.to_pem())
    except OSError as problem:
        raise _unkept(path, "made", problem) from problem
    return key


def _unkept(path: Path, what: str, problem: OSError) -> RetryLater:
    hint = "let the user that runs this read and write it, on a disk with room"
    return RetryLater(f"the key in {path} can not be {what}: {problem.strerror}", hint=hint, code="key_unavailable")
