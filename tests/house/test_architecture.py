"""Goal: ARCHITECTURE.md stays short, and the pages of the design name only files and functions that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OVERVIEW = ROOT / "ARCHITECTURE.md"
INDEX = ROOT / "docs" / "decisions" / "README.md"
DECISIONS = sorted(INDEX.parent.glob("[0-9]*.md"))
DOCS = ROOT / "docs"
SORTED = [page for part in ("guide", "internals", "reference") for page in sorted((DOCS / part).glob("*.md"))]
PAGES = [OVERVIEW, INDEX, *DECISIONS, *SORTED]
BYTES_MAX = 12_000
FOLDERS = "bench|cargo|dashboards|deploy|docs|edge|hq|intake|shore|sim|streams|tests"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w/]+(?:\.\w+)?|landfall/[\w/]+\.py)`")
NAMED = re.compile(r"`([\w/]+\.py)` \((`[\w.]+`(?:, `[\w.]+`)*)\)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")


def test_the_overview_is_short() -> None:
    assert len(OVERVIEW.read_bytes()) <= BYTES_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    assert [path for path in PATH.findall(text) if not (ROOT / path).exists()] == []
    assert [path for path in LINK.findall(text) if not (page.parent / path).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_sections_that_a_page_links_to_exist(page: Path) -> None:
    assert [link for link in ANCHOR.findall(page.read_text()) if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_functions_that_a_page_names_are_in_their_files(page: Path) -> None:
    named = [(file, name.strip("`")) for file, names in NAMED.findall(page.read_text()) for name in names.split(", ")]
    assert [(file, name) for file, name in named if not defines((ROOT / file).read_text(), name)] == []


def defines(source: str, name: str) -> bool:
    """Whether `source` defines each part of `name`: a class, a function, a method or a constant."""
    return all(re.search(rf"^\s*((async )?def|class) {part}\b|^{part}\b.* = ", source, re.MULTILINE) for part in name.split("."))


def test_the_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rows = re.findall(r"^\| \d+ \| (.+) \|$", OVERVIEW.read_text(), re.MULTILINE)
    shown = [set(re.findall(r"`([\w.]+)`", row)) for row in rows]
    assert shown == [set(layer.split(" | ")) for layer in layers]


def test_the_index_lists_each_decision_once() -> None:
    assert sorted(LINK.findall(INDEX.read_text())) == [page.name for page in DECISIONS]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_has_its_three_parts(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == ["Context", "Decision", "Consequences"]
