"""A node's key in its file, and the signing of its streams while it runs."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from streams.errors import LandfallError, Misuse
from streams.log import Append, Appended
from streams.proof.keys import SigningKey
from streams.proof.signing import Signer

SIGNED_EVERY_S = 60.0
KEY_NAME = "key"
"""The file's name, beside the marker: outside the log's folder and of every backup of it."""


def load_or_make_key(path: Path) -> SigningKey:
    """The key in `path`; a new one, durable there with mode 0600, when there is none.

    Raises Misuse when the file is no key, or others on this machine may read it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _make_key(path)
    if mode & 0o077:
        raise Misuse(f"the key in {path} can be read by others (mode {mode:04o})", hint=f"chmod 600 {path}, and think of a new key")
    return SigningKey.from_pem(path.read_bytes())


async def keep_signing(
    signer: Signer, append: Callable[[Sequence[Append]], Awaitable[list[Appended]]], report: Callable[..., None]
) -> None:
    """Once every SIGNED_EVERY_S of wall time, sign what is due; what can not be (a full disk) is tried again a turn later."""
    while True:
        try:
            await append(await asyncio.to_thread(signer.due))
        except LandfallError as problem:
            signer.forget()
            report("what is due could not be signed", "tried again", problem=str(problem))
        await asyncio.sleep(SIGNED_EVERY_S)


def _make_key(path: Path) -> SigningKey:
    key = SigningKey.made()
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
