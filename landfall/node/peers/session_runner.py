"""The runner of one sync session over one wire: it carries messages and time to the session, and carries out what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from landfall.transport.websocket import Wire
from streams.model.clock import Clock, WallClock
from streams.model.errors import Corrupt, LandfallError
from streams.replication import Admit, Closed, DeclareGone, Exchange, Load, OldCopy, Opened, Report, Session, Terms
from streams.replication.effects import CredentialsCame, Loaded, Unread
from streams.replication.sync_messages import Refuse

MESSAGES_A_TURN = 16
"""Number of messages sent before other work on this event loop gets its turn, when the link takes them all at once."""
FAREWELL_S = 2.0
"""Maximum time that a session that has ended takes to send its last message, seconds; then the link is cut."""
LOOK_EVERY_S = 0.1
"""Time between two checks of the peer's silence and the pings while there is always something to send, seconds."""
HELD_UP_S = 0.5
"""Delay of a timer, seconds, that shows that this process was held up, and not that the peer was silent: incoming messages are read
first.
"""
SATELLITE_BIT_S = 128_000
"""Assumed rate of a satellite link without a set rate, bit/s. It is as slow as any, and limits what may lie unsent."""


BURST_S = 0.05
"""Maximum unused time that may be used at once, seconds: a late timer costs nothing, and an alert waits at most that much longer."""


class Pacer:
    """A limit that keeps what is sent below `rate_bit_s` (None: no limit), on average and except for BURST_S of it. `now_s`: monotonic
    seconds.

    A message may go as long as nothing is owed, whatever its size; what it takes beyond the saved amount is owed.
    """

    def __init__(self, rate_bit_s: int | None, now_s: float) -> None:
        self._bytes_s = (rate_bit_s or 0) / 8
        self._saved_bytes = 0.0
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return how long it is until the next message may go, seconds; 0 when it may."""
        if not self._bytes_s:
            return 0.0
        self._saved_bytes = min(self._saved_bytes + (now_s - self._at_s) * self._bytes_s, BURST_S * self._bytes_s)
        self._at_s = now_s
        return max(0.0, -self._saved_bytes / self._bytes_s)

    def sent(self, bytes_: int) -> None:
        """Record that this many bytes have gone."""
        self._saved_bytes -= bytes_

    def takes_s(self, bytes_: int) -> float:
        """Return how long this many bytes take at the rate, seconds; 0 without a rate."""
        return bytes_ / self._bytes_s if self._bytes_s else 0.0


class Storage(Protocol):
    """The log as a session's driver needs it."""

    async def load(self, load: Load) -> Loaded | Unread | None:
        """Return a block's bytes, or what the disk does not return for now; None when nothing of the range can be read."""
        ...

    async def admit(self, effect: Admit) -> LandfallError | None:
        """Return None when the block is durable, or why it is not."""
        ...

    async def declare_gone(self, effect: DeclareGone) -> None:
        """Record what will never come."""
        ...

    def introduced(self, node: str, keys: Sequence[bytes]) -> None:
        """Record the keys that the node signs with, which it shows in its own session."""
        ...

    async def old_copy(self, effect: OldCopy) -> None:
        """Open a new generation, because this log is an old copy of itself."""
        ...


@dataclass(frozen=True, slots=True)
class Ears:
    """The callbacks of a session: `opened` when both ends have compared, `report` for `exceptions`, `heard` after every message of the
    peer. `credentials` gets those that another node of this ship or port has (entries of its file).
    """

    opened: Callable[[], None]
    report: Callable[..., None]
    heard: Callable[[], None]
    credentials: Callable[[Sequence[bytes]], None]


