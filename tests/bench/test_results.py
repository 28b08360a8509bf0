"""Goal: docs/performance.md and the watch's validation show what the benches wrote; a bench renews only the rows of its own command."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from bench import performancedoc, watchdoc
from bench.__main__ import SHORT
from bench.duel.goals import goals
from bench.results import FOLDER, Measured, Row, command_of, read_rows, write
from tests.bench.test_tiny import LONGEST, TINY

BENCHES = sorted(path.stem for path in FOLDER.glob("*.json"))
OF_NO_BENCH = {"tests", "torture"}
"""Files of rows that are measured by test runs and written by hand."""
ROWS_MAX = 60


def row(name: str, command: str) -> Row:
    """A row before it is renewed."""
    texts = dict.fromkeys(("area", "measure", "goal", "commit", "date", "machine", "conditions"), "old")
    return Row(name=name, command=command, figure="1/s", outcome="missed by 2", peer="a peer", **texts)


def test_the_pages_are_what_is_rendered() -> None:
    """Run `python -m bench.performancedoc` and `python -m bench.watchdoc` when this fails."""
    assert performancedoc.TARGET.read_text() == performancedoc.page()
    assert watchdoc.TARGET.read_text() == watchdoc.page()


def test_there_is_one_table_of_few_rows_and_a_short_text() -> None:
    lines = performancedoc.TARGET.read_text().splitlines()
    table = [at for at, line in enumerate(lines) if line.startswith("|")]
    assert table == list(range(table[0], table[-1] + 1))
    assert len(table) - 2 <= ROWS_MAX
    assert len("\n".join(line for line in lines if not line.startswith("|")).encode()) <= 6_000


@pytest.mark.parametrize("bench", BENCHES)
def test_a_row_is_whole_and_there_is_one_of_its_name_and_command(bench: str) -> None:
    rows = read_rows(bench)
    assert all(getattr(one, field) for one in rows for field in Row.__struct_fields__ if field not in ("peer", "conditions"))
    assert len({(one.name, one.command) for one in rows}) == len(rows)
    assert {one.outcome.partition(" ")[0].strip(",;") for one in rows} <= {"met", "missed"}


@pytest.mark.parametrize("bench", sorted(set(BENCHES) - OF_NO_BENCH))
def test_the_bench_hands_over_a_figure_of_each_row(bench: str) -> None:
    code = "".join(file.read_text() for file in (*FOLDER.parent.glob(f"{bench}.py"), *FOLDER.parent.glob(f"{bench}/*.py")))
    handed = set(re.findall(r'"(\w+)": (?:Measured|rates|waits)\(|rows\["(\w+)"\]|fromkeys\(\("(\w+)", "(\w+)"\), Measured', code))
    assert {one.name for one in read_rows(bench)} <= {name for names in handed for name in names}


def test_no_short_run_of_the_tests_renews_a_row() -> None:
    commands = {one.command for bench in BENCHES for one in read_rows(bench)} | {
        watchdoc.read_table(name).command for name in watchdoc.NAMES
    }
    assert commands & {command_of(bench, list(size)) for bench, (size, _) in {**TINY, **LONGEST}.items()} == set()
    assert commands & {command_of(bench, list(size)) for bench, size in SHORT.items() if size} == set()


def test_a_run_renews_the_rows_of_its_command_that_it_measured(tmp_path: Path) -> None:
    rows = [row("quick", "bench.one 5"), row("small", "bench.one 5"), row("quick", "bench.one 50")]
    (tmp_path / "one.json").write_bytes(msgspec.json.encode(rows))
    measured = {"quick": Measured("7/s", met=True), "unknown": Measured("8/s", met=True)}
    assert write("one", measured, ["6"], tmp_path) == []
    assert read_rows("one", tmp_path) == rows
    assert write("one", measured, ["5"], tmp_path) == ["quick"]
    first, *others = read_rows("one", tmp_path)
    assert others == rows[1:]
    assert (first.figure, first.outcome, first.peer, first.goal) == ("7/s", "met", "a peer", "old")
    assert re.fullmatch(r"[0-9a-f]{7}( with changes)? 20\d\d-\d\d-\d\d \d\d:\d\d", f"{first.commit} {first.date}")
    assert re.fullmatch(r".+, \d+ cores, [\d.]+ GiB load [\d.]+", f"{first.machine} {first.conditions}")
    write("one", {"quick": Measured("3/s", met=False, peer="another")}, ["50"], tmp_path)
    assert [(one.outcome, one.peer) for one in read_rows("one", tmp_path)] == [
        ("met", "a peer"),
        ("missed by 2", "a peer"),
        ("missed", "another"),
    ]


def test_a_row_with_an_unknown_field_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(msgspec.json.encode([msgspec.to_builtins(row("a", "bench.one")) | {"speed": 1}]))
    with pytest.raises(msgspec.ValidationError, match="speed"):
        read_rows("one", tmp_path)


def test_weights_that_change_nothing_are_one_line() -> None:
    page = watchdoc.page()
    assert page.count("| every other change of a weight |") == 1
    assert "threshold 0.9" in page


def test_a_table_of_the_watch_is_replaced_by_a_run_of_its_command_alone(tmp_path: Path) -> None:
    before = watchdoc.read_table("sizes")
    (tmp_path / "sizes.json").write_bytes(msgspec.json.encode(before))
    assert not watchdoc.keep("sizes", ["| x |"], ["2", "1"], tmp_path)
    assert watchdoc.read_table("sizes", tmp_path) == before
    assert watchdoc.keep("sizes", ["| x |"], before.command.split()[1:], tmp_path)
    after = watchdoc.read_table("sizes", tmp_path)
    assert (after.lines, after.title, after.head) == (("| x |",), before.title, before.head)
    assert after.date > before.date


def side(quiet: float, **more: object) -> dict[str, object]:
    """What `bench.duel` says of one side over the slow link."""
    alerts = {"share": 0.99, "backlog_slowed": 0.01, "published": 3, "heard": 3, "p50_s": 0.4, "p99_s": 0.9, "max_s": 0.9}
    blocks = {"resent_block_bytes": 0, "block_bytes": 5_000, "resent_share": 0.0, "first_block_came_after_upgrade_s": [0.5, 0.4]}
    phases = {"quiet": {"share": quiet}, "alerts": alerts, "cuts": {"share": 0.96}}
    return {"bytes_reading": 7.5, "lost": 0, "duplicated": 0, "changed": 0, **phases, **blocks, **more}


def test_the_duel_gives_its_rows_and_what_the_others_reached() -> None:
    link = {"landfall": side(0.94), "nats": side(0.5, bytes_reading=10.8), "kafka": side(0.6, ended_by="its death")}
    rows = goals({"link": link, "meeting": {"bytes_after_upgrade": 1_025, "round_trips_after_upgrade": 0.5}, "cycle": {"of_least": 1.008}})
    assert rows["bytes"] == Measured("7.5", met=True, peer="nats 10.8")
    assert rows["share"] == Measured("0.940; 0.990", met=False, peer="nats 0.500")
    assert rows["alert"] == Measured("3 alerts: p50 0.4 s, the longest 0.9 s", met=False, peer="nats 0.9 s")
    assert rows["first_block"].figure == "0.5, 0.4 s"
    assert rows["resent"] == Measured("0 of 5,000 bytes; 0, 0, 0", met=True)
    assert (rows["meeting"].met, rows["ring"].met) == (False, True)
    assert goals({"link": {"landfall": side(0.99, ended_by="time")}}) == {}
