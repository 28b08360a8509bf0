"""Writing many rows at once, in the dialect of SQLite or PostgreSQL: add what is new, or keep the latest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from hq.serving.models import Base

Row = Mapping[str, Any]


def table_of(model: type[Base]) -> Table:
    """The table of a model."""
    table = model.__table__
    if not isinstance(table, Table):
        raise TypeError(f"{model.__name__} is no table")
    return table


def add(connection: Connection, model: type[Base], rows: Sequence[Row]) -> None:
    """Insert `rows` (equal keys in all); a row whose key is there already changes nothing."""
    if rows:
        connection.execute(_insert(connection, model).on_conflict_do_nothing(), rows)


def put(connection: Connection, model: type[Base], rows: Sequence[Row]) -> None:
    """Insert `rows`, or replace the rows of the same keys. No two of `rows` may have one key on PostgreSQL."""
    if rows:
        insert = _insert(connection, model)
        connection.execute(insert.on_conflict_do_update(index_elements=_key(model), set_=_others(insert, model)), rows)


def put_latest(connection: Connection, model: type[Base], rows: Iterable[Row]) -> list[Row]:
    """As `put`, but a row made from an earlier record, by (generation, offset), never replaces one made from a later.

    Returns the rows that were the latest of their key among `rows`; which of them the table took is not told.
    """
    latest = newest(rows, _key(model))
    if latest:
        insert = _insert(connection, model)
        table = table_of(model)
        new = tuple_(insert.excluded.generation, insert.excluded.offset)
        later = new > tuple_(table.c.generation, table.c.offset)
        connection.execute(insert.on_conflict_do_update(index_elements=_key(model), set_=_others(insert, model), where=later), latest)
    return latest


def newest(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """The row with the largest (generation, offset) of every key."""
    kept: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        of = tuple(row[name] for name in key)
        known = kept.get(of)
        if known is None or (row["generation"], row["offset"]) > (known["generation"], known["offset"]):
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
