"""Goal: what docs/torture.md says is tested, is: every test and file of tests that it names is there."""

from __future__ import annotations

import re

from tests.node.forked import ROOT


def test_every_test_it_names_is_there() -> None:
    named = set(re.findall(r"`(?:[\w.]+::)?(test_\w+)(?:\.py)?`", (ROOT / "docs" / "torture.md").read_text()))
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {path.stem for path in files} | {name for path in files for name in re.findall(r"def (test_\w+)\(", path.read_text())}
    assert len(named) > 25
    assert not named - there