class Drive:
    """One session on one wire, from hello to farewell."""

    def __init__(self, exchange: Exchange, terms: Terms, wire: Wire, storage: Storage, clock: Clock, ears: Ears) -> None:
        self._wire = wire
        self._storage = storage
        self._clock = clock
        self._ears = ears
        self._pacer = Pacer(terms.link.rate_bit_s, clock.monotonic_s())
        if rate_bit_s := terms.link.rate_bit_s or (SATELLITE_BIT_S if terms.link.link_class == "satellite" else None):
            wire.keep_short(rate_bit_s)
        self._turn, self._goes_on = asyncio.Event(), asyncio.Event()
        self._goes_on.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen_through: set[asyncio.Task[None]] = set()  # what is this node's own matter, whether the session goes on or not
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = self._rings_s = 0.0
        self._farewell: asyncio.TimerHandle | None = None
        self.session = Session(exchange, terms, clock.monotonic_s, self._turn.set)
        self.end = Closed("the session has not ended", "session_open")

    async def run(self) -> None:
        """Drive the session until it ends; `end` gives the reason then. The wire is closed at the latest FAREWELL_S, and what closing may
        take, after the end. It is closed at once when the peer has been silent for too long.
        """
        until_s, expiry = self._wire.counts_until_s, None
        if until_s is not None:
            left_s = max(0.0, until_s - WallClock().now_ms() / 1000)
            sentence = f"the certificate that '{self.session.peer.node}' came with has expired: it may come with another"
            expired = Refuse(sentence, code="certificate_expired")
            expiry = asyncio.get_running_loop().call_later(left_s, self.close, expired)
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            self._set_timer(self.session.wake_s())
            self._turn.set()
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.session.cut(f"the link to {self.session.peer.node} was cut")
                self._turned()
                await asyncio.wait((sending,), timeout=FAREWELL_S)
        finally:
            self.session.cut("the link was closed", code="link_closed")
            for task in {sending, receiving, *self._tasks} - self._seen_through:
                task.cancel()
            for timer in (self._timer, self._farewell, expiry):
                if timer:
                    timer.cancel()
            await asyncio.gather(sending, receiving, *self._tasks, return_exceptions=True)
            self._carry_out()
            await self._wire.close()
        for task in (sending, receiving):
            if not task.cancelled() and (problem := task.exception()):
                raise problem

    def close(self, refusal: Refuse) -> None:
        """Send the peer `refusal`, and end."""
        self.session.close(refusal)
        self._turned()

    def ask(self) -> None:
        """Ping the peer now; the session ends where it does not answer in time."""
        self.session.ask()
        self._turned()

    def hold(self) -> None:
        """Read nothing more of the peer until `go_on`. Call it while a message is handled."""
        self._goes_on.clear()
        self.session.liveness.hold()

    def go_on(self) -> None:
        """Read the peer again."""
        self.session.liveness.go_on(self._clock.monotonic_s())
        self._goes_on.set()

    async def _receive(self) -> None:
        try:
            async for data in self._wire.messages():
                self.session.receive(data)
                self._turned()
                self._ears.heard()
                if self.session.closed:
                    return
                await self._goes_on.wait()
        except Corrupt as problem:
            self.session.violated(problem)

    async def _send(self) -> None:
        sent = 0
        while True:
            self._carry_out()
            if wait_s := self._pacer.wait_s(self._clock.monotonic_s()):
                await self._next_turn(wait_s)
                continue
            message = self.session.next_message()
            if message is None:
                if self.session.closed:
                    return
                if self._carry_out():  # what is not sent after all makes room for reading other things
                    continue
                if (due_s := self.session.wake_s()) < self._timer_s:
                    self._set_timer(due_s)
                await self._next_turn()
                continue
            began_s, before_bytes = self._clock.monotonic_s(), self._wire.sent_bytes
            if not await self._wire.send(message):
                return
            sent += 1
            self._pacer.sent(self._wire.sent_bytes - before_bytes)
            took_s = self._clock.monotonic_s() - began_s
            self.session.sender.carried(len(message), max(took_s, self._pacer.takes_s(len(message))))
            if sent % MESSAGES_A_TURN == 0:
                await asyncio.sleep(0)

    async def _next_turn(self, wait_s: float | None = None) -> None:
        """Wait until something has happened, at most `wait_s`."""
        self._turn.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._turn.wait()

    def _turned(self) -> None:
        """Signal that something has happened. In a session that is over only the last message is sent, if the link takes it in time."""
        self._turn.set()
        if self.session.closed and self._farewell is None:
            self._farewell = asyncio.get_running_loop().call_later(FAREWELL_S, self._wire.abort)

    def _set_timer(self, due_s: float) -> None:
        """Set the one timer, which is set as long as the session lasts, whether or not there is anything to send."""
        if self._timer:
            self._timer.cancel()
        now_s = self._clock.monotonic_s()
        self._timer_s, self._rings_s = due_s, max(due_s, now_s + 0.001)
        self._timer = asyncio.get_running_loop().call_later(self._rings_s - now_s, self._tick)

    def _tick(self) -> None:
        if self.session.closed:
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._rings_s < HELD_UP_S:
            self.session.tick()
            if self.session.closed:
                self._wire.abort()  # it is silent, or does not read: it would not hear a last word
                return
        self._turn.set()
        self._set_timer(max(self.session.wake_s(), now_s + LOOK_EVERY_S))

    def _carry_out(self) -> bool:
        """Carry out the session's effects, and return whether there were any."""
        effects = self.session.effects()
        for effect in effects:
            match effect:
                case Load():
                    self._spawn(self._load(effect))
                case Admit():
                    self._spawn(self._admit(effect))
                case DeclareGone():
                    self._spawn(self._declare_gone(effect))
                case OldCopy():
                    self._seen_through.add(self._spawn(self._storage.old_copy(effect)))
                case Report():
                    self._ears.report(effect.reason, effect.outcome, code=effect.code, **effect.details)
                case Opened():
                    self._storage.introduced(self.session.peer.node, effect.keys)
                    self._ears.opened()
                case CredentialsCame():
                    self._ears.credentials(effect.entries)
                case Closed():
                    self.end = effect
        return bool(effects)

    async def _load(self, load: Load) -> None:
        self.session.loaded(load.number, await self._storage.load(load))
        self._turned()

    async def _admit(self, admit: Admit) -> None:
        self.session.admitted(admit.number, await self._storage.admit(admit))
        self._turned()

    async def _declare_gone(self, gone: DeclareGone) -> None:
        await self._storage.declare_gone(gone)
        self.session.declared()
        self._turn.set()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._seen_through.discard(task)
        if not task.cancelled() and task.exception():
            self.session.cut(f"a failure on this side: {task.exception()}", code="session_failed")
            problem, peer = repr(task.exception()), self.session.peer.node
            self._ears.report("a session failed on this side", "session ended", code="session_failed", peer=peer, problem=problem)
            self._turned()
