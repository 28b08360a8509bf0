"""Numbers and times of a log as people read them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from streams.errors import Misuse
from streams.ledger import OriginLedger


def counts(ledgers: Collection[OriginLedger]) -> tuple[int, int, int, int]:
    """Origins, and over all of them the records held, gone and wanted (of those heard of)."""
    held = gone = wanted = 0
    for ledger in ledgers:
        settled = ledger.settled()
        held += ledger.held.count()
        gone += sum(ranges.count() for ranges in ledger.gone.values())
        wanted += settled.end() - settled.count()
    return len(ledgers), held, gone, wanted


def utc(at_ms: int) -> str:
    """UTC milliseconds as people write them: `2026-05-01 04:00:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def minutes(span_ms: int) -> str:
    """A span of time as people write it: `90 s`, `15 min`, `26 h 5 min`."""
    if span_ms < 120_000:
        return f"{span_ms / 1000:g} s"
    hours, rest = divmod(round(span_ms / 60_000), 60)
    return " ".join([f"{hours:,} h"] * bool(hours) + [f"{rest} min"] * bool(rest))


def read_at_ms(text: str) -> int:
    """A time as people write it, in UTC unless it says otherwise, as UTC ms. Raises Misuse for what is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"{text!r} is no time", hint="write it like 2026-05-01T04:00:00") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
