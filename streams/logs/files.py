"""The log in its own files: frames in append-only segments, one fdatasync per commit, and a SQLite index that can be built again."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from streams.block import Block, Codec
from streams.clock import Clock
from streams.errors import Corrupt, Misuse
from streams.ledger import GoneReason
from streams.log import Append, Appended, PeerKnowsMore
from streams.logs.book import LineKey, Lines, Piece
from streams.logs.damage import Damage
from streams.logs.disk import Disk
from streams.logs.filereading import FileLogReader
from streams.logs.frames import Floor, FrameHeader, Gone, Opening
from streams.logs.marker import Marker
from streams.logs.opening import lock_folder, open_folder
from streams.logs.segments import MERGED, SEGMENTS
from streams.logs.stamping import NewBlock, new_blocks, plan_appends
from streams.logs.topics import topic_filter
from streams.logs.writing import LogWriter, WriteLimits
from streams.ranges import RangeSet
from streams.words import Origin, Position, check_stream

__all__ = ["Damage", "FileLog", "FileLogOptions", "FileLogReader", "WriteLimits"]

Changed = Callable[[frozenset[str]], None]


def _silent(damage: Damage) -> None:
    """Nobody asked to be told."""


@dataclass(frozen=True, slots=True)
class FileLogOptions:
    """What an operator or a test may set.

    `on_damage` is called, from whatever thread finds it, for bytes that do not verify and are set aside; it must not
    call the log. `disk` and
    `randbits` are the operating system's unless a test says otherwise.
    """

    limits: WriteLimits = field(default_factory=WriteLimits)
    on_damage: Callable[[Damage], None] = _silent
    disk: Disk = field(default_factory=Disk)
    randbits: Callable[[int], int] = secrets.randbits


class FileLog(FileLogReader):
    """A node's log in `folder`, written by this process alone. Safe from any thread; commits go one after another.

    A commit is 1 encoded, 2 written as one frame behind the last, 3 synced, 4 indexed in one SQLite transaction, 5 remembered in memory;
    only then is it acknowledged. A failure at 2 to 4 cuts the frame off again. A crash after 3 keeps it: opening brings the index up.
    """

    def __init__(
        self, folder: Path, marker: Path, node: str, codec: Codec, clock: Clock, options: FileLogOptions = FileLogOptions()
    ) -> None:
        """Opens or makes the log. `marker` lies outside `folder` and in no backup of it.

        Raises Misuse when another process writes it or it is another node's, RetryLater when the disk is full.
        """
        self._node, self._clock, self._options = node, clock, options
        self._write_lock = threading.RLock()
        self._watchers: dict[int, Changed] = {}
        self._subscribed = 0
        for kind in (SEGMENTS, MERGED):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            self._lock_descriptor = lock_folder(folder)
            undo.callback(os.close, self._lock_descriptor)
            opened = open_folder(folder, options.disk, codec, options.on_damage)
            opening = undo.enter_context(ExitStack())
            opening.callback(opened.index.close)
            self._book = opened.book
            self._check_node(folder)
            self._writer = LogWriter(folder, Marker(marker, node, options.disk), opened, options.disk, options.limits)
            opening.pop_all()
            undo.callback(self._writer.close)
            super().__init__(folder, codec)
            undo.callback(super().close)
            self._enter(opened.doubt or self._writer.why_not_latest())
            undo.pop_all()

    @property
    def node(self) -> str:
        """The node whose log this is."""
        return self._node

    @property
    def origin(self) -> Origin:
        """The origin of what is appended here."""
        return Origin(self._node, self._book.openings[-1].generation)

    def generations(self) -> list[Opening]:
        """Every generation this log has opened, the present one last."""
        return list(self._book.openings)

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Give offsets to new records: all or none, in one commit, durable when it returns.

        Raises RetryLater when the disk is full (nothing changed), Misuse for records no log takes.
        """
        with self._write_lock:
            origin = self.origin
            plan = plan_appends(appends, origin, lambda stream: self._book.line((stream, origin)).end, self._book.produced)
            if plan.rows or plan.produced:
                blocks = list(new_blocks(self._codec, origin, plan, lambda stream: self._book.line((stream, origin)), self._clock))
                self._writer.commit(FrameHeader(produced=tuple(plan.produced)), blocks)
        self._tell(plan.rows)
        return plan.answers

    def admit(self, blocks: Sequence[Block]) -> int:
        """Take blocks from elsewhere; returns how many records were new. Durable when it returns, idempotent.

        Raises Corrupt, PeerKnowsMore, RetryLater; then none of `blocks` was taken.
        """
        with self._write_lock:
            wanted: dict[LineKey, RangeSet] = {}
            stored: list[NewBlock] = []
            for block in blocks:
                new = self._new_offsets(block, wanted)
                if new:
                    topics = topic_filter(self._codec.decode(block)) if self._codec.knows(block.codec) else None
                    stored.append(NewBlock(block, topics))
                    wanted.setdefault((block.stream, block.origin), RangeSet()).update(new)
            if stored:
                self._writer.commit(FrameHeader(), stored)
        self._tell({stream for stream, _ in wanted})
        return sum(ranges.count() for ranges in wanted.values())

    def declare_gone(self, stream: str, origin: Origin, first: int, end: int, reason: GoneReason) -> None:
        """Record that `first .. end - 1` will never come; held records there are dropped. Durable, idempotent."""
        with self._write_lock:
            self._check_own(stream, origin, end)
            settled = RangeSet([(first, end)])
            for ranges in self._book.line((stream, origin)).ledger.gone.values():
                settled = settled.without(ranges)
            if settled:
                gone = Gone(stream, origin.node, origin.generation, first, end, reason)
                self._writer.commit(FrameHeader(gone=(gone,)))
        self._tell({stream} if settled else ())

    def trim(self, stream: str, origin: Origin, floor: int) -> None:
        """Drop everything below `floor` from this copy, and remember that. Never moves a floor back."""
        with self._write_lock:
            self._check_own(stream, origin, floor)
            raised = floor > self._book.line((stream, origin)).ledger.floor
            if raised:
                self._writer.commit(FrameHeader(floors=(Floor(stream, origin.node, origin.generation, floor),)))
        self._tell({stream} if raised else ())

    def open_generation(self, why: str) -> Origin:
        """From now on appends go to a new origin, which names this one as its predecessor. Raises RetryLater when the disk is full."""
        with self._write_lock:
            before = self._book.openings[-1].generation if self._book.openings else 0
            now_ms = self._clock.now_ms()
            generation = max((now_ms << 20) + self._options.randbits(20), before + 1)
            self._writer.commit(FrameHeader(openings=(Opening(self._node, generation, before, why, now_ms),)))
            self._writer.refresh_marker()
            return self.origin

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        """Call `changed` with the streams of every commit, right after it, from the committing thread; returns how to stop that."""
        with self._write_lock:
            self._subscribed += 1
            key = self._subscribed
            self._watchers = {**self._watchers, key: changed}

        def stop() -> None:
            with self._write_lock:
                self._watchers = {other: watcher for other, watcher in self._watchers.items() if other != key}

        return stop

    def close(self) -> None:
        """Releases the files. The log can not be used afterwards."""
        with self._write_lock:
            super().close()
            self._writer.refresh_marker()
            self._writer.close()
            os.close(self._lock_descriptor)

    def _lines(self) -> Lines:
        return self._book.lines

    def _positions(self) -> Mapping[str, Position]:
        return self._book.positions

    def _check_node(self, folder: Path) -> None:
        if self._book.openings and self._book.openings[-1].node != self._node:
            raise Misuse(
                f"the log in {folder} is {self._book.openings[-1].node}'s, not {self._node}'s", hint="give each node a folder of its own"
            )

    def _enter(self, doubt: str | None) -> None:
        """Go on with the present generation, or open a new one because of `doubt`."""
        if doubt is None:
            self._writer.refresh_marker()
        else:
            self.open_generation(doubt)

    def _set_aside(self, key: LineKey, piece: Piece, problem: Corrupt) -> None:
        """The piece's offsets are wanted again from now on. Raises RetryLater when the disk is full."""
        with self._write_lock:
            self._writer.set_aside(key, piece.first, piece.end)
        place = piece.location
        self._options.on_damage(Damage(place.segment, place.at, place.length, str(problem), ((*key, piece.first, piece.end),)))
        self._tell({key[0]})

    def _new_offsets(self, block: Block, taken: Mapping[LineKey, RangeSet]) -> RangeSet:
        """The offsets of `block` that are neither settled nor in `taken`."""
        key = (block.stream, block.origin)
        line = self._book.line(key)
        if block.origin == self.origin and block.end > line.end:
            raise PeerKnowsMore(
                f"a peer holds {block.stream}:{block.origin} up to {block.end - 1}, this log gave offsets below {line.end}",
                hint="this log is an old copy: it opens a new generation",
            )
        return line.ledger.wanted(RangeSet([(block.first, block.end)])).without(taken.get(key, ()))

    def _check_own(self, stream: str, origin: Origin, end: int) -> None:
        check_stream(stream)
        if origin == self.origin and end > self._book.line((stream, origin)).end:
            raise Misuse(f"{stream}:{origin} has no offset {end - 1} yet")

    def _tell(self, streams: Iterable[str]) -> None:
        if names := frozenset(streams):
            for watcher in self._watchers.values():
                watcher(names)
