"""Goal: a person reads a node's log in words with units, a program as JSON, CSV or Parquet, and follows it while the node runs."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.cli.log_snapshot import Held
from landfall.cli.record_output import RECORDS
from landfall.cli.table_output import Format, write
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, Value, to_batch
from streams.retention.thinner import Thinning
from tests.landfall.commands import called, run
from tests.proof.kit import SigningNode
from tests.retention.thinkit import box, no_excursions, none_ashore, ship_log
from tests.streams.logkit import NOW_MS, append_rows, open_log, rows
from tests.support.forked import landfall

NUMBER = "MSKU1234565"
AT_MS = 1_777_593_500_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    """A node's log, open: as while the node runs."""
    log = FileLog(tmp_path / "log", tmp_path / "marker", "tokyo", BlockCodec(), StillClock())
    first = Record(NUMBER, "TRK-1", AT_MS, {"return_c": 4.25, "power_on": True, "latitude_deg": 35.612345})
    log.append([Append("containers", to_batch([first, Record("MSKU7654321", "TRK-2", AT_MS + 1000, {"return_c": -18.0})]))])
    log.append([Append("containers", to_batch([Record(NUMBER, "TRK-1", AT_MS + 60_000, {"humidity_pct": 81.0}, {"odd": [1]})]))])
    yield log
    log.close()


