"""The fan-out as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from hq.fanout.kafka_writer import Fanout
from hq.fanout.settings import FanoutSettings
from landfall.runtime.hole_patience import SkippedReports
from landfall.runtime.log_wait import opened_log
from landfall.runtime.service import Running, run_work
from landfall.runtime.skipped_watch import BelowFloor
from streams.model.metrics import Metrics

PROCESS = "fanout"


def run_fanout(settings: FanoutSettings) -> None:
    """Fan out until SIGTERM or SIGINT. A Kafka that is away is waited for; raises NotAllowed when another fan-out has taken over."""
    run_work(Metrics(PROCESS), settings, settings.poll_interval_s, partial(_fanning, settings))


class ReportingFanout:
    """A fan-out that reports to `exceptions` each hole it skipped, once, and what it never read below the log's floor."""

    def __init__(self, fanout: Fanout, running: Running) -> None:
        self._fanout, self._skipped = fanout, SkippedReports(running.telemetry, PROCESS)
        self._floor = BelowFloor(fanout.reader, running, PROCESS)

    @property
    def ready(self) -> bool:
        """Readiness of the fan-out, as `Fanout.ready`."""
        return self._fanout.ready

    def start(self) -> None:
        """Start the fan-out, as `Fanout.start`."""
        self._fanout.start()

    def step(self) -> int:
        """Make the fan-out's step, as `Fanout.step`."""
        taken = self._fanout.step()
        self._skipped.look(self._fanout.standings)
        self._floor.look(self._fanout.unread, self._fanout.lost)
        self._fanout.unread.clear()
        self._fanout.lost.clear()
        return taken


@contextmanager
def _fanning(settings: FanoutSettings, running: Running) -> Iterator[ReportingFanout]:
    with closing(opened_log(settings.log)) as log:
        yield ReportingFanout(Fanout(log, settings, running.metrics, running.clock), running)
