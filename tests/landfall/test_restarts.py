"""Goal: a demo ends when one process dies again and again, and not because it died a few times over a day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from landfall.demo.demo_processes import FORGOTTEN_S, RESTARTS_MAX, Program, Supervisor
from streams.model.errors import RetryLater

PROGRAM = Program("projector", ("projector",), "http://127.0.0.1:9/healthz", "the store")


class HandTime:
    """Seconds that are moved by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


class Brief(Supervisor):
    """Starts processes that end at once."""

    def start(self, program: Program) -> None:
        """It has ended when this returns."""
        self.programs[program.name] = program
        self.running[program.name] = ended = subprocess.Popen([sys.executable, "-S", "-c", ""], start_new_session=True)
        ended.wait()


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    """One that has started a process."""
    one = Brief(tmp_path, lambda what, outcome: None, monotonic_s=HandTime())
    one.start(PROGRAM)
    return one


def after(supervisor: Supervisor, seconds: float) -> None:
    """Time goes by."""
    assert isinstance(supervisor.monotonic_s, HandTime)
    supervisor.monotonic_s.at_s += seconds


def test_a_process_that_dies_too_often_within_a_quarter_of_an_hour_ends_the_demo(supervisor: Supervisor) -> None:
    for _ in range(RESTARTS_MAX):
        supervisor.restart_dead()
        after(supervisor, FORGOTTEN_S - 1)
    with pytest.raises(RetryLater):
        supervisor.restart_dead()


def test_restarts_are_forgotten_after_a_good_quarter_of_an_hour(supervisor: Supervisor) -> None:
    for _ in range(RESTARTS_MAX):
        supervisor.restart_dead()
    after(supervisor, FORGOTTEN_S + 1)
    for _ in range(RESTARTS_MAX):
        supervisor.restart_dead()
    with pytest.raises(RetryLater):
        supervisor.restart_dead()
