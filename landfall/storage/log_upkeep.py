"""The upkeep of a file log: it merges small blocks, empties the files with the largest dead share, and deletes dead files."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from landfall.storage.admission_times import together, within
from landfall.storage.append_planner import encoded
from landfall.storage.commit_path import LogWriter
from landfall.storage.damage import Damage
from landfall.storage.disk import Disk
from landfall.storage.file_header import HEAD_BYTES
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.index import INDEX_NAME, REBUILT, UNREADABLE, IndexDamaged, IndexReader
from landfall.storage.index_writer import bring_down
from landfall.storage.log_state import LineKey, Piece
from landfall.storage.merge_levels import LEVELS, Level, ripe_groups, tail_of
from landfall.storage.merged_files import MergedFiles, Rewritten
from landfall.storage.row_tables import joined
from landfall.storage.segments import disk_refused, file_path, mapped, merged_numbers, read_span, segment_numbers
from streams.commit_points import commit_point
from streams.core_limit import give_way, one_core
from streams.memory_release import release
from streams.model.block import BLOCK_BYTES_MAX, Block, Codec
from streams.model.errors import Corrupt
from streams.model.row_columns import Columns

DEAD_BYTES_MAX = 128 << 10
"""Maximum dead bytes in all files together, in addition to a DEAD_SHARE-th of the held bytes. Above that, the file with the largest dead
share is emptied.
"""
DEAD_SHARE = 16
AROUND_BYTES = 64
"""Size of what surrounds a block in a file that holds only it, bytes: no reason to write the block again."""
LIVE_SHARE_MAX = 4
"""Divisor of a file's size: a file is not emptied before one byte in this many is dead. So each byte that is freed costs at most three
written.
"""

QUIET_LOOKS = 120
"""Number of looks at which upkeep found nothing to do and nothing came to a line, before the end of the line is merged. A node looks every
5 s.
"""

CHECKPOINT_COMMITS = 512
"""Number of commits after which SQLite's write-ahead log is brought into its database, so that no commit has to wait for that."""

RELEASED_ROWS_MIN = 1 << 16
"""Minimum number of rows of a merge after which its memory is returned to the system: the next merge of that size comes many commits
later.
"""

GIVES_WAY_S = 0.05
"""Maximum time that a piece of a step waits for commits, seconds. Where commits follow one another without a pause, upkeep still runs."""

Job = Callable[[], None]
SetAside = Callable[[LineKey, Piece, Corrupt], None]


CURE = "set aside; nothing is lost with it while the index is there"


class FrameWalk:
    """A walk over the files of the log in `log`. It reports to `on_damage` each place that does not verify, at every walk.

    `written` returns the segment that is being written and its present length. It is not safe to use from several threads.
    """

    def __init__(self, log: Path, written: Callable[[], tuple[int, int]], on_damage: Callable[[Damage], None]) -> None:
        self._log, self._written, self._on_damage = log, written, on_damage

    def __call__(self) -> Iterator[int]:
        """Walk once, and yield how many bytes each frame has before its blocks. Raises IndexDamaged."""
        last, end = self._written()
        with closing(IndexReader.open(self._log / INDEX_NAME)) as index:
            ends = index.file_ends()
        for number in (*segment_numbers(self._log), *merged_numbers(self._log)):
            try:
                length = file_path(self._log, number).stat().st_size
                if number < 0 or number >= last:  # behind that it is being written, or was when a process died
                    length = min(length, ends.get(number, 0) if number < 0 else end if number == last else 0)
                yield from self._file(number, length)
            except FileNotFoundError:
                continue  # freed meanwhile

    def _file(self, number: int, length: int) -> Iterator[int]:
        with mapped(self._log, number) as data, data[:length] as named:
            if length:
                yield HEAD_BYTES
            for found in find_frames(named, 0):
                if isinstance(found, FoundFrame):
                    if found.wrong:
                        self._on_damage(
                            Damage(number, found.at, found.blocks_at - found.at, found.wrong, cure=CURE, code="frame_header_damaged")
                        )
                    yield found.blocks_at - found.at
                elif not (number < 0 and found.unfinished):  # blocks behind the last that is held
                    self._on_damage(Damage(number, found.at, found.end - found.at, found.why, cure=CURE, code="frame_damaged"))
                    yield found.end - found.at


