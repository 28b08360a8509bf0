"""Runs one sync session over one wire: carries messages and time to it, and carries out what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from streams.clock import Clock
from streams.errors import LandfallError
from streams.link.wire import Wire
from streams.session import Admit, Closed, DeclareGone, Exchange, Load, OldCopy, Opened, Report, Session, Terms
from streams.session.effects import Loaded

MESSAGES_A_TURN = 16
"""Messages sent before others on this event loop get their turn, when the link takes them all at once."""
FAREWELL_S = 2.0


class Storage(Protocol):
    """The log as a session's driver needs it."""

    async def load(self, load: Load) -> Loaded | None:
        """A block's bytes; None when nothing of the range can be read."""
        ...

    async def admit(self, effect: Admit) -> LandfallError | None:
        """None when the block is durable, or why it is not."""
        ...

    async def declare_gone(self, effect: DeclareGone) -> None:
        """Note what will never come."""
        ...

    async def old_copy(self, effect: OldCopy) -> None:
        """This log is an old copy of itself: open a new generation."""
        ...


@dataclass(frozen=True, slots=True)
class Ears:
    """Who hears of a session: `opened` when both have compared, `report` for `exceptions`."""

    opened: Callable[[], None]
    report: Callable[..., None]


class Drive:
    """One session on one wire, from hello to farewell."""

    def __init__(self, exchange: Exchange, terms: Terms, wire: Wire, storage: Storage, clock: Clock, ears: Ears) -> None:
        self._wire = wire
        self._storage = storage
        self._clock = clock
        self._ears = ears
        self._rate_bit_s = terms.link.rate_bit_s
        self._turn = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self.session = Session(exchange, terms, clock.monotonic_s, self._turn.set)
        self.sentence = ""

    async def run(self) -> str:
        """Drive the session until it ends; returns the sentence that says why. The wire is closed then."""
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            self._turn.set()
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.session.cut(f"the link to {self.session.peer.node} was cut")
                self._turn.set()
                await asyncio.wait((sending,), timeout=FAREWELL_S)
        finally:
            self.session.cut("the link was closed")
            for task in (sending, receiving, *self._tasks):
                task.cancel()
            if self._timer:
                self._timer.cancel()
            await asyncio.gather(sending, receiving, *self._tasks, return_exceptions=True)
            self._carry_out()
            await self._wire.close()
        for task in (sending, receiving):
            if not task.cancelled() and (problem := task.exception()):
                raise problem
        return self.sentence

    def close(self, sentence: str) -> None:
        """Tell the peer why, and end."""
        self.session.close(sentence)
        self._turn.set()

    async def _receive(self) -> None:
        async for data in self._wire.messages():
            self.session.receive(data)
            self._turn.set()
            if self.session.closed:
                return

    async def _send(self) -> None:
        sent = 0
        while True:
            self._carry_out()
            message = self.session.next_message()
            if message is None:
                if self.session.closed:
                    return
                self._turn.clear()
                self._set_timer()
                await self._turn.wait()
                continue
            began_s = self._clock.monotonic_s()
            if not await self._wire.send(message):
                return
            sent += 1
            if self._rate_bit_s:
                await asyncio.sleep(len(message) * 8 / self._rate_bit_s)
                continue
            self.session.sender.carried(len(message), self._clock.monotonic_s() - began_s)
            if sent % MESSAGES_A_TURN == 0:
                await asyncio.sleep(0)

    def _set_timer(self) -> None:
        due_s = self.session.wake_s()
        if self._timer is None or due_s < self._timer_s or self._timer.when() <= asyncio.get_running_loop().time():
            if self._timer:
                self._timer.cancel()
            self._timer_s = due_s
            self._timer = asyncio.get_running_loop().call_later(max(0.001, due_s - self._clock.monotonic_s()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.session.tick()
        self._turn.set()

    def _carry_out(self) -> None:
        for effect in self.session.effects():
            match effect:
                case Load():
                    self._spawn(self._load(effect))
                case Admit():
                    self._spawn(self._admit(effect))
                case DeclareGone():
                    self._spawn(self._declare_gone(effect))
                case OldCopy():
                    self._spawn(self._storage.old_copy(effect))
                case Report():
                    self._ears.report(effect.reason, effect.outcome, **effect.details)
                case Opened():
                    self._ears.opened()
                case Closed():
                    self.sentence = effect.sentence

    async def _load(self, load: Load) -> None:
        self.session.loaded(load.number, await self._storage.load(load))
        self._turn.set()

    async def _admit(self, admit: Admit) -> None:
        self.session.admitted(admit.number, await self._storage.admit(admit))
        self._turned()

    async def _declare_gone(self, gone: DeclareGone) -> None:
        await self._storage.declare_gone(gone)
        self.session.declared()
        self._turn.set()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            self.session.cut(f"a failure on this side: {task.exception()}")
            self._ears.report("a session failed on this side", "session ended", peer=self.session.peer.node, problem=repr(task.exception()))
            self._turn.set()
