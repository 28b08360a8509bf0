"""Goal: every test and file of tests that docs/torture.md names exists, and the page is short."""

from __future__ import annotations

import re

from tests.support.forked import ROOT

PAGE = (ROOT / "docs" / "torture.md").read_text()
BYTES_MAX = 8_000


def test_every_test_it_names_is_there() -> None:
    files = re.findall(r"`(\w+/test_\w+\.py)`", PAGE)
    assert len(files) > 20
    assert [file for file in files if not (ROOT / "tests" / file).is_file()] == []
    named = set(re.findall(r"`(test_\w+)(?:\.py)?`", PAGE))
    paths = list((ROOT / "tests").rglob("test_*.py"))
    there = {path.stem for path in paths} | {name for path in paths for name in re.findall(r"def (test_\w+)\(", path.read_text())}
    assert named
    assert not named - there


def test_it_is_short() -> None:
    assert len(PAGE.encode()) <= BYTES_MAX
