"""`docs/settings.md`, written from the settings' own types, so that it can not drift from them."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from landfall.cli import PROCESSES, found

TARGET = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_HEAD = """# Settings

Each process reads one TOML file (`landfall <process> --config FILE`); `LANDFALL_<KEY>` and `LANDFALL_<TABLE>__<KEY>` override it. All
problems of a configuration are reported together. This page is written by `python -m landfall.settingsdoc`; a test holds it to the code.
"""


def page() -> str:
    """The whole page, in Markdown."""
    processes = {**{name: process.settings for name, process in PROCESSES.items()}, "sim run": "sim.settings:SimSettings"}
    tables: dict[str, type[BaseModel]] = {}
    parts = [_HEAD]
    for name, where in processes.items():
        kind: type[BaseModel] = found(where)
        parts.append(f"## `landfall {name}`\n\n{_told(kind)}\n\n{_table(kind, tables)}\n")
    parts.append("# Tables within\n")
    done: set[str] = set()
    while waiting := [kind for name, kind in sorted(tables.items()) if name not in done]:
        for kind in waiting:
            done.add(kind.__name__)
            parts.append(f"## {kind.__name__}\n\n{_told(kind)}\n\n{_table(kind, tables)}\n")
    return "\n".join(parts)


def _table(kind: type[BaseModel], tables: dict[str, type[BaseModel]]) -> str:
    rows = ["| setting | type | default |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        for inner in _models(field.annotation):
            tables[inner.__name__] = inner
        rows.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} |")
    return "\n".join(rows)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in getattr(annotation, "__args__", ()) for inner in _models(part)]


def _type(annotation: Any) -> str:
    return f"`{_words(annotation)}`".replace("|", "\\|")


def _words(annotation: Any) -> str:
    """A type as people write it: `tuple[KnownPeer, ...]`, without modules and without constraints."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(_words(one) for one in inner)
    if origin is Literal:
        return " | ".join(repr(one) for one in inner)
    if inner:
        return f"{origin.__name__}[{', '.join(_words(one) for one in inner)}]"
    return {type(None): "None", Ellipsis: "..."}.get(annotation) or str(annotation.__name__)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return f"see {type(default).__name__}"
    return f"`{default!r}`".replace("|", "\\|")


def _told(kind: type[BaseModel]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


if __name__ == "__main__":
    TARGET.write_text(page())
