"""A check of every frame, block and ledger of a log against each other. It changes nothing, and works while the node runs or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from landfall.storage.damage import Lost
from landfall.storage.frames import FoundFrame, Hole, find_frames
from landfall.storage.index import INDEX_NAME, REBUILT, UNREADABLE, IndexDamaged, IndexReader
from landfall.storage.index_integrity import sum_problem, wal_problem
from landfall.storage.index_recovery import INDEXED_S, index_problem
from landfall.storage.log_kinds import AnyReader, in_kafka, open_reader
from landfall.storage.log_state import LineKey
from landfall.storage.segments import file_path, mapped, merged_numbers, segment_numbers, unreadable
from streams.model.block import Codec, UnknownCodec
from streams.model.errors import Corrupt, LandfallError, RetryLater, Unreadable
from streams.model.ranges import RangeSet


class Wrong(NamedTuple):
    """First byte and last byte + 1 of damaged bytes in a file, what is wrong with them, its code, and whether they are a block."""

    at: int
    end: int
    why: str
    code: str
    is_block: bool = False


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One problem that the check found: where, what, and its code."""

    where: str
    what: str
    code: str = field(kw_only=True)


@dataclass(slots=True)
class CheckTally:
    """Counts of what was checked. `unread`: records in blocks of a codec that this version does not read, whose checksums were verified.
    `let_go`: blocks that do not verify and that the index does not name any more; what they held was fetched again, or is wanted.
    """

    frames: int = 0
    blocks: int = 0
    records: int = 0
    unread: int = 0
    let_go: int = 0


def check(log: Path, codec: Codec, tally: CheckTally) -> Iterator[LogFinding]:
    """Yield the problems of the log in folder `log` as they are found; nothing when there are none. `tally` counts along.

    For a log in Kafka the check covers its index, and every block that the brokers have of the log. Raises RetryLater when they do not
    answer. Where the index does not read, the files are checked all the same, but not against it.
    """
    mark: tuple[int, int, int] | None = None
    ends: dict[int, int] = {}
    damaged: list[LogFinding] = []
    try:
        if not (log / INDEX_NAME).exists():
            raise IndexDamaged("it is missing", hint=REBUILT)
        damaged = list(_check_bytes(log / INDEX_NAME))
        if not (damaged or in_kafka(log)) and (why := index_problem(log)) is not None:
            damaged.append(LogFinding("the index", why, code="index_incomplete"))
        yield from damaged
        with closing(IndexReader.open(log / INDEX_NAME)) as index:
            mark, ends = index.mark(), index.file_ends()
            for (message,) in index.rows("PRAGMA quick_check"):
                if message != "ok":
                    yield LogFinding("the index", str(message), code=IndexDamaged.code)
    except (IndexDamaged, Unreadable, *UNREADABLE) as problem:
        if not damaged:
            yield LogFinding("the index", str(problem), code=_code_of(problem))
    files = () if in_kafka(log) else (*segment_numbers(log), *merged_numbers(log))
    seen = mark or (0, max(files, default=0), 0)
    reported: set[Lost] = set()
    for number in files:
        try:
            wrong = list(_check_file(log, number, codec, seen, ends.get(number, 0), tally))
        except FileNotFoundError:
            continue  # freed meanwhile: what it held is elsewhere now
        held = _held(log, number) if wrong and mark is not None else None
        for at, end, why, code, is_block in wrong:
            lost = [] if held is None else held.get((at, end), [])
            if is_block and held is not None and not lost:
                tally.let_go += 1
                continue
            reported.update(lost)
            whose = ", ".join(f"{stream}:{origin} offsets {first} to {after - 1}" for stream, origin, first, after in lost)
            yield LogFinding(f"{file_path(log, number).name} bytes {at} to {end - 1}", f"{whose}: {why}" if whose else why, code=code)
    if mark is not None:
        yield from _check_lines(log, codec, tally, reported)


def _code_of(problem: Exception) -> str:
    return problem.code if isinstance(problem, LandfallError) else IndexDamaged.code


