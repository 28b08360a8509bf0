"""Goal: docs/guide/streams.md says what the defaults are, which settings there are, and which commands."""

from __future__ import annotations

import re
from typing import Any

from landfall.cli.main import line_for
from streams.config.roles import Lane
from streams.config.stream_definitions import DEFAULTS, Definition
from tests.node.forked import ROOT

TEXT = (ROOT / "docs" / "guide" / "streams.md").read_text(encoding="utf-8")


def words(fields: dict[str, Any]) -> set[str]:
    told = set()
    for name, value in fields.items():
        if name == "retention":
            told.add(f"kept {value['age_days']:g} days" if value["age_days"] else "kept for ever")
        elif isinstance(value, Lane):
            told.add(f"lane {value.name.lower()}")
        else:
            told.add(f"{name} {' '.join(value) if isinstance(value, tuple) else f'{value:g}'}")
    return told


def test_the_defaults_are_those_of_the_code() -> None:
    table = TEXT[TEXT.index("What differs by default") : TEXT.index("`<stream>.kept`, ")]
    told = {name: set(settings.split(", ")) for name, settings in re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)}
    assert told == {name: words(dict(fields)) for name, fields in DEFAULTS.items()}


def test_every_setting_is_told() -> None:
    named = {name.partition(".")[0] for name in re.findall(r"^\| `([a-z_.]+)` \| .+ \| .+ \|$", TEXT, re.MULTILINE)}
    assert named >= set(Definition().to_json())


def test_every_command_named_exists() -> None:
    groups = {group.name: group.typer_instance for group in line_for().registered_groups}
    for group in ("log", "stream"):
        instance = groups[group]
        assert instance is not None
        there = {command.name for command in instance.registered_commands}
        assert set(re.findall(rf"landfall {group} +([a-z]+)", TEXT)) <= there
