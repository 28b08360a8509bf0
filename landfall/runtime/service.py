"""The frame of every process next to a node: the fleet's clock, health, its reports on itself, retries, and a clean end."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field, SecretStr

from landfall.runtime.health_server import serve_health
from landfall.runtime.process_clock import following
from landfall.runtime.telemetry_client import DOOR_TIMEOUT_S, Standing, TelemetryClient
from landfall.system.settings_table import ClockAddress, DoorUrl, Host, SettingsProblem, SettingsTable, WithCertificate, between
from landfall.system.stop_flag import Stop
from landfall.transport.http_client import AppendDoor
from streams.model.clock import Clock, FleetClock
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics

RETRY_S_FIRST, RETRY_S_MAX = 0.5, 30.0
WAIT_S_MAX = 60.0
"""A process that has waited longer than this for something it needs is not ready, seconds."""
log = logging.getLogger(__name__)


class ReportSettings(SettingsTable):
    """The settings that a process needs to report on itself.

    `door`: the URL of its node (`http://host:port`), and `token` that of a credential there: metrics and failures go through it;
    without a door they are not sent. `metrics_every_s` is of the wall's clock. `clock`: "wall", or the URL of a clock that serves the
    fleet's time as JSON.
    """

    door: DoorUrl | None = None
    token: SecretStr = SecretStr("")
    metrics_every_s: float = Field(default=10.0, gt=0)
    clock: ClockAddress = "wall"

    @between
    def _has_what_its_door_asks_for(self) -> Iterator[SettingsProblem]:
        hint = "write the token that `landfall credential add` gives there, or take out door"
        if self.door is not None and not self.token.get_secret_value().strip():
            yield SettingsProblem(("token",), f"{self.door} asks for one, and there is none", hint)


class WorkSettings(ReportSettings, WithCertificate):
    """A process that listens nowhere but for its health: `http://<host>:<health_port>/healthz`; port 0: any free one. With
    `tls_certificate` and `tls_key`, PEM files, it is `https://`."""

    host: Host = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65_535)


@dataclass(slots=True)
class StepFailure:
    """The reason why the last step of a process failed, None where it did not, and since when every step has, by the monotonic clock."""

    problem: RetryLater | None = None
    since_s: float = 0.0

    def note(self, problem: RetryLater, now_s: float) -> None:
        """Record that a step failed with `problem`."""
        if self.problem is None:
            self.since_s = now_s
        self.problem = problem

    def is_long(self, now_s: float) -> bool:
        """Return whether every step has failed for more than WAIT_S_MAX."""
        return self.problem is not None and now_s - self.since_s > WAIT_S_MAX


@dataclass(frozen=True, slots=True)
class Running:
    """A process under way. `stop` is set when it is asked to end. `waiting`: what it waits for."""

    clock: FleetClock
    metrics: Metrics
    telemetry: TelemetryClient
    stop: Stop = field(default_factory=Stop)
    waiting: StepFailure = field(default_factory=StepFailure)

    @property
    def troubles(self) -> dict[str, str]:
        """Reasons why its health is degraded though it works, by kind. The part that detects a trouble changes them."""
        return self.metrics.troubles


class Work(Protocol):
    """The work that a process does, again and again."""

    @property
    def ready(self) -> bool:
        """Readiness of the process, as /healthz answers it."""
        ...

    def start(self) -> None:
        """Prepare for the steps; also after a step that failed. Raises RetryLater while something it needs is away."""
        ...

    def step(self) -> int:
        """Do one piece of work, as one commit, and return its amount; 0 when there was nothing to do. Raises RetryLater; then the work is
        restarted.
        """
        ...


Made = Callable[[Running], AbstractContextManager[Work]]
"""A function that makes the work of a process under way, and releases at the end what the work holds."""


def telemetry_of(settings: ReportSettings, metrics: Metrics, clock: Clock, standing: Standing = dict[str, Any]) -> TelemetryClient:
    """Return the process's telemetry client, as its settings configure it."""
    door = AppendDoor(settings.door, settings.token.get_secret_value(), DOOR_TIMEOUT_S) if settings.door else None
    return TelemetryClient(door, metrics, clock, settings.metrics_every_s, standing)


