"""The projector: reads headquarters' log and writes rows and its Position in one transaction a step.

A step, by number: 1 the database is there, or is made; 2 its Position is read from it; 3 streams are read from there in the order of
`routes`; 4 their rows, 5 the new Position and 6 what it means for readers (whole or not) are written; 7 all of it is committed together. A
process killed anywhere begins again at 1, with nothing lost and nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, insert, select, update

from hq.opening import read_on
from hq.serving.database import ServingDatabase
from hq.serving.models import Projected, Projection, StreamAge
from hq.serving.projections.shape import Projection as Projects
from hq.serving.routes import Routes, route
from hq.serving.upsert import put, table_of
from streams.clock import Clock
from streams.crash import commit_point
from streams.log import LogReader
from streams.metrics import Metrics
from streams.records import OFFSET, RECEIVED_AT, Batch
from streams.words import Origin, Position

CAUGHT_UP_NOTED_S = 1.0


@dataclass(slots=True)
class _Step:
    """One transaction: how many records it may still take, and how many it took."""

    connection: Connection
    left: int
    taken: int = 0
    behind: bool = False


@dataclass(slots=True)
class Projector:
    """Brings a log into a serving database. For one thread; a second projector on one database waits for the first one's transactions."""

    reader: LogReader
    database: ServingDatabase
    clock: Clock
    metrics: Metrics
    routes: Routes
    step_records_max: int = 20_000
    _seen: dict[str, Position] = field(default_factory=dict)
    _noted_at_s: float = float("-inf")
    _whole: bool = False

    def start(self) -> None:
        """The database is there with all its tables, and what it holds is known. Raises RetryLater when its server does not answer."""
        self._seen = {}
        self._noted_at_s = float("-inf")
        self._whole = False
        self.database.prepare()
        commit_point("projector.prepared")

    def step(self) -> int:
        """Project what is new, at most `step_records_max` records, in one transaction; returns how many they were.

        Raises DatabaseGone when the database was dropped; `start` makes it again.
        """
        ends = {stream: self.reader.position(stream) for stream, _ in route(self.routes, self.reader.streams())}
        now_s = self.clock.monotonic_s()
        if self._whole and ends == self._seen and now_s - self._noted_at_s < CAUGHT_UP_NOTED_S:
            self.database.check()
            return 0
        began_s = time.perf_counter()
        with self.database.transaction() as connection:
            step = _Step(connection, self.step_records_max)
            self._begin(connection, ends)
            positions = _positions(connection)
            for stream, projection in route(self.routes, ends):
                positions[stream] = self._project(step, stream, projection, positions.get(stream, Position()), ends[stream])
            self._tell_readers(step, positions)
        commit_point("projector.step")
        self._seen = positions
        self._noted_at_s = now_s
        self.metrics.count("records", step.taken)
        if step.taken:
            self.metrics.observe("step", (time.perf_counter() - began_s) * 1000)
        return step.taken

    @property
    def whole(self) -> bool:
        """Whether the database has had all that the log held when it was begun."""
        return self._whole

    def _begin(self, connection: Connection, ends: dict[str, Position]) -> None:
        """A new database notes what it must hold before it may be read."""
        if connection.execute(select(Projection.id)).first() is None:
            target = {stream: end.to_json() for stream, end in ends.items()}
            connection.execute(insert(Projection).values(id=1, started_wall_at_ms=_wall_ms(), target=target, readings=0))

    def _project(self, step: _Step, stream: str, projection: Projects, position: Position, end: Position) -> Position:
        """Rows of `stream` from `position` on, as many as the step may still take; returns the Position after them."""
        if position.reaches(end):
            return position
        if step.left == 0:
            step.behind = True
            return position
        before = step.taken
        received_at_ms = 0
        done = True
        for part in self._parts(step, stream, position):
            projection(step.connection, part)
            offsets = part.records.column(OFFSET)
            position = position.advanced(part.origin, offsets[-1].as_py() + 1)
            received_at_ms = max(received_at_ms, part.records.column(RECEIVED_AT)[-1].as_py())
            step.taken += part.records.num_rows
            step.left -= part.records.num_rows
            if step.left == 0:
                done = False
                break
        if done:
            position = position.merged(end)
        step.behind |= not done
        _save(step.connection, stream, position)
        _save_age(step.connection, stream, step.taken - before, received_at_ms)
        return position

    def _parts(self, step: _Step, stream: str, position: Position) -> Iterator[Batch]:
        """Batches from `position` on, cut so that none is larger than what the step may still take."""
        for batch in read_on(self.reader, stream, position, self.metrics):
            at = 0
            while at < batch.records.num_rows:
                part = batch.records.slice(at, step.left)
                at += part.num_rows
                yield Batch(batch.stream, batch.origin, part)

    def _tell_readers(self, step: _Step, positions: dict[str, Position]) -> None:
        target = step.connection.execute(select(Projection.target, Projection.ready_wall_at_ms)).one()
        reached = all(positions.get(stream, Position()).reaches(Position.from_json(end)) for stream, end in target.target.items())
        self._whole = target.ready_wall_at_ms is not None or reached
        values: dict[str, int] = {}
        if reached and target.ready_wall_at_ms is None:
            values["ready_wall_at_ms"] = _wall_ms()
        if not step.behind:
            values |= {"caught_up_at_ms": self.clock.now_ms(), "caught_up_wall_at_ms": _wall_ms()}
        if values:
            step.connection.execute(update(Projection).values(**values))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _positions(connection: Connection) -> dict[str, Position]:
    offsets: dict[str, dict[Origin, int]] = {}
    for row in connection.execute(select(Projected.stream, Projected.origin, Projected.next_offset)):
        offsets.setdefault(row.stream, {})[Origin.parse(row.origin)] = row.next_offset
    return {stream: Position(next_offsets) for stream, next_offsets in offsets.items()}


def _save(connection: Connection, stream: str, position: Position) -> None:
    put(connection, Projected, [{"stream": stream, "origin": str(origin), "next_offset": offset} for origin, offset in position.items()])


def _save_age(connection: Connection, stream: str, records: int, received_at_ms: int) -> None:
    table = table_of(StreamAge)
    known = connection.execute(select(StreamAge.records, StreamAge.received_at_ms).where(table.c.stream == stream)).first()
    if known is not None:
        records, received_at_ms = known.records + records, max(known.received_at_ms, received_at_ms)
    put(connection, StreamAge, [{"stream": stream, "records": records, "received_at_ms": received_at_ms}])
