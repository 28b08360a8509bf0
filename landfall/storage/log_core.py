"""The part that all kinds of log share: they assign offsets, admit blocks, and release ranges. Each kind makes a commit durable in its own
way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from landfall.storage.admission_times import taken_in
from landfall.storage.append_planner import AppendPlan, DeviceTimes, NewBlock, given_before, new_blocks, plan_appends
from landfall.storage.damage import WANTED_AGAIN, Damage
from landfall.storage.epoch_marker import check_node
from landfall.storage.frames import Floor, FrameGone, FrameHeader, Opening
from landfall.storage.index import IndexDamaged
from landfall.storage.log_reader import IndexedReader
from landfall.storage.log_state import Book, LineKey, Lines, OriginState, Piece, Positions
from landfall.storage.rejected_records import Disowned
from landfall.storage.row_tables import INT64_MAX
from landfall.storage.topic_filters import topic_summary
from streams.log import Append, Appended, PeerKnowsMore, Witness
from streams.model.block import Block, Codec
from streams.model.clock import EARLY_MS_MAX, Clock
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin, check_stream
from streams.model.ledger import GONE_REASONS, GoneReason
from streams.model.ranges import RangeSet

Changed = Callable[[frozenset[str]], None]
Randbits = Callable[[int], int]


class LogKeeper(Protocol):
    """The store that commits go to. It is not safe to use from several threads: the log's lock guards it."""

    @property
    def book(self) -> Book:
        """The state that all commits add up to."""
        ...

    def ready(self) -> None:
        """Settle what an earlier commit may have left open, so that the book has it. Raises RetryLater, or the reason why nothing can be
        kept.
        """
        ...

    def commit(self, header: FrameHeader, blocks: Sequence[NewBlock] = ()) -> None:
        """Make `header` and `blocks` durable, and bring them into the index and the book.

        Raises RetryLater when they can not be made durable: then nothing has changed. Raises Unclear when it is not known whether they are
        durable.
        """
        ...

    def set_aside(self, key: LineKey, first: int, end: int) -> None:
        """Mark offsets `first .. end - 1`, which do not verify, as wanted again. Raises RetryLater."""
        ...

    def rebuild_index(self, why: str) -> str | None:
        """Rebuild the index and the book from what is stored, because of `why`. Return why the result may not be complete, or None.

        Raises RetryLater; then the index is as it was.
        """
        ...

    def refresh_marker(self) -> None:
        """Write the present generation and commit to the marker."""
        ...


