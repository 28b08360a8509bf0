"""The key of a node in its file, and the signing of its streams while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from landfall.node.key_files import load_or_make
from streams.integrity.signer import Signer
from streams.integrity.signing_keys import SigningKey, key_text
from streams.log import Append, Appended
from streams.model.errors import LandfallError

SIGNED_EVERY_S = 60.0
KEY_NAME = "key"
"""Name of the key's file. It is next to the marker: outside the log's folder and of every backup of it."""


def load_or_make_key(path: Path) -> SigningKey:
    """Return the node's signing key in `path`, as `landfall.node.key_files.load_or_make` does."""
    return load_or_make(path, SigningKey.from_pem, SigningKey.made)


def public_key(folder: Path) -> str:
    """Return the public key of the node in `folder`, as people pass it on. Folder and key are made when there are none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    return key_text(load_or_make_key(folder / KEY_NAME).public)


async def keep_signing(
    signer: Signer, append: Callable[[Sequence[Append]], Awaitable[list[Appended]]], report: Callable[..., None]
) -> None:
    """Sign what is due once every SIGNED_EVERY_S of wall time. What can not be signed (a full disk) is tried again a turn later."""
    while True:
        try:
            await append(await asyncio.to_thread(signer.due))
        except LandfallError as problem:
            signer.forget()
            report("what is due could not be signed", "tried again", code="signing_failed", problem=str(problem))
        await asyncio.sleep(SIGNED_EVERY_S)
