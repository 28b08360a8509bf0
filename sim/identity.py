"""Numbers and names that are valid by their own rules, many at a time: containers and customers."""

from __future__ import annotations

import re
import unicodedata

from cargo.vocabulary.trade_codes import make_container


def container_numbers(owner: str, count: int, first_serial: int = 100_000) -> list[str]:
    """Return `count` different container numbers of `owner` (four letters, ending in U) with right check digits.

    Serials whose check digit is 0 are left out: ISO 6346 advises against those where it stands for 10."""
    numbers: list[str] = []
    serial = first_serial
    while len(numbers) < count:
        number = make_container(owner, serial)
        if not number.endswith("0"):
            numbers.append(number)
        serial += 1
    return numbers


def customer_id(name: str) -> str:
    """Return a customer's id from its name: small letters, digits and single dashes, at most 40."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].rstrip("-")
