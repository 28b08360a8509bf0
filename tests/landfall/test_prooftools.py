"""Goal: a person verifies a copy, writes a proof file, and someone else checks it elsewhere, each told in words what holds and what not."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow.parquet as parquet
import pytest

from landfall.cli.main import main
from landfall.cli.number_format import utc
from landfall.storage.index import INDEX_NAME, IndexReader
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.hash_chain import RUN
from streams.integrity.key_trust import Trust
from streams.integrity.missing_ranges import gaps
from streams.integrity.proof_builder import ProofRequest, make
from streams.integrity.signing_keys import key_text
from streams.log import Append
from streams.model.records import ORDER_AT, Record, to_batch
from streams.retention.floor_reasons import append_starts
from streams.retention.thinner import Thinning
from tests.proof.kit import KEY, STRANGER, SigningNode, all_blocks, forged, received, thin
from tests.retention.thinkit import BOXES, box, no_excursions, none_ashore, ship_log
from tests.streams.logkit import NOW_MS, append_rows, copy_all, open_log, rows
from tests.support.refusals import coded

BOX = "MSKU1234565"
MINUTE = 60_000
MAY = ("--since", "2026-05-01", "--until", "2026-05-02")


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ship's folder: 50 readings of a box, one every 15 minutes but for three, and the last five unsigned. Tests have copies of it."""
    folder = tmp_path_factory.mktemp("voyage")
    node = SigningNode(folder)
    numbers = [number for number in range(50) if number not in (20, 21, 22)]
    for number in numbers:
        node.clock.at_ms = NOW_MS + number * 15 * MINUTE
        node.append(to_batch([Record(BOX, "TRK-1", node.clock.at_ms, {"return_c": 4.5}), Record("box-2", "T2")]))
        if number < 45:
            node.sign()
    node.append(to_batch([Record(BOX, body={"event": "LOAD"})]), "events")
    node.log.close()
    return folder


@pytest.fixture
def folder(voyage: Path, tmp_path: Path) -> Path:
    """The ship's folder, for one test."""
    return shutil.copytree(voyage, tmp_path / "ship")


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, coded(ended.value, printed.err)


def test_a_copy_is_verified(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "log", "verify", "-f", folder)
    assert code == 0
    assert "84 records" in out
    assert "84..93, not signed yet" in out
    code, out, _ = run(capsys, "log", "verify", "-f", folder, "--key", f"ship-a={key_text(STRANGER.public)}")
    assert code == 1
    assert "NOT BELIEVED" in out
    ship, port = open_log(folder), open_log(tmp_path / "port", "port-b")
    port.admit(forged(all_blocks(ship, "containers", ship.origin), 31, "return_c", 5.5))
    port.admit(all_blocks(ship, "containers.heads", ship.origin))
    for log in (ship, port):
        log.close()
    code, out, _ = run(capsys, "log", "verify", "-f", tmp_path / "port", "--stream", "containers", "--format", "json")
    assert code == 1
    [verdict] = [json.loads(line) for line in out.splitlines()]
    assert [(one["first"], one["end"], one["offsets"]) for one in verdict["broken"]] == [(30, 32, [31])]
    code, out, _ = run(capsys, "log", "verify", "-f", tmp_path / "port", "--stream", "containers")
    assert re.search(r"BROKEN: .* 31: ", out)


