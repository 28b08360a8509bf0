"""A plan's numbers as people read them, and its legs as programs read them."""

from __future__ import annotations

from typing import Any

from edge.planning.backlog_model import LegTally
from edge.planning.leg_simulation import Day, LegOutcome
from edge.planning.voyage_inputs import DAY_S, HOUR_S, MINUTE_S
from edge.planning.voyage_plan import Planned

_AT_ONCE_S = 1.0


def size(bytes_: float) -> str:
    """Return a number of bytes as text: `812 B`, `4.62 kB`, `173 MB`; 1 MB is 1,000,000 bytes, as links are paid for."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes_ >= one:
            return f"{bytes_ / one:.3g} {unit}" if bytes_ < 1000 * one else f"{bytes_ / one:,.0f} {unit}"
    return f"{bytes_:.0f} B"


def age(seconds: float | None) -> str:
    """Return a span of time as text: `at once`, `44 s`, `7 min 35 s`, `20 d 3 h`; `not in this leg`, when there is none."""
    if seconds is None:
        return "not in this leg"
    if seconds < _AT_ONCE_S:
        return "at once"
    spans = ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "min"), (MINUTE_S, "min", 1.0, "s"))
    for large, large_name, small, small_name in spans:
        if round(seconds) >= large:
            whole, rest = divmod(round(seconds / small), round(large / small))
            return f"{whole} {large_name} {rest} {small_name}" if rest else f"{whole} {large_name}"
    return f"{round(seconds)} s"


def waits_bytes(leg: LegOutcome, stream: str, planned: Planned) -> float:
    """Return the bytes that it takes to bring the largest backlog of a stream over the port's link."""
    flow = next((one for one in planned.flows if one.stream == stream), None)
    waits, carrier = leg.streams[stream].waits_records_max, planned.legs[-1].link.line.carrier
    return waits * flow.backlog_bytes(carrier, waits) if flow and waits >= 1 else 0.0


def legs_json(planned: Planned) -> list[dict[str, Any]]:
    """Return the legs of a plan: names end in their unit, whole seconds from a leg's beginning, null where the leg does not reach it."""
    return [
        {
            "name": leg.name,
            "link": leg.link.policy.link_class,
            "from_at_ms": round(leg.begins_s * 1000),
            "until_at_ms": round(leg.ends_s * 1000),
            "streams": {
                stream: {**_tally_json(tally, leg.waiting_records[stream]), "waits_bytes_max": round(waits_bytes(leg, stream, planned))}
                for stream, tally in leg.streams.items()
            },
            "days": [_day_json(day) for day in leg.days],
        }
        for leg in planned.legs
    ]


def _tally_json(tally: LegTally, waiting: float) -> dict[str, Any]:
    return {
        "carried": tally.carried,
        "newest_after_s": None if tally.newest_after_s is None else round(tally.newest_after_s, 1),
        "all_after_s": None if tally.all_after_s is None else round(tally.all_after_s, 1),
        "lag_max_s": round(tally.lag_max_s, 1),
        "waits_records_max": round(tally.waits_records_max),
        "waits_records": round(waiting),
        "sent_records": round(tally.sent_records),
        "sent_bytes": round(tally.sent_bytes),
    }


def _day_json(day: Day) -> dict[str, Any]:
    return {
        "day": day.day,
        "bytes": round(day.bytes),
        "charged_bytes": day.charged_bytes,
        "cost": None if day.cost is None else round(day.cost, 4),
        "cut_at_ms": None if day.cut_s is None else round(day.cut_s * 1000),
    }
