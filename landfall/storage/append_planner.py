"""The planner that turns appends into blocks: it finds repeats, groups rows, and assigns offsets and times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from landfall.storage.frames import Admitted, Produced
from landfall.storage.log_state import OriginState
from landfall.storage.row_tables import agree
from landfall.storage.topic_filters import topic_summary
from landfall.system.release import RELEASED_AT_MS
from streams.log import Append, Appended, Witness
from streams.model.block import Block, BlockTooLarge, Codec
from streams.model.clock import EARLY_MS_MAX, Clock
from streams.model.errors import Misuse
from streams.model.identifiers import Origin, check_stream
from streams.model.records import (
    DEVICE,
    DEVICE_AT,
    LATE_MS_MAX,
    OFFSET,
    ORDER_AT,
    RECEIVED_AT,
    STAMPED,
    TOPIC,
    check_given,
    concat,
    signal_names,
)
from streams.model.row_columns import Columns

BLOCK_ROWS_MAX = 65_536
PART_ROWS_MIN = 8_192
"""Rows that are worth a thread: encoding them releases the interpreter's lock for most of its time."""
SIGNALS_MAX = 900
PRODUCER_BYTES_MAX = 200
DEVICES_MIN, DEVICES_MAX = 3, 31
"""The minimum number of devices whose times give the time, and the number of most recently received devices that are remembered."""
DEVICE_APART_MS_MAX = 3_600_000
"""Largest difference from the middle of the devices' last times at which a device's time is believed, ms."""
IN_USE_MS = 10 * 365 * 86_400_000
"""Maximum time that a release is in use, ms."""
Produceds = Mapping[tuple[str, str], Produced]
"""Last assignment of each producer, by stream and producer."""
_ENCODERS = ThreadPoolExecutor(2, thread_name_prefix="encode")


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block to be written. `topics` is the filter of its topics (None: unreadable here). `received_at_ms` is its rows' received time (UTC
    ms; 0: not stamped here). `admitted` says when records from elsewhere were admitted.
    """

    block: Block
    topics: bytes | None
    received_at_ms: int = 0
    admitted: Admitted = ()


@dataclass(slots=True)
class AppendPlan:
    """The rows that one call of append will write, and its answers."""

    answers: list[Appended] = field(default_factory=list)
    produced: list[Produced] = field(default_factory=list)
    rows: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)


def plan_appends(appends: Sequence[Append], origin: Origin, end: Callable[[str], int], produced: Produceds) -> AppendPlan:
    """Return a plan with offsets for all rows that are no repeats, from `end(stream)` on. Raises Misuse for records that no log takes."""
    plan = AppendPlan()
    ends: dict[str, int] = {}
    last: dict[tuple[str, str], Produced] = {}
    for append in appends:
        _check(append)
        count = append.records.num_rows
        first = ends.get(append.stream, end(append.stream))
        if append.producer is not None and append.sequence is not None:
            if (before := given_before(append, last) or given_before(append, produced)) is not None:
                plan.answers.append(Appended(append.stream, Origin(origin.node, before.generation), before.first, 0, repeated=True))
                continue
            key = (append.stream, append.producer)
            last[key] = Produced(append.stream, append.producer, append.sequence, first, count, origin.generation)
        ends[append.stream] = first + count
        plan.answers.append(Appended(append.stream, origin, first, count))
        if count:
            plan.rows.setdefault(append.stream, []).append(append.records)
    plan.produced = list(last.values())
    return plan


def given_before(append: Append, produced: Produceds) -> Produced | None:
    """Return the last assignment of the producer of `append` if it is for this sequence or a later one; else None. The append is then a
    retry, and adds nothing.
    """
    if append.producer is None or append.sequence is None:
        return None
    before = produced.get((append.stream, append.producer))
    return before if before is not None and append.sequence <= before.sequence else None


class DeviceTimes:
    """The last times of the most recently received devices. They give the time where the node's own clock can not. Not safe from several
    threads.
    """

    def __init__(self) -> None:
        self._last_ms: dict[str, int] = {}

    def note(self, records: pa.RecordBatch) -> None:
        """Record the newest rows of `records` that are from devices as the most recently received."""
        rows = records.select([DEVICE, DEVICE_AT]).slice(max(0, records.num_rows - DEVICES_MAX))
        for device, at_ms in zip(rows.column(DEVICE).to_pylist(), rows.column(DEVICE_AT).to_pylist(), strict=True):
            if device is not None and at_ms is not None:
                self._last_ms.pop(device, None)
                self._last_ms[device] = at_ms
        for device in list(self._last_ms)[:-DEVICES_MAX]:
            del self._last_ms[device]

    def believed(self, now_ms: int) -> range:
        """Return the device times (UTC ms) within DEVICE_APART_MS_MAX of the middle of the last times.

        Before DEVICES_MIN devices were received the range is empty. If the node's own clock (`now_ms`) then shows a time before the
        release, it can not be right: the range is the IN_USE_MS since the release.
        """
        last_ms = sorted(self._last_ms.values())
        if len(last_ms) < DEVICES_MIN:
            return range(RELEASED_AT_MS, RELEASED_AT_MS + IN_USE_MS) if now_ms < RELEASED_AT_MS else range(0)
        middle_ms = last_ms[(len(last_ms) - 1) // 2]
        return range(middle_ms - DEVICE_APART_MS_MAX, middle_ms + DEVICE_APART_MS_MAX + 1)


def new_blocks(
    codec: Codec,
    origin: Origin,
    plan: AppendPlan,
    line: Callable[[str], OriginState],
    clock: Clock,
    devices: DeviceTimes,
    witness: Witness | None = None,
) -> Iterator[NewBlock]:
    """Yield the plan's rows, stamped by `clock` and encoded in as few blocks as the rows of each stream allow; then the records of
    `witness` about them.

    Where `clock` is doubted, or was far ahead before in this generation, `devices` decides which device times are believed.
    """
    now_ms, early_ms, doubted = clock.now_ms(), clock.early_ms(), clock.doubted()
    ends: dict[str, int] = {}
    waiting = deque(plan.rows.items())
    while waiting:
        stream, batches = waiting.popleft()
        before = line(stream)
        received_at_ms = max(now_ms, before.received_at_ms)
        first = ends.get(stream, before.end)
        rows: list[pa.RecordBatch] = []
        for records in _together(batches):
            devices.note(records)
            believed = devices.believed(now_ms) if doubted or clock.was_ahead(received_at_ms) else None
            rows.append(stamped(records, first, received_at_ms, early_ms, believed))
            for block, topics in _in_parts(codec, stream, origin, rows[-1]):
                yield NewBlock(block, topics, received_at_ms)
            first += records.num_rows
        ends[stream] = first
        said = witness(stream, origin, rows, lambda of: None if of in plan.rows else line(of).end) if witness else None
        if said is not None:
            plan.rows.setdefault(said.stream, [])
            waiting.append((said.stream, [said.records]))


def stamped(
    records: pa.RecordBatch, first: int, received_at_ms: int, early_ms: int = EARLY_MS_MAX, believed: range | None = None
) -> pa.RecordBatch:
    """Return `records` with STAMPED columns: offsets from `first`, the received time, and the order time. The order time is the device's
    time where that is `believed` (None: as `streams.model.records.order_at_ms` defines), else the received time.
    """
    believed = believed if believed is not None else range(received_at_ms - LATE_MS_MAX, received_at_ms + early_ms + 1)
    count = records.num_rows
    column = records.column(DEVICE_AT)
    device_at = column.fill_null(received_at_ms).to_numpy(zero_copy_only=False)
    plausible = (device_at >= believed.start) & (device_at < believed.stop)
    columns = {
        OFFSET: pa.array(np.arange(first, first + count)),
        RECEIVED_AT: pa.array(np.full(count, received_at_ms)),
        ORDER_AT: pa.array(np.where(plausible, device_at, received_at_ms)),
    }
    schema = pa.schema([*records.schema, *STAMPED])
    return pa.RecordBatch.from_arrays([*records.columns, *(columns[name] for name in STAMPED.names)], schema=schema)


def _check(append: Append) -> None:
    try:
        check_stream(append.stream)
        check_given(append.records)
    except ValueError as problem:
        raise Misuse(f"{append.stream}: {problem}", code="records_invalid") from problem
    if append.producer is not None and append.sequence is not None:
        _check_producer(append.producer, append.sequence)
    if len(signal_names(append.records)) > SIGNALS_MAX:
        raise Misuse(
            f"{append.stream}: a record has at most {SIGNALS_MAX} signals, not {len(signal_names(append.records))}", code="signals_too_many"
        )


def _check_producer(producer: str, sequence: int) -> None:
    try:
        length = len(producer.encode())
    except UnicodeEncodeError as problem:
        raise Misuse(f"producer {producer!r} is no text: {problem.reason}", code="producer_invalid") from problem
    if not 0 < length <= PRODUCER_BYTES_MAX:
        raise Misuse(f"a producer's name has 1 to {PRODUCER_BYTES_MAX} bytes, not {length}", code="producer_invalid")
    if not -(2**63) <= sequence < 2**63:
        raise Misuse(f"sequence {sequence} of producer {producer!r} is no 64-bit number", code="sequence_invalid")


def _together(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches in as few as their columns' types and the limits of a block allow."""
    waiting: list[pa.RecordBatch] = []
    names: set[str] = set()
    for batch in batches:
        joined = names | set(signal_names(batch))
        if waiting and (not agree(waiting, batch) or len(joined) > SIGNALS_MAX):
            yield concat(waiting)
            waiting, joined = [], set(signal_names(batch))
        waiting.append(batch)
        names = joined
    if waiting:
        yield waiting[0] if len(waiting) == 1 else concat(waiting)


