"""The chapters of the story: when each begins, when its text is written, and in which words."""

from __future__ import annotations

from dataclasses import dataclass

from sim.arrays import MINUTE_MS
from sim.companies import DUCKWORKS, MERLION
from sim.voyages import SHIPS, Timeline

FIRST, SECOND = SHIPS[0].name, SHIPS[1].name


@dataclass(frozen=True, slots=True)
class Chapter:
    """One chapter: its events happen from `begins_at_ms`; its text is written at `written_at_ms`, when they have happened (UTC ms)."""

    id: str
    begins_at_ms: int
    written_at_ms: int
    title: str
    text: str
    look: str


def chapters(times: Timeline) -> tuple[Chapter, ...]:
    """Return A, B and C, in order of time."""
    tokyo, singapore = times.first.calls[0], times.first.calls[1]
    duck, medicine = DUCKWORKS.name, MERLION.name
    return (
        Chapter(
            "A",
            tokyo.loads[0],
            tokyo.departs_at_ms,
            "Tokyo: the ducks go aboard",
            f"{FIRST} has sailed from Tokyo for Singapore with the toy ducks of {duck} and other companies' goods. "
            "Singapore has its load list days before it comes.",
            f"The map: follow {FIRST} out of Tokyo Bay. The port view of Singapore: what is expected. As {duck}: only its own boxes.",
        ),
        Chapter(
            "B",
            singapore.arrives_at_ms,
            singapore.departs_at_ms,
            "Singapore: the ducks part",
            "Some ducks have come off for Singapore's shops, where their booking ends. "
            f"Some wait on the quay for {SECOND} and London. The rest sail on with {FIRST}, "
            f"and boxes of other companies have come aboard, {medicine}'s medicines among them.",
            f"The map: two colours at Singapore's quay and on {FIRST}. "
            "The port view: left behind, new, confirmed aboard, as the sensors report. "
            f"As {medicine}: its own boxes and nothing else.",
        ),
        Chapter(
            "C",
            times.falls_at_ms,
            times.falls_at_ms + 2 * MINUTE_MS,
            "Off Sydney: boxes overboard",
            f"{FIRST} has rolled heavily off Sydney and boxes have slid off its stern. "
            "The alert goes over the satellite link ahead of everything else; the readings behind it wait for port.",
            "The map: where they fell. The alerts: the evidence for each box. "
            "The ship's link: what went over the satellite and what waits.",
        ),
    )
