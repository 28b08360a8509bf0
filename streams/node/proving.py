"""A node's key in its file, and the signing of its streams while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.errors import LandfallError, Misuse
from streams.log import Append, Appended, Log
from streams.proof.keys import SigningKey
from streams.proof.signing import Signer
from streams.proof.verifying import ALTERED, Doubt, Verdict
from streams.proof.watching import Watch
from streams.ranges import RangeSet
from streams.session import Key

_log = logging.getLogger("landfall.node")

ASKED_AGAIN = "not believed; set aside, and asked for again from another peer"
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


@dataclass(frozen=True, slots=True)
class Checking:
    """What checking works on. `distrust`: see `streams.session.Exchange`; called on the event loop. `report`: as a node's."""

    log: Log
    watch: Watch
    distrust: Callable[[Key, int, int], list[str]]
    report: Callable[..., None]


async def keep_checking(checking: Checking) -> None:
    """Every CHECKED_EVERY_S of wall time, hold what came in against what its origins signed; what is not so is reported. Until cancelled.

    Records of others that are not what was signed are set aside and asked for again, from another peer than brought them. Where the origin
    signed two contents, what is held stays: who wrote the other appends it again under a new generation.
    """
    report = checking.report
    told = ""
    while True:
        try:
            for verdict in await asyncio.to_thread(checking.watch.step):
                _report(verdict, checking)
                for doubt in verdict.broken:
                    if doubt.why == ALTERED and verdict.origin.node != checking.log.node:
                        await _ask_again(checking, verdict, doubt)
            told = ""
        except LandfallError as problem:
            if str(problem) != told:
                report("records could not be held against what their origins signed", "tried again", problem=str(problem))
            told = str(problem)
        await asyncio.sleep(CHECKED_EVERY_S)


async def _ask_again(checking: Checking, verdict: Verdict, doubt: Doubt) -> None:
    """Of the range that is broken only what is known to differ, where that is known."""
    stream, origin = verdict.stream, verdict.origin
    lost = 0
    for first, end in RangeSet((offset, offset + 1) for offset in doubt.offsets) or RangeSet([(doubt.first, doubt.end)]):
        peers = checking.distrust((stream, origin), first, end)
        brought = f", brought by {', '.join(peers)}" if peers else ""
        lost += await asyncio.to_thread(checking.log.set_aside, stream, origin, first, end, f"not what {origin} signed{brought}")
    checking.watch.again(stream, origin, doubt.first)
    if lost:
        _log.warning("%s records of %s:%s from offset %s on are not what was signed: asked for again", lost, stream, origin, doubt.first)


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


def _report(verdict: Verdict, checking: Checking) -> None:
    report, others = checking.report, verdict.origin.node != checking.log.node
    where = {"stream": verdict.stream, "origin": str(verdict.origin), "trust": verdict.trust}
    for doubt in verdict.broken:
        offsets = " ".join(map(str, doubt.offsets)) or None
        details = {"first": doubt.first, "end": doubt.end, "offsets": offsets, **where}
        altered = doubt.why == ALTERED
        report(f"records are {doubt.why}" if altered else doubt.why, ASKED_AGAIN if altered and others else "not believed", **details)
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
