"""Goal: README's table of the story is whole: each row has a screen or says there is none, and names tests and benches that are there. And
from README each page of `docs/` is found.

That those tests prove what their row says, no test can tell: that is for the reader of both.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TEST = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")
BENCH = re.compile(r"python -m (bench\.\w+)")
HEAD = "| the story says | see it | test that fails without it |\n|---|---|---|\n"


def rows() -> list[list[str]]:
    """The cells of each row of the story's table."""
    table = README.partition(HEAD)[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def has(file: str, name: str) -> bool:
    """A folder with tests, a file with tests, or this test in a file."""
    path, test = ROOT / file, re.compile(rf"^(async )?def {name or 'test_'}{r'[(]' if name else ''}", re.MULTILINE)
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
    return any(test.search(one.read_text()) for one in files)


def test_every_row_of_the_story_names_a_test_that_is_there() -> None:
    assert len(rows()) > 25
    assert all(len(row) == 3 and all(row) for row in rows()), "a cell is empty, or the table is broken"
    bare = [says for says, _, proof in rows() if not any(has(*named) for named in TEST.findall(proof))]
    assert not bare


def test_every_test_and_bench_that_readme_names_is_there() -> None:
    assert not [f"{file}::{name}" for file, name in TEST.findall(README) if not has(file, name)]
    assert not [bench for bench in BENCH.findall(README) if not (ROOT / bench.replace(".", "/")).with_suffix(".py").is_file()]


def test_readme_leads_to_every_page() -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert sorted(pages - set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README))) == []
