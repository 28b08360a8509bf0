"""`docs/reference/records.md`: the fields of every record body that the code has a type for, and the default settings of streams."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgspec
from msgspec import inspect as types

from cargo.alerts.alert_body import AlertBody
from cargo.alerts.crew_decisions import CrewDecision
from cargo.report.loss_report import Content, Head, Receipt, Sending
from cargo.report.owner_notice import Notice
from cargo.shore_rules.ship_queries import Answer, Ask
from cargo.vocabulary.registry_entries import ENTRY_TYPES, Entry
from landfall.docs.markdown_tables import GENERATED, table
from streams.config.roles import Lane
from streams.config.stream_definitions import DEFAULTS

Struct = type[msgspec.Struct]
RECORDS: Mapping[str, tuple[Struct, ...]] = {
    "alerts": (AlertBody,),
    "reports": (Head, Content, Sending, Receipt),
    "decisions": (CrewDecision,),
    "registry": tuple(ENTRY_TYPES.values()),
    "aboard/\\<imo\\>": (Ask,),
    "answers": (Answer,),
    "Notices of the API": (Notice,),
}
"""Streams, and the types of their bodies. Types that these contain follow them."""
_PLAIN: dict[type[Any], str] = {
    types.StrType: "text",
    types.IntType: "whole number",
    types.FloatType: "number",
    types.BoolType: "true or false",
    types.NoneType: "null",
    types.AnyType: "any",
}
_HEAD = f"""# Fields of records

[Streams and their records](streams-table.md) describes each stream. A field with `?` may be absent; times `*_at_ms` are UTC milliseconds.
{GENERATED}
"""


def page() -> str:
    """Return the whole page in Markdown."""
    done: set[Struct] = set()
    parts = [_HEAD, _defaults()]
    for stream, kinds in RECORDS.items():
        parts.append(f"## {stream}\n\n{_entry()}" if stream == "registry" else f"## {stream}\n")
        parts += [_section(kind) for kind in kinds for kind in _with_parts(kind, done)]
    return "\n".join(parts)


def _setting(name: str, value: Any) -> str:
    if name == "retention":
        return f"kept {value['age_days']:g} days" if value["age_days"] else "kept for ever"
    if isinstance(value, Lane):
        return f"lane {value.name.lower()}"
    return f"{name} {' '.join(value) if isinstance(value, tuple) else f'{value:g}'}"


def _defaults() -> str:
    head = "## Default settings of streams\n\nWhat differs from the defaults of [streams](../guide/streams.md#manage-a-stream):\n\n"
    return head + table(
        ("stream", "settings"),
        ((f"`{name}`", ", ".join(_setting(*field) for field in stream.items())) for name, stream in DEFAULTS.items()),
    )


def _entry() -> str:
    names = ", ".join(f"`{field.name}`" for field in fields(Entry))
    links = ((f"`{name}`", _link(kind)) for name, kind in ENTRY_TYPES.items())
    return f"{inspect.cleandoc(Entry.__doc__ or '')} Fields: {names}.\n\n{table(('type', 'value'), links)}"


def _with_parts(kind: Struct, done: set[Struct]) -> Iterator[Struct]:
    """`kind`, then each type that it contains, each type of a page once."""
    if kind not in done:
        done.add(kind)
        yield kind
        for field in _fields(kind):
            for inner in _structs_in(field.type):
                yield from _with_parts(inner, done)


def _section(kind: Struct) -> str:
    rows = ((f"`{field.encode_name}`{'' if field.required else '?'}", _in_words(field.type)) for field in _fields(kind))
    return f"### {kind.__name__}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n{table(('field', 'value'), rows)}"


def _fields(kind: Struct) -> tuple[types.Field, ...]:
    described = types.type_info(kind)
    assert isinstance(described, types.StructType)
    return described.fields


def _structs_in(kind: Any) -> Iterator[Struct]:
    if isinstance(kind, types.StructType):
        yield kind.cls
    for inner in _inner(kind):
        yield from _structs_in(inner)


def _inner(kind: Any) -> tuple[Any, ...]:
    match kind:
        case types.UnionType():
            return kind.types
        case types.TupleType():
            return kind.item_types
        case types.VarTupleType() | types.ListType():
            return (kind.item_type,)
        case types.DictType():
            return (kind.value_type,)
    return ()


def _in_words(kind: Any) -> str:
    inner = [_in_words(one) for one in _inner(kind)]
    match kind:
        case types.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case types.StructType():
            return _link(kind.cls)
        case types.UnionType():
            return " or ".join(inner)
        case types.TupleType():
            return f"[{', '.join(inner)}]"
        case types.VarTupleType() | types.ListType():
            return f"list of {inner[0]}"
        case types.DictType():
            return f"object of {inner[0]}"
    return _PLAIN[type(kind)]


def _link(kind: Struct) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"
