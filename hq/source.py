"""`spark.readStream.format("landfall")`: a node's log as a stream of Spark, whose offsets are Positions and whose batches are Arrow.

Options: `folder` (of the log's files), `streams` (names with commas between; the last is looked at last, see `latestOffset`),
`recordsMax` (of one micro-batch), `partitions` (tasks of one micro-batch).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from hq.spark_rows import WIDE_DDL, widen
from landfall.runtime.hole_patience import PatientReaders
from landfall.runtime.log_wait import judged_reader
from streams.gap_skipping_reader import ReaderStanding, between, cut, standings_from_json, standings_to_json
from streams.log import LogReader
from streams.model.clock import WallClock
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin, check_stream
from streams.model.ranges import RangeSet

FORMAT = "landfall"
RECORDS_MAX = 100_000
PARTITIONS = 2
PARTITION_RECORDS_MIN = 4_096

StreamPositions = dict[str, Any]
"""An offset as Spark keeps it: `streams.gap_skipping_reader.standings_to_json`."""


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Offsets `first .. end - 1` of one (stream, origin); `held` of them are there to be read."""

    stream: str
    origin: Origin
    first: int
    end: int
    held: int


class Runs(InputPartition):
    """The work of one task: runs, read one after another. Small runs share a task, since a task costs more than a thousand records."""

    def __init__(self, runs: Sequence[OffsetRun]) -> None:
        self.runs = tuple(runs)