def _in_parts(codec: Codec, stream: str, origin: Origin, records: pa.RecordBatch) -> Iterator[tuple[Block, bytes]]:
    """Yield the blocks that `encoded` yields. Many rows become blocks of similar size, two of them encoded at a time."""
    rows = records.num_rows
    if rows < 2 * PART_ROWS_MIN:
        yield from encoded(codec, stream, origin, records, BLOCK_ROWS_MAX)
        return
    size = -(-rows // max(2, -(-rows // BLOCK_ROWS_MAX)))

    def part(at: int) -> list[tuple[Block, bytes]]:
        return list(encoded(codec, stream, origin, records.slice(at, size), BLOCK_ROWS_MAX))

    for found in _ENCODERS.map(part, range(0, rows, size)):
        yield from found


def encoded(codec: Codec, stream: str, origin: Origin, records: pa.RecordBatch | Columns, rows_max: int) -> Iterator[tuple[Block, bytes]]:
    """Yield blocks of at most `rows_max` rows, each with the filter of its topics. Rows that do not fit one block are halved, again where
    needed.
    """
    rows = records.num_rows
    try:
        if rows <= rows_max:
            block = codec.encode(stream, origin, records)
            yield block, topic_summary(codec, block, records.column(TOPIC))
            return
    except BlockTooLarge:
        if rows == 1:
            raise
    half = min(rows_max, (rows + 1) // 2)
    yield from encoded(codec, stream, origin, records.slice(0, half), rows_max)
    yield from encoded(codec, stream, origin, records.slice(half), rows_max)
