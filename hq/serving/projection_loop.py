"""The projector: reads headquarters' log and writes rows and its Position in one transaction a step.

A step, by number: 1 the database is there, or is made; 2 its Position, and what was skipped below it, is read from it; 3 streams are read
from there in the order of `routes`; 4 their rows, 5 the new Position with what is skipped now and 6 what it means for readers (whole or
not) are written; 7 all of it is committed together. A process killed anywhere begins again at 1, with nothing lost and nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select, update

from hq.serving.database import ServingDatabase
from hq.serving.models import Projected, Projection, Skipped, StreamAge
from hq.serving.portions import Portions
from hq.serving.projections.shape import Projection as Projects
from hq.serving.projections.shape import set_aside
from hq.serving.routes import Routes, route
from hq.serving.upsert import put, table_of
from landfall.runtime.hole_patience import PatientReaders, count_polled
from landfall.runtime.skipped_watch import SkippedOffsets, unread_of
from streams.commit_points import commit_point
from streams.gap_skipping_reader import Polled, ReaderStanding
from streams.log import LogReader
from streams.model.clock import Clock
from streams.model.identifiers import Origin, Position
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.model.records import RECEIVED_AT

CAUGHT_UP_NOTED_S = 1.0


@dataclass(slots=True)
class _Step:
    """One transaction: how many records it may still take, and how many it took."""

    connection: Connection
    left: int
    taken: int = 0
    behind: bool = False
    polled: list[tuple[str, ReaderStanding, Polled]] = field(default_factory=list)


@dataclass(slots=True)
class Projector:
    """Brings a log into a serving database. For one thread; a second projector on one database waits for the first one's transactions."""

    reader: LogReader
    database: ServingDatabase
    clock: Clock
    metrics: Metrics
    routes: Routes
    step_records_max: int = 20_000
    unread: list[SkippedOffsets] = field(default_factory=list)
    """Records below the log's floor, as last committed; removed by the caller that reports them."""
    _seen: dict[str, ReaderStanding] = field(default_factory=dict)
    _portions: Portions = field(default_factory=Portions)
    _readers: PatientReaders = field(init=False)
    _noted_at_s: float = float("-inf")
    _whole: bool = False

    def __post_init__(self) -> None:
        self._readers = PatientReaders(self.reader, self.clock)

    def start(self) -> None:
        """Prepare the database with all its tables, and read what it holds. Raises DatabaseAway when it can not be had now."""
        self._seen = {}
        self._noted_at_s = float("-inf")
        self.database.prepare()
        commit_point("projector.prepared")

    def step(self) -> int:
        """Project what is new, at most `step_records_max` records, in one transaction; returns how many they were.

        Raises DatabaseGone when the database was dropped, and DatabaseAway when it can not now: `start` makes it again, or waits for it.
        """
        self._readers.follow()
        ends = {stream: self.reader.position(stream) for stream, _ in route(self.routes, self.reader.streams())}
        now_s = self.clock.monotonic_s()
        if self._whole and now_s - self._noted_at_s < CAUGHT_UP_NOTED_S and not self._moves(ends):
            self.database.check()
            return 0
        began_s = time.perf_counter()
        with self.database.transaction() as connection:
            step = _Step(connection, self.step_records_max)
            self._begin(connection, ends)
            standings = _standings(connection)
            for stream, projection in route(self.routes, ends):
                standings[stream] = self._project(step, stream, projection, standings.get(stream, ReaderStanding()))
            whole = self._record_freshness(step, standings)
        commit_point("projector.step")
        self._seen, self._whole = standings, whole
        for stream, before, polled in step.polled:
            count_polled(self.metrics, before.skipped, polled)
            self.unread += unread_of(stream, before, polled)
            self._portions.note_committed(stream, polled.position)
        self._noted_at_s = now_s
        self.metrics.count("records", step.taken)
        if step.taken:
            self.metrics.observe("step", (time.perf_counter() - began_s) * 1000)
        return step.taken

    @property
    def whole(self) -> bool:
        """Whether the database had all that the log held when it was begun, as last committed."""
        return self._whole

    @property
    def standings(self) -> Mapping[str, ReaderStanding]:
        """Position in each stream, and the records that were passed over, as last committed."""
        return self._seen

    def _moves(self, streams: Iterable[str]) -> bool:
        return any(self._readers.of(stream).moves(self._seen.get(stream, ReaderStanding())) for stream in streams)

    def _begin(self, connection: Connection, ends: dict[str, Position]) -> None:
        """Record in a new database what it must hold before it may be read."""
        if connection.execute(select(Projection.id)).first() is None:
            target = {stream: end.to_json() for stream, end in ends.items()}
            connection.execute(insert(Projection).values(id=1, started_wall_at_ms=_wall_ms(), target=target, readings=0))

    def _project(self, step: _Step, stream: str, projection: Projects, standing: ReaderStanding) -> ReaderStanding:
        """Project rows of `stream` from `standing` on, as many as the step may still take, and return the standing after them."""
        reader = self._readers.of(stream)
        if not reader.moves(standing):
            return standing
        if step.left == 0:
            step.behind = True
            return standing
        asked = self._portions.size(stream, step.left)
        polled = reader.poll_from_floor(standing, asked)
        project = set_aside if self._portions.refuses(stream, polled) else projection
        received_at_ms = 0
        with self._portions.watched(stream, polled):
            for batch in (*polled.late, *polled.batches):
                project(step.connection, batch)
                received_at_ms = max(received_at_ms, batch.records.column(RECEIVED_AT)[-1].as_py())
        step.polled.append((stream, standing, polled))
        step.taken += polled.rows
        step.left -= polled.rows
        step.behind |= polled.rows == asked
        _save(step.connection, stream, standing, polled.standing)
        _save_age(step.connection, stream, polled.rows, received_at_ms)
        return polled.standing

    def _record_freshness(self, step: _Step, standings: Mapping[str, ReaderStanding]) -> bool:
        """Record for readers how current the database is, and return whether it has had all that the log held when it was begun."""
        target = step.connection.execute(select(Projection.target, Projection.ready_wall_at_ms)).one()
        positions = {stream: standing.position for stream, standing in standings.items()}
        reached = all(positions.get(stream, Position()).reaches(Position.from_json(end)) for stream, end in target.target.items())
        values: dict[str, int] = {}
        if reached and target.ready_wall_at_ms is None:
            values["ready_wall_at_ms"] = _wall_ms()
        if not step.behind:
            values |= {"caught_up_at_ms": self.clock.now_ms(), "caught_up_wall_at_ms": _wall_ms()}
        if values:
            step.connection.execute(update(Projection).values(**values))
        return target.ready_wall_at_ms is not None or reached


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _standings(connection: Connection) -> dict[str, ReaderStanding]:
    offsets: dict[str, dict[Origin, int]] = {}
    for row in connection.execute(select(Projected.stream, Projected.origin, Projected.next_offset)):
        offsets.setdefault(row.stream, {})[Origin.parse(row.origin)] = row.next_offset
    skipped: dict[str, dict[Origin, RangeSet]] = {}
    for row in connection.execute(select(Skipped.__table__)):
        skipped.setdefault(row.stream, {}).setdefault(Origin.parse(row.origin), RangeSet()).add(row.first_offset, row.end_offset)
    return {stream: ReaderStanding(Position(next_offsets), skipped.get(stream, {})) for stream, next_offsets in offsets.items()}


def _save(connection: Connection, stream: str, before: ReaderStanding, after: ReaderStanding) -> None:
    put(connection, Projected, [{"stream": stream, "origin": str(origin), "next_offset": end} for origin, end in after.position.items()])
    if after.skipped != before.skipped:
        connection.execute(delete(Skipped).where(table_of(Skipped).c.stream == stream))
        put(
            connection,
            Skipped,
            [
                {"stream": stream, "origin": str(origin), "first_offset": first, "end_offset": end}
                for origin, ranges in after.skipped.items()
                for first, end in ranges
            ],
        )


def _save_age(connection: Connection, stream: str, records: int, received_at_ms: int) -> None:
    table = table_of(StreamAge)
    known = connection.execute(select(StreamAge.records, StreamAge.received_at_ms).where(table.c.stream == stream)).first()
    if known is not None:
        records, received_at_ms = known.records + records, max(known.received_at_ms, received_at_ms)
    put(connection, StreamAge, [{"stream": stream, "records": records, "received_at_ms": received_at_ms}])