@dataclass(frozen=True, slots=True)
class LogParts:
    """The parts of a log that upkeep works on: its folder, its codec and disk, its lock, and its writer.

    `quiet` is set while no commit is under way. `set_aside` sets a damaged piece aside. `on_damage` receives damage to what surrounds
    blocks. `with_index` looks into the index, and again once a damaged index is rebuilt. `builds` returns the number of rebuilds.
    """

    folder: Path
    codec: Codec
    disk: Disk
    lock: threading.RLock
    quiet: threading.Event
    writer: LogWriter
    set_aside: SetAside
    on_damage: Callable[[Damage], None]
    with_index: Callable[[Callable[[], bool]], bool]
    builds: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Files:
    """The log's files. `stored`: how many bytes each file has. `written`: files that are being written, or whose number must not be
    assigned twice. `closed`: files that are closed; a segment is closed once a later one has a commit, and so its checkpoint. `dead_min`: a
    file with fewer dead bytes is not emptied.
    """

    stored: dict[int, int]
    written: set[int]
    closed: list[int]
    dead_min: dict[int, int]

    def deadest(self, held: dict[int, int]) -> int | None:
        """Return the file to empty next, where more bytes are dead than may be, or None. `held`: how many bytes of each file are held."""
        dead = {number: stored - held.get(number, 0) for number, stored in self.stored.items() if number in held or number in self.written}
        dead = {number: bytes_ for number, bytes_ in dead.items() if bytes_ > self.dead_min.get(number, 0)}
        if sum(dead.values()) <= DEAD_BYTES_MAX + sum(held.values()) // DEAD_SHARE:
            return None
        number = max(dead, key=lambda number: dead[number] / self.stored[number])
        return number if LIVE_SHARE_MAX * dead[number] >= self.stored[number] else None


