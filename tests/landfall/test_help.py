"""Goal: a person who asks a command for help gets it, whole, whichever command it is; a slip of the finger gets a suggestion."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from landfall.cli.main import GROUPS, line_for, main


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of commands, with the words that lead to it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(line_for())))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), re.sub(r"[│╭╮╰╯─\s]+", " ", printed.out + printed.err)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_says_what_it_does_and_what_each_word_means(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, told = run(capsys, *words, "--help")
    assert code == 0
    assert f"Usage: {' '.join(('landfall', *words))}" in told
    command = COMMANDS[words]
    assert re.search(r"\w\w+ \w", command.help or ""), "no sentence on what it does"
    dumb = [one.name for one in command.params if not getattr(one, "help", None)]
    assert not dumb, "words without a meaning"
    for inner in getattr(command, "commands", {}):
        assert f" {inner} " in told


def test_the_first_screen_leads_to_the_demo_and_names_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    """Also when nothing at all is said."""
    for words in ((), ("--help",)):
        _, told = run(capsys, *words)
        assert (
            told.index("landfall demo")
            < told.index("Nodes, at sea and ashore")
            < told.index("Headquarters")
            < told.index("Look and manage")
        )
        assert "docs/reference/settings.md" in told


@pytest.mark.parametrize("first", [words[0] for words in COMMANDS if len(words) == 1])
def test_a_first_word_that_is_known_loads_no_other_groups(first: str) -> None:
    """And of its own all: a process starts the sooner."""
    line, whole = line_for((first, "--help")), line_for()
    groups = {group.name: group.typer_instance for group in whole.registered_groups}
    assert {group.name: group.typer_instance for group in line.registered_groups} == {
        name: groups[name] for name in GROUPS if name == first
    }
    assert first in typer.main.get_command(line).commands  # type: ignore[attr-defined]


EACH_ALONE = """
import os
import typer.main
from landfall.cli.main import GROUPS, line_for

for group in GROUPS:
    if (child := os.fork()) == 0:
        print(group, *typer.main.get_command(line_for([group])).commands[group].commands, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_group_that_is_loaded_alone_has_all_its_commands() -> None:
    """Each in a process that has loaded nothing else."""
    told = subprocess.run([sys.executable, "-c", EACH_ALONE], capture_output=True, text=True, check=True).stdout
    found = {group: set(names) for group, *names in map(str.split, told.splitlines())}
    assert found == {group: {words[1] for words in COMMANDS if len(words) == 2 and words[0] == group} for group in GROUPS}


def test_a_slip_of_the_finger_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = run(capsys, "shp")
    assert code == 2
    assert "Did you mean 'ship'?" in told


@pytest.fixture
def _process_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a ship's process sets for the rest of its life: this one goes on with other tests, to which its memory is not to be spared."""
    monkeypatch.setattr("streams.memory_release.spare_memory", lambda: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_process_stays_as_it_was")
def test_a_process_without_settings_says_what_it_misses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback, and the way to the list of settings."""
    monkeypatch.setenv("LANDFALL_NODE__PROT", "1")
    code, told = run(capsys, "ship")
    assert code == 2
    for part in (
        "LANDFALL_NODE__PROT: there is no such setting; did you mean LANDFALL_NODE__PORT?",
        "node.folder is missing",
        "→ docs/reference/settings.md",
    ):
        assert part in told
    assert "Traceback" not in told
