"""Lists, other than records, that a command prints: a table with headings and units for people, rows with named columns for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from landfall.cli.number_format import printable, utc
from landfall.cli.table_output import Row, RowOutput

UNSEEN_WIDTH = 1_000
"""Width of a line that goes to no terminal, characters: a list's lines are not folded there."""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One column: its name with the unit last, its heading for people, the text of a value for people, its type.

    `nested`: its values are lists and objects; in CSV and Parquet they are JSON text, as a record's body is.
    """

    name: str
    heading: str
    words: Callable[[Any], str]
    kind: pa.DataType
    nested: bool = False

    @classmethod
    def text(cls, name: str, heading: str = "") -> ListColumn:
        """Return a column of texts."""
        return cls(name, heading, str, pa.string())

    @classmethod
    def count(cls, name: str, heading: str = "") -> ListColumn:
        """Return a column of whole numbers."""
        return cls(name, heading, lambda number: f"{number:,}", pa.int64())

    @classmethod
    def size(cls, name: str, heading: str = "") -> ListColumn:
        """Return a column of sizes in bytes."""
        return cls(name, heading, lambda number: f"{number:,} B", pa.int64())

    @classmethod
    def time(cls, name: str, heading: str, unknown: str = "") -> ListColumn:
        """Return a column of times, UTC milliseconds; `unknown`: the text of a missing time."""
        return cls(name, heading, lambda at_ms: unknown if at_ms is None else utc(at_ms), pa.int64())

    @classmethod
    def lists(cls, name: str, heading: str = "") -> ListColumn:
        """Return a column of lists."""
        return cls(name, heading, json.dumps, pa.string(), nested=True)


@dataclass(frozen=True, slots=True)
class List:
    """A list's columns, and the text that people see when it is empty."""

    columns: Sequence[ListColumn]
    nothing: str = ""

    def tables(self, rows: Iterable[Row]) -> Iterator[pa.Table]:
        """Yield the rows as a table."""
        yield pa.Table.from_pylist([self._turned(row, json.dumps) for row in rows], self._schema())

    def as_table(self) -> RowOutput:
        """Return the output of the rows as a table with headings."""
        return RowOutput(self._table, self._json_line, self._schema())

    def in_words(self, lines: Callable[[Row], Iterable[str]], style: str = "", last: Callable[[int], str] | None = None) -> RowOutput:
        """Return the output of the rows, where people read a line or more for each, on a terminal in `style`. After them comes `last` of
        the number of rows.
        """

        def text(tables: Iterator[pa.Table], sink: TextIO) -> None:
            console = Console(file=sink, highlight=False, soft_wrap=True, emoji=False)
            rows = 0
            for row in self._rows(tables):
                rows += 1
                for line in lines(row):
                    console.print(printable(line), style=style, markup=False)
            if last is not None:
                console.print(last(rows), markup=False)

        return RowOutput(text, self._json_line, self._schema())

    def _schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.kind) for column in self.columns])

    def _table(self, tables: Iterator[pa.Table], sink: TextIO) -> None:
        table = Table(*(column.heading for column in self.columns), box=None, header_style="bold")
        for row in self._rows(tables):
            table.add_row(*(column.words(row[column.name]) for column in self.columns))
        Console(file=sink, width=None if sink.isatty() else UNSEEN_WIDTH).print(
            table if table.row_count or not self.nothing else self.nothing
        )

    def _rows(self, tables: Iterator[pa.Table]) -> Iterator[Row]:
        for table in tables:
            for row in table.to_pylist():
                yield self._turned(row, json.loads)

    def _json_line(self, row: Row) -> str:
        """Return the row as JSON with all its columns, also the null ones."""
        return json.dumps(self._turned(row, json.loads))

    def _turned(self, row: Row, turn: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the row, its nested values turned into JSON text or back."""
        return {**row, **{column.name: turn(row[column.name]) for column in self.columns if column.nested}}
