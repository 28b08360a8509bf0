"""The bugs of docs/torture.md as data: what is changed in which file, and the tests that must fail then."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Edit:
    """In `file`, `text`, which occurs there exactly once, is replaced by `becomes`."""

    file: str
    text: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Bug:
    """What breaks the product, in one file or in several. `tests`: what to give pytest; `long`: the tests are run by `make long`."""

    name: str
    group: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    long: bool = False

    def put_into(self, root: Path) -> dict[str, str]:
        """Return the files of the tree `root` that the bug changes, as it makes them.

        Raises LookupError when a text does not occur exactly once: the code has moved.
        """
        sources: dict[str, str] = {}
        for edit in self.edits:
            source = sources.get(edit.file) or (root / edit.file).read_text()
            if (count := source.count(edit.text)) != 1:
                raise LookupError(f"bug '{self.name}': its text occurs {count} times in {edit.file}, not once. Update {self.group}.toml.")
            sources[edit.file] = source.replace(edit.text, edit.becomes)
        return sources


@dataclass(frozen=True, slots=True)
class Retired:
    """A bug that today's code has no place for, or that changes nothing that anybody sees, and why."""

    name: str
    group: str
    why: str


def read_bugs(folder: Path = FOLDER) -> tuple[list[Bug], list[Retired]]:
    """Return all bugs and all retired ones of the `.toml` files in `folder`. Raises TypeError for a field too many, or too few."""
    bugs: list[Bug] = []
    retired: list[Retired] = []
    for path in sorted(folder.glob("*.toml")):
        read: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text())
        bugs += [_bug(path.stem, **fields) for fields in read.get("bug", [])]
        retired += [Retired(group=path.stem, **fields) for fields in read.get("retired", [])]
    return bugs, retired


def _bug(group: str, *, name: str, tests: list[str], also: list[dict[str, str]] | None = None, long: bool = False, **edit: str) -> Bug:
    return Bug(name, group, tuple(Edit(**one) for one in (edit, *(also or []))), tuple(tests), long)