def test_a_copy_whose_bytes_do_not_verify_is_not_proven(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [segment] = (folder / "log" / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    with closing(IndexReader.open(folder / "log" / INDEX_NAME)) as index:
        [hit] = [piece.location for (stream, _), piece in index.pieces_in(1) if (stream, piece.first) == ("containers", 30)]
    data[hit.at + hit.length - 12] ^= 1
    segment.write_bytes(data)
    code, out, _ = run(capsys, "log", "verify", "-f", folder, "--stream", "containers")
    assert code == 1
    assert "NOT PROVEN: 30..93, " in out
    code, out, _ = run(capsys, "log", "verify", "-f", folder, "--stream", "containers", "--strict")
    assert (code, out.count("NOT PROVEN: ")) == (1, 1)


def test_who_demands_proof_is_told_what_lacks_it(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Signatures stripped from a copy, and records that came after the last signature: nothing is wrong, until somebody demands proof."""
    ship, port = open_log(folder), open_log(tmp_path / "port", "port-b")
    port.admit(all_blocks(ship, "containers", ship.origin))
    for log in (ship, port):
        log.close()
    verify = ("log", "verify", "-f")
    assert [run(capsys, *verify, where)[0] for where in (folder, tmp_path / "port")] == [0, 0]
    code, out, _ = run(capsys, *verify, tmp_path / "port", "--strict")
    assert (code, "NOT PROVEN: 0..93, " in out) == (1, True)
    code, out, _ = run(capsys, *verify, folder, "--strict", "--format", "json")
    found = {verdict["stream"]: verdict for verdict in map(json.loads, out.splitlines())}
    assert (code, found["events"]["holds"], found["events"]["lacking"]) == (1, True, [])
    assert [(one["first"], one["end"]) for one in found["containers"]["lacking"]] == [(84, 94)]
    first_unsigned_at_ms = NOW_MS + 45 * 15 * MINUTE
    for until_at_ms, right in ((first_unsigned_at_ms, True), (first_unsigned_at_ms + 1000, False)):
        code, out, _ = run(capsys, *verify, folder, "--strict", "--until", utc(until_at_ms))
        assert (code, "NOT PROVEN" in out, "84..93, not signed yet" in out) == (0 if right else 1, not right, True)
    assert run(capsys, *verify, folder, "--until", utc(NOW_MS))[0] == 2


def test_what_is_never_signed_is_not_said_to_be_signed_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = SigningNode(tmp_path)
    node.append(rows(3), "metrics")
    node.append(rows(3))
    node.sign()
    node.log.close()
    for stream, count in (("metrics", 3), ("containers.heads", 1)):
        code, out, _ = run(capsys, "log", "verify", "-f", tmp_path, "--stream", stream)
        assert (code, f"unproven: 0..{count - 1}, " in out, "not signed yet" in out) == (0, True, False)
        assert run(capsys, "log", "verify", "-f", tmp_path, "--stream", stream, "--strict")[0] == 1


def test_a_proof_goes_from_one_to_another(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = ("--since", "2026-05-01", "--until", "2026-05-01T08:00")
    code, out, _ = run(capsys, "log", "proof", BOX.lower(), "-f", folder, *span, "--out", tmp_path / "claim.json")
    assert code == 0
    assert f"ship-a={key_text(KEY.public)}" in out
    _, keys, _ = run(capsys, "proof", "key", "-f", folder)
    (tmp_path / "keys").write_text(keys)
    for key in (key_text(KEY.public), f"ship-a={key_text(KEY.public)}", str(tmp_path / "keys")):
        code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key)
        assert code == 0
        assert "PROVEN: 29 records of MSKU1234565 from 2026-05-01 00:00:00Z until 2026-05-01 08:00:00Z" in out
        assert ": 29 held, 0 thinned, 3 missing" in out
        assert "does not show" in out
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(STRANGER.public))
    assert code == 1
    assert out.startswith("NOT PROVEN")
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json")
    assert out.count("no key of") == 1, "each problem once"
    assert code == 1
    assert "ship-a" in out
    (tmp_path / "claim.json").write_bytes((tmp_path / "claim.json").read_bytes().replace(b'"return_c":4.5', b'"return_c":3.5', 1))
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(KEY.public))
    assert code == 1


def test_no_more_is_said_to_be_proven_than_is_signed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last statement is of 11:00 on the first of May: of a span that ends later, the rest is said not to be shown."""
    signed_at = utc(NOW_MS + 44 * 15 * MINUTE)
    for until, short in ((signed_at, False), ("2026-05-02 00:00:00Z", True)):
        ask = ("--stream", "containers", "--since", "2026-05-01", "--until", until, "--out", tmp_path / "claim.json")
        code, out, _ = run(capsys, "log", "proof", BOX, "-f", folder, *ask)
        assert (code, f"signed only until {signed_at}" in out) == (0, short)
        code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(KEY.public))
        headline = out.splitlines()[0]
        assert (code, until in headline, "as far as it is signed" in headline) == (0, not short, short)
        assert (f"signed at {signed_at} " in out, f"until {until}" in out and "NOT SHOWN: " in out) == (True, short)


def test_that_nothing_was_heard_is_proven_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = ("--since", "2026-05-01", "--until", "2026-05-02", "--out", str(tmp_path / "claim.json"))
    code, _, err = run(capsys, "log", "proof", "MSKU7654321", "-f", folder, *span)
    assert code == 2
    assert "--origin" in err
    _, out, _ = run(capsys, "log", "verify", "-f", folder, "--stream", "containers", "--format", "json")
    origin = json.loads(out)["origin"]
    options = ("--origin", origin, "--stream", "containers", "--interval-min", "60")
    assert run(capsys, "log", "proof", "MSKU7654321", "-f", folder, *span, *options)[0] == 0
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(KEY.public))
    assert code == 0
    assert "0 records, 1 run " in out
    assert "24 missing" in out
    assert out.count("every 1 h") == 2
    assert ": 0 held" in out


def test_gaps_tell_who_keeps_no_more_what_is_wanted(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ports told of floors, one of them twice; the other's lies below what is wanted."""
    ship, port, tokyo, sydney = open_log(folder), *(open_log(tmp_path / name, name) for name in ("port", "tokyo", "sydney"))
    port.admit([block for block in ship.blocks("containers", ship.origin, 0, 94) if not 10 <= block.first < 20])
    for floor in (12, 20):
        tokyo.append([append_starts("containers", {ship.origin: (floor, "bytes")})])
    sydney.append([append_starts("containers", {ship.origin: (10, "age_at_home")})])
    for log in (tokyo, sydney):
        copy_all(log, port, ["consumers"])
    for log in (ship, port, tokyo, sydney):
        log.close()
    _, out, _ = run(capsys, "log", "gaps", "containers", "-f", tmp_path / "port", "--format", "json")
    assert [json.loads(line)["dropped_at"] for line in out.splitlines()] == ["tokyo (below 20: bytes)"]


def test_a_gap_beside_another_has_the_times_of_the_nearest_records(folder: Path, tmp_path: Path) -> None:
    ship, port = open_log(folder), open_log(tmp_path / "port", "port-b")
    port.admit([block for block in ship.blocks("containers", ship.origin, 0, 94) if not 10 <= block.first < 20])
    port.declare_gone("containers", ship.origin, 14, 16, "lost")
    found = list(gaps(port, "containers"))
    assert [(gap.first, gap.end, gap.why) for gap in found] == [(10, 14, "wanted"), (14, 16, "lost"), (16, 20, "wanted")]
    [(since, until)] = {(gap.since_at_ms, gap.until_at_ms) for gap in found}
    assert since is not None
    assert until is not None
    assert until - since == 6 * 15 * MINUTE
    for log in (ship, port):
        log.close()


def test_gaps_and_completeness_are_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ship, port = open_log(folder), open_log(tmp_path / "port", "port-b")
    port.admit([block for block in ship.blocks("containers", ship.origin, 0, 94) if not 10 <= block.first < 20])
    ship.append([Append("ships", to_batch([Record("9321483.location")]))])
    for log in (ship, port):
        log.close()
    code, out, _ = run(capsys, "log", "gaps", "containers", "-f", tmp_path / "port", "--format", "json")
    assert code == 0
    [gap] = [json.loads(line) for line in out.splitlines()]
    assert (gap["stream"], gap["records"], gap["why"]) == ("containers", 10, "wanted")
    assert (gap["first"], gap["end"], gap["until_at_ms"] - gap["since_at_ms"]) == (10, 20, 6 * 15 * MINUTE)
    _, out, _ = run(capsys, "log", "gaps", "containers", "-f", tmp_path / "port")
    assert "wanted" in out
    _, out, _ = run(capsys, "log", "gaps", "containers", "-f", folder)
    assert "nothing" in out
    _, out, _ = run(
        capsys, "log", "completeness", BOX, "-f", folder, "--since", "2026-05-01", "--until", "2026-05-01T08:00", "--format", "json"
    )
    told = json.loads(out)
    silence_ms = told["longest_silence_until_at_ms"] - told["longest_silence_since_at_ms"]
    assert (told["topic"], told["missing"], silence_ms) == (BOX, 3, 60 * MINUTE)
    _, out, _ = run(capsys, "log", "completeness", BOX, "-f", folder, "--since", "2026-05-01", "--until", "2026-05-01T08:00")
    assert "every 15 min" in out
    assert "3 missing" in out
    assert "longest silence" in out


def test_verdicts_and_completeness_are_the_same_in_every_format(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is nested is JSON text in CSV and Parquet; how it ends does not depend on the format, nor what people read on where it goes."""
    verify, completeness = ("log", "verify", "-f", folder, "--strict"), ("log", "completeness", BOX, "-f", folder, *MAY)
    nested = {"proven", "broken", "unproven", "lacking", "problems", "keys"}
    for words, code, there_are in ((verify, 1, 2), (completeness, 0, 1)):
        ended, out, _ = run(capsys, *words, "--format", "json")
        rows = [json.loads(line) for line in out.splitlines()]
        assert (ended, len(rows)) == (code, there_are)
        for format_ in ("json", "csv", "parquet", "text"):
            assert run(capsys, *words, "--format", format_, "-o", tmp_path / f"told.{format_}") == (code, "", "")
        assert (tmp_path / "told.json").read_text() == out
        assert (tmp_path / "told.text").read_text() == run(capsys, *words)[1] != ""
        as_text = [{name: json.dumps(value) if name in nested else value for name, value in row.items()} for row in rows]
        table = parquet.read_table(tmp_path / "told.parquet")
        assert table.to_pylist() == as_text
        reader = csv.DictReader((tmp_path / "told.csv").read_text().splitlines())
        as_csv = [{name: "" if value is None else str(value) for name, value in row.items()} for row in as_text]
        assert [row | {"holds": row["holds"].capitalize()} if "holds" in row else row for row in reader] == as_csv
        assert table.schema.field(table.column_names[-1]).metadata == {b"unit": b"ms since 1970-01-01 UTC"}
        refused, _, err = run(capsys, *words, "--format", "parquet")
        assert (refused, "[output_missing]" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("log", "proof", BOX, "-f", "{}", "--since", "May", "--until", "2026-05-02", "--out", "x"), "is no time"),
        (("log", "proof", BOX, "-f", "{}", "--since", "2026-05-02", "--until", "2026-05-01", "--out", "x"), "ends after it begins"),
        (("log", "proof", BOX, "-f", "{}", *MAY, "--out", "{}/none/x"), f"can not be written: {os.strerror(errno.ENOENT)}"),
        (("log", "proof", BOX, "-f", "{}", *MAY, "--out", "x", "--origin", "nonsense"), "'nonsense' is no origin"),
        (("log", "verify", "-f", "{}", "--key", "ship-a=ed25519:short"), "is no public key"),
        (("proof", "check", "{}/nothing"), "can not be read"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str) -> None:
    code, _, err = run(capsys, *(word.format(folder) for word in arguments))
    assert code == 2
    assert told in " ".join(err.split())


def test_what_is_thinned_is_told_apart_from_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = ship_log(tmp_path, 2)
    hours = log.history(box(1)).rows.column(ORDER_AT).to_pylist()
    span = ("--since", utc(hours[0]), "--until", utc(hours[-1] + MINUTE))
    assert Thinning(log, "containers", none_ashore, no_excursions).step(1 << 62)
    kept = log.history(box(1)).rows.num_rows
    log.close()
    code, out, _ = run(capsys, "log", "completeness", box(1), "-f", tmp_path, *span, "--interval-min", "1", "--format", "json")
    found = json.loads(out)
    assert (code, found["held"], found["missing"]) == (0, kept, 0)
    assert found["thinned"] == len(hours) - kept > 0
    learned = json.loads(run(capsys, "log", "completeness", box(1), "-f", tmp_path, *span, "--format", "json")[1])
    assert learned == found, "the interval is learned where nothing was thinned"
    assert found["late"] == sum(stream == "containers" for stream in log_streams(tmp_path)), "of kept ones it is not known"


@pytest.mark.parametrize("until", ["2026-04-02T00:00", "2026-04-02T08:30"])
def test_a_proof_over_thinned_readings_tells_what_completeness_does(tmp_path: Path, capsys: pytest.CaptureFixture[str], until: str) -> None:
    """Of a span that is thinned from end to end, and of one whose last hours are not."""
    ship = received(tmp_path / "ship", 4)
    thin(ship, "containers", ship.log.history(box(1)).rows.column(ORDER_AT)[3 * RUN // BOXES].as_py())
    ship.log.close()
    ask = (box(1), "-f", tmp_path / "ship", "--since", "2026-04-01T00:30", "--until", until)
    _, told, _ = run(capsys, "log", "completeness", *ask)
    counts, silence = told.splitlines()
    assert (counts.startswith("1,"), " 0 thinned" in counts, " 0 missing" in counts) == (True, False, True)
    assert run(capsys, "log", "proof", *ask, "--out", tmp_path / "claim.json")[0] == 0
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(KEY.public))
    assert (code, f"  {counts}\n  {silence}\n" in out) == (0, True)
    assert "runs 0 to 2 (thinned)\n" in out


def test_a_proof_shows_what_came_weeks_after_its_span_and_until_when_more_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ship = SigningNode(tmp_path / "ship")
    for day, hours in ((0, range(1)), (9, range(0)), (12, range(1, 48)), (200, range(0))):
        ship.clock.at_ms = NOW_MS + day * 24 * 60 * MINUTE
        mine = [Record(BOX, "LOG-1", NOW_MS + hour * 60 * MINUTE, {"return_c": 4.0}) for hour in hours]
        ship.append(to_batch([*mine, Record("box-2", "T2")]))
        if day == 200:
            ask = ("log", "proof", BOX, "-f", tmp_path / "ship", "--since", "2026-05-01", "--until", "2026-05-03")
            assert run(capsys, *ask, "--out", tmp_path / "may.json")[0] == 0
        ship.sign()
    ship.log.close()
    assert run(capsys, *ask, "--out", tmp_path / "november.json")[0] == 0
    for file, later in (("may", "2026-10-30 00:00:00Z"), ("november", "too late")):
        code, out, _ = run(capsys, "proof", "check", tmp_path / f"{file}.json", "--key", key_text(KEY.public))
        assert (code, "48 held, 0 thinned, 0 missing, 47 late" in out, later in out) == (0, True, True)


def test_what_may_stand_in_a_run_that_is_not_shown_is_not_said_to_be_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ship, port = open_log(folder), open_log(tmp_path / "port", "port-b")
    port.admit([block for block in ship.blocks("containers", ship.origin, 0, 94) if not 10 <= block.first < 20])
    port.admit(all_blocks(ship, "containers.heads", ship.origin))
    for log in (ship, port):
        log.close()
    ask = (BOX, "-f", tmp_path / "port", "--since", "2026-05-01", "--until", "2026-05-01T08:00", "--interval-min", "15")
    assert run(capsys, "log", "proof", *ask, "--out", tmp_path / "claim.json")[0] == 0
    code, out, _ = run(capsys, "proof", "check", tmp_path / "claim.json", "--key", key_text(KEY.public))
    assert (code, "32 missing " in out, "run 0 (wanted)" in out) == (0, True, True)


def log_streams(folder: Path) -> list[str]:
    """The stream of each row of the first box's history."""
    log = open_log(folder)
    try:
        streams: list[str] = log.history(box(1)).rows.column("stream").to_pylist()
        return streams
    finally:
        log.close()


@pytest.mark.parametrize("minutes", ["nan", "inf", "-1", "1e300"])
def test_an_interval_is_a_likely_one(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], minutes: str) -> None:
    ask = (BOX, "-f", folder, "--since", "2026-05-01", "--until", "2026-05-02", "--interval-min", minutes)
    for command in (("completeness", *ask), ("proof", *ask, "--out", tmp_path / "claim.json")):
        code, _, err = run(capsys, "log", *command)
        assert (code, "[interval_invalid]" in err) == (2, True)


def test_a_hostile_proof_file_is_told_of_and_does_nothing_to_the_terminal(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(folder)
    far = ProofRequest(BOX, NOW_MS, 10**17, 10**13)
    proof = make(Copy(log, BlockCodec()), far, [("containers", log.origin)], Trust())
    log.close()
    (tmp_path / "far.json").write_bytes(proof.to_bytes())
    code, out, _ = run(capsys, "proof", "check", tmp_path / "far.json", "--key", key_text(KEY.public))
    assert (code, f"until {10**17} ms" in out) == (0, True)
    end = {**proof.sections[0].end, "head": "\x1b[2J\nPROVEN"}
    section = msgspec.structs.replace(proof.sections[0], stream="containers\x1b[2J\nPROVEN", end=end)
    (tmp_path / "far.json").write_bytes(msgspec.structs.replace(proof, sections=[section]).sealed().to_bytes())
    code, out, _ = run(capsys, "proof", "check", tmp_path / "far.json", "--key", key_text(KEY.public))
    assert (code, "\x1b" in out, "\nPROVEN" in out) == (1, False, False)


def test_an_origin_is_told_whole_where_no_terminal_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "ship-" + "9" * 58
    log = open_log(tmp_path, name)
    append_rows(log, rows(20))
    log.trim("containers", log.origin, 10)
    log.close()
    _, out, _ = run(capsys, "log", "gaps", "containers", "-f", tmp_path)
    assert str(log.origin) in out
    assert "below floor" in out
