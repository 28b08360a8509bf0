"""The projector as a process: its loop, its health, its metrics, and its clean end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import ExitStack
from typing import Any

from hq.clock import following
from hq.health import serve_health
from hq.opening import opened_log
from hq.serving.database import ServingDatabase
from hq.serving.projecting import Projector
from hq.serving.rejects import Told, untold
from hq.serving.routes import routes
from hq.serving.settings import ProjectorSettings
from hq.telling import Teller
from streams.errors import RetryLater
from streams.link.door import AppendDoor
from streams.metrics import Metrics

PROCESS = "projector"
RETRY_S = 0.5
log = logging.getLogger(__name__)


def run_projector(settings: ProjectorSettings) -> None:
    """Project until SIGTERM or SIGINT. A database that is gone, or whose server is, is waited for and made again; nothing is lost by it."""
    stop = threading.Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda *_: stop.set())
    metrics = Metrics(PROCESS)
    with ExitStack() as stack:
        clock = stack.enter_context(following(settings.clock))
        database = ServingDatabase(settings.database_url)
        stack.callback(database.close)
        reader = opened_log(settings.log)
        projector = Projector(reader, database, clock, metrics, routes(settings.places), settings.step_records_max)
        door = AppendDoor(settings.door, settings.token.get_secret_value()) if settings.door else None
        teller = Teller(door, metrics, clock, settings.metrics_every_s)
        port = stack.enter_context(serve_health(settings.host, settings.health_port, lambda: _health(projector)))
        log.info("projects %s into the serving database, health on port %d", settings.log, port)
        _project(projector, teller, stop, settings.poll_interval_s)
    log.info("ended")


def _project(projector: Projector, teller: Teller, stop: threading.Event, poll_s: float) -> None:
    started = False
    told: Told = {}
    while not stop.is_set():
        try:
            if not started:
                projector.start()
                started = True
                log.info("the serving database is there")
            idle = projector.step() == 0
            if teller.due():
                told = _tell(projector, teller, told)
        except RetryLater as problem:
            started = False
            projector.metrics.count("retries")
            log.warning("%s", problem)
            stop.wait(RETRY_S)
            continue
        if idle:
            stop.wait(poll_s)


def _tell(projector: Projector, teller: Teller, told: Told) -> Told:
    """Metrics and records set aside; what is told afterwards."""
    with projector.database.transaction() as connection:
        appends, reached = untold(connection, told, PROCESS, projector.clock.now_ms())
    return reached if teller.tell(appends) else told


def _health(projector: Projector) -> tuple[bool, dict[str, Any]]:
    return projector.whole, {"process": PROCESS, "whole": projector.whole, "at_ms": time.time_ns() // 1_000_000}
