"""The fan-out as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hq.fanout.fanning import Fanout
from hq.fanout.settings import FanoutSettings
from hq.opening import opened_log
from hq.running import Running, run_work
from streams.metrics import Metrics

PROCESS = "fanout"


def run_fanout(settings: FanoutSettings) -> None:
    """Fan out until SIGTERM or SIGINT. A Kafka that is away is waited for; raises NotAllowed when another fan-out has taken over."""
    run_work(Metrics(PROCESS), settings, settings.poll_interval_s, partial(_fanning, settings))


@contextmanager
def _fanning(settings: FanoutSettings, running: Running) -> Iterator[Fanout]:
    yield Fanout(opened_log(settings.log), settings, running.metrics)
