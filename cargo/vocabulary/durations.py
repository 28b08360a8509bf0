"""Durations as people read them: one form for texts of alerts, pages and commands."""

from __future__ import annotations

from itertools import pairwise

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, YEAR_MS = 1_000, 60_000, 3_600_000, 86_400_000, 365 * 86_400_000
_UNITS = ((YEAR_MS, "y"), (DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))


def duration_text(duration_ms: float) -> str:
    """Return a duration in its two largest units: `12 s`, `4 min 5 s`, `3 h 12 min`, `2 d 4 h`, `9 y 12 d`. Negative ones count as none."""
    left = max(0, int(duration_ms))
    for (size, unit), (part, part_unit) in pairwise(_UNITS):
        if left >= size:
            rest = left % size // part
            return f"{left // size} {unit} {rest} {part_unit}" if rest else f"{left // size} {unit}"
    return f"{left // SECOND_MS} s"
