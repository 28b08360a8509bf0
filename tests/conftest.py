"""One real Kafka for all tests that ask for it; and which tests stay together when workers share them out; where their files lie."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from landfall.node.services import clock_job
from landfall.system.struct_types import build_struct_types
from tests.fanout.kafka import Kafka, certificates
from tests.streams.quickkafka import quick_clients
from tests.support import leaks, times
from tests.support.forked import LOADED
from tests.support.leaks import no_process_is_left

__all__ = ["no_process_is_left"]

# As in the Makefile, for whoever runs pytest without it: else each of the hundreds of processes of a run compiles our code anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nothing that is loaded and collected before the first test is garbage: looking for it takes a quarter of that time in each worker.
gc.disable()

# A busy machine fails no test; a run repeats the one before, but for torture, which looks further each time.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("repeatable", settings.get_profile("unhurried"), derandomize=True)
settings.load_profile("repeatable")

multiprocessing.set_forkserver_preload(list(LOADED))


@pytest.fixture(scope="session", autouse=True)
def _released_before_these_fleets() -> Iterator[None]:
    """The fleets of tests sail in April and May 2026, whenever this version was released."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_job, "RELEASED_AT_MS", 1_767_225_600_000)
        yield


LAST = "test_all_holds_until_it_is_stopped"
"""What ends only when it is stopped, or finds something (`make torture`)."""
ON_KAFKA = ("streams/test_admissions", "kafka", "fanout/", "streams/test_log_contract", "streams/test_consumers")
"""Parts of the names of files whose tests share the one Kafka."""
HEAVY = (
    "tests/e2e/",
    "tests/dashboards/test_browser",
    "tests/edge/test_bays",
    "tests/edge/test_console",
)
"""The fleet's voyage and browsers: each wants both cores for minutes. One worker has them all: no two are at work at once."""
BEGUN_FIRST = (*HEAVY, "tests/hq_spark/test_kills")
"""In `make long` these are at work longest. Spark's lives wait for nothing within a deadline of seconds: another worker has them."""
APART = ("tests/sync/test_simulation", "tests/bench/test_tiny")
"""Their tests are shared out one by one: they want nothing that another has (`make long`)."""
HELD_FREE, FILES_MIN = 256, 4_096
MEMORY = Path("/dev/shm")
MEMORY_FREE_MIN = 12_000_000_000
"""On the machine too: what the tests start takes half of it, their files some hundred megabytes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--add-times`: this run is a part of the one before."""
    parser.addoption("--add-times", action="store_true", help="add what the tests cost to the figures of the run before")


def pytest_report_header() -> str:
    """What repeats this run."""
    return f"seeds: of hash {os.environ.get('PYTHONHASHSEED', 'random')}, of Hypothesis {settings.get_current_profile_name()}, others fixed"


def pytest_configure(config: pytest.Config) -> None:
    """Files of the tests, but for torture, lie in memory where there is plenty of it, unless TMPDIR says where.

    What dies in a test is a process, which can not tell memory from a disk; a power cut and a full disk are played, by cutdisk.py and
    refusingdisk.py of tests/streams. Waiting for the disk is saved: a third of the time of tests of nodes.
    """
    times.register(config)
    leaks.watch_sqlite()
    if is_asked_for("torture", config):
        settings.load_profile("unhurried")
    if "TMPDIR" not in os.environ and not is_asked_for("torture", config) and is_roomy(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def is_roomy(memory: Path) -> bool:
    """Whether files may lie in `memory`: it is there, and that much is free in it and on the machine."""
    try:
        told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(told["MemAvailable"].split()[0]) * 1024
        return min(free, shutil.disk_usage(memory).free) >= MEMORY_FREE_MIN
    except OSError:
        return False


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.cases("seed", quick, torture=more)`: a test for each of `quick`, and for each of `more` one that is marked so.

    Those are thousands: where they are left out they are not even made, since that alone would take each worker half as long as all
    else it collects.
    """
    for cases in metafunc.definition.iter_markers("cases"):
        name, quick = cases.args
        more = [(case, mark) for mark, some in cases.kwargs.items() if is_asked_for(mark, metafunc.config) for case in some]
        metafunc.parametrize(name, [*quick, *(pytest.param(case, marks=getattr(pytest.mark, mark)) for case, mark in more)])


def is_asked_for(mark: str, config: pytest.Config) -> bool:
    """Whether tests so marked are in this run: it names no marks at all (`-m ""`), or this one without a `not`."""
    asked = config.option.markexpr
    return not asked or (mark in asked and f"not {mark}" not in asked)


def together(nodeid: str) -> str:
    """What must be run by one worker, in one go: a file; those that are heavy; those of the one Kafka. Of what is APART, each test."""
    file = nodeid.partition("::")[0]
    if file.startswith(APART):
        return nodeid
    if file.startswith(HEAVY):
        return "heavy"
    return "kafka" if any(part in file for part in ON_KAFKA) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Shares out whole groups, in the order in which they were collected."""
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = together
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Field tables of structs are built, as a process does at its start.

    The most expensive group comes first, so that the last ones are short and no worker is at work alone for long."""
    build_struct_types()
    groups = {item: together(item.nodeid) for item in items}
    expected_s = Counter[str]()
    known_s = times.expected_s()
    for file, group in {(item.nodeid.partition("::")[0], group) for item, group in groups.items()}:
        expected_s[group] += int(known_s.get(file, 0))  # of what is APART, each test as if it took what all do: they come first
    items.sort(key=lambda item: (item.name == LAST, not item.nodeid.startswith(BEGUN_FIRST), -expected_s[groups[item]]))


def pytest_collection_finish() -> None:
    """Garbage is looked for from here on, in what the tests make."""
    gc.freeze()
    gc.enable()


class OneKafka:
    """Started with the first test that wants it, ended with the last of its group: a broker works also when nobody asks."""

    def __init__(self) -> None:
        self.broker: Kafka | None = None
        self._held_free: list[int] = []
        """Files with low numbers for the tests that follow: clients of Kafka stay, with their pipes, until garbage
        is collected, and paho, which uses select, takes no file beyond the 1,024th."""

    def started(self, folder: Path) -> Kafka:
        if self.broker is None:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft != resource.RLIM_INFINITY and soft < FILES_MIN:
                resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MIN if hard == resource.RLIM_INFINITY else min(FILES_MIN, hard), hard))
            self._held_free = [os.open(os.devnull, os.O_RDONLY) for _ in range(HELD_FREE)]
            self.broker = Kafka(folder, certificates(folder))
            self.broker.start()
        return self.broker

    def end(self) -> None:
        broker, self.broker = self.broker, None
        for file in self._held_free:
            os.close(file)
        self._held_free = []
        assert broker is None or broker.stop() == 0


_kafka = OneKafka()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Logs in it keep apart by their prefixes."""
    with quick_clients():
        yield _kafka.started(tmp_path_factory.mktemp("kafka"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or together(nextitem.nodeid) != "kafka":
        _kafka.end()
