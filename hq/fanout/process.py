"""The fan-out as a process: its loop, its health, its metrics, and its clean end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import ExitStack
from typing import Any

from hq.clock import following
from hq.fanout.fanning import Fanout
from hq.fanout.settings import FanoutSettings
from hq.health import serve_health
from hq.opening import opened_log
from hq.telling import Teller
from streams.errors import RetryLater
from streams.link.door import AppendDoor
from streams.metrics import Metrics

PROCESS = "fanout"
RETRY_S = 0.5
log = logging.getLogger(__name__)


def run_fanout(settings: FanoutSettings) -> None:
    """Fan out until SIGTERM or SIGINT. A Kafka that is away is waited for; raises NotAllowed when another fan-out has taken over."""
    stop = threading.Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda *_: stop.set())
    metrics = Metrics(PROCESS)
    with ExitStack() as stack:
        clock = stack.enter_context(following(settings.clock))
        fanout = Fanout(opened_log(settings.log), settings, metrics)
        door = AppendDoor(settings.door, settings.token.get_secret_value()) if settings.door else None
        teller = Teller(door, metrics, clock, settings.metrics_every_s)
        port = stack.enter_context(serve_health(settings.host, settings.health_port, lambda: _health(fanout)))
        log.info("fans %s out into Kafka at %s, health on port %d", settings.log, settings.kafka.brokers, port)
        _fan_out(fanout, teller, stop, settings.poll_interval_s)
    log.info("ended")


def _fan_out(fanout: Fanout, teller: Teller, stop: threading.Event, poll_s: float) -> None:
    started = False
    while not stop.is_set():
        try:
            if not started:
                fanout.start()
                started = True
                log.info("Kafka answers")
            idle = fanout.step() == 0
            if teller.due():
                teller.tell()
        except RetryLater as problem:
            started = False
            fanout.metrics.count("retries")
            log.warning("%s", problem)
            stop.wait(RETRY_S)
            continue
        if idle:
            stop.wait(poll_s)


def _health(fanout: Fanout) -> tuple[bool, dict[str, Any]]:
    return fanout.started, {"process": PROCESS, "at_ms": time.time_ns() // 1_000_000}
