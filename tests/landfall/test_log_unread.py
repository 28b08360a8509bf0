"""Goal: what is of a version that is not known here stops nobody who looks into a log, and nobody takes what is shown for all there is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.cli.log_follower import LogFollower
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.clock import StillClock
from tests.landfall.commands import run
from tests.streams.logkit import NOW_MS, SHIP, open_log, rows, stamped
from tests.streams.test_codec_unknown import mixed, open_newer

FIRST, END = 30, 60
"""The offsets of the block that is not read here."""
LEFT_OUT = f"containers:{SHIP}: offsets {FIRST} to {END - 1} can not be read here: their block is of a newer version"
WHAT_TO_DO = "a newer landfall reads them"
READ = [*range(FIRST), *range(END, 90)]


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    """Ninety records in three blocks, the middle one of a newer version."""
    log = open_log(tmp_path, "port-b")
    log.admit(mixed())
    return log


def offsets(out: str) -> list[int]:
    return [int(json.loads(line)["coordinates"].rpartition(":")[2]) for line in out.splitlines()]


def test_cat_goes_on_behind_it(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--past-holes",), ("--limit", "60")):
        code, out, told = run(capsys, "log", "cat", "containers", "-f", tmp_path, "--format", "json", *words)
        assert (code, offsets(out), LEFT_OUT in told, WHAT_TO_DO in told) == (1, READ, True, True)
        assert "of 90" not in told
    log.close()


def test_export_goes_on_behind_it(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.parquet"
    code, out, told = run(capsys, "log", "export", "containers", "-f", tmp_path, "-o", file)
    assert (code, "60 records" in out, LEFT_OUT in told, WHAT_TO_DO in told) == (1, True, True, True)
    assert parquet.read_table(file).column("offset").to_pylist() == READ
    log.close()


def test_a_hole_behind_it_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path, "port-b")
    log.admit([*mixed(), BlockCodec().encode("containers", SHIP, stamped(rows(5), first=100))])
    for words, shown in (((), READ), (("--past-holes",), [*READ, *range(100, 105)])):
        code, out, told = run(capsys, "log", "cat", "containers", "-f", tmp_path, "--format", "json", *words)
        assert (code, offsets(out), LEFT_OUT in told) == (1, shown, True)
        assert "90" in told.replace(LEFT_OUT, ""), "the hole begins there"
    log.close()


def test_tail_shows_the_last_that_it_reads(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("log", "tail", "containers", "-f", tmp_path, "--format", "json", "-n")
    code, out, told = run(capsys, *ask, 30)
    assert (code, offsets(out), told) == (0, list(range(60, 90)), ""), "none of the last thirty is left out"
    code, out, told = run(capsys, *ask, 40)
    assert (code, sorted(offsets(out))) == (1, [*range(20, 30), *range(60, 90)])
    assert "offsets 50 to 59 " in told
    log.close()


def test_who_follows_is_told_and_goes_on(tmp_path: Path) -> None:
    log = open_log(tmp_path, "port-b")
    first, newer, last = mixed()
    log.admit([first])
    following = LogFollower(log, "containers", StillClock(NOW_MS))
    log.admit([newer, last])
    news = following.look()
    assert [number for table in news.tables() for number in table.column("offset").to_pylist()] == list(range(60, 90))
    [told] = news.found
    assert (told.startswith(LEFT_OUT), WHAT_TO_DO in told) == (True, True)
    assert following.look().found == [], "once"
    log.close()


def test_history_tells_what_may_have_more(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = log_topic(log)
    code, out, told = run(capsys, "log", "history", topic, "-f", tmp_path, "--format", "json")
    assert (code, set(offsets(out)) <= set(READ), bool(out)) == (1, True, True)
    assert (LEFT_OUT in told, WHAT_TO_DO in told) == (True, True)
    code, _, told = run(capsys, "log", "history", topic, "-f", tmp_path, "--until", "2020-01-01")
    assert (code, "can not be read" in told) == (0, False), "of another time"
    code, _, told = run(capsys, "log", "completeness", topic, "-f", tmp_path, "--since", "2020-01-01", "--until", "2030-01-01")
    assert (code, LEFT_OUT in told) == (1, True), "what is missing may be there"
    log.close()


def log_topic(log: FileLog) -> str:
    [batch, *_] = log.run("containers", SHIP, 0, 1)
    return str(batch.records.column("topic")[0])


def test_the_port_tells_which_those_are(log: FileLog, tmp_path: Path) -> None:
    spans = [(span.first, span.end, span.readable) for span in log.spans("containers", SHIP)]
    assert [(first, end) for first, end, readable in spans if not readable] == [(FIRST, END)]
    last = [batch.records.column("offset")[0].as_py() for batch in log.latest("containers", log_topic(log))]
    assert len(last) == 1
    assert last[0] in READ
    log.close()
    newer = open_newer(tmp_path / "newer")
    newer.admit(mixed())
    assert all(span.readable for span in newer.spans("containers", SHIP))
    newer.close()
