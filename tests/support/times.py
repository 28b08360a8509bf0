"""Where the minutes of a test run go: a pytest plugin measures each run, `python -m tests.support.times` prints the last one.

The plugin adds one line per test phase to `.cache/test-times.jsonl`: wall time and processor time of the worker and of the processes it has
waited for, the fixtures that were set up, and the number of processes started. Processor time of processes that still run is not included.
"""

from __future__ import annotations

import json
import multiprocessing.process
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

TIMES = Path(__file__).resolve().parents[2] / ".cache" / "test-times.jsonl"
NEWEST = Path(__file__).with_name("times.txt")
"""The newest report of the default tests: the list of slow tests. Expensive files are begun first by it."""
PROPERTY = "times"
SLOW_TESTS, SLOW_FILES, SLOW_FIXTURES = 40, 40, 25
FIXTURE_S_MIN = 0.05

_started: Counter[str] = Counter()
"""Processes that this worker started, by kind."""


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _count_processes() -> None:
    """Counts `subprocess` and `fork` by their audit events, and processes of `multiprocessing`, which have none."""

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            _started["subprocess"] += 1

    sys.addaudithook(audit)
    start = multiprocessing.process.BaseProcess.start

    def counted(process: multiprocessing.process.BaseProcess) -> None:
        _started["forked"] += 1
        start(process)

    multiprocessing.process.BaseProcess.start = counted  # type: ignore[method-assign, assignment]


class Recorder:
    """Runs in each worker: attaches what each phase of a test cost to its report."""

    def __init__(self) -> None:
        self._fixtures: list[tuple[str, str, float]] = []
        _count_processes()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Measures one fixture, fixtures that it uses not included."""
        begun_s = time.perf_counter()
        try:
            return (yield)
        finally:
            took_s = time.perf_counter() - begun_s
            if took_s >= FIXTURE_S_MIN:
                self._fixtures.append((f"{fixturedef.baseid}::{fixturedef.argname}", str(fixturedef.scope), round(took_s, 3)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """See `_phase`."""
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """See `_phase`."""
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """See `_phase`."""
        return (yield from self._phase(item, "teardown"))

    def _phase(self, item: pytest.Item, when: str) -> Generator[None, None, None]:
        begun_s, begun_cpu_s, before = time.perf_counter(), _cpu_s(), _started.copy()
        self._fixtures = []
        try:
            return (yield)
        finally:
            cost = {
                "when": when,
                "s": round(time.perf_counter() - begun_s, 3),
                "cpu_s": round(_cpu_s() - begun_cpu_s, 3),
                "processes": dict(_started - before),
                "fixtures": self._fixtures,
            }
            item.user_properties.append((PROPERTY, cost))


class Collector:
    """Runs in the process that prints the results: writes the costs of all workers' tests to a file."""

    def __init__(self, add: bool) -> None:
        self._mode = "a" if add else "w"
        self._lines: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the costs of a test when its last phase is over."""
        if report.when == "teardown":
            worker = getattr(report, "worker_id", "main")
            costs = (value for name, value in report.user_properties if name == PROPERTY)
            self._lines += ({"test": report.nodeid, "worker": worker, **cost} for cost in costs)  # type: ignore[dict-item]

    def pytest_sessionfinish(self) -> None:
        """Replaces the file of the run before, or adds to it."""
        TIMES.parent.mkdir(exist_ok=True)
        with TIMES.open(self._mode) as file:
            file.writelines(f"{json.dumps(line)}\n" for line in self._lines)


def register(config: pytest.Config) -> None:
    """Makes the plugin part of this run, in the workers and in the process that they report to."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Recorder())
    if not is_worker:
        config.pluginmanager.register(Collector(config.getoption("--add-times")))


def table(title: str, rows: Iterable[tuple[str, float, float, int]]) -> str:
    """Rows of (name, wall seconds, processor seconds, processes started) under a title."""
    lines = [f"{s:8.1f} {cpu_s:8.1f} {processes:6d}  {name}" for name, s, cpu_s, processes in rows]
    return "\n".join([f"\n{title}", f"{'wall s':>8} {'cpu s':>8} {'procs':>6}", *lines])


def report(lines: list[dict[str, Any]]) -> str:
    """Returns what the run cost: in all, by phase, folder, file, test and fixture, the most expensive first."""
    by: dict[str, dict[str, list[float]]] = {name: defaultdict(lambda: [0.0, 0.0, 0.0]) for name in ("phase", "folder", "file", "test")}
    fixtures: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    workers: dict[str, float] = defaultdict(float)
    for line in lines:
        file = line["test"].partition("::")[0]
        names = {"phase": line["when"], "folder": str(Path(file).parent), "file": file, "test": line["test"]}
        for kind, name in names.items():
            cost = by[kind][name]
            cost[0] += line["s"]
            cost[1] += line["cpu_s"]
            cost[2] += sum(line["processes"].values())
        for name, scope, s in line["fixtures"]:
            fixtures[f"{name} ({scope})"][0] += s
            fixtures[f"{name} ({scope})"][1] += 1
        workers[line["worker"]] += line["s"]

    def ranked(kind: str, most: int) -> list[tuple[str, float, float, int]]:
        rows = sorted(by[kind].items(), key=lambda row: -row[1][0])[:most]
        return [(name, cost[0], cost[1], int(cost[2])) for name, cost in rows]

    slow = sorted(fixtures.items(), key=lambda row: -row[1][0])[:SLOW_FIXTURES]
    busy = ", ".join(f"{name} {s:.0f} s" for name, s in sorted(workers.items()))
    return "\n".join(
        [
            f"{len(by['test'])} tests; workers busy: {busy}",
            table("By phase", ranked("phase", 3)),
            table("By folder", ranked("folder", 99)),
            table(f"The {SLOW_FILES} slowest files", ranked("file", SLOW_FILES)),
            table(f"The {SLOW_TESTS} slowest tests", ranked("test", SLOW_TESTS)),
            f"\nThe {SLOW_FIXTURES} slowest fixtures, fixtures they use included\n  wall s  times",
            *(f"{cost[0]:8.1f} {int(cost[1]):6d}  {name}" for name, cost in slow),
        ]
    )


def expected_s() -> dict[str, float]:
    """Returns how long each of the slowest files took, by the newest report: path → wall seconds."""
    lines = NEWEST.read_text().splitlines() if NEWEST.exists() else []
    rows = (line.split() for line in lines if line.endswith(".py"))
    return {path: float(wall_s) for wall_s, _, _, path in rows}


if __name__ == "__main__":
    NEWEST.write_text(report([json.loads(line) for line in TIMES.read_text().splitlines()]) + "\n")
    print(NEWEST.read_text())
