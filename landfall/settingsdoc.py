"""`docs/settings.md`, written from the settings' own types, so that it can not drift from them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from landfall.fields import in_words, models_in
from landfall.processes import PROCESSES, found
from streams.tables import SettingsTable

TARGET = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_HEAD = """# Settings

Each process reads one TOML file (`landfall <process> --config FILE`); `LANDFALL_<KEY>` and `LANDFALL_<TABLE>__<KEY>` override it. All
problems of a configuration are reported together, each with where it stands and what to do, a variable that no process knows among them.
This page is written by `python -m landfall.settingsdoc`; a test holds it to the code.
"""


def page() -> str:
    """The whole page, in Markdown."""
    tables: dict[str, type[SettingsTable]] = {}
    parts = [_HEAD]
    for name, process in PROCESSES.items():
        kind: type[SettingsTable] = found(process.settings)
        parts.append(f"## `landfall {name}`\n\n{_told(kind)}\n\n{_table(kind, tables)}\n")
    parts.append("# Tables within\n")
    done: set[str] = set()
    while waiting := [kind for name, kind in sorted(tables.items()) if name not in done]:
        for kind in waiting:
            done.add(kind.__name__)
            parts.append(f"## {kind.__name__}\n\n{_told(kind)}\n\n{_table(kind, tables)}\n")
    return "\n".join(parts)


def _table(kind: type[SettingsTable], tables: dict[str, type[SettingsTable]]) -> str:
    rows = ["| setting | type | default |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        for inner in models_in(field.annotation):
            tables[inner.__name__] = inner
        rows.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} |")
    return "\n".join(rows)


def _type(annotation: Any) -> str:
    return f"`{in_words(annotation)}`".replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, SettingsTable):
        return f"see {type(default).__name__}"
    return f"`{default!r}`".replace("|", "\\|")


def _told(kind: type[SettingsTable]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


if __name__ == "__main__":
    TARGET.write_text(page())
