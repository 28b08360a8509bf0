"""Goal: a link's budget has one day for each day of true time, whatever the wall clock, a restart or a reboot does."""

from __future__ import annotations

from pathlib import Path

import pytest

from landfall.node.peers.link_budgets import CLOCK_NAME, DAY_MS, BudgetClock
from streams.model.clock import StillClock

NOON_MS = 1_777_636_800_000
MIDNIGHT_S = DAY_MS // 2 / 1000


class Machine:
    """A node's folder, and the machine's clocks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wall, self.doubted, self.boot_id = folder, StillClock(NOON_MS), False, "first"
        self.clock = self.started()

    def started(self) -> BudgetClock:
        return BudgetClock(self.folder, self.wall, lambda: self.doubted, self.boot_id)

    def restarts(self) -> None:
        self.clock = self.started()

    def reboots(self) -> None:
        self.boot_id, self.wall.at_s = f"{self.boot_id}+", 0.0
        self.restarts()

    def day(self) -> int:
        """Days since the first."""
        return self.clock.now_ms() // DAY_MS - NOON_MS // DAY_MS


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("step_ms", [20 * 3_600_000, 3_650 * DAY_MS, -20 * 3_600_000, -400 * DAY_MS])
@pytest.mark.parametrize("doubted", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_step_opens_no_day_before_midnight_by_boot_time(machine: Machine, step_ms: int, doubted: bool, restarts: bool) -> None:
    assert machine.day() == 0
    machine.wall.at_ms += step_ms
    machine.doubted = doubted
    if restarts:
        machine.restarts()
    assert machine.day() == 0
    machine.wall.advance(MIDNIGHT_S - 1)
    assert machine.day() == 0
    machine.wall.advance(1)
    assert machine.day() == (1 if doubted else machine.wall.at_ms // DAY_MS - NOON_MS // DAY_MS)


def test_a_day_begins_at_midnight_of_a_clock_that_is_right(machine: Machine) -> None:
    for day in range(5):
        assert machine.day() == day
        machine.wall.advance(DAY_MS / 1000)
    machine.wall.at_ms += 10_000
    machine.wall.advance(MIDNIGHT_S)
    assert (machine.day(), machine.clock.now_ms()) == (6, machine.wall.now_ms()), "small corrections are taken up at midnight"


def test_a_clock_that_swings_all_day_opens_one_day_a_day(machine: Machine) -> None:
    opened = set[int]()
    for hour in range(24 * 10):
        machine.wall.at_ms += (20 if hour % 2 else -20) * 3_600_000
        opened.add(machine.day())
        machine.wall.advance(3_600)
    assert len(opened) <= 12


def test_a_process_that_was_down_for_days_goes_on_by_boot_time(machine: Machine) -> None:
    machine.day()
    machine.wall.advance(3 * DAY_MS / 1000)
    machine.wall.at_ms += 3_650 * DAY_MS
    machine.doubted = True
    machine.restarts()
    assert machine.day() == 3


def test_after_a_reboot_a_doubted_clock_or_one_behind_opens_no_day(machine: Machine) -> None:
    machine.day()
    machine.wall.at_ms += 300 * DAY_MS
    machine.doubted = True
    for _ in range(10):
        machine.reboots()
        assert machine.day() == 0
    machine.wall.at_ms, machine.doubted = NOON_MS - 300 * DAY_MS, False
    machine.reboots()
    assert machine.day() == 0
    machine.wall.at_ms = NOON_MS + 2 * DAY_MS
    machine.reboots()
    assert machine.day() == 2, "a clock that is right"


@pytest.mark.parametrize("text", ["", "[]", '{"boot_id": 5}'])
def test_a_file_that_does_not_read_costs_no_more_than_what_it_says(machine: Machine, text: str) -> None:
    (machine.folder / CLOCK_NAME).write_text(text)
    assert machine.day() == 0
    machine.wall.at_ms += DAY_MS
    machine.restarts()
    assert machine.day() == 0, "it is written again"
