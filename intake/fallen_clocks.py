"""Devices whose clock fell back: their readings are flagged, and are of when they were received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cargo.loss.event_time import SOUND_MS, TrackerClock

CLOCKS_MAX = 32_768
"""Maximum number of clocks that are remembered; the one that came late first is forgotten first."""


class FallenClocks:
    """The clocks of devices whose readings come late, as this node took them in. Devices are known by a number, `whose`."""

    def __init__(self) -> None:
        self._clocks: dict[int, TrackerClock] = {}

    def note(self, whose: Sequence[int], times_ms: Sequence[int | None], received_at_ms: Iterable[int]) -> set[int]:
        """Take in readings in the order in which they came: by their device's clock (None: it says no time) and by ours, UTC ms.

        Returns, by their place, those of clocks that fell back (`cargo.loss.event_time.TrackerClock`).
        """
        fallen: set[int] = set()
        for row, (one, at_ms, came_ms) in enumerate(zip(whose, times_ms, received_at_ms, strict=False)):
            if at_ms is None or (came_ms - at_ms <= SOUND_MS and one not in self._clocks):
                continue
            if came_ms - at_ms <= SOUND_MS:
                del self._clocks[one]
            elif self._clock(one).corrected_at_ms(came_ms, at_ms) > at_ms:
                fallen.add(row)
        return fallen

    def _clock(self, whose: int) -> TrackerClock:
        known = self._clocks.get(whose)
        if known is None:
            if len(self._clocks) >= CLOCKS_MAX:
                del self._clocks[next(iter(self._clocks))]
            known = self._clocks[whose] = TrackerClock()
        return known
