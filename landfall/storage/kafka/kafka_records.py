"""The contents of a Kafka record: a block with its coordinates in headers, or one other statement of a commit.

A block's record has the headers `commit`, `stream`, `origin`, `first`, `count`, `order_first_ms`, `order_last_ms`, `codec` and
`received_at_ms` as text. It has `topics`, the filter of its topics, and `admitted`, the minute in which it was admitted from elsewhere. Its
value is the block as it is stored anywhere, which has the same coordinates and is verified. A record whose headers differ is not the log's;
what the block does not contain is bounded by it. Every other record has a key by which Kafka compacts, the header `commit`, and a
FrameHeader of that one statement as its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from landfall.storage.admission_times import MINUTE_MS
from landfall.storage.append_planner import NewBlock
from landfall.storage.frames import FrameHeader, Opening
from landfall.storage.log_state import FileLocation, PlacedBlock
from landfall.storage.row_tables import INT64_MAX
from landfall.storage.topic_filters import FILTER_BYTES_MIN
from streams.model.block import Block
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin, check_stream
from streams.model.records import LATE_MS_MAX

COMMIT = "commit"
COMMIT_MAX = 1 << 62
"""Maximum number of a commit. A record with a later commit is not the log's."""
OFFSET_MAX = 1 << 62
"""Maximum offset that may be gone, below a floor or a producer's. A record beyond it is not the log's: some offsets must remain to be
assigned.
"""
OPENED_AT_MS_MAX = 7_258_118_400_000
"""Latest time at which a generation may be opened, UTC ms: the year 2200. A later one is not the log's, because it is made from the time,
and later ones must be larger.
"""
AHEAD_MAX = 1 << 40
"""Maximum difference of a generation from the one before, where the clock is behind; the log's own differs by less."""
RECEIVED, TOPICS, ADMITTED = "received_at_ms", "topics", "admitted"
ADMITTED_MAX = OPENED_AT_MS_MAX // MINUTE_MS
HEADERS_BYTES_MAX = 1_024
"""Maximum size of the headers of a block's record without its topics, bytes."""

Headers = list[tuple[str, str | bytes | None]]


def block_headers(new: NewBlock, commit: int) -> Headers:
    """Return the headers of a block's record."""
    block = new.block
    fields = {
        COMMIT: commit,
        "stream": block.stream,
        "origin": block.origin,
        "first": block.first,
        "count": block.count,
        "order_first_ms": block.order_first_ms,
        "order_last_ms": block.order_last_ms,
        "codec": block.codec,
        RECEIVED: new.received_at_ms,
    }
    if new.admitted:
        fields[ADMITTED] = new.admitted[0][1]
    headers: Headers = [(name, str(value)) for name, value in fields.items()]
    return headers if new.topics is None else [*headers, (TOPICS, new.topics)]


def placed_block(headers: Mapping[str, bytes], value: bytes, location: FileLocation) -> tuple[int, PlacedBlock]:
    """Return the commit and the block of a record. Raises Corrupt when the block does not verify, or the headers can not be its own."""
    block = Block.from_bytes(value)
    try:
        admitted = ((block.first, int(headers[ADMITTED])),) if ADMITTED in headers else ()
        new, commit = NewBlock(block, headers.get(TOPICS), int(headers[RECEIVED]), admitted), int(headers[COMMIT])
    except (KeyError, ValueError) as problem:
        raise Corrupt(f"the headers of a Kafka record name no commit: {problem}", code="kafka_record_corrupt") from problem
    _check_headers(headers, new, commit)
    return commit, PlacedBlock(block, location, new.topics, new.received_at_ms, admitted=new.admitted)


def control_records(header: FrameHeader) -> Iterator[tuple[str, bytes]]:
    """Yield key and value for each statement of `header`, except its blocks."""
    for produced in header.produced:
        yield f"produced/{produced.stream}/{produced.producer}", _value(FrameHeader(commit=header.commit, produced=(produced,)))
    for gone in header.gone:
        key = f"gone/{gone.stream}/{gone.node}@{gone.generation:x}/{gone.first}-{gone.end}"
        yield key, _value(FrameHeader(commit=header.commit, gone=(gone,)))
    for floor in header.floors:
        yield f"floor/{floor.stream}/{floor.node}@{floor.generation:x}", _value(FrameHeader(commit=header.commit, floors=(floor,)))
    for opening in header.openings:
        yield f"opening/{opening.generation:x}", _value(FrameHeader(commit=header.commit, openings=(opening,)))


def control_header(value: bytes) -> FrameHeader:
    """Return the FrameHeader in a record that is not a block's. Raises Corrupt, also for a header that states what no log has."""
    try:
        header = msgspec.msgpack.decode(value, type=FrameHeader)
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"a record of the log's Kafka topic does not read: {problem}", code="kafka_record_corrupt") from problem
    _check_commit(header.commit)
    try:
        _check_control(header)
    except ValueError as problem:
        raise Corrupt(f"a record of the log's Kafka topic says what no log does: {problem}", code="kafka_record_corrupt") from problem
    return header