class LandfallSource(DataSource):
    """The data source Spark makes for every `format("landfall")`."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(…)`."""
        return FORMAT

    def schema(self) -> str:
        """The wide row of `hq.spark_rows`."""
        return WIDE_DDL

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 (Spark's name)
        """The reader behind one streaming query. Raises Misuse for options that can not be. Called in a process of PySpark's own."""
        sys.excepthook = told_unless_spark_left
        return LogStreamReader(self.options)


class LogStreamReader(DataSourceStreamReader):
    """Plans micro-batches from the log's ledger and reads their runs. Holds no open file, so that Spark can send it to its workers."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        if not options.get("folder") or not options.get("streams"):
            raise Misuse("the landfall source needs the options folder and streams", code="source_options_missing")
        self.folder = options["folder"]
        self.streams = [check_stream(name.strip()) for name in options["streams"].split(",")]
        self.records_max = int(options.get("recordsMax", RECORDS_MAX))
        self.partitions_max = int(options.get("partitions", PARTITIONS))

    def initialOffset(self) -> StreamPositions:  # noqa: N802
        """Nothing read yet of any origin."""
        return {stream: {} for stream in self.streams}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most `recordsMax` records a micro-batch."""
        return ReadMaxRows(self.records_max)

    def latestOffset(self, start: StreamPositions, limit: ReadLimit) -> StreamPositions:  # noqa: N802
        """Where the next micro-batch ends: the log's Positions, or as far as `limit` allows, the same for every origin that has a backlog.

        A hole is waited for as long as its stream's patience, then it is skipped; what comes of it is part of the micro-batch after.

        The last stream is looked at last, and its records are not held back: what it said before any record of the others is read with
        that.
        """
        readers = _readers(self.folder)
        readers.follow()
        before = self._standings(start)
        latest = {stream: readers.of(stream).reached(standing) for stream, standing in before.items()}
        if not isinstance(limit, ReadAllAvailable):
            self._hold_back(before, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else self.records_max)
        return standings_to_json(latest)

    def partitions(self, start: StreamPositions, end: StreamPositions) -> Sequence[Runs]:
        """The micro-batch as tasks. What the log has dropped is passed over; `landfall.runtime.skipped_watch.WorkAboveFloor` reports it."""
        before, after = self._standings(start), self._standings(end)
        held = [run for stream in self.streams for run in self._held(stream, before[stream], after[stream])]
        total = sum(offsets.count() for _, _, offsets in held)
        share = max(PARTITION_RECORDS_MIN, -(-total // self.partitions_max))
        return [Runs(task) for task in _tasks(held, share)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the task's runs as wide batches, each run's in offset order.

        Raises RetryLater when a row that the ledger held at planning can not be read any more (a damaged frame, until a peer heals it).
        """
        assert isinstance(partition, Runs)
        log = _log(self.folder)
        for run in partition.runs:
            rows, admitted = 0, list(log.admissions(run.stream, run.origin, run.first, run.end))
            for batch in log.run(run.stream, run.origin, run.first, run.end):
                rows += batch.records.num_rows
                yield widen(log.own(batch), admitted)
            if rows != run.held:
                raise RetryLater(
                    f"{run.stream} of {run.origin}, {run.first}..{run.end - 1}: {rows} records of {run.held} could be read",
                    hint="the log fetches damaged records again from a peer; look at its `exceptions`",
                    code="records_missing",
                )

    def _standings(self, offset: StreamPositions) -> dict[str, ReaderStanding]:
        known = standings_from_json(offset)
        return {stream: known.get(stream, ReaderStanding()) for stream in self.streams}

    def _hold_back(self, before: Mapping[str, ReaderStanding], latest: dict[str, ReaderStanding], rows_max: int) -> None:
        waiting = {
            (stream, origin): offsets.count()
            for stream in self.streams[:-1]
            for origin, offsets in between(before[stream], latest[stream]).items()
        }
        shares = fair_shares(list(waiting.values()), rows_max)
        for (stream, origin), share in zip(waiting, shares, strict=True):
            latest[stream] = cut(before[stream], latest[stream], origin, share)

    def _held(self, stream: str, before: ReaderStanding, after: ReaderStanding) -> Iterator[tuple[str, Origin, RangeSet]]:
        """Per origin the offsets that lead from `before` to `after` and that the log holds, apart where something is skipped between them:
        that may have come by now, and is part of a later micro-batch."""
        ledger = _log(self.folder).ledger(stream)
        for origin, offsets in between(before, after).items():
            if origin not in ledger:
                continue
            for unbroken in offsets:
                if held := ledger[origin].held.within(*unbroken):
                    yield stream, origin, held


def told_unless_spark_left(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """For `sys.excepthook`. A query that ends closes the socket of its Python process, which PySpark's runner takes for a failure and
    then fails to tell: every clean end would look like trouble. Whatever else goes wrong is told."""
    one: BaseException | None = problem
    while isinstance(one, (EOFError, ConnectionError)):
        one = one.__context__
    if one is not None:
        sys.__excepthook__(kind, problem, trace)


def fair_shares(backlogs: Sequence[int], total_max: int) -> list[int]:
    """How much of each backlog fits into `total_max` when all get the same, and what the short ones leave goes to the long ones.

    At least 1 of each, so that nothing ever stands still.
    """
    shares = [0] * len(backlogs)
    left = total_max
    for rank, at in enumerate(sorted(range(len(backlogs)), key=backlogs.__getitem__)):
        shares[at] = max(1, min(backlogs[at], left // (len(backlogs) - rank)))
        left -= shares[at]
    return shares


def _tasks(held: Iterable[tuple[str, Origin, RangeSet]], share: int) -> Iterator[list[OffsetRun]]:
    """The held offsets cut and packed into tasks of `share` offsets each, the last one of what is left."""
    task: list[OffsetRun] = []
    room = share
    for stream, origin, offsets in held:
        first = offsets.first()
        while first < offsets.end():
            end = min(offsets.end(), first + room)
            if count := offsets.within(first, end).count():
                task.append(OffsetRun(stream, origin, first, end, count))
            room -= end - first
            first = end
            if room == 0:
                yield task
                task, room = [], share
    if task:
        yield task


@cache
def _log(folder: str) -> LogReader:
    """One open reader per process and folder: Spark's Python workers are used again and again."""
    return judged_reader(Path(folder))


@cache
def _readers(folder: str) -> PatientReaders:
    """Which holes are waited for, and since when: known as long as the process lives that plans a query."""
    return PatientReaders(_log(folder), WallClock())
