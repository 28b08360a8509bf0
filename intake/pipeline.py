"""The only path from MQTT messages to durable readings, for the endpoint and the broker's subscription alike."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol

from cargo.loss.reading_rows import CLOCK_BACK
from cargo.vocabulary.reading_identity import CLOCK_STOPPED
from intake.decoders.decoder_names import find_decoder
from intake.deduplicator import RepeatWindow, TakenInElsewhere
from intake.fair_queue import FairQueue, Parcel, bytes_of
from intake.message_types import STORED, MessageSender, Outcome, Publish
from intake.pipeline_batches import CONTAINERS, EXCEPTIONS, Prepared, StreamRows, believed_times, exception_record, mark_strangers, prepare
from intake.reject_limits import Refusals
from intake.settings import PipelineSettings
from intake.stuck_clocks import LastSaid
from intake.topic_routes import Routes
from landfall.system.thread_pool import CLOCKS
from streams.commit_points import commit_point
from streams.log import Append, Appended, Log
from streams.memory_release import large_work
from streams.model.clock import Clock
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch

STREAMS = (CONTAINERS, "ships")
Strangers = Callable[[set[str]], set[str]]
"""Function that returns those of these container numbers that this node does not know."""
REPORT_EVERY_S = 1.0
"""Interval of the check for unreported counted messages while no message comes, seconds."""
GATHERED_MESSAGES, FLOOD_MESSAGES = 2_048, 256
"""Number of messages that are worth a commit at once, and number of a flood, which waits for more.

