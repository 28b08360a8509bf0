"""Columns of measured numbers: each as whole numbers of its own resolution, told apart from the column before it that predicts it best."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streams.codec.numbers import TAG_MAX, pack, packed_ints, read_body, read_tag, unpack
from streams.codec.wire import Bools, Floats, Ints, Reader, Writer
from streams.errors import Corrupt

DECIMALS_MAX = 9
RAW = DECIMALS_MAX + 1
"""In place of a number of decimals: floats that are no short decimals, as they are."""
_EXACT_MAX = float(1 << 53)
_SAMPLE = 32
_JUDGED_ROWS_MIN, _JUDGED_ROWS = 8, 512
_CANDIDATES_MAX = 3
_GAIN_BITS = 0.1


@dataclass(frozen=True, slots=True)
class _Column:
    number: int
    values: Ints
    decimals: int
    known: Bools


@dataclass(slots=True)
class NeighbourWriter:
    """Writes the numeric columns of one payload."""

    writer: Writer
    _columns: list[_Column] = field(default_factory=list)

    def write(self, values: Ints, decimals: int, known: Bools) -> None:
        """Whole numbers of 10^-decimals at the `known` rows: themselves, or what they differ by from an earlier column of the same kind."""
        like = [other for other in self._columns if other.decimals == decimals and np.array_equal(other.known, known)]
        packed = packed_ints(values)
        best = _best(values, like[-_CANDIDATES_MAX:])
        if best is not None:
            packed = min(packed, packed_ints(values - best.values, best.number), key=len)
        self.writer.raw(packed)
        if len(self._columns) + 1 < TAG_MAX:
            self._columns.append(_Column(len(self._columns) + 1, values, decimals, known))

    def write_raw(self, values: Floats) -> None:
        """Floats bit for bit."""
        self.writer.sized(pack(values))


@dataclass(slots=True)
class NeighbourReader:
    """Reads what a NeighbourWriter wrote."""

    reader: Reader
    _columns: list[Ints] = field(default_factory=list)

    def read(self, count: int) -> Ints:
        """`count` whole numbers."""
        kind, tag = read_tag(self.reader)
        values = read_body(self.reader, kind, count)
        if tag:
            if tag > len(self._columns) or len(self._columns[tag - 1]) != count:
                raise Corrupt(f"a column refers to column {tag}, which is none of its kind")
            values = values + self._columns[tag - 1]
        self._columns.append(values)
        return values

    def read_raw(self, count: int) -> Floats:
        """`count` floats."""
        self.reader.pay_cells(count)
        values = np.empty(count, np.float64)
        unpack(self.reader.sized(), values)
        return values


def as_decimals(values: Floats) -> tuple[int, Ints | None]:
    """The smallest k from 0 to 9 such that whole numbers of 10^-k give every value back bit for bit, and these; else (RAW, None).

    -0.0, NaN, infinities and anything from 2^53 on have none.
    """
    for decimals in range(DECIMALS_MAX + 1):
        if _scaled(values[:_SAMPLE], decimals) is not None and (whole := _scaled(values, decimals)) is not None:
            return decimals, whole
    return RAW, None


def from_decimals(values: Ints, decimals: int) -> Floats:
    """What `as_decimals` was given."""
    return values / np.float64(10**decimals)


def _scaled(values: Floats, decimals: int) -> Ints | None:
    scale = np.float64(10**decimals)
    with np.errstate(all="ignore"):
        scaled = np.rint(values * scale)
        if not (np.abs(scaled) < _EXACT_MAX).all():
            return None
        whole = scaled.astype(np.int64)
        exact = (whole / scale).view(np.int64) == values.view(np.int64)
    return whole if exact.all() else None


def _best(values: Ints, others: list[_Column]) -> _Column | None:
    """The column whose difference to `values` promises the fewest bits, judged by the first few hundred; None: `values` alone do."""
    if not others or len(values) < _JUDGED_ROWS_MIN:
        return None
    head = values[:_JUDGED_ROWS]
    candidates = np.stack([head, *(head - other.values[:_JUDGED_ROWS] for other in others)]).astype(np.float64)
    spread = np.log2(1 + np.abs(candidates - np.median(candidates, axis=1, keepdims=True))).mean(axis=1)
    steps = np.log2(1 + np.abs(np.diff(candidates, axis=1))).mean(axis=1)
    bits = np.minimum(spread, steps)
    best = int(bits[1:].argmin())
    return others[best] if bits[best + 1] < bits[0] - _GAIN_BITS else None
