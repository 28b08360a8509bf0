"""What a block's directory says of its columns, and the pages of each in the groups."""

from __future__ import annotations

from dataclasses import dataclass

from streams.codec.columns import BOOL, DECIMALS, ELSEWHERE, FLOAT, HAS_NULLS, INT, TEXT
from streams.codec.decimals import RAW
from streams.codec.names import read_name
from streams.codec.pages import Kind, PackedColumn
from streams.codec.times import DEVICE_ELSE_RECEIVED, EITHER, RECEIVED
from streams.codec.wire import COLUMNS_MAX, Reader
from streams.errors import Corrupt
from streams.records import RESERVED, check_signal


@dataclass(frozen=True, slots=True)
class Named:
    """A column that has a name: its type's number, and its resolution where it is one of floats."""

    name: str
    kind: int
    has_nulls: bool
    decimals: int

    @classmethod
    def read(cls, directory: Reader) -> Named:
        """Raises Corrupt."""
        name = read_name(directory)
        number = directory.below(DECIMALS * (RAW + 1), "the head of a column")
        kind, decimals = number % HAS_NULLS, number // DECIMALS
        if name in ELSEWHERE or (decimals and kind != FLOAT):
            raise Corrupt(f"column {name!r} of a block is none that a block has")
        if name not in RESERVED:
            try:
                check_signal(name)
            except ValueError as problem:
                raise Corrupt(f"a column of a block can not be: {problem}") from problem
        return cls(name, kind, bool(number // HAS_NULLS % 2), decimals)

    @property
    def stored(self) -> Kind:
        """What its numbers are stored as."""
        if self.kind == BOOL:
            return "bit"
        return "int" if self.kind == INT or self.decimals != RAW else "float"


@dataclass(frozen=True, slots=True)
class Layout:
    """All columns but the topics: `masks` say where device times, then columns with nulls, are known.

    Columns of numbers and of yes and no are numbered from 1 in the order masks, `place`, `received`, `device`, `order`, `values`.
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
        """Raises Corrupt."""
        device_kind, order_kind = directory.below(2, "how device times are stored"), directory.below(4, "how order times are stored")
        named = [Named.read(directory) for _ in range(directory.below(COLUMNS_MAX + 1, "the count of columns"))]
        if len({column.name for column in named}) < len(named):
            raise Corrupt("two columns of a block have one name")
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
        """Whether each column that is told from another has its values in the same rows as that one: else no row can be read alone.

        The format allows columns of yes and no to be told from one of other rows; `streams.codec.writing` makes none.
        """
        if all(mask.always for mask in self.masks):
            return True
        columns: list[tuple[PackedColumn | None, int]] = [(mask, 0) for mask in self.masks]
        columns += [(self.place, 0), (self.received, 0), (self.device, self._mask(0)), (self.order, 0)]
        nulls = iter(range(1, len(self.masks)))
        columns += [
            (values, self._mask(next(nulls)) if column.has_nulls else 0) for column, values in zip(self.named, self.values, strict=True)
        ]
        there = [(column, mask) for column, mask in columns if column is not None]
        return all(not column.neighbour or [other[1] for other in there[column.neighbour - 1 :][:1]] == [mask] for column, mask in there)

    def _mask(self, place: int) -> int:
        """The number of the column that says in which rows these values are; 0: in all."""
        mask = self.masks[place]
        return 0 if mask.always else mask.neighbour or place + 1


class GroupPages:
    """The pages of one group, one after another. Of several groups each page has its length before it."""

    def __init__(self, group: Reader, *, sized: bool) -> None:
        self._group, self._sized = group, sized
        self._given: list[Reader] = []

    def next(self) -> Reader:
        """What the next page is read from."""
        if not self._sized:
            return self._group
        page = Reader(self._group.sized(), self._group.budget)
        self._given.append(page)
        return page

    def end(self) -> None:
        """Raises Corrupt unless all of every page, and every page, was read."""
        for page in self._given:
            page.end()
        self._group.end()
