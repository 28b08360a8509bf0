"""Starts the demo's processes, waits until each is healthy, starts a dead one again, and stops them all cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from landfall.system.stop_flag import Stop
from streams.model.errors import RetryLater

HEALTHY_WITHIN_S = 300.0
STOPPED_WITHIN_S = 60.0
"""Spark's first micro-batches take longest: on a busy machine one was still under way after 20 s."""
LEFTOVERS_END_WITHIN_S = 5.0
RESTARTS_MAX = 5
FORGOTTEN_S = 900.0
"""Time a program runs after a restart until its restarts are forgotten, seconds."""
LOG_TAIL_LINES = 15
SEE_LOG = "its whole log is in the demo's logs folder"


@dataclass(frozen=True, slots=True)
class Program:
    """One process of the demo: `landfall <words>`, healthy once `health_url` answers 200. `purpose` is shown to the person who waits.

    A process of a higher `rank` works with those of a lower one, and is stopped before them.
    """

    name: str
    words: tuple[str, ...]
    health_url: str
    purpose: str
    rank: int = 0


@dataclass(slots=True)
class Supervisor:
    """Supervisor of programs as separate processes, each with its own log file under `logs`. Not safe for use from several threads.

    `report` receives what happened to a process, and what was done about it. `stopping`: once set, nobody waits for health any more and
    nothing is started again.
    """

    logs: Path
    report: Callable[[str, str], None]
    stopping: Stop = field(default_factory=Stop)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    monotonic_s: Callable[[], float] = time.monotonic
    _died_at_s: dict[str, float] = field(default_factory=dict)

    def start(self, program: Program) -> None:
        """Start `program`; returns at once, its output going to `<logs>/<name>.log`."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.programs[program.name] = program
        with (self.logs / f"{program.name}.log").open("ab") as log:
            command = [sys.executable, "-m", "landfall", *program.words]
            self.running[program.name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def wait_healthy(self, program: Program) -> float:
        """Wait until `program` answers its health check; return the seconds it took.

        Raises RetryLater with the end of its log when it died or took too long.
        """
        began = time.monotonic()
        while time.monotonic() - began < HEALTHY_WITHIN_S:
            if self.stopping.is_set():
                raise RetryLater(f"stopped while {program.name} was starting", code="asked_to_end")
            if (code := self.running[program.name].poll()) is not None:
                raise RetryLater(
                    f"{program.name} ended with code {code} before it was healthy:\n{self.tail(program.name)}",
                    hint=SEE_LOG,
                    code="process_ended",
                )
            if healthy(program.health_url):
                return time.monotonic() - began
            time.sleep(0.1)
        raise RetryLater(
            f"{program.name} was not healthy within {HEALTHY_WITHIN_S:.0f} s:\n{self.tail(program.name)}",
            hint=SEE_LOG,
            code="process_unhealthy",
        )

    def restart_dead(self) -> None:
        """Start again what has died. Raises RetryLater when one program died more than RESTARTS_MAX times, never FORGOTTEN_S apart."""
        if self.stopping.is_set():
            return
        for name, process in list(self.running.items()):
            if (code := process.poll()) is None:
                continue
            now_s = self.monotonic_s()
            known = self.restarts.get(name, 0) if now_s - self._died_at_s.get(name, now_s) <= FORGOTTEN_S else 0
            self.restarts[name], self._died_at_s[name] = known + 1, now_s
            if self.restarts[name] > RESTARTS_MAX:
                raise RetryLater(f"{name} died {self.restarts[name]} times:\n{self.tail(name)}", hint=SEE_LOG, code="process_died")
            self.report(f"{name} ended ({_ending(code)})", "started again; it goes on where it was")
            self.start(self.programs[name])

    def stop(self) -> None:
        """Ask every process to end, rank by rank, the highest first: nobody misses one it works with. Kills what has not ended within
        STOPPED_WITHIN_S of being asked, and what it left.
        """
        for rank in sorted({self.programs[name].rank for name in self.running}, reverse=True):
            self._stop_all([name for name in self.running if self.programs[name].rank == rank])

    def _stop_all(self, names: list[str]) -> None:
        ending = [(name, self.running[name]) for name in names]
        for _, process in ending:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOPPED_WITHIN_S
        for name, process in ending:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.report(f"{name} did not end in time", "killed; nothing acknowledged is lost")
                process.kill()
                process.wait()
            _clear_group(process.pid)
            del self.running[name]

    def tail(self, name: str) -> str:
        """Return the last lines of a program's log."""
        path = self.logs / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:])


def healthy(url: str) -> bool:
    """Return whether `url` answers 200 within two seconds."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _clear_group(group: int) -> None:
    """Kill what a program started itself (Spark's Java), if it does not end by itself within LEFTOVERS_END_WITHIN_S."""
    deadline_s = time.monotonic() + LEFTOVERS_END_WITHIN_S
    try:
        while time.monotonic() < deadline_s:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"code {code}"
