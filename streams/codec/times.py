"""A row's three times, each stored by what tells it cheapest from the others."""

from __future__ import annotations

import numpy as np

from streams.codec.bits import BitReader, BitWriter
from streams.codec.numbers import packed_ints, read_ints, write_ints
from streams.codec.wire import Bools, Ints, Reader, Writer

_ITSELF, _BEHIND_RECEIVED = 0, 1
_DEVICE_ELSE_RECEIVED, _RECEIVED, _BITMAP, _EXACT = 0, 1, 2, 3


def write_device_at(writer: Writer, device_at: Ints, received_at: Ints) -> None:
    """The devices' times of the rows that have one, at least one row, with the received times of the same rows."""
    behind = packed_ints(received_at - device_at)
    itself = packed_ints(device_at)
    kind, packed = (_BEHIND_RECEIVED, behind) if len(behind) < len(itself) else (_ITSELF, itself)
    writer.varint(kind)
    writer.raw(packed)


def read_device_at(reader: Reader, received_at: Ints) -> Ints:
    """What `write_device_at` wrote."""
    kind = reader.below(2, "how device times are stored")
    values = read_ints(reader, len(received_at))
    return received_at - values if kind == _BEHIND_RECEIVED else values


def write_order_at(writer: Writer, bits: BitWriter, order_at: Ints, device_at: Ints, known: Bools, received_at: Ints) -> None:
    """Every row's order time; `device_at` counts where `known`."""
    is_device = known & (order_at == device_at)
    is_received = order_at == received_at
    if (is_device | (~known & is_received)).all():
        writer.varint(_DEVICE_ELSE_RECEIVED)
    elif is_received.all():
        writer.varint(_RECEIVED)
    elif (is_device | is_received).all():
        writer.varint(_BITMAP)
        bits.write(is_device)
    else:
        writer.varint(_EXACT)
        write_ints(writer, order_at)


def read_order_at(reader: Reader, bits: BitReader, device_at: Ints, known: Bools, received_at: Ints) -> Ints:
    """What `write_order_at` wrote."""
    kind = reader.below(4, "how order times are stored")
    if kind == _EXACT:
        return read_ints(reader, reader.rows)
    if kind == _RECEIVED:
        return received_at
    return np.where(known if kind == _DEVICE_ELSE_RECEIVED else bits.read(reader.rows), device_at, received_at)
