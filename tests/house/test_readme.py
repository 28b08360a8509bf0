"""Goal: what README says proves the story is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")


def test_every_test_that_readme_names_is_there() -> None:
    """A folder, a file, or a test in a file."""
    named = NAMED.findall((ROOT / "README.md").read_text())
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]
    assert not missing
    assert len(named) > 10
