"""`landfall demo`: the whole fleet as separate processes on this machine, from nothing to a clean end."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from landfall.cli.sim_commands import CLOCK_URL
from landfall.demo import FOLDER, local_ports
from landfall.demo.demo_accounts import PEOPLE, add_accounts
from landfall.demo.demo_processes import SEE_LOG, Program, Supervisor
from landfall.demo.demo_secrets import CONTROL, SECRETS, Secrets
from landfall.demo.fleet_settings import (
    MASTER,
    SHIP_NODES,
    SIM,
    Doors,
    Fleet,
    PlayedStory,
    programs,
    report_settings,
    sim_settings,
    write_settings,
)
from landfall.runtime.service import ReportSettings, running
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.system.stop_flag import Stop
from landfall.system.text_files import ENCODING
from sim.settings import SimSettings
from sim.story_progress import load_progress
from streams.model.errors import LandfallError, Misuse, RetryLater
from streams.model.metrics import Metrics

WATCH_EVERY_S = 0.5
CONTROL_TIMEOUT_S = 10.0
FREE_GB_MIN = 2.0
GB = 1_000_000_000
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
OURS = "landfall-demo.txt"
_OURS_TEXT = "This folder holds the data of a Landfall demo; `landfall demo --fresh` deletes it.\n"


class Demo:
    """One demo under way: made, started, watched, stopped. Use it as a context manager, so that nothing is left running."""

    def __init__(self, fleet: Fleet, console: Console, stopping: Stop) -> None:
        """Make the demo. `stopping`: once set, starting is given up and `watch` ends."""
        self.fleet = fleet
        self._console = console
        self._stopping = stopping
        self._reporting = ExitStack()
        self._telemetry: TelemetryClient | None = None
        self.metrics = Metrics("demo")
        self.supervisor = Supervisor(fleet.folder / "logs", self._report, stopping)

    def __enter__(self) -> Demo:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._reporting.__exit__(kind, problem, trace)
        self.stop()

    def start(self) -> None:
        """Start every process, wait until each is healthy, then let the story continue. Stop what it started when one does not come up."""
        files = write_settings(self.fleet)
        add_accounts(self.fleet)
        wanted = programs(self.fleet, files)
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._console.print(f"starting {len(wanted)} processes, what each says is in {self.supervisor.logs}", markup=False)
            for program in wanted:
                self.supervisor.start(held(program) if program.name == SIM else program)
            self._console.print("the story waits until all of them are healthy")
            for program in wanted:
                with self._console.status(f"waiting for {program.name}: {program.purpose}"):
                    took_s = self.supervisor.wait_healthy(program)
                self.metrics.observe("start", took_s * 1_000)
                self._console.print(f"[green]✓[/green] {program.name:<11} {program.purpose} [dim]({took_s:.1f} s)[/dim]")
            self._let_the_story_go_on(next(program for program in wanted if program.name == SIM))
            self._begin_to_report()
            undo.pop_all()

    def _begin_to_report(self) -> None:
        settings = ReportSettings.model_validate(report_settings(self.fleet, Secrets(self.fleet.folder / SECRETS), "demo"))
        self._telemetry = self._reporting.enter_context(running(self.metrics, settings, self._standing)).telemetry

    def _standing(self) -> dict[str, Any]:
        """Set the gauges as they stand now, and return nothing else."""
        self.metrics.gauge("processes", len(self.supervisor.running))
        return {}

    def _report(self, what: str, outcome: str) -> None:
        """Report what happened to a process and what was done: on the screen and, once a client for it exists, in `exceptions`."""
        self._console.print(f"{what}; {outcome}", markup=False)
        if self._telemetry is not None:
            self._telemetry.report(what, outcome=outcome, code="process_failed")

    def _let_the_story_go_on(self, simulator: Program) -> None:
        """End the hold. A simulator that dies from here on is started again without one."""
        self.supervisor.programs[simulator.name] = simulator
        token = Secrets(self.fleet.folder / SECRETS).of(CONTROL)
        body, headers = json.dumps({"action": "start"}).encode(), {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.fleet.control_url, body, headers), timeout=CONTROL_TIMEOUT_S) as answer:
                state = json.load(answer)["state"]
        except OSError as problem:
            raise RetryLater(
                f"the story could not be started: {problem}\n{self.supervisor.tail(SIM)}", hint=SEE_LOG, code="story_not_started"
            ) from None
        going = "the story is paused, as it was left" if state == "paused" else "the story goes on"
        self._console.print(f"[green]✓[/green] every process is healthy: {going}")

    def watch(self) -> None:
        """Start again the processes that die, until asked to stop."""
        while not self._stopping.wait(WATCH_EVERY_S):
            self.supervisor.restart_dead()

    def stop(self) -> None:
        """Ask every process to end and wait for it."""
        self._reporting.close()
        try:
            if self.supervisor.running:
                self._console.print("\nstopping, what is under way is finished first …")
        finally:
            self.supervisor.stop()


def run_demo(fleet: Fleet, *, fresh: bool) -> None:
    """Run the demo until Ctrl-C or SIGTERM. `fresh` deletes what an earlier demo left in the folder; otherwise the demo continues from
    there.

    Raises Misuse, before anything is deleted or started, for everything that would stop it later; RetryLater when a process does not come
    up.
    """
    if problems := list(hindrances(fleet, fresh=fresh)):
        raise Misuse(
            "before the demo can start:\n" + "\n".join(f"- {hindrance}" for hindrance in problems) + "\n",
            hint="nothing was started",
            code="demo_not_ready",
        )
    console = Console()
    began = time.monotonic()
    prepare(fleet.folder, fresh=fresh)
    with stopping() as stop:
        try:
            with Demo(fleet, console, stop) as demo:
                welcome(console, fleet, time.monotonic() - began)
                demo.watch()
        except RetryLater:
            if not stop.is_set():
                raise
    again = again_as_typed(fleet)
    console.print(f"stopped. `{again}` goes on where this stopped; `{again} --fresh` starts again.", markup=False, soft_wrap=True)


def held(simulator: Program) -> Program:
    """Return the simulator with a story that waits to be started: while the others still start, none of its time passes."""
    return replace(simulator, words=(*simulator.words, "--hold"))


def hindrances(fleet: Fleet, *, fresh: bool) -> Iterator[str]:
    """Yield what would stop the demo later, each in a sentence with what to do.

    It may be ports in use, a story that can not be played, or not here, a foreign folder, a folder that Delta can not read, or too little
    disk.
    """
    yield from local_ports.in_use(fleet.doors.all())
    yield from unplayable(fleet, fresh=fresh)
    folder = fleet.folder
    if is_foreign(folder):
        yield f"{folder} holds something that is no demo's.\n  Name another folder with --folder."
    if escape := _ESCAPE.search(str(folder.absolute())):
        yield f"Delta's library takes {escape.group()} in {folder.absolute()} for another letter.\n  Use another --folder."
    disk = next(place for place in (folder, *folder.parents) if place.exists())
    if (free_gb := shutil.disk_usage(disk).free / GB) < FREE_GB_MIN:
        yield f"Only {free_gb:.1f} GB are free where {folder} is to lie; {FREE_GB_MIN:.0f} GB are needed.\n  Free some, or use --folder."


def chosen_story(folder: Path, speed: float, *, fresh: bool, seed: int | None = None, boxes: int | None = None) -> PlayedStory:
    """Return the story with the given values. A value that is None is taken from the story in `folder`; if the demo begins afresh, it is
    the default.
    """
    usual = PlayedStory() if fresh else _story_of(folder)
    return PlayedStory(usual.seed if seed is None else seed, usual.boxes if boxes is None else boxes, speed=speed)


def _story_of(folder: Path) -> PlayedStory:
    with suppress(OSError, ValueError, KeyError, TypeError):
        table = tomllib.loads((Fleet(folder).settings_folder / f"{SIM}.toml").read_text(ENCODING))
        return PlayedStory(int(table["seed"]), int(table["boxes"]))
    return PlayedStory()


def unplayable(fleet: Fleet, *, fresh: bool) -> Iterator[str]:
    """Yield why the simulator could not play this story, or, unless `fresh`, could not continue it in this folder."""
    try:
        kept = Secrets(fleet.folder / SECRETS, fresh=fresh)
        settings = SimSettings.model_validate(sim_settings(fleet, kept))
    except LandfallError as broken:
        yield f"{broken}."
        return
    except ValidationError as problems:
        for problem in problems.errors(include_url=False):
            yield f"--{problem['loc'][0]} {problem['input']} can not be: {problem['msg'].lower()}."
        return
    if not fresh:
        try:
            load_progress(settings.progress, settings.story())
        except LandfallError as problem:
            yield f"{problem}."


def as_typed() -> str:
    """Return how to type this program here: by its name where the shell finds it by that, else by its path."""
    here = Path(sys.executable).with_name("landfall")
    if shutil.which("landfall") == str(here):
        return "landfall"
    return _from_here(here)


def _from_here(path: Path) -> str:
    """Return the path as it is to be typed in the working folder."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def again_as_typed(fleet: Fleet) -> str:
    """Return what to type here to continue with this fleet; its folder knows its story."""
    words = [as_typed(), "demo"]
    if fleet.folder != FOLDER.resolve():
        words += ["--folder", _from_here(fleet.folder)]
    if fleet.doors != Doors():
        words += ["--first-port", str(fleet.doors.pages)]
    return shlex.join(words)


