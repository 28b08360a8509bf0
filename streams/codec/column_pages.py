"""Columns of numbers and booleans over all groups of a block: tables in the directory, a page in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from streams.codec.golomb_rice import FEW_MAX
from streams.codec.integer_lists import PcoTables, PcoType, is_constant, packed_ints, pco_pages, pco_reach, read_ints
from streams.codec.parallel_columns import each
from streams.codec.wire import BITS_OF_A_CELL, Bools, Ints, Reader, Values, Writer
from streams.model.errors import Corrupt

Kind = Literal["int", "float", "bit"]
_CONSTANT, _PAGES, _LIST = range(3)
_KINDS = 3
NEIGHBOUR_MAX = 1 << 12
_BITMAP, _SPARSE = 0, 1
_TABLES_BYTES_MIN = 32
"""Maximum size of a boolean column for which pcodec is not tried, bytes."""
_DTYPES = {"int": np.int64, "float": np.float64, "bit": np.uint16}
_PCO_TYPES: dict[Kind, PcoType] = {"int": "i64", "float": "f64", "bit": "u16"}


@dataclass(frozen=True, slots=True)
class WantedValues:
    """Wanted values of the `count` values that a column has in a group: those at `places`, ascending. Only the first `reach` values must be
    unpacked. `scratch`: memory for that many values of each kind, for one column at a time."""

    count: int
    places: Ints
    reach: int
    scratch: Mapping[Kind, Values]

    @classmethod
    def of(cls, count: int, places: Ints, room: Values | None = None) -> WantedValues:
        """Return the wanted values with the least reach that pcodec allows. `room`: memory to use, of at least that many whole numbers."""
        reach = pco_reach(count, int(places[-1])) if len(places) else 0
        numbers = np.empty(reach, np.int64) if room is None else room[:reach]
        return cls(count, places, reach, {"int": numbers, "float": numbers.view(np.float64), "bit": numbers.view(np.uint16)[:reach]})


class GroupPages:
    """Pages of one group, one after another. In a block of several groups each page follows its length."""

    def __init__(self, group: Reader, *, sized: bool) -> None:
        self._group, self._sized = group, sized
        self._given: list[Reader] = []
        self.packed = group.boxed if sized else group.sized
        """Method that reads the next page, which is sized bytes and nothing else, and returns these bytes. Raises Corrupt."""

    def next(self) -> Reader:
        """Return a reader of the next page."""
        if not self._sized:
            return self._group
        page = Reader(self.taken(), self._group.budget)
        self._given.append(page)
        return page

    def taken(self) -> bytes:
        """Return the next page of one of several groups, to be read later. The caller must check that all of it is read. Raises Corrupt."""
        return self._group.sized()

    def end(self) -> None:
        """Raise Corrupt unless every page was read, and each to its end."""
        for page in self._given:
            page.end()
        self._group.end()


@dataclass(frozen=True, slots=True)
class Packed:
    """One packed column: its entry in the directory, and its page in each group (none: it has no pages)."""

    meta: bytes
    pages: list[bytes] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Size of the column in all, bytes."""
        return len(self.meta) + sum(map(len, self.pages))


@dataclass(frozen=True, slots=True)
class Unpacked:
    """One column to write: its values (at least one), the number of values in each group, and the number of its reference column.

    The values are stored as differences from the reference column.
    """

    kind: Kind
    values: Values
    counts: Sequence[int]
    neighbour: int = 0

    @property
    def listed(self) -> bool:
        """Whether the column is written as a list of a few numbers."""
        return self.kind == "int" and self._few

    @property
    def _few(self) -> bool:
        return len(self.counts) == 1 and len(self.values) <= FEW_MAX

    def pack(self) -> Packed:
        """Return the column packed on its own."""
        if self.kind != "float" and (self.values == self.values[0]).all():
            return Packed(_meta(_CONSTANT, self.neighbour, int(self.values[0])))
        bits = self.values if self.kind == "bit" else None
        listed = Packed(_meta(_LIST, self.neighbour), [_few_bits(bits)]) if self._few and bits is not None else None
        if listed is not None and listed.bytes <= _TABLES_BYTES_MIN:
            return listed
        paged = _paged(self.values.astype(_DTYPES[self.kind], copy=False), self.counts, self.neighbour)
        return listed if listed is not None and listed.bytes <= paged.bytes else paged


