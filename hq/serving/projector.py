"""The projector as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from pydantic import Field
from sqlalchemy import Connection, select

from hq.sensor_places import SensorPlaces, report_unplaced
from hq.serving.address import SERVING_URL_DEFAULT, DatabaseUrl
from hq.serving.database import ServingDatabase
from hq.serving.models import Rejected
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.runtime.hole_patience import SkippedReports
from landfall.runtime.log_wait import opened_log
from landfall.runtime.service import Running, WorkSettings, run_work
from landfall.runtime.skipped_watch import BelowFloor
from landfall.runtime.telemetry_client import failure
from landfall.system.settings_table import GivenPath
from streams.log import Append
from streams.model.metrics import Metrics

PROCESS = "projector"


FAILURES_AT_ONCE_MAX = 100
ReportedOffsets = dict[tuple[str, str], int]
"""(stream, origin) → one past the last offset reported."""


def unreported_appends(connection: Connection, reported: ReportedOffsets, process: str, at_ms: int) -> tuple[list[Append], ReportedOffsets]:
    """Return the appends for rejected records beyond `reported`, and the offsets reported once these are durable.

    A repeated report, by another process or after a rebuild, changes nothing: producer and sequence name the record itself.
    """
    appends: list[Append] = []
    reached = dict(reported)
    for row in connection.execute(select(Rejected.__table__).order_by(Rejected.stream, Rejected.origin, Rejected.offset)):
        of = (row.stream, row.origin)
        if row.offset < reached.get(of, 0) or len(appends) == FAILURES_AT_ONCE_MAX:
            continue
        reason = f"{row.stream}:{row.origin}:{row.offset} about {row.topic} is set aside: {row.reason}"
        key = (f"{process}/{row.stream}/{row.origin}", row.offset + 1)
        appends.append(failure(process, reason, row.body or "", at_ms, key, code="record_unreadable"))
        reached[of] = row.offset + 1
    return appends, reached


class ProjectorSettings(WorkSettings):
    """Settings of `landfall projector`. Intervals are of the wall clock.

    * `log`: headquarters' log, the folder `log` of its node.
    * `database_url`: an SQLAlchemy address (`sqlite:////path/serving.db`, `postgresql+psycopg://user@host/landfall`). The process may
      drop and create this database. By default it is the SQLite file `serving.db` in the working folder.
    * `door`, `token`: URL of headquarters' node (`http://host:port`) and the token of a credential there, for metrics and exceptions.
      Without a door they are not sent.
    * `clock`: "wall", or the URL of a clock that serves the fleet's time as JSON.
    * `places`: node name to `ship/<imo>` or `quay/<locode>`, the place of that node's sensors.
    """

    log: GivenPath
    database_url: DatabaseUrl = SERVING_URL_DEFAULT
    places: SensorPlaces = Field(default={})
    poll_interval_s: float = Field(0.2, gt=0, le=10)
    step_records_max: int = Field(20_000, ge=1, le=30_000)


def run_projector(settings: ProjectorSettings) -> None:
    """Project until SIGTERM or SIGINT. A database that is gone, or whose server is, is waited for and made again; nothing is lost by it."""
    run_work(Metrics(PROCESS), settings, settings.poll_interval_s, partial(_projecting, settings))


class ReportingProjector:
    """A projector that reports to `exceptions` each record it set aside, each hole it skipped, once, and what it never read below the
    log's floor.
    """

    def __init__(self, projector: Projector, running: Running, every_s: float) -> None:
        self._projector, self._running, self._every_s = projector, running, every_s
        self._reported: ReportedOffsets = {}
        self._reported_at_s = float("-inf")
        self._skipped = SkippedReports(running.telemetry, PROCESS)
        self._floor = BelowFloor(projector.reader, running, PROCESS)

    @property
    def ready(self) -> bool:
        """Whether the database has had all that the log held when it was begun."""
        return self._projector.whole

    def start(self) -> None:
        """Start the projector, as `Projector.start`."""
        self._projector.start()

    def step(self) -> int:
        """Make the projector's step; at intervals also report what was set aside."""
        record_count = self._projector.step()
        self._skipped.look(self._projector.standings)
        self._floor.look(self._projector.unread)
        self._projector.unread.clear()
        if self._running.clock.monotonic_s() - self._reported_at_s >= self._every_s:
            self._reported_at_s = self._running.clock.monotonic_s()
            with self._projector.database.transaction() as connection:
                appends, reached = unreported_appends(connection, self._reported, PROCESS, self._running.clock.now_ms())
            if appends and self._running.telemetry.send(appends):
                self._reported = reached
        return record_count


@contextmanager
def _projecting(settings: ProjectorSettings, running: Running) -> Iterator[ReportingProjector]:
    with closing(ServingDatabase(settings.database_url)) as database, closing(opened_log(settings.log)) as reader:
        projection_routes = routes(settings.places, reader)
        projector = Projector(reader, database, running.clock, running.metrics, projection_routes, settings.step_records_max)
        report_unplaced(reader, settings.places, running.telemetry)
        yield ReportingProjector(projector, running, settings.metrics_every_s)