def check_follows(header: FrameHeader, before: Sequence[Opening]) -> None:
    """Raise Corrupt where a log that has opened the generations `before` can not continue with the control record `header`.

    Such a record opens an earlier generation, another node's, or one after which there could be no other; or a producer sent it under a
    generation that does not exist.
    """
    known = list(before)
    for opening in header.openings:
        last = known[-1] if known else None
        latest = (opening.at_ms + 1 << 20) + AHEAD_MAX if last is None else max(opening.at_ms + 1 << 20, last.generation) + AHEAD_MAX
        if opening.at_ms > OPENED_AT_MS_MAX or opening.generation > latest:
            raise Corrupt(
                f"a record of the log's Kafka topic opens generation {opening.generation:x}, after which there could be no other",
                code="kafka_record_corrupt",
            )
        if last is not None and (opening.node != last.node or opening.generation <= last.generation):
            conflict = f"opens {opening.node}@{opening.generation:x}, after {last.node}@{last.generation:x}"
            raise Corrupt(f"a record of the log's Kafka topic {conflict}", code="kafka_record_corrupt")
        known.append(opening)
    generations = {opening.generation for opening in known}
    for produced in header.produced:
        if produced.generation not in generations:
            raise Corrupt(
                f"a record of the log's Kafka topic names a producer under generation {produced.generation:x}, which does not exist",
                code="kafka_record_corrupt",
            )


def _check_control(header: FrameHeader) -> None:
    """Check that streams, origins and numbers are possible. Raises ValueError."""
    for gone in header.gone:
        _check_span(gone.stream, gone.first, gone.end, OFFSET_MAX)
    for floor in header.floors:
        _check_span(floor.stream, 0, floor.floor, OFFSET_MAX)
    for produced in header.produced:
        _check_span(produced.stream, produced.first, produced.first + produced.count, OFFSET_MAX)
    for opening in header.openings:
        for stream, end in opening.ends.items():
            _check_span(stream, 0, end, INT64_MAX)
    origins = [(gone.node, gone.generation) for gone in header.gone]
    origins += [(floor.node, floor.generation) for floor in header.floors]
    for node, generation in (*origins, *((opening.node, opening.generation) for opening in header.openings)):
        Origin(node, generation)
    sequences = [produced.sequence for produced in header.produced]
    generations = [*(produced.generation for produced in header.produced), *(opening.predecessor for opening in header.openings)]
    times = [opening.at_ms for opening in header.openings]
    if odd := [number for number in (*sequences, *generations, *times) if not 0 <= number <= INT64_MAX]:
        raise ValueError(f"sequences, generations and times are from 0 to 2^63 - 1, not {odd[0]}")


def _check_span(stream: str, first: int, end: int, end_max: int) -> None:
    check_stream(stream)
    if not 0 <= first <= end <= end_max:
        raise ValueError(f"offsets are from 0 to {end_max}, not {first}..{end} of {stream}")


def _check_headers(headers: Mapping[str, bytes], new: NewBlock, commit: int) -> None:
    """Check that the headers repeat the block's coordinates, and that received time and topics' filter are possible by its times and
    count.
    """
    block = new.block
    _check_commit(commit)
    for name, value in block_headers(new, commit):
        if headers.get(name) != (value.encode() if isinstance(value, str) else value):
            raise Corrupt(
                f"a Kafka record's header {name} says {headers.get(name)!r}, and its block {value!r}", code="kafka_record_corrupt"
            )
    if new.received_at_ms > block.order_first_ms + LATE_MS_MAX:
        raise Corrupt(
            f"a Kafka record's header {RECEIVED} says {new.received_at_ms}, and its block begins at {block.order_first_ms}",
            code="kafka_record_corrupt",
        )
    if new.admitted and not 0 <= new.admitted[0][1] <= ADMITTED_MAX:
        raise Corrupt(f"a Kafka record's header {ADMITTED} says minute {new.admitted[0][1]}", code="kafka_record_corrupt")
    if new.topics is not None and not 0 < len(new.topics) <= max(block.count, FILTER_BYTES_MIN):
        raise Corrupt(
            f"a Kafka record's header {TOPICS} has {len(new.topics)} bytes, and its block {block.count} records",
            code="kafka_record_corrupt",
        )


def _check_commit(commit: int) -> None:
    if not 0 < commit <= COMMIT_MAX:
        raise Corrupt(f"a Kafka record says that it is of commit {commit}", code="kafka_record_corrupt")


def _value(header: FrameHeader) -> bytes:
    return msgspec.msgpack.encode(header)
