"""Goal: whatever a record's body holds, a person is shown it and all others; what a sensor can not do is take itself for a kept record."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.node.services.definition_watcher import learn
from landfall.storage.backup import backup
from landfall.storage.file_log import FileLog
from landfall.storage.index import INDEX_NAME
from landfall.storage.segments import file_path
from streams.codec import BlockCodec
from streams.config.stream_definitions import Definitions
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.landfall.commands import called, files_of_at_most, run
from tests.node.test_odd_records import NO_OBJECTS, odd, strict
from tests.streams.logkit import append_rows, open_log, rows

MARKED = '{"landfall_kept":{"window_h":6}}'
PLAIN = '{"firmware":"1.2"}'
NAME = "customers/duckworks"


def held(folder: Path, *appends: Append) -> None:
    log = FileLog(folder / "log", folder / "marker", "tokyo", BlockCodec(), StillClock())
    log.append(appends)
    log.close()


def test_odd_bodies_are_shown_as_they_are_and_those_behind_them_too(tmp_path: Path) -> None:
    bodies = (*NO_OBJECTS, MARKED, PLAIN)
    held(tmp_path, odd("containers", bodies, "MSKU1234565"))
    for words in (("cat", "containers"), ("tail", "containers", "-n", 100), ("history", "MSKU1234565")):
        done = called("log", *words, "--folder", tmp_path, "--format", "json")
        assert (done.returncode, done.stderr) == (0, ""), words
        told = [strict(line) for line in done.stdout.splitlines()]
        assert [one.get("body_text") for one in told] == [*NO_OBJECTS, None, None]
        assert [one.get("body") for one in told[-2:]] == [json.loads(MARKED), json.loads(PLAIN)]
        done = called("log", *words, "--folder", tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), words
        lines = done.stdout.splitlines()
        assert len(lines) == len(bodies)
        assert 'body_text="not json"' in lines[2]
        assert "{landfall_kept: {window_h: 6}}" in lines[-2]
        assert "is thinned" not in done.stdout


def test_how_streams_are_managed_is_told_past_entries_that_do_not_read(tmp_path: Path) -> None:
    entry = {"type": "stream", "id": NAME, "version": 3, "value": {"patience_s": 5.0}}
    topic = f"stream/{NAME}"
    wrong = (*NO_OBJECTS, "{}", json.dumps({**entry, "version": "x"}), json.dumps({**entry, "value": []}))
    good = Append("registry", to_batch([Record(topic, body={**entry, "at_ms": "noon"})]))
    held(tmp_path, odd("registry", wrong, topic), good)
    done = called("stream", "versions", NAME, "--folder", tmp_path, "--json")
    assert (done.returncode, [strict(line)["version"] for line in done.stdout.splitlines()]) == (0, [3])
    assert called("stream", "versions", NAME, "--folder", tmp_path).returncode == 0
    shown = called("stream", "show", NAME, "--folder", tmp_path)
    assert (shown.returncode, "5 s" in shown.stdout) == (0, True)
    assert called("stream", "ls", "--folder", tmp_path).returncode == 0


def test_a_node_goes_on_past_them() -> None:
    refused: list[str] = []
    assert learn(Definitions(), odd("registry", NO_OBJECTS, f"stream/{NAME}").records, refused.append) == []
    assert len(refused) == len(NO_OBJECTS)


def readings(folder: Path, count: int = 4_000) -> Path:
    """A closed log with `count` readings in blocks of 1,000; its node's folder."""
    folder.mkdir(exist_ok=True)
    log = open_log(folder)
    for start in range(0, count, 1_000):
        append_rows(log, rows(1_000, start=start))
    log.close()
    return folder


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_a_file_that_is_not_written_to_its_end_stays_as_it_was(tmp_path: Path, format_: str) -> None:
    home, out = readings(tmp_path / "node"), tmp_path / f"out.{format_}"
    words = ("log", "export", "containers", "-f", home, "-o", out)
    assert called(*words).returncode == 0
    whole = out.read_bytes()
    if format_ != "parquet":  # which is smaller than the file by which SQLite's readers know of each other
        with files_of_at_most(len(whole) // 2):
            done = called(*words)
        assert (done.returncode, os.strerror(errno.EFBIG) in done.stderr) == (2, True), done.stderr
        assert done.stderr.startswith("[output_not_written] ")
        assert out.read_bytes() == whole
    path = file_path(home / "log", 1)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    done = called(*words)
    assert (done.returncode, "[records_damaged]" in done.stderr) == (2, True), done.stderr
    assert out.read_bytes() == whole
    out.unlink()
    assert called(*words).returncode == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["node"], "nothing is left of what was not written to its end"


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    home, link = readings(tmp_path / "node", 1_000), tmp_path / "out.parquet"
    link.symlink_to(tmp_path / "there.parquet")
    for _ in range(2):
        assert called("log", "export", "containers", "-f", home, "-o", link).returncode == 0
    assert (link.is_symlink(), parquet.read_table(tmp_path / "there.parquet").num_rows) == (True, 1_000)


def test_nothing_is_written_over_a_logs_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = readings(tmp_path / "node", 1_000)
    segment = file_path(home / "log", 1)
    assert segment.is_file()
    (tmp_path / "link").symlink_to(segment)
    (tmp_path / "beside").symlink_to(home / "log" / "segments")
    for path in (segment, home / "log" / INDEX_NAME, tmp_path / "link", tmp_path / "beside" / "new.csv"):
        for words in (("export", "containers"), ("ls",)):
            code, _, err = run(capsys, "log", *words, "-f", home, "-o", path, "--format", "csv")
            assert (code, "[output_in_log]" in err) == (2, True), err
        span = ("--since", "2026-05-01", "--until", "2026-05-02")
        code, _, err = run(capsys, "log", "proof", "MSKU1234565", "-f", home, *span, "-o", path)
        assert (code, "[output_in_log]" in err) == (2, True), err
    code, _, err = run(capsys, "log", "backup", tmp_path / "beside" / "copy", "-f", home)
    assert (code, "[folder_in_log]" in err) == (2, True), err
    assert run(capsys, "log", "check", "-f", home)[0] == 0
    code, _, err = run(capsys, "log", "ls", "-f", home, "-o", tmp_path / ("x" * 300))
    assert (code, "[output_not_written]" in err and "File name too long" in err) == (2, True), err


def test_parquet_into_a_pipe_is_refused(tmp_path: Path) -> None:
    home, pipe = readings(tmp_path / "node", 1_000), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = called("log", "export", "containers", "-f", home, "-o", pipe, "--format", "parquet")
    os.close(reader)
    assert (done.returncode, "[output_missing]" in done.stderr) == (2, True), done.stderr


def test_a_closed_standard_output_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    home = readings(tmp_path / "node", 1_000)
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it when it is started with >&-
    ends = {words: run(capsys, "log", *words, "-f", home) for words in (("ls",), ("cat", "containers"), ("backup", tmp_path / "copy"))}
    assert {(code, "[output_closed]" in err) for code, _, err in ends.values()} == {(2, True)}, ends
    assert not (tmp_path / "copy").exists(), "nothing is done whose outcome nobody is told"


def test_a_folder_that_the_system_does_not_let_one_look_into_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, long = readings(tmp_path / "node", 1_000), tmp_path / ("x" * 300)
    for words in (("log", "ls"), ("log", "cat", "containers"), ("log", "check"), ("log", "backup", tmp_path / "copy"), ("stream", "ls")):
        code, _, err = run(capsys, *words, "-f", long)
        assert (code, "File name too long" in err) == (2, True), err
    backup(home / "log", tmp_path / "copy")
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "file")
    assert (code, "[log_not_restored]" in err) == (2, True), err


def test_an_index_that_can_not_be_read_is_not_taken_for_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = readings(tmp_path / "node", 1_000)
    (home / "log" / INDEX_NAME).unlink()
    (home / "log" / INDEX_NAME).mkdir()
    code, out, err = run(capsys, "log", "check", "-f", home)
    assert (code, "index.sqlite" in out and os.strerror(errno.EISDIR) in out) == (1, True), (out, err)
