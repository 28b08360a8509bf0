"""The simulator as a process: world, tape, clerk and clock together, from a start to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import signal
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from landfall.access.wrong_secrets import WrongSecrets
from landfall.runtime.telemetry_client import DOOR_TIMEOUT_S, TelemetryClient
from landfall.system.listen_address import address, listening
from landfall.transport.certificate_renewal import keep_certificate
from landfall.transport.http_client import AppendDoor
from landfall.transport.tls import showing
from sim.arrays import NEVER_MS
from sim.clerk import Clerk
from sim.door import clock_door
from sim.listening_devices import Listening
from sim.paperwork import paperwork
from sim.publish import Publisher
from sim.sensors import Sensors
from sim.settings import SimSettings
from sim.story_clock import Setting, StoryClock
from sim.story_progress import StoryProgress, load_progress, save_progress
from sim.tape import Tape
from sim.truth import Truth
from streams.model.clock import Clock, WallClock
from streams.model.metrics import Metrics

TURN_S = 0.02
SAVE_EVERY_S = 1.0
DRAIN_S = 2.0
NEVER_S = 3600.0
log = logging.getLogger("sim")


class Simulation:
    """One story under way. Made from settings and, unless `fresh`, from what the last run kept; `play` belongs to one thread.

    `hold`: its clock waits for `start`. That is no part of what is kept.
    """

    def __init__(self, settings: SimSettings, *, fresh: bool = False, hold: bool = False, wall: Clock | None = None) -> None:
        self._settings = settings
        self._wall = wall or WallClock()
        self._path = settings.progress
        if fresh:
            erase_story(settings.data)
        self._story = settings.story()
        world = settings.world()
        progress = load_progress(self._path, self._story) or StoryProgress(
            self._story, settings.begins_at_ms, 0, Setting(settings.speed, paused=False)
        )
        self.sensors = Sensors(world, settings.reporting(), settings.listening)
        self._truth = Truth(settings.data / "truth", self.sensors)
        self._truth.begin()
        times = world.timeline
        self.clock = StoryClock(times.ends_at_ms, world.chapters, progress.fleet_at_ms, progress.setting, self._wall, hold=hold)
        self.metrics, metrics_settings = Metrics("sim"), settings.metrics
        door = AppendDoor(metrics_settings.url, metrics_settings.token.get_secret_value(), DOOR_TIMEOUT_S) if metrics_settings else None
        self.telemetry = TelemetryClient(
            door, self.metrics, self.clock, metrics_settings.every_s if metrics_settings else NEVER_S, self._standing
        )
        papers = paperwork(world, self.sensors.cadence.report_ms)
        of_clerk, of_publisher = partial(self._report, code="entries_not_taken"), partial(self._report, code="intake_refuses")
        self.clerk = Clerk(papers, settings.api, progress.papers, of_clerk) if settings.api else None
        listens = settings.listening > 0
        self._publisher = Publisher(world.places.names, settings.doors(), self._wall, of_publisher, listens=listens)
        self.tape = Tape(self.sensors, self._truth, self._publisher, progress.fleet_at_ms)
        self._listening = Listening(self.sensors, self._truth, progress.fleet_at_ms) if listens else None
        self._acknowledged_ms = progress.fleet_at_ms
        self._played_ms = progress.fleet_at_ms - 1

    def play(self, stop: threading.Event) -> None:
        """Publish what the clock has come to, let the clock go on with what is acknowledged, until `stop` is set; keep the progress."""
        saved_s = self._wall.monotonic_s()
        try:
            while not stop.is_set():
                self._publisher.turn(TURN_S)
                began_s = self._wall.monotonic_s()
                self._step()
                self.metrics.observe("sim_step_ms", (self._wall.monotonic_s() - began_s) * 1_000)
                if self._wall.monotonic_s() - saved_s >= SAVE_EVERY_S:
                    saved_s = self._wall.monotonic_s()
                    self._save()
            self._drain()
        finally:
            self._publisher.close()
            self._save()

    def _step(self) -> None:
        published, acknowledged = self.tape.published, self.tape.acknowledged
        self._played_ms = min(self.clock.now_ms(), self._free_before_ms() - 1)
        if self._listening is not None:
            self._listening.hear(self._publisher.taken_requests())
            self._listening.play(self.tape, self._played_ms)
        else:
            self.tape.play(self._played_ms)
        self._acknowledged_ms = self.tape.acknowledged_before_ms(self._played_ms)
        self.clock.confirm(self._acknowledged_ms)
        self.metrics.count("sim_published", self.tape.published - published)
        self.metrics.count("sim_acknowledged", self.tape.acknowledged - acknowledged)

    def _report(self, problem: str, code: str) -> None:
        log.warning("%s", problem)
        self.telemetry.report(problem, outcome="tried again", code=code)

    def _standing(self) -> dict[str, Any]:
        """Set the gauges as they stand now; return nothing else."""
        self.metrics.gauge("sim_behind_fleet_ms", self.clock.now_ms() - self._acknowledged_ms)
        self.metrics.gauge("sim_papers", self.clerk.accepted if self.clerk else 0)
        return {}

    def _drain(self) -> None:
        """Wait a little for what is under way, so that the next start need not send it again."""
        deadline_s = self._wall.monotonic_s() + DRAIN_S
        while self.tape.acknowledged < self.tape.published and self._wall.monotonic_s() < deadline_s:
            self._publisher.turn(TURN_S)
            self._acknowledged_ms = self.tape.acknowledged_before_ms(self._played_ms)

    def _free_before_ms(self) -> int:
        return self.clerk.free_before_ms() if self.clerk else NEVER_MS

    def _save(self) -> None:
        papers = self.clerk.accepted if self.clerk else 0
        save_progress(self._path, StoryProgress(self._story, self._acknowledged_ms, papers, self.clock.setting()))


def erase_story(folder: Path) -> None:
    """Forget the story under way in `folder`: its progress and its truth. Nothing else in the folder is touched."""
    (folder / "progress.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "truth", ignore_errors=True)


async def run_sim(settings: SimSettings, fresh: bool = False, hold: bool = False, stop: asyncio.Event | None = None) -> None:
    """Run the simulator until SIGTERM, SIGINT or `stop`; after the story's end its clock stands still and keeps reporting so.

    With `hold` the story waits where it is until a request to the clock's door starts it.

    Raises what ends it: Misuse for settings, a login or a paper that is wrong, and for an address of the clock that can not be had.
    """
    settings.data.mkdir(parents=True, exist_ok=True)
    simulation = Simulation(settings, fresh=fresh, hold=hold)
    ending = threading.Event()
    async with _stop_event(stop) as stopping, _served(simulation, settings):
        workers = [asyncio.create_task(asyncio.to_thread(simulation.play, ending))]
        if simulation.clerk is not None:
            workers.append(asyncio.create_task(asyncio.to_thread(simulation.clerk.run, simulation.clock.now_ms, ending)))
        with simulation.telemetry:
            try:
                await _first_trouble(workers, stopping)
            finally:
                ending.set()
                await asyncio.gather(*workers, return_exceptions=True)
    left = simulation.tape
    log.info("left: %d readings published, %d acknowledged, fleet at %d ms", left.published, left.acknowledged, simulation.clock.now_ms())


async def _first_trouble(workers: list[asyncio.Task[None]], stopping: asyncio.Event) -> None:
    """Wait until asked to stop; raise what a worker raises before that."""
    stopped = asyncio.create_task(stopping.wait())
    waiting: set[asyncio.Task[None] | asyncio.Task[bool]] = {stopped, *workers}
    try:
        while not stopped.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        stopped.cancel()


@contextlib.asynccontextmanager
async def _stop_event(stop: asyncio.Event | None) -> AsyncIterator[asyncio.Event]:
    """Yield the event to wait for: the caller's, or one that SIGTERM and SIGINT set."""
    if stop is not None:
        yield stop
        return
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _served(simulation: Simulation, settings: SimSettings) -> AsyncIterator[None]:
    def report(reason: str, outcome: str, *, code: str, **details: Any) -> None:
        log.warning("%s, %s: %s", reason, outcome, details)
        simulation.telemetry.report(reason, json.dumps(details), outcome, code=code)

    name, host, port = "the fleet's clock", settings.clock_host, settings.clock_port
    shown = showing(name, settings.tls_certificate, settings.tls_key)
    wrong = WrongSecrets(WallClock(), simulation.metrics, report, door="/control of the simulator")
    runner = web.AppRunner(clock_door(simulation.clock, settings.control_token, wrong), access_log=None)
    await runner.setup()
    keeping = [asyncio.create_task(keep_certificate(name, "the simulator", shown, report))] if shown else []
    try:
        with listening(name, host, port):
            await web.TCPSite(runner, host, port, ssl_context=shown.context if shown else None).start()
        log.info("%s answers at %s://%s/clock", name, "https" if shown else "http", address(host, port))
        yield
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await runner.cleanup()
