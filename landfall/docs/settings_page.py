"""`docs/reference/settings.md`: every setting of every process."""

from __future__ import annotations

import inspect

from pydantic.fields import FieldInfo

from landfall.docs.markdown_tables import GENERATED, table
from landfall.process_table import PROCESSES, found
from landfall.runtime.settings_types import in_words, models_in
from landfall.system.settings_table import SettingsTable

_HEAD = f"""# Settings

Each process reads one TOML file: `landfall PROCESS --config FILE`. The environment variables `LANDFALL_<KEY>` and `LANDFALL_<TABLE>__<KEY>`
override it. All problems of a configuration are reported together, each with its place and what to do. Unknown variables are problems too.
{GENERATED}
"""


def page() -> str:
    """Return the whole page in Markdown."""
    tables: dict[str, type[SettingsTable]] = {}
    parts = [_HEAD]
    for name, process in PROCESSES.items():
        kind: type[SettingsTable] = found(process.settings)
        parts.append(f"## `landfall {name}`\n\n{_docstring(kind)}\n\n{_table(kind, tables)}")
    parts.append("# Tables within\n")
    done: set[str] = set()
    while waiting := [kind for name, kind in sorted(tables.items()) if name not in done]:
        for kind in waiting:
            done.add(kind.__name__)
            parts.append(f"## {kind.__name__}\n\n{_docstring(kind)}\n\n{_table(kind, tables)}")
    return "\n".join(parts)


def _table(kind: type[SettingsTable], tables: dict[str, type[SettingsTable]]) -> str:
    for field in kind.model_fields.values():
        tables.update((inner.__name__, inner) for inner in models_in(field.annotation))
    rows = ((f"`{name}`", f"`{in_words(field.annotation)}`", _default(field)) for name, field in kind.model_fields.items())
    return table(("setting", "type", "default"), rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, SettingsTable):
        return f"see {type(default).__name__}"
    return f"`{default!r}`"


def _docstring(kind: type[SettingsTable]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")
