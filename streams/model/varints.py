"""Varints: whole numbers in as few bytes as they need, seven bits a byte, lowest first. Blocks write lengths and counts in this form."""

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
    """Return the number below 2^64 that begins at `at`, and the index of the next byte. Raises Corrupt when it does not end."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Corrupt("a number does not end", code="number_corrupt")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 64:
                raise Corrupt("a number is longer than 64 bits", code="number_corrupt")
            return number, at
        shift += 7


def take_signed(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number that `put_signed` wrote at `at`, and the index of the next byte. Raises Corrupt."""
    number, at = take(data, at)
    return ~(number >> 1) if number & 1 else number >> 1, at
