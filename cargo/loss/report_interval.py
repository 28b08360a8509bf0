"""Interval of a device's reports, learned from the gaps between its readings, so that silence is measured against its own habit.

Devices change their habit: every minute in a storm, every quarter of an hour ashore, at once when something happens. So a habit is used
only while similar gaps make up most of the time of the last gaps. The habit of the storm is used only during a storm, and no habit outlives
a mode's end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

GAPS_MAX = 12
LIKE_GAPS_MIN = 4
LIKE_PART = 0.25
LIKE_TIME_PART = 0.6
INTERVAL_MS_MIN = 60_000
INTERVAL_MS_MAX = 24 * 3_600_000
GAP_BYTES = 4
GAP_MS_MAX = (1 << 8 * GAP_BYTES) - 1
"""Maximum gap, milliseconds (49 days). Each gap takes GAP_BYTES bytes, where Python's own numbers and their tuple take 40."""
GRACE_MS_MIN = 30_000
GRACE_PART = 0.1


class Habit(msgspec.Struct):
    """The last gaps (ms, packed) outside storms and in this storm, and the interval each of the two shows (0: none)."""

    calm_gaps: bytes = b""
    storm_gaps: bytes = b""
    calm_ms: int = 0
    storm_ms: int = 0

    def note(self, gap_ms: int, *, storm: bool) -> None:
        """Record the gap between two readings."""
        if storm:
            self.storm_gaps = _longer(self.storm_gaps, gap_ms)
            self.storm_ms = regular_ms(_unpacked(self.storm_gaps))
        else:
            self.calm_gaps = _longer(self.calm_gaps, gap_ms)
            self.calm_ms = regular_ms(_unpacked(self.calm_gaps))

    def storm_begins(self) -> None:
        """Clear the habit of the last storm, because a new storm begins."""
        self.storm_gaps, self.storm_ms = b"", 0

    def forget(self) -> None:
        """Clear the habit, because the device's mode has changed (loaded, sailed)."""
        self.calm_gaps, self.storm_gaps, self.calm_ms, self.storm_ms = b"", b"", 0, 0

    def interval_ms(self, nominal_ms: int, *, storm: bool) -> int:
        """Return how long it may be silent before a reading is missed: its habit in a storm while there is one, else its long habit.

        Without a habit: `nominal_ms`, or the longest gap seen."""
        learned = (self.storm_ms if storm else 0) or self.calm_ms
        if not learned:
            learned = max(nominal_ms, *_unpacked(self.calm_gaps)) if self.calm_gaps else nominal_ms
        return INTERVAL_MS_MIN if learned < INTERVAL_MS_MIN else INTERVAL_MS_MAX if learned > INTERVAL_MS_MAX else learned


def _longer(gaps: bytes, gap_ms: int) -> bytes:
    """Return the gaps with one more at the end, GAPS_MAX of them at most."""
    return gaps[(1 - GAPS_MAX) * GAP_BYTES :] + min(gap_ms, GAP_MS_MAX).to_bytes(GAP_BYTES, sys.byteorder)


def _unpacked(gaps: bytes) -> Sequence[int]:
    return memoryview(gaps).cast("I")


def regular_ms(gaps_ms: Sequence[int]) -> int:
    """Return the interval at which most of the time of these gaps was spent, or 0: the gaps are of events, or too few.

    It is the longest gap that at least 4 gaps are like (within 25 %), where these make up 60 % of the time."""
    if len(gaps_ms) < LIKE_GAPS_MIN:
        return 0
    longest = max(gaps_ms)
    if min(gaps_ms) >= longest * (1 - LIKE_PART):
        return longest
    ordered = sorted(gaps_ms, reverse=True)
    needed = sum(ordered) * LIKE_TIME_PART
    for longest in ordered[: 1 - LIKE_GAPS_MIN]:
        like = [gap for gap in ordered if longest * (1 - LIKE_PART) <= gap <= longest]
        if len(like) >= LIKE_GAPS_MIN and sum(like) >= needed:
            return longest
    return 0


def grace_ms(interval_ms: int) -> int:
    """Return how much later than its interval a reading may come without being missed: a tenth, at least 30 s (clocks differ by that
    much)."""
    part_ms = int(interval_ms * GRACE_PART)
    return part_ms if part_ms > GRACE_MS_MIN else GRACE_MS_MIN