def pack_columns(columns: Sequence[Unpacked], rows: int) -> list[Packed]:
    """Return all columns of a block of `rows` rows, packed: lists together, the others on as many cores as there are."""
    listed = [column for column in columns if column.listed]
    lists = iter(packed_ints([column.values for column in listed]))
    return each([partial(_packed_list, column, next(lists)) if column.listed else column.pack for column in columns], rows)


def _packed_list(column: Unpacked, page: bytes) -> Packed:
    if is_constant(page):
        return Packed(_meta(_CONSTANT, column.neighbour, int(column.values[0])))
    return Packed(_meta(_LIST, column.neighbour), [page])


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """Directory entry of one column that `pack` wrote. `neighbour`: number of its reference column, to which its values are added, or 0."""

    kind: Kind
    neighbour: int
    _how: int
    _constant: int
    _meta: bytes

    @classmethod
    def read(cls, directory: Reader, kind: Kind) -> PackedColumn:
        """Read the entry of a column of this kind. Raises Corrupt."""
        number = directory.below(_KINDS * NEIGHBOUR_MAX, "a packing of a column")
        how, neighbour = number % _KINDS, number // _KINDS
        constant = directory.signed() if how == _CONSTANT else 0
        meta = directory.sized() if how == _PAGES else b""
        if kind == "float" and (how != _PAGES or neighbour):
            raise Corrupt("a column of floats is packed as one of whole numbers", code="block_page_corrupt")
        if kind == "bit" and (constant not in (0, 1) or (neighbour and (how != _CONSTANT or constant))):
            raise Corrupt("a column of yes and no has other values", code="block_page_corrupt")
        return cls(kind, neighbour, how, constant, meta)

    @property
    def never(self) -> bool:
        """Whether the column is boolean and false everywhere."""
        return self._how == _CONSTANT and not self._constant and not self.neighbour

    @property
    def always(self) -> bool:
        """Whether the column is boolean and true everywhere."""
        return self._how == _CONSTANT and bool(self._constant)

    @property
    def paged(self) -> bool:
        """Whether the column has a page in each group."""
        return self._how != _CONSTANT

    def values(self, pages: Sequence[Reader], counts: Sequence[int]) -> Values:
        """Return the values in the groups with these pages, `counts` of them in each. Raises Corrupt."""
        if self._how == _CONSTANT:
            return self._alike(sum(counts))
        if self._how == _LIST:
            if len(pages) != 1:
                raise Corrupt("a column of many groups is packed as one of a few rows", code="block_page_corrupt")
            return self._listed(pages[0], counts[0])
        values = self._whole(pages, counts)
        if self.kind != "bit":
            return values
        if values.max(initial=0) > 1:
            raise _odd_bits()
        return values.astype(np.bool_)

    def tables(self) -> PcoTables | None:
        """Return the tables with which one thread at a time unpacks the pages; None when the column has no such pages. Raises Corrupt."""
        return self._tables() if self._how == _PAGES else None

    def at(self, pages: GroupPages, wanted: WantedValues, tables: PcoTables | None) -> Values:
        """Return the values `wanted` of one group. If the column has pages, its page is the next one; `tables` are the column's. Raises
        Corrupt.

        The page is not unpacked further than needed for the last of these values.
        """
        if self._how == _CONSTANT:
            return self._alike(len(wanted.places))
        if tables is None:
            return self._listed(pages.next(), wanted.count).take(wanted.places)
        if not wanted.reach:
            page = pages.next()
            if wanted.count:
                page.sized()
            return np.empty(0, np.bool_ if self.kind == "bit" else _DTYPES[self.kind])
        values = wanted.scratch[self.kind]
        tables.read(pages.packed(), values, wanted.count)
        values = values.take(wanted.places)
        if self.kind != "bit":
            return values
        if max(values.tolist()) > 1:  # of a few rows, a tenth of the time
            raise _odd_bits()
        return values.astype(np.bool_)

    def resolved(self, values: Values, done: list[Values]) -> Values:
        """Return the column itself, where `values` are its differences from an earlier column of `done`, if it has a reference. Append it
        to `done`. Raises Corrupt."""
        if self.neighbour:
            if self.neighbour > len(done):
                raise Corrupt(f"column {len(done) + 1} of a block refers to column {self.neighbour}", code="block_page_corrupt")
            values = self.add_reference_column(values, done[self.neighbour - 1])
        done.append(values)
        return values

    def add_reference_column(self, values: Values, reference: Values) -> Values:
        """Return the column itself, where `values` are its differences from `reference`, its reference column. Raises Corrupt."""
        if reference.dtype != values.dtype or len(reference) != len(values):
            raise Corrupt(f"a column refers to column {self.neighbour}, which is none of its kind", code="block_page_corrupt")
        return reference if self.kind == "bit" else np.add(values, reference, out=values)

    def cells(self, count: int) -> int:
        """Return how many cells `count` of its values cost."""
        return count if self.kind != "bit" else (count + BITS_OF_A_CELL - 1) // BITS_OF_A_CELL

    def _tables(self) -> PcoTables:
        return PcoTables(self._meta, _PCO_TYPES[self.kind])

    def _alike(self, count: int) -> Values:
        return np.full(count, self._constant, np.bool_ if self.kind == "bit" else np.int64)

    def _listed(self, page: Reader, count: int) -> Values:
        if not count:
            raise Corrupt("a column of no values is packed as one of a few rows", code="block_page_corrupt")
        return _read_few_bits(page, count) if self.kind == "bit" else read_ints(page, count)

    def _whole(self, pages: Sequence[Reader], counts: Sequence[int]) -> Values:
        tables, values, at = self._tables(), pages[0].budget.room.empty(sum(counts), _DTYPES[self.kind]), 0
        for page, count in zip(pages, counts, strict=True):
            if count:
                tables.read(page.sized(), values[at : at + count], count)
            at += count
        return values


