"""Goal: the demo's nodes end after all that works with them, headquarters' last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from landfall.demo.fleet import HQ, QUAYS, SHIP_NODES, Fleet, programs, write_settings
from landfall.demo.processes import Supervisor

TAKES_ITS_TIME = """
import signal, sys, time
name, seconds, told = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
time.sleep(float(seconds))
with open(told, "a") as file:
    file.write(name + "\\n")
"""
LATER_S = {"sim": 0.6, "analytics": 0.6, "dashboards": 0.6, "projector": 0.6, "api": 0.6, HQ: 0.0}
"""Those that must end first take longest to; headquarters' node ends at once when it is asked."""


def test_nodes_end_after_those_that_work_with_them(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    told, supervisor = tmp_path / "told", Supervisor(tmp_path, print)
    for program in programs(fleet, write_settings(fleet)):
        command = [sys.executable, "-c", TAKES_ITS_TIME, program.name, str(LATER_S.get(program.name, 0.3)), str(told)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        with process.stdout as screen:
            assert screen.readline() == b"ready\n"
        supervisor.programs[program.name], supervisor.running[program.name] = program, process
    supervisor.stop()
    ended = told.read_text().split()
    nodes = {*QUAYS, *SHIP_NODES}
    assert set(ended[:5]) == LATER_S.keys() - {HQ}
    assert set(ended[5:-1]) == nodes
    assert ended[-1] == HQ
    assert supervisor.running == {}
