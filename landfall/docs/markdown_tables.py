"""Markdown for generated reference pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "This page is generated from the code by `python -m landfall.docs.pages`; a test compares them."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table that ends with a line break. A `|` in a cell is escaped, a line break becomes a blank."""
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
