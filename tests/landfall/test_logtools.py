"""Goal: a person sees what a node's log holds, in words and as JSON, and is told plainly what is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from landfall.cli import main
from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLog
from streams.records import Record, to_batch

NUMBER = "MSKU1234565"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = FileLog(tmp_path / "log", tmp_path / "marker", "tokyo", BlockCodec(), StillClock())
    log.append(
        [
            Append("containers", to_batch([Record(NUMBER, "TRK-1", 1_777_593_500_000, {"return_c": 4.2}), Record("MSKU7654321", "TRK-2")])),
            Append("events", to_batch([Record(NUMBER, body={"event": "LOAD", "place": "JPTYO"})])),
        ]
    )
    log.close()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_streams_and_origins_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "stream", "ls", "--folder", str(folder))
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["containers", "1", "2"], ["events", "1", "1"]]
    code, out, _ = run(capsys, "log", "ls", "containers", "--folder", str(folder / "log"))
    assert code == 0
    assert "tokyo@" in out
    code, out, _ = run(capsys, "log", "ls", "--folder", str(folder))
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["containers", "events"], "of all, when none is named"
    code, out, _ = run(capsys, "log", "ls", "--folder", str(folder), "--json")
    containers, events = map(json.loads, out.splitlines())
    assert containers["origin"].startswith("tokyo@")
    assert [containers[name] for name in ("stream", "next_offset", "held", "gone", "wanted", "floor")] == ["containers", 2, 2, 0, 0, 0]
    assert containers["stored_bytes"] > events["stored_bytes"] > 0
    assert containers["order_first_ms"] == 1_777_593_500_000 <= containers["order_last_ms"]


def test_what_is_damaged_is_told_to_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "log", "check", "--folder", str(folder), "--json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [{"damaged": 0, "frames": 3, "blocks": 2, "records": 3}])
    segment = folder / "log" / "segments" / "0000000001.segment"
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    code, out, _ = run(capsys, "log", "check", "--folder", str(folder), "--json")
    *findings, tally = map(json.loads, out.splitlines())
    assert (code, tally["damaged"]) == (1, len(findings))
    assert any("0000000001.segment" in one["where"] for one in findings)


def test_records_are_shown_as_text_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "log", "cat", "containers", "--folder", str(folder), "--limit", "1")
    assert out.count("\n") == 1
    assert NUMBER in out
    assert "return_c=4.2" in out
    assert "2026-04-30 23:58:20Z" in out
    _, out, _ = run(capsys, "log", "history", NUMBER, "--folder", str(folder), "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["coordinates"].split(":")[0] for row in rows] == ["containers", "events"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("log", "cat", "cargo", "--folder", "{}"), "knows no stream 'cargo'"),
        (("log", "ls", "CARGO!", "--folder", "{}"), "a stream's name is like"),
        (("stream", "ls", "--folder", "{}/elsewhere"), "there is no log"),
    ],
)
def test_what_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str) -> None:
    code, _, err = run(capsys, *(word.format(folder) for word in arguments))
    assert code == 2
    assert told in " ".join(err.split())
