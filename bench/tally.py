"""What came of strikes at an MQTT server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Of so many strikes: how many readings had been acknowledged, how many of these were not found, and how many were found more than
    once."""

    strikes: int
    acknowledged: int
    lost: int
    twice: int
