"""Completeness of the readings of one topic over a span of time: expected, held, thinned, missing, late, longest silence."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from streams.model.errors import InvalidValue
from streams.model.ranges import RangeSet

READINGS_TO_LEARN_FROM = 3
INTERVAL_MS_MIN = 1_000
REPORTS_MAX = 1_000_000
"""Maximum number of reports counted in one span. An interval that requires more is a mistake."""
Span = tuple[int, int]
"""Start (included) and end (not included) of a span of fleet time, UTC ms."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One reading: when it was measured (its order time), when its origin received it (both UTC ms), and by which device."""

    at_ms: int
    received_at_ms: int
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Completeness:
    """Readings of one topic in `since_at_ms .. until_at_ms` (the end not included).

    `expected`: reports that fit in the span at `interval_ms`. `held`: different readings (one device and one time make one reading).
    Silences longer than one and a half intervals are counted in whole intervals: those where runs were thinned are `thinned`, the others
    `missing`. `longest_silence` is outside of what was thinned; where that is everything, it has no length. `late`: readings that reached
    their origin more than an interval after they were measured. Without an interval expected, thinned, missing and late are None: the
    number of reports to expect is unknown.
    """

    since_at_ms: int
    until_at_ms: int
    interval_ms: int | None
    expected: int | None
    held: int
    thinned: int | None
    missing: int | None
    late: int | None
    longest_silence: Span

    def to_json(self) -> dict[str, Any]:
        """Return the same as a JSON object."""
        return {
            "since_at_ms": self.since_at_ms,
            "until_at_ms": self.until_at_ms,
            "interval_ms": self.interval_ms,
            "expected": self.expected,
            "held": self.held,
            "thinned": self.thinned,
            "missing": self.missing,
            "late": self.late,
            "longest_silence": {"since_at_ms": self.longest_silence[0], "until_at_ms": self.longest_silence[1]},
        }


def learned_interval_ms(readings: Iterable[Reported], thinned: Iterable[Span] = ()) -> int | None:
    """Return the reporting interval in ms: the median time between two readings of the device with most readings.

    Two readings between which runs were `thinned` do not count. Return None below READINGS_TO_LEARN_FROM usable readings, and below
    INTERVAL_MS_MIN: such a device has no interval. For a device that changes its interval midway, the interval of more reports counts.
    """
    gone = _Thinned(thinned)
    times: dict[str | None, set[int]] = {}
    for reading in readings:
        times.setdefault(reading.device, set()).add(reading.at_ms)
    longest = max(times.values(), key=len, default=set())
    steps = [b - a for a, b in pairwise(sorted(longest)) if not gone.between(a, b)]
    if len(steps) < READINGS_TO_LEARN_FROM - 1:
        return None
    interval_ms = round(statistics.median(steps))
    return interval_ms if interval_ms >= INTERVAL_MS_MIN else None


class _Thinned:
    """Times over which runs were thinned."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._ranges = RangeSet(spans)
        self._starts, self._ends = [first for first, _ in self._ranges], [end for _, end in self._ranges]

    def between(self, since_at_ms: int, until_at_ms: int) -> bool:
        """Return whether any of the thinned times lies between these."""
        at = bisect_right(self._ends, since_at_ms)
        return at < len(self._starts) and self._starts[at] < until_at_ms

    def longest_outside(self, spans: Iterable[Span]) -> Span | None:
        """Return the longest piece of these spans outside of the thinned times; None when there is none."""
        pieces = (piece for span in spans for piece in (RangeSet([span]).without(self._ranges) if self.between(*span) else (span,)))
        return max(pieces, key=lambda piece: piece[1] - piece[0], default=None)


def completeness(
    readings: Sequence[Reported], since_at_ms: int, until_at_ms: int, interval_ms: int | None = None, thinned: Sequence[Span] = ()
) -> Completeness:
    """Compare the `readings` in the span with the reports that `interval_ms` lets expect (None: the interval learned from the readings).

    `readings` may be in any order and repeated.

    `thinned`: times over which the origin declared runs thinned. Raises ValueError for a span that ends before it begins, or an
    interval that asks for more than REPORTS_MAX reports.
    """
    if until_at_ms <= since_at_ms:
        raise InvalidValue("a span of time ends after it begins", code="span_invalid")
    latest_first = sorted((one for one in readings if since_at_ms <= one.at_ms < until_at_ms), key=_order, reverse=True)
    inside = sorted({(one.device, one.at_ms): one for one in latest_first}.values(), key=_order)
    interval_ms = learned_interval_ms(inside, thinned) if interval_ms is None else interval_ms
    gone_spans, times = _Thinned(thinned), [since_at_ms, *(one.at_ms for one in inside), until_at_ms]
    longest = gone_spans.longest_outside(pairwise(times)) or (since_at_ms, since_at_ms)
    if interval_ms is None:
        return Completeness(since_at_ms, until_at_ms, None, None, len(inside), None, None, None, longest)
    if interval_ms <= 0 or (until_at_ms - since_at_ms) // interval_ms > REPORTS_MAX:
        days = (until_at_ms - since_at_ms) / 86_400_000
        raise InvalidValue(
            f"an interval of {interval_ms / 60_000:g} min is none that anything reports at over {days:,.0f} days", code="interval_invalid"
        )
    expected = max(1, (until_at_ms - since_at_ms) // interval_ms)
    lacking = _lacking([one.at_ms for one in inside], since_at_ms, until_at_ms, interval_ms)
    gone = sum(gone_spans.between(at_ms, at_ms + 1) for at_ms in lacking)
    late = sum(one.received_at_ms - one.at_ms > interval_ms for one in inside)
    return Completeness(since_at_ms, until_at_ms, interval_ms, expected, len(inside), gone, len(lacking) - gone, late, longest)


def _order(one: Reported) -> tuple[int, int, str]:
    return one.at_ms, one.received_at_ms, one.device or ""


def _lacking(times: Sequence[int], since_at_ms: int, until_at_ms: int, interval_ms: int) -> list[int]:
    """Return when reports should have come and did not. A device is assumed to report at its interval before and after its known
    readings."""
    if not times:
        return list(range(since_at_ms, max(until_at_ms - interval_ms, since_at_ms) + 1, interval_ms))
    before = [times[0] - step * interval_ms for step in range(1, (times[0] - since_at_ms) // interval_ms + 1)]
    after = [times[-1] + step * interval_ms for step in range(1, (until_at_ms - 1 - times[-1]) // interval_ms + 1)]
    between = [first + step * interval_ms for first, end in pairwise(times) for step in range(1, round((end - first) / interval_ms))]
    return before + between + after
