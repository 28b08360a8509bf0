"""Goal: docs/guide/streams.md names every setting of a stream, and commands that exist."""

from __future__ import annotations

import re

from landfall.cli.main import line_for
from streams.config.stream_definitions import Definition
from tests.support.forked import ROOT

TEXT = (ROOT / "docs" / "guide" / "streams.md").read_text(encoding="utf-8")


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
