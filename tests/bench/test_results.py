"""Goal: docs/performance.md and the watch's validation show what the benches wrote; a bench renews only the rows of its own command."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from bench import performancedoc, watchdoc
from bench.__main__ import SHORT
from bench.results import FOLDER, Measured, Row, command_of, read_rows, write
from tests.bench.test_tiny import TINY

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
    assert commands & {command_of(bench, list(size)) for bench, (size, _) in TINY.items()} == set()
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
