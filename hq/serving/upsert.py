"""Writing many rows at once, in the dialect of SQLite or PostgreSQL: add what is new, keep the first, or keep the latest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, bindparam, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from hq.serving.columns import Base

Row = Mapping[str, Any]
LATER = ("generation", "offset")
"""Columns that decide which of two records of one node is the later."""


def table_of(model: type[Base]) -> Table:
    """Return the table of a model."""
    table = model.__table__
    if not isinstance(table, Table):
        raise TypeError(f"{model.__name__} is no table")
    return table


def add(connection: Connection, model: type[Base], rows: Sequence[Row]) -> int:
    """Insert `rows` (equal keys in all); a row whose key, or what else is unique, is there already changes nothing. Returns how many were
    new."""
    if not rows:
        return 0
    insert = _insert(connection, model).on_conflict_do_nothing()
    return connection.execute(insert, rows, execution_options={"preserve_rowcount": True}).rowcount


def add_first(connection: Connection, model: type[Base], rows: Sequence[Row], unique: Sequence[str], order: Sequence[str]) -> int:
    """Add rows as `add`, but of the rows with equal columns `unique`, now or before, keep the least by the columns `order`.

    The order in which rows come does not matter. `model` has a unique index over `unique`; a row with a null there equals no other."""
    new = add(connection, model, rows)
    rivals = [row for row in rows if None not in (row[name] for name in unique)] if new < len(rows) else []
    if rivals:
        table = table_of(model)
        given = {column.name: bindparam(f"given_{column.name}", type_=column.type) for column in table.columns}
        ordered = [[one[name] for name in order] for one in (given, table.c)]
        same = [table.c[name] == given[name] for name in unique]
        replace = update(table).where(*same, tuple_(*ordered[0]) < tuple_(*ordered[1])).values(given)
        connection.execute(replace, [{f"given_{name}": value for name, value in row.items()} for row in rivals])
    return new


def put(connection: Connection, model: type[Base], rows: Sequence[Row]) -> None:
    """Insert `rows`, or replace the rows of the same keys. No two of `rows` may have one key on PostgreSQL."""
    if rows:
        insert = _insert(connection, model)
        connection.execute(insert.on_conflict_do_update(index_elements=_key(model), set_=_others(insert, model)), rows)


def put_latest(connection: Connection, model: type[Base], rows: Iterable[Row], order: Sequence[str] = LATER) -> list[Row]:
    """Write rows as `put`, but a row made from an earlier record, by the columns `order`, never replaces one made from a later.

    Returns the rows that were the latest of their key among `rows`, whether the table took them or not."""
    latest = newest(rows, _key(model), order)
    if latest:
        insert = _insert(connection, model)
        table = table_of(model)
        later = tuple_(*(insert.excluded[name] for name in order)) > tuple_(*(table.c[name] for name in order))
        connection.execute(insert.on_conflict_do_update(index_elements=_key(model), set_=_others(insert, model), where=later), latest)
    return latest


def newest(rows: Iterable[Row], key: Sequence[str], order: Sequence[str] = LATER) -> list[Row]:
    """Return the row with the largest columns `order` of every key."""
    kept: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        of = tuple(row[name] for name in key)
        known = kept.get(of)
        if known is None or tuple(row[name] for name in order) > tuple(known[name] for name in order):
            kept[of] = row
    return list(kept.values())


def _key(model: type[Base]) -> list[str]:
    return [column.name for column in table_of(model).primary_key]


def _others(insert: sqlite.Insert | postgresql.Insert, model: type[Base]) -> dict[str, Any]:
    key = set(_key(model))
    return {column.name: insert.excluded[column.name] for column in table_of(model).columns if column.name not in key}


def _insert(connection: Connection, model: type[Base]) -> sqlite.Insert | postgresql.Insert:
    table = table_of(model)
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
