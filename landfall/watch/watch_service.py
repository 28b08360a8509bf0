"""The watch over a node's own log: cargo's pure rules run on what has been appended, their alerts and events appended exactly once.

The watch is a consumer of the streams it hears; of readings it takes only those that its own node took in, or another of the same ship or
port: each of them watches it all, and what two of them say has the same id. What a step made and the Positions it was made from are
committed together, so after a crash it is neither lost nor made twice. Its memory is kept in a snapshot file now and then, never in the
log; at start the steps since the snapshot are taken again, cut exactly as the `consumers` stream says they were cut, and what they make is
known to be in the log already. A snapshot that is missing, damaged or ahead of the log costs time only: then every step the log still
holds is taken again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from cargo.alerts.crew_decisions import read_said, take_said
from cargo.errors import BadEntry
from cargo.loss.clock_turnback import turned_back
from cargo.loss.reading_rows import Heard, rows
from cargo.loss.roll_call import to_call
from cargo.loss.watch import arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, parse_entry
from intake.pipeline import STREAMS, Sink
from landfall.system.thread_pool import BoundedPool
from landfall.watch.muster_reader import Called, called
from landfall.watch.other_nodes import caught_up
from landfall.watch.snapshot_file import Kept, read_kept, write_kept
from landfall.watch.step_replay import AT_MS, RESUMED_AT_MS, Retaking, cuts
from landfall.watch.watermark_reader import DROPPED, PATIENCE_S, OwnReadings, PassedOver
from streams.commit_points import commit_point
from streams.consumers import CONSUMERS, Consumer, Times
from streams.gap_skipping_reader import Patience, Polled
from streams.log import Append, Log
from streams.memory_release import large_work, release
from streams.model.clock import Clock
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import BODY, RECEIVED_AT, Batch, Record, read_body, to_batch
from streams.skipped_records import EXCEPTIONS, NODE, floor_append

ROWS_AT_ONCE_MAX = 4_096
GATHER_S = 0.25
"""Pause of the watch after a step that was not full, seconds: a busy log is judged some times a second, not at each of its commits."""
LOOK_S = 0.5
"""Time between two looks at the clock while something falls due though nothing comes, seconds."""
GIVES_WAY_ROWS = 64
"""Number of readings judged in one go while sensors wait for their answers."""
SNAPSHOT_EVERY_S = 10.0
RETRY_S = 1.0
Positions = dict[str, Position]
Report = Callable[..., None]
WENT_ON = "the watch went on without"
_log = logging.getLogger(__name__)


async def to_its_end(work: asyncio.Task[None]) -> None:
    """Wait until `work` is done, cancelled or not: two tasks that write one file would spoil it for each other."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


@dataclass(frozen=True, slots=True)
class _Step:
    """Input and results of one step, and the times it followed from (`landfall.watch.step_replay.TIMES`)."""

    polled: dict[str, Polled]
    appends: list[Append]
    more: bool
    times: Times


