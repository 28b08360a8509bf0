"""The three times of each row: received times as runs over the offsets, the other two in the cheapest encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.codec.column_buffers import Room
from streams.codec.golomb_rice import FEW_MAX
from streams.codec.integer_lists import read_ints, sketches_of, write_ints
from streams.codec.wire import Bools, Ints, Reader, Values, Writer
from streams.model.errors import Corrupt
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT

ITSELF, BEHIND_RECEIVED = 0, 1
"""Encodings of device times: as they are, or as the time until they were received."""
DEVICE_ELSE_RECEIVED, RECEIVED, EITHER, EXACT = 0, 1, 2, 3
"""Encodings of order times: not at all (two kinds), one bit each, or the difference from the received times."""
_JUDGED_ROWS = FEW_MAX
_RUN_ROWS_MIN = 32


@dataclass(frozen=True, slots=True)
class Stamps:
    """Offsets and the three times (UTC ms) of rows in offset order; `device_null`: which have no device time (None: all have one)."""

    offsets: Ints
    received_at: Ints
    order_at: Ints
    device_at: Ints
    device_null: Bools | None

    @classmethod
    def joined(cls, parts: Sequence[Stamps]) -> Stamps:
        """Return the stamps of several parts, one after another."""
        offsets, received_at, order_at, device_at = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("offsets", "received_at", "order_at", "device_at")
        )
        if all(part.device_null is None for part in parts):
            return cls(offsets, received_at, order_at, device_at, None)
        nulls = [np.zeros(len(part.offsets), np.bool_) if part.device_null is None else part.device_null for part in parts]
        return cls(offsets, received_at, order_at, device_at, np.concatenate(nulls))

    def where(self, chosen: Bools) -> Stamps:
        """Return the stamps of only these rows."""
        null = None if self.device_null is None else self.device_null[chosen]
        return Stamps(self.offsets[chosen], self.received_at[chosen], self.order_at[chosen], self.device_at[chosen], null)

    def arrays(self) -> dict[str, pa.Array]:
        """Return the stamps as columns of records."""
        times = {RECEIVED_AT: pa.array(self.received_at), ORDER_AT: pa.array(self.order_at)}
        return {DEVICE_AT: pa.array(self.device_at, mask=self.device_null), OFFSET: pa.array(self.offsets), **times}


def write_received(directory: Writer, received_at: Ints, order_last_ms: int, *, several_groups: bool) -> bool:
    """Write the received times in offset order, at least one, as runs of equal times, which commits make. The first is near
    `order_last_ms`.

    Return False when the runs are so short that they would slow down every reader. Each row then has its own time, in its group.
    """
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(received_at[1:] != received_at[:-1]) + 1))
    if several_groups and len(starts) * _RUN_ROWS_MIN > len(received_at):
        directory.varint(0)
        return False
    times = received_at[starts]
    directory.varint(len(starts))
    directory.signed(_wrapped(int(times[0]) - order_last_ms))
    if len(starts) > 1:
        write_ints(directory, np.diff(times))
        write_ints(directory, np.diff(starts))
    return True


def read_received(directory: Reader, rows: int, order_last_ms: int) -> ReceivedTimes | None:
    """Return the times that `write_received` wrote; None when each row has its own. Raises Corrupt."""
    runs = directory.below(rows + 1, "the count of received times")
    if runs == 0:
        return None
    first = np.array([_wrapped(directory.signed() + order_last_ms)])
    if runs == 1:
        return ReceivedTimes(first, np.zeros(1, np.int64), rows)
    steps, lengths = read_ints(directory, runs - 1), read_ints(directory, runs - 1)
    if lengths.min() < 1 or lengths.max() >= rows or lengths.sum() >= rows:
        raise Corrupt("the runs of received times do not make up a block's rows", code="block_times_corrupt")
    return ReceivedTimes(np.cumsum(np.concatenate((first, steps))), np.cumsum(np.concatenate((np.zeros(1, np.int64), lengths))), rows)


def times_of(
    kinds: tuple[int, int], received_at: Ints, device: tuple[Ints, Bools | None], other: Values | None, room: Room
) -> tuple[Ints, Ints]:
    """Return device times and order times (UTC ms). `kinds`: how they are stored. `device`: the stored device times, and which rows have
    none. `other`: the stored order times."""
    (device_kind, order_kind), (device_at, null) = kinds, device
    if device_kind == BEHIND_RECEIVED:
        device_at = np.subtract(received_at, device_at, out=room.empty(len(device_at), np.int64))
    if order_kind == RECEIVED:
        return device_at, received_at
    if other is None:
        return device_at, device_at if null is None else np.where(null, received_at, device_at)
    return device_at, received_at + other if order_kind == EXACT else np.where(other, device_at, received_at)


class ReceivedTimes:
    """Received time of every offset: `times[run]` from place `starts[run]` of the block on."""

    def __init__(self, times: Ints, starts: Ints, rows: int) -> None:
        self._times, self._starts, self._rows = times, starts, rows

    def at(self, places: Ints) -> Ints:
        """Return the received times (UTC ms) of the rows at these places, counted from the block's first offset."""
        if len(self._times) == 1:
            return np.full(len(places), self._times[0])
        return np.asarray(self._times[self._starts.searchsorted(places, "right") - 1])

    def all(self, room: Room) -> Ints:
        """Return the received times (UTC ms) of all rows."""
        if len(self._times) == 1:
            return room.full(self._rows, self._times[0], np.int64)
        return np.repeat(self._times, np.diff(self._starts, append=self._rows))


def device_kind(device_at: Ints, received_at: Ints) -> int:
    """Return ITSELF or BEHIND_RECEIVED, whichever takes less, judged by some rows in the middle."""
    middle = slice(max(0, len(device_at) // 2 - _JUDGED_ROWS // 2), len(device_at) // 2 + _JUDGED_ROWS // 2)
    itself, behind = device_at[middle], received_at[middle] - device_at[middle]
    [first, second] = sketches_of([itself, behind])
    return BEHIND_RECEIVED if first and second and second.bytes < first.bytes else ITSELF


def order_kind(order_at: Ints, device_at: Ints, known: Bools, received_at: Ints) -> int:
    """Return the cheapest of the four kinds that restores every order time. `device_at` counts where `known`."""
    is_device = known & (order_at == device_at)
    is_received = order_at == received_at
    if (is_device | (~known & is_received)).all():
        return DEVICE_ELSE_RECEIVED
    if is_received.all():
        return RECEIVED
    return EITHER if (is_device | is_received).all() else EXACT


def _wrapped(number: int) -> int:
    """Return `number` as 64-bit arithmetic wraps it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