def test_text_has_times_and_units(log: FileLog, tmp_path: Path) -> None:
    done = landfall("log", "cat", "containers", "--folder", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == (
        f"2026-04-30 23:58:20Z  containers:{log.origin}:0  {NUMBER}  device=TRK-1  latitude_deg=35.612345 °  power_on=yes  return_c=4.25 °C"
        "  received 2026-05-01 00:00:00Z"
    )
    assert "humidity_pct=81 % RH" in lines[2]
    assert lines[2].endswith("{odd: [1]}")


def test_text_has_the_device_s_time_where_the_order_time_is_another(log: FileLog, tmp_path: Path) -> None:
    """A clock 9 years ahead, one that stands at its epoch, and one beyond all calendars."""
    for at_ms in (AT_MS + 9 * 365 * 86_400_000, 0, 1 << 52):
        log.append([Append("containers", to_batch([Record("MSKU7654321", "TRK-2", at_ms, {"return_c": -18.0})]))])
    lines = called("log", "history", "MSKU7654321", "--folder", tmp_path).stdout.splitlines()
    told = [line.partition("by its device ")[2].partition("  ")[0] for line in lines]
    assert told == ["", "2035-04-28 23:58:20Z", "1970-01-01 00:00:00Z", str(1 << 52)]


def test_a_digest_says_that_it_is_one(log: FileLog, tmp_path: Path) -> None:
    """In a container's history, beside the readings that came later, with its window in UTC."""
    window = {"from_at_ms": AT_MS - 3_600_000, "until_at_ms": AT_MS, "readings": 2, "return_min_c": 4.25}
    log.append([Append("digests", to_batch([Record(NUMBER, None, AT_MS - 20_000, window)]))])
    lines = called("log", "history", NUMBER, "--folder", tmp_path).stdout.splitlines()
    assert [line.split("  ")[1].partition(":")[0] for line in lines] == ["digests", "containers", "containers"]
    told = "from_at_ms=2026-04-30 22:58:20Z  readings=2  return_min_c=4.25  until_at_ms=2026-04-30 23:58:20Z"
    assert lines[0].endswith(f"{told}  received 2026-05-01 00:00:00Z  (a digest: of readings that waited on board)  (not proven yet)")


def test_a_body_is_told_in_words(log: FileLog, tmp_path: Path) -> None:
    """Times as times, texts as they are, nothing of what is null; and nothing that a hostile payload could do to a terminal."""
    body = {"at_ms": AT_MS, "title": "Box overboard", "by": None, "lost": [1.5, True], "slot": {"from_at_ms": AT_MS, "x\x1b": "\x1b[2J"}}
    log.append([Append("alerts", to_batch([Record(NUMBER, body=body)]))])
    told = called("log", "cat", "alerts", "--folder", tmp_path).stdout
    at = "2026-04-30 23:58:20Z"
    assert told.endswith(f'{{at_ms: {at}, lost: [1.5, yes], slot: {{from_at_ms: {at}, "x\\u001b": "\\u001b[2J"}}, title: Box overboard}}\n')


def test_a_text_is_one_text_and_does_nothing_to_the_terminal(log: FileLog, tmp_path: Path) -> None:
    """Neither a signal's value nor a device's name ends its line, clears the screen, or is taken for more than the one field it is."""
    evil = "x\x1b[2J\n2026-05-01 00:00:00Z  containers:forged:0"
    log.append([Append("containers", to_batch([Record("MSKU7654321", evil, AT_MS, {"gateway": evil, "place": "quay  return_c=99"})]))])
    for words in (("cat", "containers"), ("tail", "containers"), ("history", "MSKU7654321")):
        told = called("log", *words, "-f", tmp_path).stdout
        assert "\x1b" not in told
        [line] = [line for line in told.splitlines() if "forged" in line]
        assert f"device={json.dumps(evil)}  gateway={json.dumps(evil)}" in line
        assert 'place="quay  return_c=99"' in line


def test_json_csv_and_parquet_have_every_column(log: FileLog, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in landfall("log", "cat", "containers", "-f", tmp_path, "--format", "json").stdout.splitlines()]
    assert [row.get("return_c") for row in rows] == [4.25, -18.0, None]
    assert (rows[0]["coordinates"], rows[2]["body"]) == (f"containers:{log.origin}:0", {"odd": [1]})
    told = landfall("log", "cat", "containers", "-f", tmp_path, "--format", "csv").stdout
    table = list(csv.DictReader(told.splitlines()))
    assert [row["humidity_pct"] for row in table] == ["", "", "81"]
    assert [row["offset"] for row in table] == ["0", "1", "2"]
    out = tmp_path / "out.parquet"
    done = landfall("log", "export", "containers", "-f", tmp_path, "--output", out, "--topic", NUMBER, "--since", "2026-04-30T23:59:00")
    assert done.stdout == f"{out}: 1 record\n"
    table = parquet.read_table(out)
    assert table.column("humidity_pct").to_pylist() == [81.0]
    units = {field.name: field.metadata[b"unit"].decode() for field in table.schema if field.metadata and b"unit" in field.metadata}
    assert (units["humidity_pct"], units["received_at_ms"]) == ("% RH", "ms since 1970-01-01 UTC")
    done = landfall("log", "cat", "containers", "-f", tmp_path, "--format", "parquet")
    assert (done.returncode, "Parquet" in done.stderr) == (2, True)


def test_a_signal_of_several_types_goes_into_one_column(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = (1 << 53) + 1
    odds: list[dict[str, Value]] = [{"seal": 5, "count": 1, "wide": large}, {"seal": "A5", "count": 1.5, "wide": 0.5}]
    for odd in odds:
        log.append([Append("events", to_batch([Record(NUMBER, signals=odd)]))])
    for name in ("cat", "export"):
        out = tmp_path / f"{name}.csv"
        assert run(capsys, "log", name, "events", "-f", tmp_path, "--format", "csv", "-o", out)[0] == 0
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert [(row["seal"], row["count"], row["wide"]) for row in rows] == [("5", "1", str(large)), ("A5", "1.5", "0.5")]
    assert run(capsys, "log", "export", "events", "-f", tmp_path, "-o", tmp_path / "events.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "events.parquet")
    assert [table.column(name).to_pylist() for name in ("seal", "count", "wide")] == [["5", "A5"], [1.0, 1.5], [str(large), "0.5"]]
    code, out_, _ = run(capsys, "log", "tail", "events", "-f", tmp_path)
    assert (code, "seal=A5" in out_) == (0, True)


def test_a_spreadsheet_computes_nothing_of_a_csv(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a tracker sent as text, and as a name of a signal; numbers stay numbers, in a column of texts too."""
    evil = ["=HYPERLINK(1)", "+1+1", "-2+3|x", "@SUM(1)", "\tx", "\rx", "-"]
    plain: list[Value] = ["x=1", "", "-18.5", "+4.9E-3", "'=x", "5-4", -7, 3.5]
    for value in [*evil, *plain]:
        log.append([Append("events", to_batch([Record(NUMBER, signals={"seal": value, "=now": -1.5})]))])
    for name in ("history", "cat"):
        about = NUMBER if name == "history" else "events"
        assert run(capsys, "log", name, about, "-f", tmp_path, "--format", "csv", "-o", tmp_path / "out.csv")[0] == 0
        table = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_bytes().decode(), newline=""))
        rows = [row for row in table if row["stream"] == "events"]
        assert [row["seal"] for row in rows] == [f"'{one}" for one in evil] + [str(one) for one in plain]
        assert {row["'=now"] for row in rows} == {"-1.5"}
    for suffix in ("json", "parquet"):
        assert run(capsys, "log", "export", "events", "-f", tmp_path, "-o", tmp_path / f"out.{suffix}")[0] == 0
    assert parquet.read_table(tmp_path / "out.parquet").column("seal").to_pylist() == [*evil, *map(str, plain)]
    lines = (tmp_path / "out.json").read_text().split("\n")[:-1]
    assert [(row["seal"], row["=now"]) for row in map(json.loads, lines)] == [(one, -1.5) for one in [*evil, *plain]]


def test_json_is_json_whatever_the_number(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (math.nan, math.inf, -math.inf):
        log.append([Append("events", to_batch([Record(NUMBER, signals={"return_c": number})]))])
    _, out, _ = run(capsys, "log", "cat", "events", "-f", tmp_path, "--format", "json")
    assert [json.loads(line, parse_constant=pytest.fail)["return_c"] for line in out.splitlines()] == ["NaN", "Infinity", "-Infinity"]


def test_an_export_ends_where_the_log_stood_though_it_grows(log: FileLog, tmp_path: Path) -> None:
    """Between the passage that finds the columns and the one that writes the rows comes a record with a column of its own."""
    held = Held.now(log, "containers").rows
    assert sum(table.num_rows for table in held()) == 3
    log.append([Append("containers", to_batch([Record(NUMBER, signals={"setpoint_c": -18.0})]))])
    assert write(held, RECORDS, Format.CSV, tmp_path / "out.csv") == 3
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["offset"] for row in rows] == ["0", "1", "2"]
    assert write(Held.now(log, "containers").rows, RECORDS, Format.CSV, tmp_path / "out.csv") == 4
    assert "setpoint_c" in (tmp_path / "out.csv").read_text()


def test_what_is_left_out_behind_a_hole_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy that lacks offsets 10 to 19 of 40: on standard error and by exit code 1, unless one asks to go on past holes."""
    ship, port = open_log(tmp_path / "ship", "ship-a"), open_log(tmp_path / "port", "port-b")
    append_rows(ship, rows(40))
    port.admit([*ship.blocks("containers", ship.origin, 0, 10), *ship.blocks("containers", ship.origin, 20, 40)])
    origin = ship.origin
    for log in (ship, port):
        log.close()
    said = f"containers:{origin}: ends before offset 10, which is not held here; 20 records behind it are"
    for format_ in ("json", "csv"):
        for past, code, offsets in (((), 1, [*range(10)]), (("--past-holes",), 0, [*range(10), *range(20, 40)])):
            for name in ("cat", "export"):
                file = tmp_path / "out"
                ended, _, err = run(capsys, "log", name, "containers", "-f", tmp_path / "port", "--format", format_, "-o", file, *past)
                assert (ended, said in err, "10 offsets from 10 on " in err) == (code, not past, bool(past)), err
                lines = file.read_text().splitlines()
                if format_ == "json":
                    assert [int(json.loads(line)["coordinates"].rpartition(":")[2]) for line in lines] == offsets
                else:
                    assert [int(row["offset"]) for row in csv.DictReader(lines)] == offsets
    one = ("log", "export", "containers", "-f", tmp_path / "port", "--format", "json", "-o", tmp_path / "out", "--past-holes")
    topic = ship_topic(tmp_path / "port", 25)
    assert run(capsys, *one, "--topic", topic)[0] == 0
    assert {json.loads(line)["topic"] for line in (tmp_path / "out").read_text().splitlines()} == {topic}
    assert run(capsys, "log", "cat", "containers", "-f", tmp_path / "port", "-n", "10")[::2] == (0, ""), "no more was asked for"
    assert run(capsys, "log", "cat", "containers", "-f", tmp_path / "ship")[::2] == (0, "")


def test_a_topic_of_which_nothing_is_known(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("log", "history", "MSCU1234566", "-f", tmp_path)
    assert run(capsys, *asked) == (0, "", "nothing is known of 'MSCU1234566' in this log")
    assert run(capsys, *asked, "--since", "2026-05-01")[:2] == (0, "")
    turned = ("--since", "2026-05-02", "--until", "2026-05-01")
    for command in (asked, ("log", "export", "containers", "-f", tmp_path, "-o", tmp_path / "out.csv")):
        code, _, told = run(capsys, *command, *turned)
        assert code != 0
        assert "[span_invalid]" in told
    assert not (tmp_path / "out.csv").exists()


def test_one_lost_and_one_behind_it_are_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ship, port = open_log(tmp_path / "ship", "ship-a"), open_log(tmp_path / "port", "port-b")
    append_rows(ship, rows(3))
    port.admit([*ship.blocks("containers", ship.origin, 0, 1), *ship.blocks("containers", ship.origin, 2, 3)])
    place = f"containers:{ship.origin}"
    for log in (ship, port):
        log.close()
    asked = ("log", "cat", "containers", "-f", tmp_path / "port")
    assert f"{place}: ends before offset 1, " in run(capsys, *asked)[2]
    assert f"{place}: 1 offset from 1 on " in run(capsys, *asked, "--past-holes")[2]


def ship_topic(folder: Path, offset: int) -> str:
    """The topic of the record at an offset."""
    log = open_log(folder, "port-b")
    try:
        [origin] = [one for one in log.ledger("containers") if one.node == "ship-a"]
        topic: str = next(log.run("containers", origin, offset, offset + 1)).records.column("topic")[0].as_py()
        return topic
    finally:
        log.close()


def test_a_stream_of_which_nothing_is_held_has_its_columns(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.trim("containers", log.origin, 3)
    for name in ("cat", "export"):
        for format_ in ("csv", "parquet"):
            assert run(capsys, "log", name, "containers", "-f", tmp_path, "--format", format_, "-o", tmp_path / f"none.{format_}")[0] == 0
        reader = csv.DictReader((tmp_path / "none.csv").read_text().splitlines())
        table = parquet.read_table(tmp_path / "none.parquet")
        assert (table.num_rows, [*reader]) == (0, [])
        assert {"stream", "origin", "offset", "topic", "order_at_ms"} <= {*(reader.fieldnames or ())} == {*table.column_names}


def test_a_full_standard_output_is_told(log: FileLog, tmp_path: Path) -> None:
    log.append([Append("events", to_batch([Record(NUMBER)]))])
    shown = (("ls",), ("gaps", "events"), ("cat", "events"), ("cat", "events", "--format", "csv"), ("check",))
    written = ("export", "events", "-o", tmp_path / "out.csv")
    streams = (("ls",), ("ls", "--json"), ("show", "events"), ("versions", "events"))
    why = f"standard output can not be written: {os.strerror(errno.ENOSPC)}"
    for words in (*(("log", *one) for one in (*shown, written)), *(("stream", *one) for one in streams)):
        done = landfall(*words, "-f", tmp_path, printed=Path("/dev/full"))
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr


def test_where_nothing_can_be_written_is_told(log: FileLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for format_ in ("text", "json", "csv", "parquet"):
        for name in ("cat", "export"):
            ask = ("containers", "-f", tmp_path, "--format", format_, "-o", tmp_path / "none" / "out")
            code, _, err = run(capsys, "log", name, *ask)
            assert (code, "[output_not_written]" in err and os.strerror(errno.ENOENT) in err) == (2, True), err


def test_a_history_says_what_is_not_proven_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What its origin has not signed is marked in every format, of both its readings; `ls` says how much, and when it signed last."""
    ship = SigningNode(tmp_path)
    reading = Record(NUMBER, "TRK-1", AT_MS, {"return_c": 4.0})
    ship.append(to_batch([reading]))
    ship.sign()
    ship.append(to_batch([reading, reading]))
    ship.append(to_batch([Record("ship-a", body={"at_ms": AT_MS})]), "metrics")
    history = ("log", "history", NUMBER, "-f", tmp_path)
    assert [line.endswith("(not proven yet)") for line in run(capsys, *history)[1].splitlines()] == [False, True, True]
    assert [json.loads(line)["proven"] for line in run(capsys, *history, "--format", "json")[1].splitlines()] == [True, False, False]
    assert run(capsys, *history, "--format", "csv", "-o", tmp_path / "history.csv")[0] == 0
    rows = csv.DictReader((tmp_path / "history.csv").read_text().splitlines())
    assert [row["proven"] for row in rows] == ["true", "false", "false"]
    listed = [json.loads(line) for line in run(capsys, "log", "ls", "-f", tmp_path, "--format", "json")[1].splitlines()]
    told = {row["stream"]: (row["held"], row["unproven"], row["signed_at_ms"]) for row in listed}
    assert (told["containers"], told["metrics"]) == ((3, 2, NOW_MS), (1, None, None))
    assert "never signed" in run(capsys, "log", "ls", "metrics", "-f", tmp_path)[1]
    ship.sign()
    assert "not proven" not in run(capsys, *history)[1]
    ship.log.close()


def test_a_history_says_what_was_kept_of_what_is_gone(tmp_path: Path) -> None:
    log = ship_log(tmp_path, 1)
    assert Thinning(log, "containers", none_ashore, no_excursions).step(1 << 62)
    out = called("log", "history", box(1), "-f", tmp_path, "-n", "1").stdout
    assert "containers.kept:" in out
    assert f"(kept of containers:{log.origin}:" in out
    assert " 1 h is thinned)" in out
    log.close()
