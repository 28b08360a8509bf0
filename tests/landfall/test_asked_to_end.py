"""Goal: a process that is asked to end ends, in whatever it is asked: also where Python lets no exception through."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_A_FINALISER = """
import os, signal, sys, time
from landfall.process_table import PROCESSES, Process, run_process

class Falls:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass

def work(settings):
    Falls()
    print("asked, and went on", flush=True)
    time.sleep(120)
    print("never heard it", flush=True)

PROCESSES["test"] = Process("dashboards.settings:DashboardSettings", "__main__:work", ends={ends})
run_process("test", None)
"""


@pytest.mark.parametrize("ends", [False, True])
def test_asked_in_a_finaliser(ends: bool) -> None:
    run = subprocess.run([sys.executable, "-c", IN_A_FINALISER.format(ends=ends)], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["asked, and went on"]
    if ends:
        assert "was asked to end before it was done" in run.stderr.splitlines()[-1]
    else:
        assert (run.returncode, run.stderr) == (0, "")