def _held(log: Path, number: int) -> dict[tuple[int, int], list[Lost]] | None:
    """Return what each block of a file holds by the index, by its first byte and last byte + 1; None where the index does not read."""
    held: dict[tuple[int, int], list[Lost]] = {}
    try:
        with closing(IndexReader.open(log / INDEX_NAME)) as index:
            for (stream, origin), piece in index.pieces_in(number):
                place = piece.location
                held.setdefault((place.at, place.at + place.length), []).append((stream, origin, piece.first, piece.end))
    except (IndexDamaged, Unreadable, *UNREADABLE):
        return None
    return held


def _check_bytes(index: Path) -> Iterator[LogFinding]:
    """Yield the damage that SQLite would ignore silently, in a log that is closed or whose process was killed. Raises Unreadable."""
    wal = index.with_name(f"{index.name}-wal")
    try:
        if (problem := sum_problem(index)) is not None:
            yield LogFinding("the index", problem, code=IndexDamaged.code)
        if (problem := wal_problem(index)) is not None and time.time() - wal.stat().st_mtime >= INDEXED_S:
            yield LogFinding("the index", problem, code=IndexDamaged.code)
    except OSError as refused:
        raise unreadable(index, refused) from refused


def _check_lines(log: Path, codec: Codec, tally: CheckTally, reported: set[Lost]) -> Iterator[LogFinding]:
    try:
        with closing(open_reader(log, codec)) as reader:
            for stream in reader.streams():
                for origin in reader.ledger(stream):
                    if in_kafka(log):
                        tally.blocks += sum(span.stored_bytes > 0 for span in reader.spans(stream, origin))
                    yield from _check_line(reader, (stream, origin), tally, reported)
    except RetryLater:
        raise
    except (LandfallError, *UNREADABLE) as problem:
        yield LogFinding("the index", str(problem), code=_code_of(problem))


def _check_file(log: Path, number: int, codec: Codec, mark: tuple[int, int, int], pointed_end: int, tally: CheckTally) -> Iterator[Wrong]:
    """Yield the damaged frames and blocks of one file. Bytes beyond what the index has seen are being written, or were when a process died.

    `pointed_end`: the end of what the index points to in this file.
    """
    _, last, end = mark
    whole_to = end if number == last else pointed_end if number < 0 else None
    with mapped(log, number) as data:
        for found in find_frames(data, 0):
            growing = found.end == len(data) and (number > last if whole_to is None else found.at >= whole_to)
            for wrong in _check_found(found, data, codec, tally):
                if not growing:
                    yield wrong


def _check_found(found: FoundFrame | Hole, data: memoryview, codec: Codec, tally: CheckTally) -> Iterator[Wrong]:
    if isinstance(found, Hole):
        yield Wrong(found.at, found.end, found.why, found.code)
    else:
        tally.frames += 1
        if found.wrong:
            yield Wrong(found.at, found.blocks_at, found.wrong, "frame_header_damaged")
        yield from _check_frame(found, data, codec, tally)


def _check_frame(frame: FoundFrame, data: memoryview, codec: Codec, tally: CheckTally) -> Iterator[Wrong]:
    for _, at, end, block in frame.blocks(data):
        tally.blocks += 1
        if isinstance(block, Corrupt):
            yield Wrong(at, end, str(block), block.code, is_block=True)
        elif codec.knows(block.codec):
            try:
                codec.decode(block)
            except Corrupt as problem:
                yield Wrong(at, end, str(problem), problem.code, is_block=True)


def _check_line(reader: AnyReader, line: LineKey, tally: CheckTally, reported: set[Lost]) -> Iterator[LogFinding]:
    """Yield a LogFinding for what the ledger holds and the index does not point to, and for each span that does not read. The spans in
    `reported` were reported already and are not read.
    """
    stream, origin = line
    spans = list(reader.spans(stream, origin))
    pointed = RangeSet((span.first, span.end) for span in spans)
    held = reader.ledger(stream)[origin].held
    if missing := held.without(pointed):
        yield LogFinding(f"{stream}:{origin}", f"the ledger holds {missing}, and the index does not say where", code="index_incomplete")
    for span in (span for span in spans if (stream, origin, span.first, span.end) not in reported):
        try:
            for batch in reader.run(stream, origin, span.first, span.end):
                tally.records += batch.records.num_rows
        except RetryLater:
            raise
        except UnknownCodec:
            tally.unread += span.end - span.first
        except LandfallError as problem:
            yield LogFinding(f"{stream}:{origin} offsets {span.first} to {span.end - 1}", str(problem), code=problem.code)
