"""The audit of incoming records against what their origins signed, while the node runs; and the reaction where the two differ."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from landfall.node.peers.bulk_load import Bulk
from streams.config.companion_streams import HEADS
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import ALTERED, UNHEARD, Doubt, Verdict
from streams.integrity.fork_repair import append_again
from streams.integrity.hash_chain import RUN
from streams.integrity.online_audit import Watch
from streams.log import Log
from streams.memory_release import large_work, release_arrow
from streams.model.errors import LandfallError
from streams.model.ranges import RangeSet
from streams.replication import Key

_log = logging.getLogger("landfall.node")

CHECKED_EVERY_S = 5.0
RESTS = 5.0
"""Minimum rest of the audit, as a multiple of the time it worked: incoming records have the machine first."""
ASKED_AGAIN = "not believed; set aside, and asked for again from another peer"


@dataclass(frozen=True, slots=True)
class Checking:
    """The parts that the audit works on: the log, the log as a copy, and the watch over it.

    `distrust`: see `streams.replication.Exchange`; called on the event loop. `report`: as a node's. `sooner`: set by a caller that can not
    wait. `bulk`: reports a backlog that comes in, to which the audit leaves the machine.
    """

    log: Log
    copy: Copy
    watch: Watch
    distrust: Callable[[Key, int, int], list[str]]
    report: Callable[..., None]
    sooner: asyncio.Event
    bulk: Bulk


async def keep_checking(checking: Checking) -> None:
    """Check incoming records against what their origins signed, every CHECKED_EVERY_S of wall time, more seldom when it is much work, until
    cancelled. Differences are reported. Where a forged statement may stand in the way of a true one that an alert waits for, it checks at
    once.

    Other nodes' records that are not what was signed, and their statements that must not be believed, are set aside. They are requested
    again, from another peer than the one that brought them. Where the origin signed two contents, what is held stays: the writer of the
    other appends it again under a new generation.
    """
    report = checking.report
    reported_problem, hurried = "", False
    while True:
        began_s = time.monotonic()
        try:
            for verdict in await asyncio.to_thread(checking.watch.step if hurried else partial(_step, checking.watch)):
                _report_verdict(verdict, checking)
                for doubt in verdict.broken:
                    if verdict.origin.node == checking.log.node and doubt.why != UNHEARD:
                        await asyncio.to_thread(_append_again, checking, verdict, doubt)
                    elif doubt.why == ALTERED:
                        await _ask_again(checking, verdict, doubt)
                if verdict.origin.node != checking.log.node:
                    await _ask_heads_again(checking, verdict)
            reported_problem = ""
        except LandfallError as problem:
            if str(problem) != reported_problem:
                report(
                    "records could not be checked against what their origins signed",
                    "tried again",
                    code="records_unchecked",
                    problem=str(problem),
                )
            reported_problem = str(problem)
        await asyncio.sleep(RESTS * (time.monotonic() - began_s))
        hurried = await _hurried(checking, began_s + CHECKED_EVERY_S)
        checking.sooner.clear()


async def _hurried(checking: Checking, at_s: float) -> bool:
    """Wait until `at_s` (time.monotonic) and the end of an incoming backlog; return True as soon as a caller can not wait."""
    loop = asyncio.get_running_loop()
    while not checking.sooner.is_set() and (wait_s := max(at_s - time.monotonic(), checking.bulk.wait_s(loop.time()))) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await checking.sooner.wait()
    return checking.sooner.is_set()


def _step(watch: Watch) -> list[Verdict]:
    """Do one step of the watch, with no other large work concurrently. The memory that it used is released."""
    with large_work(release_arrow):
        return watch.step()


def _append_again(checking: Checking, verdict: Verdict, doubt: Doubt) -> None:
    """Append this node's records again from the first that differs: another machine uses this node's name, and others hold its records."""
    stream, origin, log = verdict.stream, verdict.origin, checking.log
    if origin == log.origin:
        return  # until a peer that knows more of it makes this log open a new generation, there is none to append under
    first = doubt.offsets[0] if doubt.offsets else doubt.first // RUN * RUN
    if again := append_again(log, checking.copy, stream, origin, first):
        checking.report(
            "this node's records were given the offsets of another's, under its own name",
            f"appended again under {log.origin}",
            code="node_name_twice",
            stream=stream,
            origin=str(origin),
            first=first,
            records=again,
        )


async def _ask_again(checking: Checking, verdict: Verdict, doubt: Doubt) -> None:
    """Set aside, and request again, what is known to differ of the broken range; all of it where that is not known."""
    stream, origin = verdict.stream, verdict.origin
    lost = 0
    try:
        for first, end in RangeSet((offset, offset + 1) for offset in doubt.offsets) or RangeSet([(doubt.first, doubt.end)]):
            lost += await _set_aside(checking, (stream, origin), first, end, f"not what {origin} signed")
    finally:
        checking.watch.again(stream, origin, doubt.first)
    if lost:
        _log.warning("%s records of %s:%s from offset %s on are not what was signed: asked for again", lost, stream, origin, doubt.first)


async def _ask_heads_again(checking: Checking, verdict: Verdict) -> None:
    """Request again the statements that are not believed. One that comes again unchanged stays: then its origin wrote it."""
    heads, origin = verdict.stream + HEADS, verdict.origin
    for offset, signature in verdict.unbelieved.items():
        asked = None
        try:
            await _set_aside(checking, (heads, origin), offset, offset + 1, f"no statement of {origin} to be believed")
            asked = signature
        finally:
            checking.watch.heads_again(verdict.stream, origin, offset, asked)


async def _set_aside(checking: Checking, key: Key, first: int, end: int, why: str) -> int:
    """Set records aside, without asking the peer that brought them, and return how many."""
    peers = checking.distrust(key, first, end)
    brought = f", brought by {', '.join(peers)}" if peers else ""
    return await asyncio.to_thread(checking.log.set_aside, *key, first, end, f"{why}{brought}")


def _report_verdict(verdict: Verdict, checking: Checking) -> None:
    report, others = checking.report, verdict.origin.node != checking.log.node
    where = {"stream": verdict.stream, "origin": str(verdict.origin), "trust": verdict.trust}
    for doubt in verdict.broken:
        offsets = " ".join(map(str, doubt.offsets)) or None
        details = {"first": doubt.first, "end": doubt.end, "offsets": offsets, **where}
        altered = doubt.why == ALTERED
        reason, outcome = f"records are {doubt.why}" if altered else doubt.why, ASKED_AGAIN if altered and others else "not believed"
        report(reason, outcome, code="records_altered" if altered else "records_doubted", **details)
    for problem in verdict.problems:
        outcome = ASKED_AGAIN if others else "not believed"
        report("a signature is not what it should be", outcome, code="signature_invalid", problem=problem, **where)