def _odd_bits() -> Corrupt:
    return Corrupt("a column of yes and no has other values", code="block_page_corrupt")


def _meta(how: int, neighbour: int, constant: int | None = None) -> bytes:
    writer = Writer()
    writer.varint(how + _KINDS * neighbour)
    if constant is not None:
        writer.signed(constant)
    return writer.to_bytes()


def _paged(values: Values, counts: Sequence[int], neighbour: int) -> Packed:
    meta, filled = pco_pages(values, [count for count in counts if count])
    directory = Writer()
    directory.raw(_meta(_PAGES, neighbour))
    directory.sized(meta)
    left = iter(filled)
    pages = []
    for count in counts:
        page = Writer()
        if count:
            page.sized(next(left))
        pages.append(page.to_bytes())
    return Packed(directory.to_bytes(), pages)


def _few_bits(bits: Bools) -> bytes:
    """Return a bitmap, or the places of the rarer value when these are shorter."""
    writer = Writer()
    rare = bool(bits.sum() * 2 < len(bits))
    places = np.flatnonzero(bits == rare)
    [sparse] = packed_ints([np.diff(places, prepend=-1) - 1])
    if 2 + len(sparse) < (len(bits) + 7) // 8:
        writer.varint(_SPARSE + 2 * len(places))
        writer.varint(rare)
        writer.raw(sparse)
    else:
        writer.varint(_BITMAP)
        writer.raw(np.packbits(bits).tobytes())
    return writer.to_bytes()


def _read_few_bits(page: Reader, count: int) -> Bools:
    number = page.below(2 * count + 2, "a kind of bitmap")
    if number == _BITMAP:
        return np.unpackbits(np.frombuffer(page.raw((count + 7) // 8), np.uint8), count=count).view(np.bool_)
    if number % 2 == 0 or number == _SPARSE:
        raise Corrupt("a bitmap of no kind", code="block_page_corrupt")
    rare = page.below(2, "the rarer value")
    gaps = read_ints(page, number // 2)
    places = np.cumsum(gaps + 1) - 1
    if (gaps < 0).any() or (gaps >= count).any() or places[-1] >= count:
        raise Corrupt("a bitmap goes on beyond its end", code="block_page_corrupt")
    bits = np.full(count, not rare, np.bool_)
    bits[places] = bool(rare)
    return bits
