"""Goal: each row of the acceptance table has a screen or says there is none, and names tests and benches that exist. README leads to every
page of `docs/`.

No test can check that those tests prove what their row says: that is for the reader of both.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
ACCEPTANCE = (ROOT / "docs" / "acceptance.md").read_text()
NAMING = README.read_text() + ACCEPTANCE
TEST = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")
BENCH = re.compile(r"python -m (bench\.\w+)")
LINK = re.compile(r"\]\(([\w./-]+\.md)[#)]")
ANCHOR = re.compile(r"\]\(((?:[\w./-]+\.md)?)#([\w-]+)\)")
HEAD = "| statement | where to see it | test that fails without it |\n|---|---|---|\n"


def rows() -> list[list[str]]:
    """Return the cells of each row of the acceptance table."""
    table = ACCEPTANCE.partition(HEAD)[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def has(file: str, name: str) -> bool:
    """Return whether `file` is a folder with tests, a file with tests, or a file with the test `name`."""
    path, test = ROOT / file, re.compile(rf"^(async )?def {name or 'test_'}{r'[(]' if name else ''}", re.MULTILINE)
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
    return any(test.search(source.read_text()) for source in files)


def linked(page: Path) -> set[Path]:
    """Return the documents that `page` links to."""
    return {(page.parent / link).resolve() for link in LINK.findall(page.read_text())}


def test_every_row_names_a_test_that_exists() -> None:
    assert len(rows()) > 25
    assert all(len(row) == 3 and all(row) for row in rows()), "a cell is empty, or the table is broken"
    unproven = [statement for statement, _, proof in rows() if not any(has(*named) for named in TEST.findall(proof))]
    assert not unproven


def test_every_named_test_and_bench_exists() -> None:
    assert not [f"{file}::{name}" for file, name in TEST.findall(NAMING) if not has(file, name)]
    assert not [bench for bench in BENCH.findall(NAMING) if not (ROOT / bench.replace(".", "/")).with_suffix(".py").is_file()]


def test_readme_leads_to_every_page() -> None:
    """README links to each page, or to the `README.md` of the folder of `docs/` that does."""
    found = linked(README)
    for index in sorted(found):
        if index.name == "README.md":
            found |= linked(index)
    assert sorted(str(page) for page in set((ROOT / "docs").rglob("*.md")) - found) == []


def test_no_link_between_documents_is_broken() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert not [f"{page.name}: {link.name}" for page in pages for link in sorted(linked(page)) if not link.is_file()]
    assert not [
        f"{page.name}: {link}#{name}" for page in pages for link, name in ANCHOR.findall(page.read_text()) if name not in heads(page, link)
    ]


def heads(page: Path, link: str) -> set[str]:
    """Return the anchors of the headings of the document that `page` links to; of `page` itself when `link` is empty."""
    text = ((page.parent / link) if link else page).read_text()
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
