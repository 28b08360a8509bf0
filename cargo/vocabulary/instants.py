"""Times as texts of alerts, loss reports and notices show them: one form, always with the date, the year and UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from cargo.vocabulary.registry_entries import AT_MS_MAX

DOUBTED = "times not confirmed: the clock of the node was in doubt"


def time_text(at_ms: int) -> str:
    """Return a time in RFC 3339 to the second, UTC; one that no registry takes (`cargo.vocabulary.registry_entries.AT_MS_MAX`) in ms as it
    is."""
    if not 0 <= at_ms <= AT_MS_MAX:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_text(from_at_ms: int, until_at_ms: int) -> str:
    """Return a span of time (UTC ms) in words: `between 2026-05-01T04:00:00Z and 2026-05-01T04:01:00Z`; `at` and the time where its ends
    are the same."""
    first, last = time_text(from_at_ms), time_text(until_at_ms)
    return f"at {first}" if first == last else f"between {first} and {last}"