class FileUpkeep:
    """Upkeep (see `streams.log.Upkeep`) of the log in its own process.

    A merge has five steps. 1 reads a group of neighbouring blocks. 2 decodes them and encodes them as one, column by column where they are
    large. 3 writes the block to the merged file and syncs that. 4 swaps the pieces in the index, in one transaction and under the log's
    lock. 5 deletes a file in which nothing is held any more. Before 5, the index that no longer names the file is on the disk, and every
    row of the index verifies. A damaged index is rebuilt instead. A crash before 4 leaves bytes that the index does not name; 5 deletes
    them.
    """

    def __init__(self, parts: LogParts, levels: Sequence[Level] = LEVELS) -> None:
        self._parts, self._levels = parts, levels
        self._merged = MergedFiles(parts.folder, parts.disk, levels)
        self._walk = FrameWalk(parts.folder, self._written, parts.on_damage)
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._planned = 0
        self._hopeless: dict[tuple[LineKey, int], int] = {}
        self._quiet: dict[LineKey, tuple[int, int]] = {}
        self._checkpointed = parts.writer.book.commit
        self._closed = False

    def step(self) -> bool:
        """Do one bounded piece of work on one core, and return whether there is more. Raises RetryLater when the disk is full, or fails.
        The next steps then do what else was planned. After `close` it does nothing: the folder may have another writer.
        """
        with self._lock, one_core(partial(self._parts.quiet.wait, GIVES_WAY_S)):
            if self._closed:
                return False
            try:
                return self._parts.with_index(self._step)
            except OSError as problem:
                raise disk_refused(problem) from problem

    def walk(self) -> Iterator[int]:
        """Verify what surrounds the blocks in the log's files: heads, headers of frames, checkpoints. Only one thread may do so at a
        time.
        """
        return self._walk()

    def close(self) -> None:
        """Release the files, once a step that is under way is done. Closing it again does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.clear()
                self._merged.close()

    def _written(self) -> tuple[int, int]:
        return self._parts.writer.segment

    def _step(self) -> bool:
        if self._planned != self._parts.builds():
            self._jobs.clear()
        if not self._jobs:
            self._planned = self._parts.builds()
            self._jobs.extend(self._plan())
        if not self._jobs:
            return False
        self._jobs.popleft()()
        return True

    def _plan(self) -> Iterator[Job]:
        """Yield the planned jobs. Freeing comes first: it needs no space. Then comes merging; then the files that merging left mostly dead;
        then the ends of lines that receive no more records.
        """
        if self._parts.writer.book.commit - self._checkpointed >= CHECKPOINT_COMMITS:
            yield self._checkpoint
        files = self._files()  # before the look at the index: nothing is added to those that are closed after it
        with self._index() as index:
            held = index.held_bytes(AROUND_BYTES)
            dead = [number for number in files.closed if number not in held]
            if dead:
                yield partial(self._free, dead)
            merging = False
            for key in index.line_keys():
                for group in ripe_groups(partial(index.outlines, key), self._levels, partial(self._is_hopeless, key)):
                    merging = True
                    yield partial(self._merge, key, group)
            if merging:
                return
            if (number := files.deadest(held)) is not None:
                yield from self._emptying(index, files, number)
            elif not dead:
                yield from self._ends(index)

    def _ends(self, index: IndexReader) -> Iterator[Job]:
        """Yield merges of the small blocks at the end of quiet lines into one block each."""
        before, self._quiet = self._quiet, {}
        for key, last in index.lasts().items():
            was, looks = before.get(key, (-1, 0))
            looks = looks + 1 if was == last else 0
            self._quiet[key] = last, looks
            if looks and looks % QUIET_LOOKS == 0:
                tail = tail_of(index.outlines(key), self._levels[-1].rows)
                if tail and not self._is_hopeless(key, tail):
                    yield partial(self._merge, key, tail)

    def _emptying(self, index: IndexReader, files: Files, number: int) -> Iterator[Job]:
        """Yield the jobs that move what file `number` still holds, so that the file can be deleted."""
        if number in files.written:
            yield self._roll if number > 0 else partial(self._merged.roll, number)
        for key, batch in _batches(index.pieces_in(number)):
            yield partial(self._move, key, batch)

    def _files(self) -> Files:
        folder = self._parts.folder
        segment, end = self._written()  # before the look at the folder: a commit may begin another meanwhile
        segments, merged = segment_numbers(folder), merged_numbers(folder)
        stored = {number: max(0, file_path(folder, number).stat().st_size - HEAD_BYTES) for number in (*segments, *merged)}
        opening_bytes = self._parts.writer.opening_bytes
        stored[segment] = max(0, end - HEAD_BYTES - opening_bytes)  # another would begin with as much
        written = {segment, *merged[:1], *self._merged.written()}
        closed = [number for number in stored if number not in written and (number < 0 or (end and number < segment))]
        return Files(stored, written, closed, {segment: opening_bytes})

    def _merge(self, key: LineKey, group: Sequence[Piece]) -> None:
        group = self._as_planned(key, group)
        blocks = [block for piece in group if (block := self._block(key, piece)) is not None]
        if not blocks or len(blocks) < len(group):
            return
        blocks.reverse()
        rows = (_columns(self._parts.codec, blocks.pop(), piece) for piece in group)  # the block of what is read is released
        rows_max = max(level.rows for level in self._levels)
        admitted = together(group)
        merged = [
            Rewritten(block, topics, within(admitted, block.first, block.end))
            for records in joined(rows, rows_max)
            for block, topics in encoded(self._parts.codec, *key, records, rows_max)
        ]
        if len(merged) >= len(group):
            self._hopeless[key, group[0].first] = len(group)
            return
        self._swap(key, group, self._merged.write(merged))
        if group[-1].end - group[0].first >= RELEASED_ROWS_MIN:
            give_way()
            release()

    def _is_hopeless(self, key: LineKey, group: Sequence[Piece]) -> bool:
        """Return whether a merge of the group was tried and gave no fewer blocks. It is tried again only when there are twice as many
        pieces.
        """
        return len(group) < 2 * self._hopeless.get((key, group[0].first), 0)

    def _as_planned(self, key: LineKey, group: Sequence[Piece]) -> list[Piece]:
        """Return the group as the index has it now, verified; an empty list when something was dropped, set aside or moved meanwhile."""
        with self._index() as index:
            found: list[Piece] = []
            while pieces := index.pieces(key, found[-1].end if found else group[0].first, group[-1].end):
                found += pieces
        places = [(piece.first, piece.end, piece.location) for piece in group]
        return found if [(piece.first, piece.end, piece.location) for piece in found] == places else []

    def _move(self, key: LineKey, pieces: Sequence[Piece]) -> None:
        read = ((piece, self._block(key, piece)) for piece in pieces)
        blocks = {piece.location: Rewritten(block, piece.topics, piece.admitted) for piece, block in read if block is not None}
        if blocks:
            self._swap(key, pieces, self._merged.write(list(blocks.values())))

    def _swap(self, key: LineKey, old: Sequence[Piece], new: Sequence[Piece]) -> None:
        with self._parts.lock:
            self._parts.writer.swap(key, {piece.location for piece in old}, new)
        commit_point("log.merge.swapped")

    def _checkpoint(self) -> None:
        """Bring SQLite's write-ahead log into its database, and both to the disk."""
        commit = self._parts.writer.book.commit
        try:
            bring_down(self._parts.folder / INDEX_NAME, self._parts.disk)
        except (sqlite3.OperationalError, OSError) as problem:
            raise disk_refused(problem) from problem
        except UNREADABLE as problem:
            raise IndexDamaged(f"the log's index can not be brought down: {problem}", hint=REBUILT) from problem
        self._checkpointed = commit

    def _free(self, numbers: Sequence[int]) -> None:
        self._checkpoint()  # most of it here, while commits go on
        with self._index() as index:
            if wrong := index.verified_files().intersection(numbers):
                raise IndexDamaged(f"the index did not report that records are held in {file_path(self._parts.folder, min(wrong)).name}")
        try:
            with self._parts.lock:  # nobody rebuilds the index, and finds again what seemed dead
                if self._planned != self._parts.builds():
                    return
                self._checkpoint()
                for number in numbers:
                    self._parts.disk.remove(file_path(self._parts.folder, number))
                    commit_point("log.merge.freed")
        except OSError as problem:
            raise disk_refused(problem) from problem

    def _roll(self) -> None:
        with self._parts.lock:
            self._parts.writer.roll()

    def _block(self, key: LineKey, piece: Piece) -> Block | None:
        """Return the block of `piece`; None when it was set aside, or is elsewhere by now."""
        place = piece.location
        try:
            block = Block.from_bytes(read_span(self._parts.folder, place.segment, place.at, place.length))
            if (block.stream, block.origin) != key or not block.first <= piece.first < piece.end <= block.end:
                raise Corrupt(
                    f"another block is in its place: {block.stream}:{block.origin} {block.first}..{block.end - 1}", code="block_misplaced"
                )
        except FileNotFoundError:
            return None
        except Corrupt as problem:
            self._parts.set_aside(key, piece, problem)
            return None
        return block

    def _index(self) -> closing[IndexReader]:
        """Return a separate reader of the index, so that no commit waits for it."""
        return closing(IndexReader.open(self._parts.folder / INDEX_NAME))


def _columns(codec: Codec, block: Block, piece: Piece) -> Columns:
    give_way()
    return codec.columns(block).slice(piece.first - block.first, piece.end - piece.first)


def _batches(pieces: Sequence[tuple[LineKey, Piece]]) -> Iterator[tuple[LineKey, list[Piece]]]:
    """Yield pieces of one line each, of at most BLOCK_BYTES_MAX bytes together, but at least one."""
    for key, ours in groupby(pieces, key=lambda one: one[0]):
        batch: list[Piece] = []
        for _, piece in ours:
            if batch and sum(one.location.length for one in batch) + piece.location.length > BLOCK_BYTES_MAX:
                yield key, batch
                batch = []
            batch.append(piece)
        yield key, batch
