"""Numbers and times of a log as people read them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from streams.model.errors import Misuse
from streams.model.ledger import OriginLedger

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first millisecond of the year 1 and the last of the year 9999, UTC."""


def counts(ledgers: Collection[OriginLedger]) -> tuple[int, int, int, int]:
    """Return the number of origins, and over all of them the numbers of records held, gone and wanted (of the known ones)."""
    held = gone = wanted = 0
    for ledger in ledgers:
        settled = ledger.settled()
        held += ledger.held.count()
        gone += sum(ranges.count() for ranges in ledger.gone.values())
        wanted += settled.end() - settled.count()
    return len(ledgers), held, gone, wanted


def utc(at_ms: int) -> str:
    """Return UTC milliseconds as people write them: `2026-05-01 04:00:00Z`; outside the years 1 to 9999 as the number it is."""
    if not FIRST_MS <= at_ms <= LAST_MS:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def many(count: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `2 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def there_are(count: int, noun: str, where: str = "") -> str:
    """Return a count with its noun (and a place) and the verb: `1 record behind it is`, `2 records behind it are`."""
    return f"{many(count, noun)}{where and ' ' + where} {'is' if count == 1 else 'are'}"


def minutes(span_ms: int) -> str:
    """Return a span of time as people write it: `90 s`, `15 min`, `26 h 5 min`."""
    if span_ms < 120_000:
        return f"{span_ms / 1000:g} s"
    hours, rest = divmod(round(span_ms / 60_000), 60)
    return " ".join([f"{hours:,} h"] * bool(hours) + [f"{rest} min"] * bool(rest))


def read_at_ms(text: str) -> int:
    """Return a time as people write it, in UTC unless it has another zone, as UTC ms. Raises Misuse for an invalid time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"{text!r} is no time", hint="write it like 2026-05-01T04:00:00", code="time_invalid") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def printable(text: str) -> str:
    """Return a line that has no effect on a terminal but its text: it may quote any program's words."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
