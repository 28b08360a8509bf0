"""The projector as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from hq.sensor_places import report_unplaced
from hq.serving.database import ServingDatabase
from hq.serving.projection_loop import Projector
from hq.serving.rejects import Told, untold
from hq.serving.routes import routes
from hq.serving.settings import ProjectorSettings
from landfall.runtime.hole_patience import SkippedTold
from landfall.runtime.log_wait import opened_log
from landfall.runtime.service import Running, run_work
from landfall.runtime.skipped_watch import BelowFloor
from streams.model.metrics import Metrics

PROCESS = "projector"


def run_projector(settings: ProjectorSettings) -> None:
    """Project until SIGTERM or SIGINT. A database that is gone, or whose server is, is waited for and made again; nothing is lost by it."""
    run_work(Metrics(PROCESS), settings, settings.poll_interval_s, partial(_projecting, settings))


class TellingProjector:
    """A projector that tells `exceptions` of each record it set aside, of each hole it went on without, once, and of what it
    never read below the log's floor.
    """

    def __init__(self, projector: Projector, running: Running, every_s: float) -> None:
        self._projector, self._running, self._every_s = projector, running, every_s
        self._told: Told = {}
        self._told_at_s = float("-inf")
        self._skipped = SkippedTold(running.teller, PROCESS)
        self._floor = BelowFloor(projector.reader, running, PROCESS)

    @property
    def ready(self) -> bool:
        """Whether the database has had all that the log held when it was begun."""
        return self._projector.whole

    def start(self) -> None:
        """As the projector's."""
        self._projector.start()

    def step(self) -> int:
        """As the projector's; and every so often, what was set aside is told."""
        taken = self._projector.step()
        self._skipped.look(self._projector.standings)
        self._floor.look(self._projector.unread)
        self._projector.unread.clear()
        if self._running.clock.monotonic_s() - self._told_at_s >= self._every_s:
            self._told_at_s = self._running.clock.monotonic_s()
            with self._projector.database.transaction() as connection:
                appends, reached = untold(connection, self._told, PROCESS, self._running.clock.now_ms())
            if appends and self._running.teller.tell(appends):
                self._told = reached
        return taken


@contextmanager
def _projecting(settings: ProjectorSettings, running: Running) -> Iterator[TellingProjector]:
    with closing(ServingDatabase(settings.database_url)) as database, closing(opened_log(settings.log)) as reader:
        known = routes(settings.places, reader)
        projector = Projector(reader, database, running.clock, running.metrics, known, settings.step_records_max)
        report_unplaced(reader, settings.places, running.teller)
        yield TellingProjector(projector, running, settings.metrics_every_s)
