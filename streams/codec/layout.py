"""Layout of a block's columns: their entries in the directory, and the pages of each in the groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from streams.codec.column_names import read_name
from streams.codec.column_pages import Kind, PackedColumn
from streams.codec.column_types import BOOL, DECIMALS, ELSEWHERE, FLOAT, HAS_NULLS, INT, TEXT
from streams.codec.decimals import RAW
from streams.codec.timestamps import DEVICE_ELSE_RECEIVED, EITHER, RECEIVED
from streams.codec.wire import COLUMNS_MAX, Reader
from streams.model.errors import Corrupt
from streams.model.records import RESERVED, check_signal


@dataclass(frozen=True, slots=True)
class Named:
    """A column with a name: its type's number, and its resolution when it is a column of floats."""

    name: str
    kind: int
    has_nulls: bool
    decimals: int

    @classmethod
    def read(cls, directory: Reader) -> Named:
        """Read a named column from the directory. Raises Corrupt."""
        return _named(read_name(directory), directory.below(DECIMALS * (RAW + 1), "the head of a column"))

    @classmethod
    def of(cls, name: str, number: int) -> Named:
        """Return the column with this name and head. Raises Corrupt."""
        kind, decimals = number % HAS_NULLS, number // DECIMALS
        if name in ELSEWHERE or (decimals and kind != FLOAT):
            raise Corrupt(f"column {name!r} of a block is none that a block has", code="block_columns_corrupt")
        if name not in RESERVED:
            try:
                check_signal(name)
            except ValueError as problem:
                raise Corrupt(f"a column of a block can not be: {problem}", code="block_columns_corrupt") from problem
        return cls(name, kind, bool(number // HAS_NULLS % 2), decimals)

    @property
    def stored(self) -> Kind:
        """Kind as which the column's numbers are stored."""
        if self.kind == BOOL:
            return "bit"
        return "int" if self.kind == INT or self.decimals != RAW else "float"


@lru_cache(COLUMNS_MAX)
def _named(name: str, number: int) -> Named:
    """Return one shared object for equal columns: most blocks have the same, which are compared when their rows are joined."""
    return Named.of(name, number)


@dataclass(frozen=True, slots=True)
class Layout:
    """All columns except the topics. `masks` mark where device times, then columns with nulls, are known.

    Columns of numbers and booleans are numbered from 1 in the order masks, `place`, `received`, `device`, `order`, `values`.
    """

    device_kind: int
    order_kind: int
    named: list[Named]
    masks: list[PackedColumn]
    place: PackedColumn | None
    received: PackedColumn | None
    device: PackedColumn | None
    order: PackedColumn | None
    values: list[PackedColumn | None]

    @classmethod
    def read(cls, directory: Reader, *, by_topic: bool, each_received: bool) -> Layout:
        """Read the layout from the directory. Raises Corrupt."""
        device_kind, order_kind = directory.below(2, "how device times are stored"), directory.below(4, "how order times are stored")
        named = [Named.read(directory) for _ in range(directory.below(COLUMNS_MAX + 1, "the count of columns"))]
        if len({column.name for column in named}) < len(named):
            raise Corrupt("two columns of a block have one name", code="block_columns_corrupt")
        masks = [PackedColumn.read(directory, "bit") for _ in range(1 + sum(column.has_nulls for column in named))]
        place = PackedColumn.read(directory, "int") if by_topic else None
        received = PackedColumn.read(directory, "int") if each_received else None
        device = None if masks[0].never else PackedColumn.read(directory, "int")
        order = None
        if order_kind not in (DEVICE_ELSE_RECEIVED, RECEIVED):
            order = PackedColumn.read(directory, "bit" if order_kind == EITHER else "int")
        values = [None if column.kind == TEXT else PackedColumn.read(directory, column.stored) for column in named]
        return cls(device_kind, order_kind, named, masks, place, received, device, order, values)

    def row_by_row(self) -> bool:
        """Return whether each column with a reference column has its values in the reference's rows: else no row can be read alone.

        The format allows a column of booleans to have a reference column of other rows; `streams.codec.encoder` makes none.
        """
        if all(mask.always for mask in self.masks):
            return True
        there = [(mask, 0) for mask in self.masks]
        there += [(column, self._mask(known)) for column, known in self.columns() if column is not None]
        return all(not column.neighbour or [other[1] for other in there[column.neighbour - 1 :][:1]] == [mask] for column, mask in there)

    def columns(self) -> list[tuple[PackedColumn | None, int]]:
        """Return the columns of numbers after the masks, None where there is none: four, and each named one. Each comes with the number of
        the mask that marks its values, counted from 1; 0: it has values everywhere."""
        nulls = iter(range(2, len(self.masks) + 1))
        named = [next(nulls) if column.has_nulls else 0 for column in self.named]
        return [(self.place, 0), (self.received, 0), (self.device, 1), (self.order, 0), *zip(self.values, named, strict=True)]

    def _mask(self, known: int) -> int:
        """Return the number of the column that marks the rows of these values; 0: all rows have one."""
        if known == 0 or self.masks[known - 1].always:
            return 0
        return self.masks[known - 1].neighbour or known
