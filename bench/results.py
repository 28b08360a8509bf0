"""The goals and where they stand: rows in `bench/results/<bench>.json`, which `docs/performance.md` shows as one table.

A row is renewed by a run of exactly its command. A run in another size changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.machine import machine

FOLDER = Path(__file__).with_name("results")
OF_NO_RESULT = (":!bench/results", ":!docs/performance.md", ":!docs/reference/watch-validation.md")
"""What a full run itself changes, as git names it: this makes no working copy of another code."""


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One goal. `command` (after `python -m`) renews the row; `peer` is what is compared with it: another program, or a bound; `commit` is
    the code that was measured, `date` when that ended (UTC); `conditions` are the load and all that differed from a plain run."""

    name: str
    area: str
    measure: str
    goal: str
    figure: str
    outcome: str
    peer: str = ""
    command: str
    commit: str
    date: str
    machine: str
    conditions: str


class Measured(NamedTuple):
    """A figure as the page shows it, and whether it meets the goal. `peer` replaces the row's; without it the row's stays."""

    figure: str
    met: bool
    peer: str | None = None


def read_rows(bench: str, folder: Path = FOLDER) -> list[Row]:
    """Return the rows of one bench. Raises `msgspec.ValidationError` for a row that lacks a field or has an unknown one."""
    return msgspec.json.decode((folder / f"{bench}.json").read_bytes(), type=list[Row])


def command_of(bench: str, arguments: list[str]) -> str:
    """Return the command of a run as rows name it."""
    return " ".join([f"bench.{bench}", *arguments])


def write(bench: str, measured: Mapping[str, Measured], arguments: list[str] | None = None, folder: Path = FOLDER) -> list[str]:
    """Replace the figures of the rows whose command is this run's (`sys.argv` unless `arguments` says otherwise); return their names."""
    command = command_of(bench, sys.argv[1:] if arguments is None else arguments)
    rows = read_rows(bench, folder)
    renewed = [row.name for row in rows if row.command == command and row.name in measured]
    if renewed:
        now = stamp()
        rows = [_renewed(row, measured[row.name], now) if row.command == command and row.name in measured else row for row in rows]
        (folder / f"{bench}.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    return renewed


def _renewed(row: Row, one: Measured, now: dict[str, str]) -> Row:
    peer = row.peer if one.peer is None else one.peer
    return msgspec.structs.replace(row, figure=one.figure, outcome="met" if one.met else "missed", peer=peer, **now)


def stamp() -> dict[str, str]:
    """Return the fields that say which code was measured, when, and where."""
    here = machine()
    dirty = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *OF_NO_RESULT)
    return {
        "commit": _git("rev-parse", "--short=7", "HEAD") + (" with changes" if dirty else ""),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "machine": f"{here['processor']}, {here['cores']} cores, {here['memory_gib']} GiB",
        "conditions": f"load {here['load_1_min']}",
    }


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=FOLDER.parents[1], check=True, capture_output=True, text=True).stdout.strip()
