"""Goal: the demo's nodes end after all that works with them, headquarters' last."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from landfall.demo.demo_processes import Supervisor
from landfall.demo.fleet_settings import HQ, QUAYS, SHIP_NODES, Fleet, programs, write_settings

USERS = {"sim", "analytics", "dashboards", "projector", "api"}


class Noted(subprocess.Popen[bytes]):
    """A process that ends when it is asked to; when it was asked, and when its end was waited for, is noted."""

    def __init__(self, name: str, noted: list[tuple[str, str]]) -> None:
        super().__init__([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
        self._name, self._noted = name, noted

    def send_signal(self, sig: int) -> None:
        """Notes that it was asked."""
        self._noted.append(("asked", self._name))
        super().send_signal(sig)

    def wait(self, timeout: float | None = None) -> int:
        """Notes that it has ended."""
        code = super().wait(timeout)
        self._noted.append(("ended", self._name))
        return code

    def close(self) -> None:
        """Ends it, whatever happened, and what was opened for it."""
        assert self.stdin is not None
        super().send_signal(signal.SIGKILL)
        super().wait()
        self.stdin.close()


def test_nodes_end_after_those_that_work_with_them(tmp_path: Path) -> None:
    fleet, noted = Fleet(tmp_path), list[tuple[str, str]]()
    supervisor = Supervisor(tmp_path, print)
    started = []
    try:
        for program in programs(fleet, write_settings(fleet)):
            process = Noted(program.name, noted)
            started.append(process)
            supervisor.programs[program.name], supervisor.running[program.name] = program, process
        supervisor.stop()
    finally:
        for process in started:
            process.close()
    for names in (USERS, {*QUAYS, *SHIP_NODES}, {HQ}):
        steps, noted = noted[: 2 * len(names)], noted[2 * len(names) :]
        assert set(steps[: len(names)]) == {("asked", name) for name in names}, "all of them are asked before one is waited for"
        assert set(steps[len(names) :]) == {("ended", name) for name in names}
    assert (noted, supervisor.running) == ([], {})
