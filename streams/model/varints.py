"""Whole numbers in as few bytes as they need, seven bits a byte, lowest first: how lengths and counts are written in blocks."""

from __future__ import annotations

from streams.model.errors import Corrupt


def put(parts: bytearray, number: int) -> None:
    """Append a whole number from 0 to 2^64 - 1."""
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)


def put_signed(parts: bytearray, number: int) -> None:
    """Append a whole number from -2^63 to 2^63 - 1, small magnitudes in few bytes."""
    put(parts, number << 1 if number >= 0 else ~number << 1 | 1)


def take(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at `at`, below 2^64, and where the next byte is. Raises Corrupt when it does not end."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Corrupt("a number does not end")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 64:
                raise Corrupt("a number is longer than 64 bits")
            return number, at
        shift += 7


def take_signed(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number `put_signed` wrote at `at`, and where the next byte is. Raises Corrupt."""
    number, at = take(data, at)
    return ~(number >> 1) if number & 1 else number >> 1, at