def prepare(folder: Path, *, fresh: bool) -> None:
    """Make the folder, empty when `fresh`. Raises Misuse rather than delete a folder that is not a demo's.

    The folder is marked as a demo's at every instant: whatever ends the deletion, the next start can continue it.
    """
    if is_foreign(folder):
        raise Misuse(f"{folder} holds something that is no demo's", hint="name another folder with --folder", code="folder_of_another")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OURS).write_text(_OURS_TEXT)
    for entry in folder.iterdir() if fresh else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != OURS:
            entry.unlink()


def is_foreign(folder: Path) -> bool:
    """Return whether the folder holds something that no demo has put there."""
    return folder.exists() and any(folder.iterdir()) and not (folder / OURS).exists()


def welcome(console: Console, fleet: Fleet, took_s: float) -> None:
    """Print where to look, and with which accounts."""
    console.print(f"\n[bold]The fleet is at work[/bold] after {took_s:.0f} s. Look at [bold cyan]{fleet.pages_url}[/bold cyan]\n")
    table = Table("log in as", "password", "and be", box=None, header_style="dim")
    for account, password in PEOPLE:
        table.add_row(account.username, password, account.name)
    console.print(table)
    user = MASTER.removeprefix("user:")
    for node, ship in SHIP_NODES.items():
        console.print(f"Console of the {ship.name}, log in as {user}: [cyan]{fleet.node_url(node)}/console[/cyan]")
    elsewhere = "" if fleet.folder == FOLDER.resolve() else f" --folder {shlex.quote(_from_here(fleet.folder))}"
    elsewhere += "" if fleet.control_url == f"{CLOCK_URL}/control" else f" --url {fleet.control_url.removesuffix('/control')}"
    console.print(
        f"\nAPI {fleet.api_url}/docs   logs {fleet.folder / 'logs'}\n"
        f"Pause, speed and jumps: on the map, or `{as_typed()} sim pause{elsewhere}`, resume, speed 1000, jump C.\n"
        "[bold]Ctrl-C[/bold] stops everything cleanly.\n",
    )


@contextmanager
def stopping() -> Iterator[Stop]:
    """Yield what SIGINT, SIGTERM and a closed terminal set, instead of their usual effect."""
    stop = Stop()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
