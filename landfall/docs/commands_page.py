"""`docs/reference/commands.md`: every command of `landfall`, with its arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from landfall.cli.main import line_for
from landfall.docs.markdown_tables import GENERATED, table

_HEAD = f"""# Commands

`landfall COMMAND --help` prints the same. A command that fails prints what to do and exits with code 2.
{GENERATED}
"""


def page() -> str:
    """Return the whole page in Markdown."""
    commands = _commands(typer.main.get_command(line_for()), "landfall")
    return "\n".join([_HEAD, *(_section(name, command) for name, command in commands)])


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by name; groups that only hold commands are left out."""
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield name, command
    for word in sorted(inner):
        yield from _commands(inner[word], f"{name} {word}")


def _section(name: str, command: Any) -> str:
    parts = [f"## {name}\n\n{_plain(command.help)}\n"]
    if command.params:
        parts.append(table(("argument or option", "default", "meaning"), map(_row, command.params)))
    return "\n".join(parts)


def _row(parameter: Any) -> tuple[str, str, str]:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name.upper()] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}`" for name in names), _default(parameter), _plain(parameter.help)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    if shown is None or shown in ("", (), []) or shown is False:
        return ""
    return f"`{getattr(shown, 'value', shown)}`"


def _plain(text: str | None) -> str:
    """Return help text without the markup of the terminal."""
    return re.sub(r"\[/?(?:bold|cyan|dim|green|red|yellow)\]", "", text or "")
