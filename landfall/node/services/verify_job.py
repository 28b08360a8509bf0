"""The verification of all of a node's log in the background, round after round: damage is found before its records are requested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from streams.log import LogReader, Upkeep
from streams.model.errors import LandfallError, Unreadable
from streams.model.metrics import Metrics
from streams.replication import Key

PIECE_BYTES, PIECE_BLOCKS = 1 << 20, 256
"""Maximum amount verified at a time: bytes, and number of blocks and frames together."""
REST_S_MIN, REST_SHARE = 1.0, 30.0
"""Minimum rests between pieces: seconds, so that at most PIECE_BYTES a second are read; and a multiple of the time that the read took."""
ROUND_S_MIN = 3_600.0
"""Minimum time from the beginning of one round to the next, seconds; a longer round is followed by the next at its end."""
AGAIN_S = 60.0
"""Time after a read that failed for another reason than damage until the next, seconds."""
Unread = tuple[Key, int, int, str]
"""Offsets `first .. end - 1` of a (stream, origin) that the disk did not return, and why."""
Failed = Callable[[Key, int, int, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of one piece of a round: the stored bytes it has read, and whether the round has ended with it."""

    bytes_: int
    round_ended: bool


class Rounds:
    """A reader of everything that a log holds, piece by piece, and of what surrounds it. What does not verify, the log itself sets aside
    and reports; lost records it wants again. What the disk did not return is in `unread`.
    """

    def __init__(self, log: LogReader, upkeep: Upkeep) -> None:
        self._log, self._upkeep = log, upkeep
        self.unread: list[Unread] = []
        self._left: Iterator[int] = iter(())
        self._begun = False

    def piece(self) -> Verified:
        """Verify the next piece, of a new round where the last has ended, and return the result. Raises what reading the log raises: then
        the round begins again.
        """
        if not self._begun:
            self._left, self._begun = self._read(), True
        bytes_ = 0
        try:
            for number, read in enumerate(self._left, start=1):
                bytes_ += read
                if bytes_ >= PIECE_BYTES or number >= PIECE_BLOCKS:
                    return Verified(bytes_, round_ended=False)
        except LandfallError:
            self._begun = False
            raise
        self._begun = False
        return Verified(bytes_, round_ended=True)

    def _read(self) -> Iterator[int]:
        """Yield, for every block and then every frame, the bytes that it takes."""
        for stream in self._log.streams():
            for origin in self._log.ledger(stream):
                for span in self._log.spans(stream, origin):
                    try:
                        for _ in self._log.blocks(stream, origin, span.first, span.end):
                            pass
                    except Unreadable as problem:
                        self.unread.append(((stream, origin), span.first, span.end, str(problem)))
                    yield span.stored_bytes
        yield from self._upkeep.walk()


async def keep_verifying(rounds: Rounds, unread: Failed, metrics: Metrics, report: Callable[..., None]) -> None:
    """Verify the log as long as the node runs; `unread` is called with every block that the disk did not return. The metrics
    `verified_bytes`, `verified_rounds` and `verifying_interrupted` count the work. What can not be read around the blocks is reported once
    until a round has ended.
    """
    loop = asyncio.get_running_loop()
    began_s, rest_s, refused = loop.time(), REST_S_MIN, False
    while True:
        await asyncio.sleep(rest_s)
        started_s = loop.time()
        try:
            read = await asyncio.to_thread(rounds.piece)
        except LandfallError as problem:
            metrics.count("verifying_interrupted")
            if not refused:
                report("the log could not be read to verify it", "tried again", code="log_not_verified", problem=str(problem))
            rest_s, refused = AGAIN_S, True
            continue
        metrics.count("verified_bytes", read.bytes_)
        while rounds.unread:
            await unread(*rounds.unread.pop())
        now_s = loop.time()
        rest_s = max(REST_S_MIN, REST_SHARE * (now_s - started_s))
        if read.round_ended:
            metrics.count("verified_rounds")
            refused = False
            rest_s = max(rest_s, began_s + ROUND_S_MIN - now_s)
            began_s = now_s + rest_s