class Watching:
    """Watch on a ship or a quay. `run` it as background work of the node; `muster` may be called any time.

    `patience_s`: how long a hole in a stream is waited for; in its own readings, no longer than
    `landfall.watch.watermark_reader.PATIENCE_S`. Offsets below the floor are passed over. The commit that advances past either of them
    reports it to `exceptions`.

    `registry_streams`: streams with the registry entries this watch receives (a ship's `aboard/<imo>`, a port's `registry`). `known`:
    entries it knows without receiving them, such as the ports of the settings. `decided_in`: the stream of what people aboard report of
    boxes, or None. `companions`: the other nodes of the same ship or port, whose readings are watched too.

    `lacked`: how many of their readings are not here yet, as far as is known; None while none of them reports it. After a start these
    come first (`landfall.watch.other_nodes`). `gives_way`: whether sensors wait for their answers. Then the watch rests as long as it
    works, in small parts, because only one thread of a process works at once.
    """

    def __init__(
        self,
        settings: WatchSettings,
        folder: Path,
        clock: Clock,
        metrics: Metrics,
        report: Report,
        registry_streams: Sequence[str] = (),
        known: Sequence[Entry] = (),
        decided_in: str | None = None,
        companions: Sequence[str] = (),
    ) -> None:
        self._settings, self._known, self._registry_streams = settings, tuple(known), tuple(registry_streams)
        self._decided_in = (decided_in,) if decided_in else ()
        self._file = folder / "watch.snapshot"
        self._clock, self._metrics, self._report = clock, metrics, report
        self.patience_s: Callable[[str], float | None] = _for_ever
        self.lacked: Callable[[], int | None] = _nothing
        self.gives_way: Callable[[], bool] = _never
        self._consumers: dict[str, Consumer] = {}
        self._nodes = (settings.place.node, *companions)
        self._taken_in: list[OwnReadings] = []
        self._state = self._new_state()
        self._stepping = asyncio.Lock()
        self._pool = BoundedPool("watch", 1, 2)
        self._snapshot_at_s = 0.0
        self._committed = Position()
        self._resumes_at_ms: int | None = None

    async def run(self, log: Log, sink: Sink) -> None:
        """Take up the memory, wait for what companions heard meanwhile, then step whenever the log grows, until cancelled."""
        self._resumes_at_ms = self._clock.now_ms()
        loop = asyncio.get_running_loop()
        grown = asyncio.Event()
        heard = frozenset((*self._registry_streams, *self._decided_in, *STREAMS))

        def changed(streams: frozenset[str]) -> None:
            if streams & heard:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = log.subscribe(changed)
        try:
            async with self._stepping:
                await self._pool.run(partial(self._take_up, log))
            if len(self._nodes) > 1:
                await caught_up(self.lacked, self._clock)
            grown.set()
            while True:
                with suppress(TimeoutError):  # a hole may have been waited for long enough, or something fall due, though nothing came
                    async with asyncio.timeout(PATIENCE_S if falls_due_ms(self._state) is None else LOOK_S):
                        await grown.wait()
                grown.clear()
                behind = False
                while await self._step(log, sink, grown):
                    behind = True  # there is more to judge
                if behind:
                    await self._pool.run(release)
                await asyncio.sleep(GATHER_S)
        finally:
            unsubscribe()

    async def taken_up(self) -> None:
        """Return once the watch has its memory, and no step is being made."""
        async with self._stepping:
            return

    def strangers(self, numbers: set[str]) -> set[str]:
        """Return those of these container numbers that are in no load list and no booking which the watch has received so far.

        Returns none before it has received any. Any thread may call it.
        """
        return self._state.strangers(numbers)

    async def asks(self) -> tuple[list[tuple[int, float]], int, tuple[str, ...]]:
        """Return what the watch's findings require of devices: the ship's rolls, the time, and the devices to call.

        The rolls are in order (UTC ms, degrees to either side). The time is the watch's own (UTC ms). The devices come from
        `cargo.loss.roll_call.to_call`.
        """
        async with self._stepping:
            memory = self._state.memory
            return list(memory.voyage.rolls), memory.settled_at_ms, to_call(self._state)

    async def call_roll(self) -> Called:
        """Return the muster as of now, box by box, once the step under way is made."""
        async with self._stepping:
            return await self._pool.run(partial(called, self._state))

    def _new_state(self) -> WatchState:
        state = WatchState(self._settings)
        learn(state, self._known)
        return state

    async def _step(self, log: Log, sink: Sink, again: asyncio.Event) -> bool:
        """Make one step; return whether there is more to judge at once. Sets `again` when the log could not be read now."""
        async with self._stepping:
            try:
                made = await self._pool.run(partial(self._read_and_judge, log))
            except RetryLater:
                self._metrics.count("watch_read_retries")
                await asyncio.sleep(RETRY_S)
                again.set()
                return False
            if made is None:
                return False
            commit_point("watch.judged")
            await self._commit(made, sink)
            commit_point("watch.durable")
            if self._clock.monotonic_s() - self._snapshot_at_s >= SNAPSHOT_EVERY_S:
                await to_its_end(asyncio.create_task(self._pool.run(self._keep_snapshot)))
                commit_point("watch.snapshot")
            return made.more

    def _read_and_judge(self, log: Log) -> _Step | None:
        standing = {stream: consumer.position() for stream, consumer in self._consumers.items()}
        now_ms = self._clock.now_ms()
        polled = {
            stream: self._consumers[stream].poll_from_floor(ROWS_AT_ONCE_MAX) for stream in (*self._registry_streams, *self._decided_in)
        }
        readings, passed = self._taken_in_since(log, {stream: standing[stream] for stream in STREAMS})
        polled |= readings
        read = any(polled[stream].position != position for stream, position in standing.items())
        more = any(poll.rows >= ROWS_AT_ONCE_MAX for poll in polled.values()) or any(own.cut_at_ms is not None for own in self._taken_in)
        times = self._times(now_ms, read=read)
        if times is None:
            return None
        started_s = self._clock.monotonic_s()
        outcome = self._judge({stream: poll.batches for stream, poll in polled.items()}, times)
        self._metrics.observe("watch_step_ms", (self._clock.monotonic_s() - started_s) * 1000)
        counts = (sum(poll.rows for poll in polled.values()), len(outcome.alerts), len(outcome.events), outcome.unwatched)
        for name, count in zip(("readings", "alerts", "events", "unwatched"), counts, strict=True):
            self._metrics.count(f"watch_{name}", count)
        judged = {"alerts": outcome.alerts, "events": outcome.events}
        appends = [Append(stream, _records(records)) for stream, records in judged.items() if records]
        return _Step(polled, [*appends, *self._reports_of(passed, standing)], more, times)

    def _times(self, now_ms: int, *, read: bool) -> Times | None:
        """Return the times that a step follows from; None where there is no step to make.

        After a start nothing falls due before a record has arrived.
        """
        if self._resumes_at_ms is not None:
            return {RESUMED_AT_MS: min(self._resumes_at_ms, now_ms)} if read else None
        if read:
            return {}
        return {AT_MS: now_ms} if self._due(now_ms) else None

    def _due(self, at_ms: int) -> bool:
        """Return whether something falls due by now, and all records received by then are taken.

        Records that wait behind a hole were received too.
        """
        due_ms = falls_due_ms(self._state)
        return due_ms is not None and due_ms <= at_ms and not any(own.waits for own in self._taken_in)

    def _taken_in_since(self, log: Log, standing: Positions) -> tuple[dict[str, Polled], list[PassedOver]]:
        """Return what each node received, and what was passed over. A node that has a hole holds up no other.

        Of a backlog, all nodes are read up to the same received time.
        """
        if not self._taken_in:
            self._taken_in = [OwnReadings(log, node, self._clock, lambda stream: self.patience_s(stream)) for node in self._nodes]
        found = {stream: Polled((), position) for stream, position in standing.items()}
        passed: list[PassedOver] = []
        polls = [own.poll(standing, ROWS_AT_ONCE_MAX) for own in self._taken_in]
        cut_at_ms = min((own.cut_at_ms for own in self._taken_in if own.cut_at_ms is not None), default=None)
        for own, poll in zip(self._taken_in, polls, strict=True):
            behind = cut_at_ms is None or own.cut_at_ms == cut_at_ms
            polled, over = poll if behind else own.poll(standing, ROWS_AT_ONCE_MAX, cut_at_ms)
            passed += over
            for stream, one in polled.items():
                kept = (batch for batch in map(log.own, one.batches) if batch.records.num_rows)
                found[stream] = Polled((*found[stream].batches, *kept), found[stream].position.merged(one.position))
        return found, passed

    def _reports_of(self, passed: Sequence[PassedOver], since: Positions) -> list[Append]:
        """Return the reports that the watch goes on without these. Where it starts from nothing, it only logs what was dropped before."""
        at_ms, appends = self._clock.now_ms(), []
        for offsets in passed:
            reason = f"{offsets.stream}:{offsets.origin} {offsets.first}..{offsets.end - 1} was not judged: {offsets.why}"
            if offsets.why != DROPPED:
                body = {"reason": reason, "outcome": WENT_ON, "at_ms": at_ms}
                appends.append(Append(EXCEPTIONS, to_batch([Record(self._metrics.process, device_at_ms=at_ms, body=body)])))
            elif since[offsets.stream]:
                appends.append(floor_append(NODE, reason, WENT_ON, at_ms))
            else:
                _log.info("the watch begins here: %s", reason)
        return appends

    def _judge(self, batches: Mapping[str, Sequence[Batch]], times: Times) -> WatchOutcome:
        """Judge one step's batches and return the outcome.

        The order is: registry entries; that the node listens again, if it was down; all readings received, in order of time, whichever
        stream they are in; that time has gone on; people's statements.
        """
        outcome = WatchOutcome()
        for stream in self._registry_streams:
            outcome.add(learn(self._state, self._entries(batches.get(stream, ()))))
        own = [batch for stream in STREAMS for batch in batches.get(stream, ()) if batch.origin.node in self._nodes]
        if (resumed_at_ms := times.get(RESUMED_AT_MS)) is not None:
            self._state.memory.clock.resume(resumed_at_ms)
        for readings in self._by_generation(own):
            heard = [row for batch in readings for row in rows(batch.records, batch.stream, str(batch.origin))]
            heard.sort(key=lambda row: row.order_at_ms)
            outcome.add(step(self._state, self._unhurried(heard)))
        outcome.add(arrived(self._state, times.get(AT_MS)))
        for stream in self._decided_in:
            for batch in batches.get(stream, ()):
                for body in batch.records.column(BODY).to_pylist():
                    outcome.add(self._decided(body))
        return outcome

    def _by_generation(self, own: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
        """Yield what nodes received, with each generation not known before last and apart: received times may have gone back there."""
        known = self._state.memory.generations
        for origin in sorted({batch.origin for batch in own}):
            known.setdefault(origin.node, origin.generation)
        newer = sorted({batch.origin for batch in own if batch.origin.generation > known[batch.origin.node]})
        yield [batch for batch in own if batch.origin not in newer]
        for origin in newer:
            readings = [batch for batch in own if batch.origin == origin]
            self._state = turned_back(self._state, min(batch.records.column(RECEIVED_AT)[0].as_py() for batch in readings))
            self._state.memory.generations[origin.node] = origin.generation
            yield readings

    def _unhurried(self, heard: Sequence[Heard]) -> Iterator[Heard]:
        for first in range(0, len(heard), GIVES_WAY_ROWS):
            began_s = self._clock.monotonic_s()
            yield from heard[first : first + GIVES_WAY_ROWS]
            if self.gives_way():
                time.sleep(self._clock.monotonic_s() - began_s)

    def _decided(self, body: str | None) -> WatchOutcome:
        try:
            return take_said(self._state, read_said(read_body(body)))
        except ValueError as problem:
            self._report(
                "what a person says of a box is not so any more", "left out by the watch", code="decision_unreadable", problem=str(problem)
            )
            return WatchOutcome()

    def _entries(self, batches: Sequence[Batch]) -> Iterator[Entry]:
        for batch in batches:
            for topic, body in zip(batch.records.column("topic").to_pylist(), batch.records.column(BODY).to_pylist(), strict=True):
                if topic.startswith(("acknowledgement/", "home/", "ask/")):
                    continue
                try:
                    yield parse_entry(body or "")
                except BadEntry as problem:
                    what, outcome = "a registry entry does not read", "left out by the watch"
                    self._report(what, outcome, code=problem.code, topic=topic, problem=str(problem))

    async def _commit(self, made: _Step, sink: Sink) -> None:
        appends = list(made.appends)
        for stream, polled in made.polled.items():
            appends += self._consumers[stream].with_position(polled.position, times=made.times)
        while True:
            try:
                last = [answer for answer in await sink.append(appends) if answer.stream == CONSUMERS][-1]
                break
            except RetryLater:
                self._metrics.count("watch_append_retries")
                await asyncio.sleep(RETRY_S)
        self._committed = Position({last.origin: last.first + last.count})
        for stream, polled in made.polled.items():
            self._consumers[stream].committed(polled.position)
        if RESUMED_AT_MS in made.times:
            self._resumes_at_ms = None

    def _take_up(self, log: Log) -> None:
        self._consumers = {
            stream: Consumer(log, f"watch/{stream}", stream, patience=self._patience_of(stream))
            for stream in (*self._registry_streams, *self._decided_in, *STREAMS)
        }
        reached = {stream: consumer.position() for stream, consumer in self._consumers.items()}
        self._state, self._committed = self._new_state(), Position()
        with large_work():
            restored = self._restore_snapshot(reached)
        at = restored or {stream: _floor(log, stream) for stream in reached}
        taking, steps = Retaking(log, at, reached), 0
        for cut, times in cuts(log, reached, self._committed):
            self._judge({stream: list(taking.until(stream, position)) for stream, position in cut.items()}, times)
            steps += 1
        _log.info("the watch has taken up its memory: %d steps since the snapshot taken again", steps)

    def _patience_of(self, stream: str) -> Patience:
        return Patience(lambda: self.patience_s(stream), self._clock, self._metrics.process)

    def _restore_snapshot(self, reached: Positions) -> Positions | None:
        try:
            kept = read_kept(self._file, self._settings, reached)
        except (ValueError, OSError) as problem:
            what, outcome = "the watch's snapshot can not be used", "memory built again from the log"
            self._report(what, outcome, code="snapshot_unreadable", problem=str(problem))
            return None
        if kept is None:
            return None
        self._state, self._committed = kept.state, kept.committed
        learn(self._state, self._known)
        return dict(kept.positions)

    def _keep_snapshot(self) -> None:
        """Write the snapshot, and give back the memory it took, and the readings'.

        On a full disk the earlier snapshot stays valid: it only is older.
        """
        self._snapshot_at_s = self._clock.monotonic_s()
        positions = {stream: consumer.position() for stream, consumer in self._consumers.items()}
        try:
            write_kept(self._file, Kept(self._state, positions, self._committed))
        except OSError as problem:
            what, outcome = "the watch's snapshot can not be written", "the one before is kept"
            self._report(what, outcome, code="disk_refused", problem=str(problem))
        release()


def _for_ever(stream: str) -> float | None:
    """Return the patience of streams without one of their own: for ever."""
    return None


def _never() -> bool:
    """Return False, where nobody waits."""
    return False


def _nothing() -> int:
    """Return 0 as the number of lacked records, where no other node is asked."""
    return 0


def _records(made: Sequence[MadeRecord]) -> pa.RecordBatch:
    return to_batch([Record(topic=one.topic, device_at_ms=one.at_ms, body=one.body) for one in made])


def _floor(log: Log, stream: str) -> Position:
    return Position({origin: one.floor for origin, one in log.ledger(stream).items()})