@contextmanager
def running(metrics: Metrics, settings: ReportSettings, standing: Standing = dict[str, Any]) -> Iterator[Running]:
    """Let the process `metrics.process` follow the fleet's clock and report on itself while the block runs, also the error that ends it.

    Raises RetryLater when the clock does not answer.
    """
    with following(settings.clock) as clock, telemetry_of(settings, metrics, clock, standing) as telemetry:
        try:
            yield Running(clock, metrics, telemetry)
        finally:
            log.info("ended")


def stop_when_asked(stop: Stop) -> None:
    """Set `stop` on SIGTERM and SIGINT from now on. The work under way is finished first."""
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, lambda *_: stop.set())


def run_work(metrics: Metrics, settings: WorkSettings, poll_s: float, made: Made, standing: Standing = dict[str, Any]) -> None:
    """Run the process `metrics.process`: do the work that `made` gives until SIGTERM or SIGINT.

    A next step follows at once, or after `poll_s` when there was nothing to do. What is away is waited for, see `keep_working`. Any other
    error ends the process and is reported. `standing` is part of `metrics` and of what /healthz says.
    """
    works: list[Work] = []

    def health() -> tuple[bool, dict[str, Any]]:
        return health_of(under_way, bool(works) and works[0].ready, standing())

    with running(metrics, settings, standing) as under_way, serve_health(settings.host, settings.health_port, health, settings) as port:
        log.info("health on port %d", port)
        with made(under_way) as work:
            works.append(work)
            stop_when_asked(under_way.stop)
            keep_working(work, under_way, poll_s)


def health_of(under_way: Running, ready: bool, standing: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Return whether a process is well, and what /healthz answers. `ready`: its work's own answer, which counts while it does not wait
    long.
    """
    ready = ready and not under_way.waiting.is_long(under_way.clock.monotonic_s())
    fields: dict[str, Any] = {"process": under_way.metrics.process, "ready": ready, "at_ms": time.time_ns() // 1_000_000, **standing}
    fields |= {"waiting": {"code": problem.code, "reason": str(problem)}} if (problem := under_way.waiting.problem) else {}
    fields |= {"troubles": dict(under_way.troubles)} if under_way.troubles else {}
    return ready and not under_way.troubles, fields


def keep_working(work: Work, under_way: Running, poll_s: float) -> None:
    """Start and step until `under_way.stop` is set.

    After RetryLater the work is restarted, after a pause: RETRY_S_FIRST for another code, doubling up to RETRY_S_MAX for the same one.
    A reason is reported once, until it changes, or all went well for RETRY_S_MAX; then pauses are short again too. Meanwhile
    `under_way.waiting` names it.
    """
    started, reported, code, pause_s, troubled_at_s = False, "", "", RETRY_S_FIRST, float("-inf")
    while not under_way.stop.is_set():
        try:
            if not started:
                work.start()
                started = True
                log.info("ready to work")
            wait_s = 0.0 if work.step() else poll_s
            under_way.waiting.problem = None
            if reported and under_way.clock.monotonic_s() - troubled_at_s > RETRY_S_MAX:
                reported, code = "", ""
        except RetryLater as problem:
            under_way.metrics.count("retries")
            troubled_at_s = under_way.clock.monotonic_s()
            under_way.waiting.note(problem, troubled_at_s)
            if str(problem) != reported:
                reported = str(problem)
                under_way.telemetry.report(reported, outcome="tried again", code=problem.code)
                log.warning("%s", reported)
            started, wait_s = False, RETRY_S_FIRST if problem.code != code else pause_s
            code, pause_s = problem.code, min(2 * wait_s, RETRY_S_MAX)
        under_way.stop.wait(wait_s)
