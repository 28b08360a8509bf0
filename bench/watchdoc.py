"""`docs/reference/watch-validation.md`, written from the tables that `bench.watchtable` keeps: `python -m bench.watchdoc`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.results import FOLDER, command_of, stamp

TARGET = FOLDER.parents[1] / "docs" / "reference" / "watch-validation.md"
TABLES = FOLDER / "watch"
NAMES = ("causes", "deaf", "sizes", "quiet", "weights", "calibration", "real")
"""The order of the page."""
_HEAD = """# Validation of the watch

How many losses the watch detects, how soon, and how often it reports a loss that is none. [The watch](../watch.md) describes how it
decides. This page is written by `python -m bench.watchdoc` from the tables that `python -m bench.watchtable` keeps; a test checks it.

## Method
* The voyages are simulated and seeded (`sim/trial.py`, `sim/mishaps.py`). They have 140 to 2,000 containers, two berths, weather, repeats,
  radio losses, wrong clocks, late batches, outages and dead devices. Voyages with a loss last 74 h.
* Assumptions about trackers: a tenth of the containers have none. One tracker in twelve knows no storm mode and sends no reports after a
  shock. A fifth of the dry containers on deck report daily.
* Assumptions about positions: a dry container on deck sends its position every six hours. One in twenty is missing, and one in a hundred is
  up to 20 nm off. One receiver in a hundred still reports the berth.
* Seeds from 20,000,000 judge: nobody had looked at these voyages before. All lower seeds calibrate: the weights and the corrections come
  from them.
* *Detected* is the share of lost containers with a tracker that became `PROBABLE_OVERBOARD` within the voyage. The interval (Wilson, 95 %)
  takes each voyage as one observation.
* The delay is from the loss until the reading that decided.

Required: 95 % detected in heavy weather; within 60 s where a shock or a fall was felt, otherwise within three expected intervals; no false
alarm in 1,000 voyages without a loss. Calm and rough water have no requirement.
"""
_AFTER_QUIET = """
The last two rows look like a loss to every sensor on board until the containers report again.
"""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the page: the cells of its head, its lines in Markdown, and which run gave them, as `bench.results.Row` has it."""

    title: str
    head: str
    lines: tuple[str, ...]
    command: str
    commit: str
    date: str
    machine: str
    conditions: str


def read_table(name: str, folder: Path = TABLES) -> Table:
    """Return the table `name` of NAMES."""
    return msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Table)


def keep(name: str, lines: Sequence[str], arguments: list[str], folder: Path = TABLES) -> bool:
    """Replace the lines of a table by those of this run if the table names its command; return whether it does."""
    table = read_table(name, folder)
    if table.command != command_of("watchtable", arguments):
        return False
    renewed = msgspec.structs.replace(table, lines=tuple(lines), **stamp())
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(renewed), indent=2) + b"\n")
    return True


def page() -> str:
    """Return the whole page, in Markdown."""
    return _HEAD + "".join(_section(name) for name in NAMES)


def _section(name: str) -> str:
    table = read_table(name)
    lines = list(_joined(table.lines) if name == "weights" else table.lines)
    columns = table.head.count("|") - 1
    where = ", ".join(filter(None, (f"`python -m {table.command}`", table.commit, f"{table.date} UTC", table.conditions)))
    after = _AFTER_QUIET if name == "quiet" else ""
    return f"\n## {table.title}\nBy {where}.\n\n{table.head}\n|{'---|' * columns}\n" + "\n".join(lines) + f"\n{after}"


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; all weights whose change changes no figure are one line."""
    lines = list(lines)
    in_use = next(_figures(line) for line in lines if line.startswith("| **"))
    for line in lines:
        if line.startswith(("| threshold", "| **")) or _figures(line) != in_use:
            yield line
    yield f"| every other change of a weight | {in_use}"


def _figures(line: str) -> str:
    """Return a line without its first cell."""
    return line.removeprefix("| ").partition(" | ")[2]


if __name__ == "__main__":
    TARGET.write_text(page())
