"""Goal: who follows a stream sees each record once, and is told of a hole that is in the way, once, and how it ended."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.cli.log_follower import LogFollower
from landfall.storage.file_log import FileLog
from streams.model.clock import StillClock
from tests.landfall.commands import run
from tests.streams.logkit import NOW_MS, append_rows, open_log, rows
from tests.support.forked import ROOT

AT = "2026-05-01 00:00:00Z"


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[FileLog, FileLog]]:
    """A ship's log with 40 readings, and a port's that has the first ten and the third ten."""
    ship, port = open_log(tmp_path / "ship", "ship-a"), open_log(tmp_path / "port", "port-b")
    append_rows(ship, rows(40))
    bring(ship, port, 0, 10)
    bring(ship, port, 20, 30)
    yield ship, port
    ship.close()
    port.close()


def bring(ship: FileLog, port: FileLog, first: int, end: int) -> None:
    port.admit(list(ship.blocks("containers", ship.origin, first, end)))


def numbers(following: LogFollower) -> tuple[list[int], list[str], list[str]]:
    """One look: the numbers of the rows that are new, and what is said."""
    news = following.look()
    return [number for table in news.tables() for number in table.column("number").to_pylist()], news.ended, news.found


@contextmanager
def tail(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`landfall log tail -F` of the port's log, as a process of its own, until the block ends."""
    command = [sys.executable, "-u", "-m", "landfall", "log", "tail", "containers", "-f", str(folder), "-F", "--format", "json", *more]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        try:
            yield following
        finally:
            following.kill()


def shown(following: subprocess.Popen[str], count: int) -> list[int]:
    assert following.stdout is not None
    return [json.loads(following.stdout.readline())["number"] for _ in range(count)]


def said(following: subprocess.Popen[str]) -> str:
    assert following.stderr is not None
    return following.stderr.readline().rstrip("\n")


def test_a_hole_is_told_once_and_waited_for(logs: tuple[FileLog, FileLog], tmp_path: Path) -> None:
    """While the node runs: what is behind the hole waits, what fills it is shown, and nothing that was there before is shown again."""
    ship, port = logs
    place = f"containers:{ship.origin} offsets 10 to 19"
    with tail(tmp_path / "port", "-n", "2") as following:
        assert shown(following, 2) == [28, 29]
        hole = said(following)
        assert hole.startswith(f"{place} are not here yet (10 records, ")
        bring(ship, port, 30, 40)
        bring(ship, port, 12, 14)
        bring(ship, port, 10, 12)
        assert shown(following, 4) == [10, 11, 12, 13]
        bring(ship, port, 14, 20)
        assert shown(following, 16) == [*range(14, 20), *range(30, 40)]
        assert said(following).startswith(f"{place}: here now")
        append_rows(ship, rows(2, start=40))
        bring(ship, port, 41, 42)
        assert said(following).startswith(f"containers:{ship.origin} offset 40 ")
        following.kill()
        assert following.communicate() == ("", "")


def test_past_holes_what_is_held_is_shown_and_the_rest_when_it_comes(logs: tuple[FileLog, FileLog], tmp_path: Path) -> None:
    ship, port = logs
    with tail(tmp_path / "port", "-n", "1", "--past-holes") as following:
        assert shown(following, 1) == [29]
        assert said(following).endswith("shown when it comes")
        bring(ship, port, 35, 40)
        assert shown(following, 5) == [*range(35, 40)]
        assert "offsets 30 to 34 " in said(following)
        bring(ship, port, 10, 20)
        assert shown(following, 10) == [*range(10, 20)]
        assert said(following).startswith(f"containers:{ship.origin} offsets 10 to 19: ")


def test_the_first_records_of_a_stream_are_waited_for(tmp_path: Path) -> None:
    """As by who starts to follow alerts before there was any."""
    log = open_log(tmp_path / "port", "port-b")
    with tail(tmp_path / "port") as following:
        assert said(following).startswith("nothing of a stream 'containers' ")
        append_rows(log, rows(3))
        assert shown(following, 3) == [0, 1, 2]
    log.close()


def test_it_goes_on_when_a_hole_will_never_be_filled(logs: tuple[FileLog, FileLog]) -> None:
    """Its origin declares part of it gone; or this copy drops everything up to behind it."""
    ship, port = logs
    gone, floor = LogFollower(port, "containers", StillClock(NOW_MS)), LogFollower(port, "containers", StillClock(NOW_MS))
    hole = f"containers:{ship.origin} offsets 10 to 19"
    for following in (gone, floor):
        found, over, told = numbers(following)
        assert (found, over, len(told)) == ([], [], 1)
        assert told[0].endswith(f"waiting since {AT}")
        assert numbers(following) == ([], [], [])
    bring(ship, port, 30, 40)
    bring(ship, port, 10, 13)
    port.declare_gone("containers", ship.origin, 13, 20, "thinned")
    ended = f"{hole}: 7 will not come: thinned, expired, lost or below the floor here; going on"
    assert numbers(gone) == ([10, 11, 12, *range(30, 40)], [ended], [])
    port.trim("containers", ship.origin, 25)
    assert numbers(floor) == ([*range(30, 40)], [ended.replace("7 will", "10 will")], [])
    assert numbers(gone) == ([], [], [])


def test_a_hole_behind_another_is_told_when_it_is_reached(logs: tuple[FileLog, FileLog]) -> None:
    ship, port = logs
    following, going_on = (LogFollower(port, "containers", StillClock(NOW_MS), past_holes=past) for past in (False, True))
    bring(ship, port, 35, 40)
    assert [told.split(" offsets ")[1][:8] for told in numbers(following)[2]] == ["10 to 19"]
    assert [told.split(" offsets ")[1][:8] for told in numbers(going_on)[2]] == ["10 to 19", "30 to 34"]
    bring(ship, port, 10, 20)
    shown, _, told = numbers(following)
    assert (shown, len(told)) == ([*range(10, 20)], 1)
    assert told[0].startswith(f"containers:{ship.origin} offsets 30 to 34 ")


def test_an_origin_that_was_not_known_before_is_shown_whole(logs: tuple[FileLog, FileLog]) -> None:
    ship, port = logs
    following = LogFollower(port, "containers", StillClock(NOW_MS))
    append_rows(port, rows(3, start=100))
    assert numbers(following)[0] == [100, 101, 102]
    bring(ship, port, 10, 20)
    assert numbers(following)[0] == [*range(10, 20)]


def test_the_last_are_the_last_that_are_held(logs: tuple[FileLog, FileLog], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Across a hole too; in every format, but what is followed goes to the screen."""
    ask = ("log", "tail", "containers", "-f", tmp_path / "port", "-n", "12")
    last = [8, 9, *range(20, 30)]
    for format_ in ("text", "json", "csv", "parquet"):
        assert run(capsys, *ask, "--format", format_, "-o", tmp_path / f"last.{format_}") == (0, "", "")
    assert [row["number"] for row in map(json.loads, (tmp_path / "last.json").read_text().splitlines())] == last
    assert [int(row["number"]) for row in csv.DictReader((tmp_path / "last.csv").read_text().splitlines())] == last
    assert parquet.read_table(tmp_path / "last.parquet").column("number").to_pylist() == last
    assert len((tmp_path / "last.text").read_text().splitlines()) == 12
    for wrong in (("-F", "--format", "csv"), ("-F", "-o", tmp_path / "x"), ("--past-holes",)):
        code, _, err = run(capsys, *ask, *wrong)
        assert (code, "follow" in err) == (2, True)
