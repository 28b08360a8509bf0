"""Goal: each bug that `python -m tests.support.bugs` puts in still fits the code, and names tests that are there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.bugs import ROOT, Bug, Edit, read_bugs

BUGS, RETIRED = read_bugs()


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    names = Counter([bug.name for bug in BUGS] + [bug.name for bug in RETIRED])
    assert len(BUGS) >= 100
    assert max(names.values()) == 1, names.most_common(3)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_its_text_occurs_once_and_what_replaces_it_is_python(bug: Bug) -> None:
    for file, source in bug.put_into(ROOT).items():
        ast.parse(source)
        assert source != (ROOT / file).read_text()


def test_the_tests_that_are_to_fail_are_there() -> None:
    for bug in BUGS:
        for test in bug.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).exists(), bug.name
            function = re.sub(r"\[.*", "", name).rpartition("::")[2]
            assert not function or re.search(rf"\b{function}\b", (ROOT / file).read_text()), f"{bug.name}: there is no {test}"


def test_a_bug_whose_text_has_moved_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a = 1\nb = 2\nb = 2\n")
    fits = Bug("fits", "some", (Edit("one.py", "a = 1", "a = 0"), Edit("one.py", "a = 0\n", "")), ())
    assert fits.put_into(tmp_path) == {"one.py": "b = 2\nb = 2\n"}
    for text, count in (("c = 3", 0), ("b = 2", 2)):
        with pytest.raises(LookupError, match=rf"'moved': its text occurs {count} times in one\.py, not once\. Update some\.toml"):
            Bug("moved", "some", (Edit("one.py", text, ""),), ()).put_into(tmp_path)
