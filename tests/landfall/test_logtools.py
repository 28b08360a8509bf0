"""Goal: a person sees what a node's log holds, in words and as JSON, and is told plainly what is not there."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.cli.main import main
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.support.refusals import coded

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
    return int(ended.value.code or 0), printed.out, coded(ended.value, printed.err)


def test_streams_and_origins_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "stream", "ls", "--folder", str(folder))
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["containers", "1", "2"], ["events", "1", "1"]]
    told = [json.loads(line) for line in run(capsys, "stream", "ls", "--folder", str(folder), "--json")[1].splitlines()]
    assert [(one["name"], one["origins"], one["held"], one["gone"], one["wanted"]) for one in told] == [
        ("containers", 1, 2, 0, 0),
        ("events", 1, 1, 0, 0),
    ]
    assert told[0]["value"]["lane"] == "readings"
    for command in ("show", "versions"):
        code, _, problem = run(capsys, "stream", command, "Bad Name", "--folder", str(folder))
        assert code == 2
        assert "[stream_invalid]" in problem
    assert run(capsys, "stream", "show", "customers/*", "--folder", str(folder))[0] == 0
    code, out, _ = run(capsys, "log", "ls", "containers", "--folder", str(folder / "log"))
    assert code == 0
    assert "tokyo@" in out
    code, out, _ = run(capsys, "log", "ls", "--folder", str(folder))
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["containers", "events"], "of all, when none is named"
    code, out, _ = run(capsys, "log", "ls", "--folder", str(folder), "--format", "json")
    containers, events = map(json.loads, out.splitlines())
    assert containers["origin"].startswith("tokyo@")
    assert [containers[name] for name in ("stream", "next_offset", "held", "gone", "wanted", "floor")] == ["containers", 2, 2, 0, 0, 0]
    assert containers["stored_bytes"] > events["stored_bytes"] > 0
    assert containers["order_first_at_ms"] == 1_777_593_500_000 <= containers["order_last_at_ms"]


def test_what_is_damaged_is_told_to_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = ("log", "check", "--folder", str(folder), "--format")
    code, out, err = run(capsys, *check, "json")
    assert (code, out, err) == (0, "", "all is well: 3 frames, 2 blocks, 3 records\n")
    segment = folder / "log" / "segments" / "0000000001.segment"
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    code, out, err = run(capsys, *check, "json")
    findings = [json.loads(line) for line in out.splitlines()]
    assert (code, err.startswith(f"{len(findings)} damaged; ")) == (1, True)
    assert any("0000000001.segment" in one["where"] for one in findings)
    for format_ in ("csv", "parquet"):
        assert run(capsys, *check, format_, "--output", str(folder / f"damage.{format_}"))[0] == 1
    assert list(csv.DictReader((folder / "damage.csv").read_text().splitlines())) == findings
    assert parquet.read_table(folder / "damage.parquet").to_pylist() == findings


def test_lists_have_the_same_rows_in_every_format_with_their_units(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ls and gaps; an empty one has its columns all the same."""
    log = FileLog(folder / "log", folder / "marker", "tokyo", BlockCodec(), StillClock())
    log.declare_gone("containers", log.origin, 0, 1, "thinned")
    log.close()
    for words in (("ls",), ("gaps", "containers"), ("gaps", "events")):
        ask = ("log", *words, "--folder", str(folder), "--format")
        rows = [json.loads(line) for line in run(capsys, *ask, "json")[1].splitlines()]
        assert len(rows) == {"ls": 2, "gaps containers": 1, "gaps events": 0}[" ".join(words)]
        for format_ in ("csv", "parquet", "text"):
            assert run(capsys, *ask, format_, "--output", str(folder / f"list.{format_}")) == (0, "", "")
        table = parquet.read_table(folder / "list.parquet")
        assert table.to_pylist() == rows
        reader = csv.DictReader((folder / "list.csv").read_text().splitlines())
        assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows] == list(reader)
        assert list(reader.fieldnames or ()) == table.column_names
        told = (folder / "list.text").read_text().splitlines()
        assert len(told) == len(rows) + 1
        assert all(row["origin"] in line for row, line in zip(rows, told[1:], strict=True))
        units = {field.name: field.metadata[b"unit"].decode() for field in table.schema if field.metadata}
        at, size = dict.fromkeys((name for name in table.column_names if name.endswith("_at_ms")), "ms since 1970-01-01 UTC"), {}
        if words == ("ls",):
            size = {"stored_bytes": "B"}
        assert (len(at), units) == (3 if words == ("ls",) else 2, {**at, **size})
    code, _, err = run(capsys, "log", "ls", "--folder", str(folder), "--format", "parquet")
    assert (code, "[output_missing]" in err) == (2, True)


def test_what_a_limit_leaves_out_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, there_are in ((("cat", "containers"), 2), (("history", NUMBER), 2)):
        for limit, said in ((1, f"these are the first 1 of {there_are} records; --limit shows more\n"), (there_are, "")):
            code, out, err = run(capsys, "log", *words, "--folder", str(folder), "--limit", str(limit))
            assert (code, out.count("\n"), err) == (0, limit, said)


def test_records_are_shown_as_text_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "log", "cat", "containers", "--folder", str(folder), "--limit", "1")
    assert out.count("\n") == 1
    assert NUMBER in out
    assert "return_c=4.2" in out
    assert "2026-04-30 23:58:20Z" in out
    _, out, _ = run(capsys, "log", "history", NUMBER, "--folder", str(folder), "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["coordinates"].split(":")[0] for row in rows] == ["containers", "events"]


@pytest.mark.parametrize("written", [NUMBER, "msku1234565", "MSKU-123456-5", "MSKU 123456 5"])
def test_a_container_is_found_however_its_number_is_written(folder: Path, capsys: pytest.CaptureFixture[str], written: str) -> None:
    where, day = ("--folder", str(folder)), ("--since", "2026-04-30", "--until", "2026-05-01")
    code, out, err = run(capsys, "log", "history", written, *where, "--format", "json")
    assert (code, {json.loads(line)["topic"] for line in out.splitlines()}, err) == (0, {NUMBER}, "")
    found = json.loads(run(capsys, "log", "completeness", written, *where, *day, "--interval-min", "15", "--format", "json")[1])
    assert (found["topic"], found["held"]) == (NUMBER, 1)
    exported = folder / "out.csv"
    assert run(capsys, "log", "export", "containers", *where, "-o", str(exported), "--topic", written)[0] == 0
    assert [row["topic"] for row in csv.DictReader(exported.read_text().splitlines())] == [NUMBER]
    log = FileLog(folder / "log", folder / "marker", "tokyo", BlockCodec(), StillClock())
    log.append([Append("containers", to_batch([Record("MSKU-123456-5", "OLD")]))])
    log.close()
    _, out, _ = run(capsys, "log", "history", written, *where, "--format", "json")
    as_stored = "MSKU-123456-5" if written == "MSKU-123456-5" else NUMBER
    assert {json.loads(line)["topic"] for line in out.splitlines()} == {as_stored}, "records of before are found as they are written"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("log", "cat", "cargo", "--folder", "{}"), "nothing of a stream 'cargo' is in this log"),
        (("log", "ls", "CARGO!", "--folder", "{}"), "a stream's name is like"),
        (("stream", "ls", "--folder", "{}/elsewhere"), "there is no log"),
    ],
)
def test_what_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str) -> None:
    code, _, err = run(capsys, *(word.format(folder) for word in arguments))
    assert code == 2
    assert told in " ".join(err.split())
