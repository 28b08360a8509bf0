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
from streams.proof.verifying import ALTERED, Verdict
from streams.proof.watching import Watch

SIGNED_EVERY_S = 60.0
CHECKED_EVERY_S = 5.0
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


async def keep_checking(watch: Watch, report: Callable[..., None]) -> None:
    """Every CHECKED_EVERY_S of wall time, hold what came in against what its origins signed; what is not so is reported. Until cancelled.

    What is held stays: another copy may have it right, and who wrote it can append it again under a new generation.
    """
    told = ""
    while True:
        try:
            for verdict in await asyncio.to_thread(watch.step):
                _report(verdict, report)
            told = ""
        except LandfallError as problem:
            if str(problem) != told:
                report("records could not be held against what their origins signed", "tried again", problem=str(problem))
            told = str(problem)
        await asyncio.sleep(CHECKED_EVERY_S)


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


def _report(verdict: Verdict, report: Callable[..., None]) -> None:
    where = {"stream": verdict.stream, "origin": str(verdict.origin), "trust": verdict.trust}
    for doubt in verdict.broken:
        report(f"records are {doubt.why}" if doubt.why == ALTERED else doubt.why, "not believed", first=doubt.first, end=doubt.end, **where)
    for problem in verdict.problems:
        report("a signature is not what it should be", "not believed", problem=problem, **where)


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