class KeptLog(IndexedReader):
    """A node's log over its keeper. Safe from any thread; commits go one after another."""

    _keeper: LogKeeper
    _disowned: Disowned

    def __init__(self, node: str, codec: Codec, clock: Clock, on_damage: Callable[[Damage], None], randbits: Randbits) -> None:
        """Prepare the log. It can be read once it has its keeper and its list of disowned records."""
        self._node, self._clock, self._on_damage, self._randbits = node, clock, on_damage, randbits
        self._encoding, self._devices = codec, DeviceTimes()
        self._write_lock = threading.RLock()
        self._quiet = threading.Event()
        self._quiet.set()
        self._watchers: dict[int, Changed] = {}
        self._subscribed = 0
        self._witness: Witness | None = None

    @property
    def node(self) -> str:
        """The node whose log this is."""
        return self._node

    @property
    def origin(self) -> Origin:
        """The origin of the records that are appended here."""
        return Origin(self._node, self._keeper.book.openings[-1].generation)

    def newest_received_ms(self) -> int:
        """Return the newest received time of the present generation, UTC ms; 0 while it has no record."""
        origin = self.origin
        return max((lines[origin].received_at_ms for lines in self._lines().values() if origin in lines), default=0)

    def generations(self) -> list[Opening]:
        """Return every generation that this log has opened, the present one last."""
        return list(self._keeper.book.openings)

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Assign offsets to new records, and return the answers: all records or none, in one commit, durable when it returns.

        Raises RetryLater when they can not be kept, Misuse for records that no log takes.
        """
        with self._write_lock, self._under_way():
            plan = self._with_index(lambda: self._append(appends))
        self._notify(plan.rows)
        return plan.answers

    def repeats(self, append: Append) -> bool:
        """Return whether `append` is a retry of records that are already here. Raises RetryLater."""
        with self._write_lock:
            self._with_index(self._ready)
            return given_before(append, self._keeper.book.produced) is not None

    def admit(self, blocks: Sequence[Block]) -> int:
        """Admit blocks from elsewhere, and return how many records were new. They are durable when it returns; it is idempotent.

        Raises Corrupt, PeerKnowsMore, RetryLater; then none of `blocks` was admitted.
        """
        ready = self._decoded(blocks)
        with self._write_lock, self._under_way():
            wanted = self._with_index(lambda: self._admit(blocks, ready))
        self._notify({stream for stream, _ in wanted})
        return sum(ranges.count() for ranges in wanted.values())

    def replace(self, block: Block, unread: RangeSet) -> int:
        """Admit this one block as `admit` does, but first release the held records of it in `unread`: the disk no longer returns them."""
        self._to_store(block)
        key = (block.stream, block.origin)
        with self._write_lock:
            self._new_offsets(block, {})
            for first, end in unread.within(block.first, block.end):
                for piece in [piece.clipped(first, end) for piece in self._pieces(key, first, end)]:
                    self._set_aside(
                        key,
                        piece,
                        Corrupt("the disk does not give it", code="block_unreadable"),
                        cure="a peer has brought the same records",
                    )
            return self.admit([block])

    def declare_gone(self, stream: str, origin: Origin, first: int, end: int, reason: GoneReason) -> None:
        """Record that these offsets will never come. Held records of this node's own are dropped; held records of another node are kept.

        The record is durable; the call is idempotent.
        """
        if not 0 <= first <= end:
            raise Misuse(f"{first}..{end} is no range of offsets", code="offsets_invalid")
        self.declare_all_gone(stream, origin, RangeSet([(first, end)]), reason)

    def declare_all_gone(self, stream: str, origin: Origin, ranges: RangeSet, reason: GoneReason) -> None:
        """Record, as `declare_gone` does, that all `ranges` are gone, in one commit."""
        if reason not in GONE_REASONS:
            raise Misuse(f"records are gone because they are {', '.join(GONE_REASONS)}, not {reason!r}", code="gone_reason_unknown")
        with self._write_lock:
            news = self._with_index(lambda: self._declare_gone(stream, origin, ranges, reason))
        self._notify({stream} if news else ())

    def trim(self, stream: str, origin: Origin, floor: int) -> None:
        """Drop everything below `floor` from this copy, and remember the floor. A floor never moves back."""
        with self._write_lock:
            raised = self._with_index(lambda: self._raise_floor(stream, origin, floor))
        self._notify({stream} if raised else ())

    def set_aside(self, stream: str, origin: Origin, first: int, end: int, why: str) -> int:
        """Mark the held records of `first .. end - 1` as wanted again, and return how many. No rebuilt index takes them from where their
        bytes still lie.

        Raises Misuse for records of this node's own and for an invalid range, RetryLater when the disk is full or Kafka does not answer.
        """
        if not 0 <= first <= end:
            raise Misuse(f"{first}..{end} is no range of offsets", code="offsets_invalid")
        self._check_own(stream, origin, end)
        if origin.node == self._node:
            raise Misuse(
                f"{stream}:{origin} is this node's own",
                hint="what others hold of it may be another's, under the same name",
                code="origin_own",
            )
        with self._write_lock:
            for block in self.blocks(stream, origin, first, end):
                self._disowned.add(block)
            pieces = [piece.clipped(first, end) for piece in self._pieces((stream, origin), first, end)]
            for piece in pieces:
                self._set_aside((stream, origin), piece, Corrupt(why, code="records_rejected"))
        return sum(piece.end - piece.first for piece in pieces)

    def own_end(self, stream: str, origin: Origin) -> int:
        """Return one past the last offset that this log itself assigned under `origin`; 0 when it assigned none."""
        if origin == self.origin:
            return self._keeper.book.line((stream, origin)).end
        closed = (one.ends for one in self._keeper.book.openings if (one.node, one.predecessor) == (origin.node, origin.generation))
        return next((ends.get(stream, 0) for ends in closed), 0)

    def open_generation(self, why: str) -> Origin:
        """Open a new origin, which names the present one as its predecessor, and return it. From then on appends go to it.

        Raises RetryLater when it can not be kept.
        """
        with self._write_lock:
            self._with_index(lambda: self._open_generation(why))
            self._with_index(self._ready)  # then the book has it, also where the index did not take it at once
            self._keeper.refresh_marker()
            return self.origin

    def witnessed_by(self, witness: Witness) -> None:
        """Set the witness. From then on every commit of appends is shown to `witness` first, and its answer is part of that commit."""
        self._witness = witness

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        """Call `changed` with the streams of every commit, right after it, from the committing thread. Return a function that stops the
        calls.
        """
        with self._write_lock:
            self._subscribed += 1
            key = self._subscribed
            self._watchers = {**self._watchers, key: changed}

        def stop() -> None:
            with self._write_lock:
                self._watchers = {other: watcher for other, watcher in self._watchers.items() if other != key}

        return stop

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Mark a commit as under way: background work waits for it."""
        self._quiet.clear()
        try:
            yield
        finally:
            self._quiet.set()

    def _view(self) -> tuple[Lines, Positions]:
        """Return the view of the book, never of the index: the index has a commit under way before subscribers are notified of it."""
        return self._keeper.book.view

    def _ready(self) -> None:
        with self._notifying():
            self._keeper.ready()

    @contextmanager
    def _notifying(self) -> Iterator[None]:
        """Notify the subscribers of what the book learns of earlier commits while the block runs."""
        before = self._keeper.book.lines
        yield
        if (after := self._keeper.book.lines) is not before:
            self._notify(stream for stream, lines in after.items() if lines is not before.get(stream))

    def _append(self, appends: Sequence[Append]) -> AppendPlan:
        self._ready()
        origin, book = self.origin, self._keeper.book

        def line(stream: str) -> OriginState:
            return book.line((stream, origin))

        plan = plan_appends(appends, origin, lambda stream: line(stream).end, book.produced)
        if plan.rows or plan.produced:
            blocks = list(new_blocks(self._encoding, origin, plan, line, self._clock, self._devices, self._witness))
            self._keeper.commit(FrameHeader(produced=tuple(plan.produced)), blocks)
        return plan

    def _admit(self, blocks: Sequence[Block], ready: Mapping[int, list[NewBlock]]) -> dict[LineKey, RangeSet]:
        self._ready()
        for block in blocks:
            if self._disowned.offsets((block.stream, block.origin)):
                self._disowned.allow(block, self._new_offsets(block, {}))
        wanted: dict[LineKey, RangeSet] = {}
        stored: list[NewBlock] = []
        for place, block in enumerate(blocks):
            new = self._new_offsets(block, wanted)
            if new:
                stored += ready[place] if place in ready else self._to_store(block)
                wanted.setdefault((block.stream, block.origin), RangeSet()).update(new)
        if stored:
            self._keeper.commit(FrameHeader(), stored)
        return wanted

    def _declare_gone(self, stream: str, origin: Origin, ranges: RangeSet, reason: GoneReason) -> RangeSet:
        """Declare the ranges gone, and return those that were not known to be gone."""
        self._ready()
        self._check_own(stream, origin, ranges.end())
        ledger = self._keeper.book.line((stream, origin)).ledger
        news = ranges.without(ledger.all_gone())
        if origin.node != self._node:
            news = news.without(ledger.held)
        if news:
            gone = tuple(FrameGone(stream, origin.node, origin.generation, first, end, reason) for first, end in news)
            self._keeper.commit(FrameHeader(gone=gone))
        return news

    def _raise_floor(self, stream: str, origin: Origin, floor: int) -> bool:
        """Raise the floor, and return whether it was lower before."""
        self._ready()
        self._check_own(stream, origin, floor)
        raised = floor > self._keeper.book.line((stream, origin)).ledger.floor
        if raised:
            self._keeper.commit(FrameHeader(floors=(Floor(stream, origin.node, origin.generation, floor),)))
        return raised

    def _open_generation(self, why: str) -> None:
        self._ready()
        openings = self._keeper.book.openings
        before = openings[-1].generation if openings else 0
        now_ms = self._clock.now_ms()
        # Chance in either case: two restores of one backup, the clock behind its generation, would open the same one twice.
        generation = max(now_ms << 20, before + 1) + self._randbits(20)
        ends = self._ends(Origin(self._node, before)) if before else {}
        self._keeper.commit(FrameHeader(openings=(Opening(self._node, generation, before, why, now_ms, ends),)))

    def _repair_index(self, seen: int, problem: IndexDamaged) -> None:
        """Rebuild the index, unless another thread has done so since rebuild number `seen`. Commits wait. Raises RetryLater."""
        with self._write_lock:
            if self._builds == seen:
                doubt = self._keeper.rebuild_index(str(problem))
                self._index_replaced()
                if doubt is not None:
                    self.open_generation(doubt)

    def _decoded(self, blocks: Sequence[Block]) -> dict[int, list[NewBlock]]:
        """Return, by its place in `blocks`, what is written of each block that is new as the book stands. No commit waits while the blocks
        are decoded. Raises Corrupt.
        """
        wanted: dict[LineKey, RangeSet] = {}
        places: list[int] = []
        for place, block in enumerate(blocks):
            key = (block.stream, block.origin)
            new = self._taken(key, block).without(wanted.get(key, ()))
            if new:
                wanted.setdefault(key, RangeSet()).update(new)
                places.append(place)
        return dict(zip(places, self._decoders.map(self._to_store, [blocks[place] for place in places]), strict=True))

    def _to_store(self, block: Block) -> list[NewBlock]:
        """Return what is written of a block from elsewhere."""
        topics = topic_summary(self._codec, block, self._codec.check(block)) if self._codec.knows(block.codec) else None
        latest_ms = self._clock.now_ms() + self._clock.early_ms() - EARLY_MS_MAX  # where the clock may be behind
        return [NewBlock(block, topics, admitted=taken_in(block.first, 0 if self._clock.doubted() else latest_ms))]

    def _check_node(self, where: object) -> None:
        openings = self._keeper.book.openings
        check_node(self._node, openings[-1].node if openings else None, where)

    def _enter(self, doubt: str | None) -> None:
        """Continue with the present generation, or open a new one because of `doubt`."""
        if doubt is None:
            self._keeper.refresh_marker()
        else:
            self.open_generation(doubt)

    def _set_aside(self, key: LineKey, piece: Piece, problem: Corrupt, cure: str = WANTED_AGAIN) -> None:
        """Mark the piece's offsets as wanted again from now on. Raises RetryLater when the disk is full."""
        with self._write_lock:
            self._with_index(lambda: self._keeper.set_aside(key, piece.first, piece.end))
        place = piece.location
        self._on_damage(
            Damage(place.segment, place.at, place.length, str(problem), ((*key, piece.first, piece.end),), cure, code=problem.code)
        )
        self._notify({key[0]})

    def _new_offsets(self, block: Block, taken: Mapping[LineKey, RangeSet]) -> RangeSet:
        """Return the offsets of `block` that are to be admitted and are not in `taken`."""
        key = (block.stream, block.origin)
        line = self._keeper.book.line(key)
        if block.origin == self.origin and block.end > line.end:
            raise PeerKnowsMore(
                f"a peer holds {block.stream}:{block.origin} up to {block.end - 1}, this log gave offsets below {line.end}",
                hint="this log is an old copy: it opens a new generation",
            )
        return self._taken(key, block).without(taken.get(key, ()))

    def _taken(self, key: LineKey, block: Block) -> RangeSet:
        return self._keeper.book.line(key).ledger.takes(RangeSet([(block.first, block.end)]), own=block.origin.node == self._node)

    def _ends(self, origin: Origin) -> dict[str, int]:
        """Return, by stream, one past the last offset of `origin`."""
        return {stream: lines[origin].end for stream, lines in self._keeper.book.lines.items() if origin in lines}

    def _check_own(self, stream: str, origin: Origin, end: int) -> None:
        try:
            check_stream(stream)
        except ValueError as problem:
            raise Misuse(str(problem), code="stream_invalid") from problem
        if end < 0 or end > INT64_MAX:
            raise Misuse(f"{end} is no offset", code="offsets_invalid")
        if origin == self.origin and end > self._keeper.book.line((stream, origin)).end:
            raise Misuse(f"{stream}:{origin} has no offset {end - 1} yet", code="offsets_not_given")

    def _notify(self, streams: Iterable[str]) -> None:
        if names := frozenset(streams):
            for watcher in self._watchers.values():
                watcher(names)
