"""The rows of the table of goals that a run of `bench.duel` measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.results import Measured

OURS = "landfall"


def goals(figures: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows, of the parts that were run."""
    rows: dict[str, Measured] = {}
    if OURS in figures.get("link", {}):
        rows |= _slow_link(figures["link"])
    if OURS in figures.get("loopback", {}):
        rows |= _loopback(figures["loopback"])
    if "meeting" in figures:
        carried, trips = figures["meeting"]["bytes_after_upgrade"], figures["meeting"]["round_trips_after_upgrade"]
        rows["meeting"] = Measured(f"{carried} B; {trips}", carried <= 1_024 and trips <= 2)
    if "cycle" in figures:
        rows["ring"] = Measured(str(figures["cycle"]["of_least"]), figures["cycle"]["of_least"] <= 1.1)
    return rows


def _slow_link(sides: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the slow link. A side that did not reach its end gives none."""
    ours = sides[OURS]
    if "ended_by" in ours:
        return {}
    quiet, alerts, cut = (ours[phase]["share"] for phase in ("quiet", "alerts", "cuts"))
    came_s, waited, slowed = ours["first_block_came_after_upgrade_s"], ours["alerts"], ours["alerts"]["backlog_slowed"]
    differ = [ours[name] for name in ("lost", "duplicated", "changed")]
    rows = {
        "bytes": Measured(str(ours["bytes_reading"]), ours["bytes_reading"] <= 8, _peers(sides, lambda side: side["bytes_reading"])),
        "share": Measured(
            f"{quiet:.3f}; {alerts:.3f}", min(quiet, alerts) >= 0.95, _peers(sides, lambda side: f"{side['quiet']['share']:.3f}")
        ),
        "resent": Measured(
            f"{ours['resent_block_bytes']:,} of {ours['block_bytes']:,} bytes; {', '.join(map(str, differ))}",
            ours["resent_share"] <= 0.01 and not any(differ),
        ),
    }
    if waited["published"]:
        figure = f"{waited['heard']} alerts: p50 {waited['p50_s']} s, the longest {waited['max_s']} s"
        rows["alert"] = Measured(figure, waited["p99_s"] <= 0.8, _peers(sides, lambda side: f"{side['alerts'].get('p99_s')} s"))
        rows["slowed"] = Measured(f"{slowed:.1%}", slowed <= 0.05)
    if came_s:
        rows["share_cut"] = Measured(f"{cut:.3f}", cut >= 0.95, _peers(sides, lambda side: f"{side['cuts']['share']:.3f}"))
        rows["first_block"] = Measured(f"{', '.join(map(str, came_s))} s", max(came_s) <= 0.7)
    return rows


def _loopback(sides: dict[str, Any]) -> dict[str, Measured]:
    ours = sides[OURS]
    rate, memory_mib, after_mib = ours["readings_s"], ours["memory_peak_mib"].values(), ours["shore_memory_peak_after_mib"]
    return {
        "catching_up": Measured(
            f"{rate:,}/s; {', '.join(map(str, memory_mib))} MiB",
            rate >= 1_000_000 and max(memory_mib) <= 256,
            _peers(sides, lambda side: f"{side['readings_s']:,}/s"),
        ),
        "receiver_after": Measured(f"{after_mib} MiB", after_mib <= 256),
    }


def _peers(sides: dict[str, Any], figure: Callable[[dict[str, Any]], object]) -> str | None:
    """Return what the other sides of the run reached; None keeps the row's text where ours ran alone."""
    reached = [f"{name} {figure(side)}" for name, side in sides.items() if name != OURS and "ended_by" not in side]
    return ", ".join(reached) or None