The first number is also worth decoding while another commit is on its way."""
GATHER_S, GATHER_STEP_S = 0.025, 0.005
"""Maximum wait for more messages, and its step, seconds. The wait ends with the first step in which nothing came."""


class Sink(Protocol):
    """Destination of records: the node's group commit."""

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Append all of `appends` or none, durable on return. Raises RetryLater when the disk is full."""
        ...


class Elsewhere(Protocol):
    """Other disks, one of which has the records of the log before their senders get an outcome."""

    def appended(self, answers: Sequence[Appended]) -> Callable[[], Awaitable[bool]]:
        """Register `answers`, the result of the last append, and return a function to wait for another disk.

        It returns True once another disk has all that has been in the log until now. It returns False when damage took some of that from
        the log, and no other disk has it."""
        ...

    def refused_s(self) -> float:
        """Return how long records that senders wait for could not reach another disk, because this disk does not give them, seconds; else
        0.

        The time is monotonic."""
        ...


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """Durable parcels; their senders get the outcomes after `until_there`. `losses`: the losses that the windows of repeats included."""

    parcels: list[Parcel]
    outcomes: list[Outcome]
    until_there: Callable[[], Awaitable[bool]]
    losses: int


class Pipeline:
    """The path from messages to durable readings: it reports the outcome of its messages to each sender once that is durable.

    1 `offer` puts messages into a bounded queue, of which each sender has its share (`intake.fair_queue`): beyond it, the sender is held.
    When all is `full`, all senders stop reading until they are called back.

    2 `run` takes at most a batch of what waits, and decodes and checks it, column by column, while the batch before is still being written.
    A few messages wait for more meanwhile, and hundreds GATHER_S longer: a commit costs about the same for few as for many.

    3 When that one is durable, repeats are dropped: in this batch, and against the window of what is in the log.

    4 Readings and exceptions are appended in one commit, of exceptions as many of each account as are kept (`intake.reject_limits`). A full
    disk is waited for, and meanwhile nothing is acknowledged.

    5 Their identities enter the window. The senders get the outcomes, with `elsewhere` once another disk has all up to here. The next
    commits do not wait for that, as long as the queue is not `full`. Where damage takes from the log what no other disk has, all clients
    that wait are disconnected, to send it again. The windows are rebuilt from the log: readings that it lost are no repeats."""

    def __init__(
        self,
        sink: Sink,
        log: Log,
        node: str,
        clock: Clock,
        metrics: Metrics,
        settings: PipelineSettings,
        elsewhere: Elsewhere | None = None,
        companions: Sequence[str] = (),
        strangers: Strangers | None = None,
        ships: Collection[str] | None = None,
    ) -> None:
        """`companions`: the other nodes of this ship or port; a reading that they received is a repeat here once it came.

        `ships`: as of `Routes`."""
        self._sink, self._clock, self._metrics, self._settings = sink, clock, metrics, settings
        self._process, self._strangers = metrics.process, strangers
        self._routes = Routes(((one.topic, find_decoder(one.decoder)) for one in settings.decoders), ships)
        self._log, self._node, self._companions = log, node, tuple(companions)
        self._said = {stream: LastSaid(settings.repeats_readings_max) for stream in STREAMS}
        self._by_others, self._windows = self._known(self._said)
        self._losses = self._losses_known = 0
        self._waiting = FairQueue(settings, self._account_held)
        self._refusals = Refusals(self._process, settings.exceptions_bytes_per_h)
        self._elsewhere = elsewhere
        self._unsettled: asyncio.Queue[_Unsettled] = asyncio.Queue()
        self._in_work_messages = self._unsettled_messages = self._unsettled_bytes = 0
        self._arrived, self._durable, self._moved, self._news = (asyncio.Event() for _ in range(4))
        self._durable.set()
        self._listeners: list[Callable[[bool], None]] = []
        self._of_accounts: list[Callable[[str, bool], None]] = []
        self._stuck_since_s: float | None = None
        self.full = False

    def is_at_work(self) -> bool:
        """Return whether messages wait, or are on their way to this disk. Any thread."""
        return bool(self._waiting.messages or self._in_work_messages)

    def stuck_s(self) -> float:
        """Return for how long nothing could be stored, or stored records could not reach another disk where that is waited for, monotonic
        s; else 0."""
        if self._stuck_since_s is not None:
            return self._clock.monotonic_s() - self._stuck_since_s
        return 0.0 if self._elsewhere is None else self._elsewhere.refused_s()

    def listen(self, full_changed: Callable[[bool], None]) -> Callable[[], None]:
        """Call `full_changed` whenever the queue becomes full (True: read no more) and when it has room again (False), until the returned
        function is called."""
        self._listeners.append(full_changed)
        return lambda: self._listeners.remove(full_changed)

    def listen_of_accounts(self, held_changed: Callable[[str, bool], None]) -> None:
        """Call `held_changed` whenever no sender of an account may be read from (True), and when they may be again (False)."""
        self._of_accounts.append(held_changed)

    def holds(self, account: str) -> bool:
        """Return whether none of the account's senders may be read from now."""
        return account in self._waiting.held_accounts

    def _account_held(self, account: str, held: bool) -> None:
        for held_changed in self._of_accounts:
            held_changed(account, held)

    def offer(self, sender: MessageSender, messages: list[Publish]) -> None:
        """Queue `messages`, whatever the state of the queue: a sender that goes on while it is `full` grows it. Event loop only."""
        self._metrics.count("intake_received", len(messages))
        self._waiting.put(sender, messages, self._clock.monotonic_s())
        self._set_waiting_gauge()
        self._arrived.set()
        self._moved.set()
        self._update_full()

    async def run(self) -> None:
        """Work until cancelled. Messages queued or half-way then are not acknowledged, so their senders bring them again."""
        async with asyncio.TaskGroup() as writing:
            if self._elsewhere is not None:
                writing.create_task(self._settle_in_turn())
            if self._companions:
                writing.create_task(self._hear_of_others())
            writing.create_task(self._report_counted())
            while True:
                await self._arrived.wait()
                while not self._waiting.gives(GATHERED_MESSAGES) and not self._durable.is_set():
                    self._moved.clear()
                    await self._moved.wait()
                await self._gather()
                parcels = self._take()
                messages = [message for _, queued, _ in parcels for message in queued]
                prepared = self._prepared(messages)
                if Outcome.FUTURE in prepared.outcomes and await CLOCKS.run(self._clock.asked):
                    prepared = self._prepared(messages)
                await self._durable.wait()
                self._durable.clear()
                await self._know_losses()
                parts = [part for whole in prepared.parts if (part := self._fresh(whole, prepared.outcomes, messages)) is not None]
                writing.create_task(self._commit(parcels, prepared, parts))

    async def _gather(self) -> None:
        """Wait until more of a flood has come, or nothing came for a moment. If one account would delay another, do not wait."""
        until_s = self._clock.monotonic_s() + GATHER_S
        while FLOOD_MESSAGES <= (waiting := self._waiting.messages) < GATHERED_MESSAGES and not self._waiting.is_shared():
            if self._waiting.fills_a_batch() or self._clock.monotonic_s() >= until_s:
                break
            await asyncio.sleep(GATHER_STEP_S)
            if self._waiting.messages == waiting:
                break

    def _prepared(self, messages: list[Publish]) -> Prepared:
        prepared = prepare(messages, self._routes, believed_times(self._clock))
        if self._strangers is not None:
            mark_strangers(prepared, self._strangers)
        return prepared

    def _take(self) -> list[Parcel]:
        parcels = self._waiting.take()
        self._in_work_messages += sum(len(messages) for _, messages, _ in parcels)
        if not self._waiting.messages:
            self._arrived.clear()
        self._update_full()
        return parcels

    def _update_full(self) -> None:
        messages, bytes_ = self._waiting.messages + self._unsettled_messages, self._waiting.bytes + self._unsettled_bytes
        full = messages >= self._settings.pending_readings_max or bytes_ >= self._settings.pending_bytes_max
        if full != self.full:
            self.full = full
            for full_changed in self._listeners:
                full_changed(full)

    def _fresh(self, part: StreamRows, outcomes: list[Outcome], messages: Sequence[Publish]) -> StreamRows | None:
        """Return `part` without its repeats; None when nothing is left.

        A message is a repeat when all its readings are. A reading repeated by a device whose clock stands still is no repeat, and is
        flagged. A reading of a device whose clock fell back is flagged too."""
        last_said, now_s, now_ms = self._said[part.stream], self._clock.monotonic_s(), self._clock.now_ms()
        known, true_from_ms = self._windows[part.stream].known(part.identities), believed_times(self._clock).start
        kept: Sequence[int] = range(len(known))
        if any(known) or len(set(part.identities)) < len(known):
            kept, stopped = self._not_repeated(part, known, messages, true_from_ms)
        else:
            forgotten = last_said.note(part.whose, part.times_ms, part.identities, repeat(now_s), true_from_ms)
            stopped = {row for row in forgotten if _needs_flag(part, row, messages)}
        if stopped or len(kept) < len(known):
            if stopped:
                self._metrics.count("stopped_clocks", len(stopped))
            for number in set(part.messages).difference(part.messages[row] for row in kept):
                if outcomes[number] in STORED:
                    outcomes[number] = Outcome.REPEATED
            part = part.taken(kept, stopped, CLOCK_STOPPED)
        if not self._clock.doubted() and (fallen := last_said.fallen.note(part.whose, part.times_ms, repeat(now_ms))):
            self._metrics.count("clocks_back", len(fallen))
            part = part.taken(range(len(part.messages)), fallen, CLOCK_BACK)
        return part if part.messages else None

    def _not_repeated(
        self, part: StreamRows, known: Sequence[bool], messages: Sequence[Publish], true_from_ms: int
    ) -> tuple[list[int], set[int]]:
        """Return the rows of `part` that are no repeats, and those of them that devices report again whose clock stands still."""
        last_said, now_s = self._said[part.stream], self._clock.monotonic_s()
        seen: set[bytes] = set()
        kept: list[int] = []
        stopped: set[int] = set()
        for row, (whose, at_ms, identity, before) in enumerate(zip(part.whose, part.times_ms, part.identities, known, strict=True)):
            if before or identity in seen:
                if messages[part.messages[row]].is_said_again() or not last_said.note(
                    (whose,), (at_ms,), (identity,), (now_s,), true_from_ms
                ):
                    continue
                stopped.add(row)
            else:
                seen.add(identity)
                if last_said.note((whose,), (at_ms,), (identity,), (now_s,), true_from_ms) and _needs_flag(part, row, messages):
                    stopped.add(row)
            kept.append(row)
        return kept, stopped

    async def _commit(self, parcels: list[Parcel], prepared: Prepared, parts: list[StreamRows]) -> None:
        appends = [Append(part.stream, part.records) for part in parts]
        if exceptions := [*self._exceptions(parcels, prepared), *self._refusals.news(self._clock.monotonic_s(), self._clock.now_ms())]:
            appends.append(Append(EXCEPTIONS, to_batch(exceptions)))
        commit_point("intake.decoded")
        answers = await self._append(appends) if appends else []
        commit_point("intake.durable")
        for part in parts:
            self._windows[part.stream].remember(part.identities)
        self._in_work_messages -= len(prepared.outcomes)
        if self._elsewhere is None:
            self._settle(parcels, prepared.outcomes)
        else:
            self._count_unsettled(parcels, 1)
            self._unsettled.put_nowait(_Unsettled(parcels, prepared.outcomes, self._elsewhere.appended(answers), self._losses_known))
        self._durable.set()
        self._moved.set()
        commit_point("intake.acknowledged")

    def _exceptions(self, parcels: list[Parcel], prepared: Prepared) -> Iterator[Record]:
        whose = [(sender.account, message) for sender, messages, _ in parcels for message in messages] if prepared.refused else []
        now_s, now_at_ms = self._clock.monotonic_s(), self._clock.now_ms()
        for one in prepared.refused:
            account, message = whose[one.number]
            if self._refusals.keeps(account, message, one.outcome, now_s, now_at_ms):
                yield exception_record(self._process, message, one, now_at_ms)
            else:
                self._metrics.count("exceptions_counted_alone")

    async def _report_counted(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            if records := self._refusals.news(self._clock.monotonic_s(), self._clock.now_ms()):
                await self._append([Append(EXCEPTIONS, to_batch(records))])

    async def _settle_in_turn(self) -> None:
        """Wait for another disk, and report outcomes to senders in the order of the messages.

        After a loss, no outcome is reported for messages that were taken for repeats before the windows included the loss."""
        while True:
            one = await self._unsettled.get()
            if one.losses == self._losses and not await one.until_there():
                self._losses += 1
            self._count_unsettled(one.parcels, -1)
            if one.losses == self._losses:
                self._settle(one.parcels, one.outcomes)
            else:
                self._let_go(one.parcels)

    async def _know_losses(self) -> None:
        """Rebuild the windows until they hold no more than the log. Called while no commit is on its way."""
        while self._losses_known != (losses := self._losses):
            try:
                self._by_others, self._windows = await asyncio.to_thread(self._known)
            except RetryLater:
                self._is_stuck()
                await asyncio.sleep(self._settings.retry_ms / 1000)
            else:
                self._losses_known, self._stuck_since_s = losses, None
                self._news.set()

    def _known(self, said: Mapping[str, LastSaid] | None = None) -> tuple[dict[str, TakenInElsewhere], dict[str, RepeatWindow]]:
        """Return the sources of what others of this ship or port add from now on, and the windows rebuilt from the log.

        `said` receives it too."""
        nodes, known_max = (self._node, *self._companions), self._settings.repeats_readings_max
        by_others = {stream: TakenInElsewhere(self._log, self._companions, stream, known_max) for stream in STREAMS}
        heard = said or {}
        windows = {}
        for stream in STREAMS:
            with large_work():
                windows[stream] = RepeatWindow.rebuilt(self._log, nodes, stream, known_max, heard.get(stream), self._clock)
        return by_others, windows

    async def _hear_of_others(self) -> None:
        """Add the readings that others of this ship or port received to the window as soon as they are here."""
        loop, grown = asyncio.get_running_loop(), self._news

        def changed(streams: frozenset[str]) -> None:
            if streams & self._by_others.keys():
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = self._log.subscribe(changed)
        try:
            while True:
                await grown.wait()
                grown.clear()
                for stream, others in self._by_others.items():
                    try:
                        known = await asyncio.to_thread(others.news)
                        self._windows[stream].remember(known)
                        self._metrics.count("intake_known_by_others", len(known))
                    except RetryLater:
                        loop.call_later(self._settings.retry_ms / 1000, grown.set)
        finally:
            unsubscribe()

    def _count_unsettled(self, parcels: list[Parcel], sign: int) -> None:
        self._unsettled_messages += sign * sum(len(messages) for _, messages, _ in parcels)
        self._unsettled_bytes += sign * sum(sum(bytes_of(messages)) for _, messages, _ in parcels)
        self._update_full()

    async def _append(self, appends: list[Append]) -> list[Appended]:
        while True:
            try:
                answers = await self._sink.append(appends)
                self._stuck_since_s = None
                return answers
            except RetryLater:
                self._metrics.count("intake_append_retries")
                self._is_stuck()
                await asyncio.sleep(self._settings.retry_ms / 1000)

    def _is_stuck(self) -> None:
        if self._stuck_since_s is None:
            self._stuck_since_s = self._clock.monotonic_s()

    def _settle(self, parcels: list[Parcel], outcomes: list[Outcome]) -> None:
        at = 0
        now_s = self._clock.monotonic_s()
        for sender, messages, offered_s in parcels:
            sender.settled(messages, outcomes[at : at + len(messages)])
            at += len(messages)
            self._metrics.observe("intake_ms", (now_s - offered_s) * 1000)
        self._count(outcomes)

    def _let_go(self, parcels: list[Parcel]) -> None:
        for sender, messages, _ in parcels:
            sender.let_go()
            self._count([Outcome.LET_GO] * len(messages))

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        for outcome, count in Counter(outcomes).items():
            self._metrics.count(f"intake_{outcome.name.lower()}", count)
        self._set_waiting_gauge()

    def _set_waiting_gauge(self) -> None:
        self._metrics.gauge("intake_waiting", self._waiting.messages + self._in_work_messages + self._unsettled_messages)


def _needs_flag(part: StreamRows, row: int, messages: Sequence[Publish]) -> bool:
    """Return whether a reading that no window knows, of a clock that stands still, needs a flag so that no history takes it for a repeat.

    A reading that MQTT marks as sent again is a repeat, and needs none. A reading without a time is never taken for one."""
    return part.times_ms[row] is not None and not messages[part.messages[row]].is_said_again()
