"""Goal: a database that can not now ends no process. The projector waits, says for what, and goes on with nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hq.serving import database
from hq.serving.projector import ReportingProjector
from landfall.runtime import service
from landfall.runtime.service import Running, Work, health_of, keep_working
from landfall.system.stop_flag import Stop
from streams.model.clock import FleetClock, FleetTime
from streams.model.errors import RetryLater
from tests.hq_serving import faulty
from tests.hq_serving.conftest import make_projector, sqlite_url, table_rows, until
from tests.hq_serving.fleet import DUCKS, NOW_MS, Fleet, fill
from tests.hq_serving.postgres import Postgres, running_postgres
from tests.hq_serving.test_below_floor import under_way
from tests.support.forked import ROOT

UNSHARED = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL that gives few connections, and can be stopped."""
    with running_postgres("max_connections=8", "superuser_reserved_connections=0") as one:
        yield one


@contextmanager
def projecting(fleet: Fleet, url: str) -> Iterator[tuple[Running, Work]]:
    """A projector works in a thread of its own until the block ends."""
    at_work = under_way()
    work = ReportingProjector(make_projector(fleet.hq_dir, url), at_work, 1e9)
    thread = threading.Thread(target=keep_working, args=(work, at_work, 0.02))
    thread.start()
    try:
        until(lambda: work.ready, "all that the log holds")
        yield at_work, work
        assert thread.is_alive(), "the projector ended"
    finally:
        at_work.stop.set()
        thread.join()


def waits(at_work: Running, work: Work, codes: set[str]) -> bool:
    """Whether it waits for one of these reasons, as /healthz says, and is well as yet."""
    well, said = health_of(at_work, work.ready, {})
    return well and said.get("waiting", {}).get("code") in codes


def check_waited(fleet: Fleet, url: str, fault: AbstractContextManager[None], codes: set[str]) -> None:
    """The projector waits for the fault's end, and has the record that came meanwhile; then it waits for nothing."""
    fill(fleet)
    with projecting(fleet, url) as (at_work, work):
        before = len(table_rows(url)["reading"])
        with fault:
            fleet.readings("ship-one", DUCKS[:1], count=1, at_ms=NOW_MS)
            until(lambda: waits(at_work, work, codes), f"{codes}, not {at_work.waiting}")
        until(lambda: at_work.waiting.problem is None, "the database")
        until(lambda: len(table_rows(url)["reading"]) == before + 1, "the record that came meanwhile")


class Uncommitted(database.ServingDatabase):
    """Takes all that is written, and commits nothing."""

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with super().transaction() as connection:
            yield connection
            raise RetryLater("the disk is away")


def test_a_database_is_whole_once_it_is_committed(fleet: Fleet, tmp_path: Path) -> None:
    fill(fleet)
    one, url = make_projector(fleet.hq_dir, sqlite_url(tmp_path)), sqlite_url(tmp_path)
    committing, one.database = one.database, Uncommitted(url)
    one.start()
    with pytest.raises(RetryLater):
        one.step()
    assert not one.whole
    one.database.close()
    one.database = committing
    one.start()
    one.step()
    assert one.whole
    committing.close()


def test_a_locked_sqlite_file_is_waited_for(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_MS_MAX", 100)
    url = sqlite_url(tmp_path)
    check_waited(fleet, url, faulty.sqlite_busy(url), {"database_busy"})


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (faulty.postgres_busy, "database_busy"),
        (faulty.postgres_cancelling, "database_cancelled"),
        (faulty.postgres_read_only, "database_read_only"),
        (faulty.postgres_full, "database_full"),
        (faulty.postgres_crowded, "database_unreachable"),
    ],
)
def test_postgresql_is_waited_for(server: Postgres, fleet: Fleet, fault: faulty.Fault, code: str) -> None:
    url = server.address.format(fault.__name__)
    check_waited(fleet, url, fault(url), {code})


def test_a_postgresql_that_is_restarted_is_waited_for(server: Postgres, fleet: Fleet) -> None:
    check_waited(
        fleet,
        server.address.format("restarted"),
        faulty.postgres_stopped(server),
        {"database_restarting", "database_unreachable"},
    )


@pytest.mark.long  # a container may not mount
def test_a_full_and_a_read_only_file_system_have_codes_of_their_own(tmp_path: Path) -> None:
    """Of a real one, in memory: see `smalldisk.py`."""
    command = [*UNSHARED, sys.executable, "-m", "tests.hq_serving.smalldisk", str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert said == ["database_full", "written", "database_read_only", "written"]


class Counted(Stop):
    """Ends the work after so many pauses, which are noted; time goes on by each."""

    def __init__(self, clock: HandClock, pauses_max: int) -> None:
        super().__init__()
        self.clock, self.pauses_max, self.pauses = clock, pauses_max, list[float]()

    def wait(self, timeout_s: float) -> bool:
        """Returns at once."""
        self.clock.at_s += timeout_s
        self.pauses.append(timeout_s)
        if len(self.pauses) == self.pauses_max:
            self.set()
        return self.is_set()


class HandClock(FleetClock):
    """A fleet's clock whose monotonic time is moved by hand."""

    at_s = 1_000.0

    def monotonic_s(self) -> float:
        """As set."""
        return self.at_s


class Failing:
    """A work of which each step fails as `problem` says, while it says so."""

    ready = True

    def __init__(self) -> None:
        self.problems: list[RetryLater | None] = []

    def start(self) -> None:
        """Always."""

    def step(self) -> int:
        """Nothing, or the next problem."""
        if problem := self.problems.pop(0):
            raise problem
        return 0


def worked(work: Failing) -> tuple[Running, list[float]]:
    """The process after all of the work's problems, and its pauses."""
    known = under_way()
    clock = HandClock(FleetTime(NOW_MS, NOW_MS, 0.0))
    stop = Counted(clock, len(work.problems))
    at_work = Running(clock, known.metrics, known.telemetry, stop)
    checked: Work = work
    keep_working(checked, at_work, 0.25)
    return at_work, stop.pauses


def locked(words: str = "locked") -> RetryLater:
    return RetryLater(words, code="database_busy")


def test_pauses_double_from_half_a_second_to_half_a_minute_and_begin_again_for_another_cause() -> None:
    """Another sentence on the same cause is none."""
    work, full = Failing(), RetryLater("full", code="database_full")
    work.problems = [*[locked()] * 6, locked("still locked"), locked(), full, full, None, full]
    assert worked(work)[1] == [0.5, 1, 2, 4, 8, 16, 30, 30, 0.5, 1, 0.25, 2]


def test_pauses_are_short_again_after_half_a_minute_without_trouble() -> None:
    work = Failing()
    work.problems = [*[locked()] * 3, *[None] * 121, locked()]
    assert worked(work)[1][-1] == 0.5


def test_health_says_what_is_waited_for_and_after_a_minute_that_it_is_not_ready() -> None:
    for failures, ready in ((1, True), (6, True), (8, False)):
        work = Failing()
        work.problems = [locked()] * failures
        at_work, pauses = worked(work)
        well, said = health_of(at_work, True, {"more": 1})
        assert (well, said["ready"], said["waiting"]["code"], said["more"]) == (ready, ready, "database_busy", 1)
        assert (sum(pauses) > service.WAIT_S_MAX) is not ready
    work.problems = [*[locked()] * 8, None]
    assert "waiting" not in health_of(worked(work)[0], True, {})[1]
