"""Goal: the documents are in plain English: none of the project's old private words, no sentence that a reader must read twice."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [Path(name) for name in subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).splitlines()]
WORDS = (
    "told|tells?|heard of|dear|beside|let go|goes by|go by|held against|purse|hearsay|mend|mended|mends|anew|a while ago|whoever"
    "|she|her|hers"
)
"""STYLE: each has a standard term (report, received, metered, next to, disconnect, uses, checked against, budget, fix, again, the ship)."""
BANNED = re.compile(rf"\b(?:{WORDS})\b", re.IGNORECASE)
SENTENCE_WORDS_MAX = 35


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_is_in_plain_words(page: Path) -> None:
    text = prose_of((ROOT / page).read_text(encoding="utf-8"))
    assert BANNED.findall(text) == []
    assert [sentence for sentence in sentences_of(text) if len(re.findall(r"\w+", sentence)) > SENTENCE_WORDS_MAX] == []


def prose_of(text: str) -> str:
    """The text without code and without the targets of links."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "X", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of paragraphs and lists; tables and headings have none."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith(("|", "#"))]
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(lines)):
        yield from re.split(r"(?<=[.!?:;])\s+", paragraph.replace("\n", " "))
