"""One container's timeline taken apart: its milestones over ships and quays, what its sensors measured, and where it went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from cargo.heard import CLOCK_BACK
from dashboards import words
from dashboards.geometry import wrapped

Item = Mapping[str, Any]
Names = Mapping[str, str]
TEMPERATURES = ("setpoint_c", "supply_c", "return_c", "ambient_c")
GAP_MS = 3 * words.HOUR_MS
"""A state that no reading has confirmed for so long is not drawn as lasting."""
NOT_PROVEN = "not proven yet"
GRAVE = ("X_PROBABLE_OVERBOARD", "X_LOST_OVERBOARD", "X_MISSING", "X_FREE_FALL")
MILESTONES_HIDDEN = ("X_MUSTER",)


@dataclass(frozen=True, slots=True)
class Band:
    """A span of time, UTC ms, in which something lasted: `defrost`, `power off` or NOT_PROVEN."""

    what: str
    from_at_ms: int
    until_at_ms: int


def readings(items: Iterable[Item]) -> list[Item]:
    """The readings among a timeline's records, by the time that they are of: when they were received, where a clock fell back."""
    found = ({**item, "at_ms": item["received_at_ms"]} if _clock_fell_back(item) else item for item in items if item["kind"] == "reading")
    return sorted(found, key=lambda item: int(item["at_ms"]))


def milestones(items: Iterable[Item], names: Names) -> list[tuple[str, str, str]]:
    """What happened, newest first: what and where, when, and its tone."""
    told: list[tuple[int, str, str, str]] = []
    for item in items:
        body: dict[str, Any] = item["body"] or {}
        if item["kind"] == "event" and body.get("event") not in MILESTONES_HIDDEN:
            told.append((int(body.get("event_at_ms") or item["at_ms"]), body.get("node") or "", *_event(body, names)))
        elif item["kind"] == "alert" and body.get("state") in ("raised", "cleared", "retracted"):
            told.append((int(body.get("at_ms") or item["at_ms"]), "", *_alert(body)))
    told.sort(key=lambda step: step[0], reverse=True)
    return [(what, f"{words.stamp(at_ms)} UTC{f' · told by {node}' if node else ''}", tone) for at_ms, node, what, tone in told]


def _clock_fell_back(item: Item) -> bool:
    flags = (item["body"] or {}).get("flags")
    return isinstance(flags, list) and CLOCK_BACK in flags


def _alert(body: Item) -> tuple[str, str]:
    title = body.get("title") or (words.status(body["status"]) if body.get("status") else words.rule(body.get("rule") or "alert"))
    if body["state"] == "cleared" and body.get("status") == "REPORTED_FINAL":
        return title, "muted"  # it is as lost as it was
    return (title, "alert") if body["state"] == "raised" else (f"{body['state'].capitalize()}: {title}", "good")


def _event(body: Item, names: Names) -> tuple[str, str]:
    code = body["event"]
    ship, port = names.get(body.get("ship") or "", body.get("ship")), names.get(body.get("place") or "", body.get("place"))
    joints = {"LOAD": ("onto", "in"), "DISC": ("from", "in"), "ARRI": ("", "at"), "DEPA": ("", "from")}
    of_ship, of_port = joints.get(code, ("aboard", "in"))
    parts = [words.event(code)]
    parts += [f"{of_ship} {ship}".strip()] if ship else []
    parts += [f"{of_port} {port}"] if port else []
    if body.get("shock_g") is not None:
        parts.append(words.measured(body["shock_g"], "g"))
    if isinstance(body.get("until_at_ms"), int) and isinstance(body.get("event_at_ms"), int):
        peak, area = words.measured(body.get("peak_c"), "°C"), words.measured(body.get("degree_minutes"), "°C·min", 0)
        parts.append(f"for {words.span(body['until_at_ms'] - body['event_at_ms'])}, at most {peak} from the setpoint, {area}")
        if body.get("unmeasured_ms"):
            parts[-1] += f", {words.span(body['unmeasured_ms'])} of it not measured"
    tone = "alert" if code in GRAVE else "warning" if code.startswith("X_") else "accent"
    return " ".join(parts), tone


def temperatures(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Points of the chart: `at_ms`, `air`, `value_c`, one for each temperature of each reading, as measured."""
    return [
        {"at_ms": item["at_ms"], "air": name.removesuffix("_c"), "value_c": item["signals"][name]}
        for item in readings(items)
        for name in TEMPERATURES
        if isinstance(item["signals"].get(name), int | float)
    ]


def bands(items: Iterable[Item]) -> list[Band]:
    """When it was defrosting and when its power was off, each from the first reading that said so to the first that did not; and from
    which reading to which nothing is proven yet.
    """
    heard = readings(items)
    states = _spans(heard, "defrosting", True, "defrost") + _spans(heard, "power_on", False, "power off")
    stretches = (list(some) for proven, some in groupby(heard, lambda item: item["proven"]) if proven is False)
    return states + [Band(NOT_PROVEN, some[0]["at_ms"], some[-1]["at_ms"]) for some in stretches]


def _spans(heard: Iterable[Item], signal: str, value: bool, what: str) -> list[Band]:
    found: list[Band] = []
    since = last = None
    for item in heard:
        said = item["signals"].get(signal)
        if said is None:
            continue
        at_ms = item["at_ms"]
        if since is not None and last is not None and (said is not value or at_ms - last > GAP_MS):
            found.append(Band(what, since, at_ms if at_ms - last <= GAP_MS else last))
            since = None
        if said is value:
            since, last = (at_ms if since is None else since), at_ms
    if since is not None and last is not None:
        found.append(Band(what, since, last))
    return found


def shocks(items: Iterable[Item], at_least_g: float = 2.0) -> list[dict[str, Any]]:
    """Blows worth a mark: `at_ms`, `shock_g`."""
    return [
        {"at_ms": item["at_ms"], "shock_g": item["signals"]["shock_g"]}
        for item in readings(items)
        if isinstance(item["signals"].get("shock_g"), int | float) and item["signals"]["shock_g"] >= at_least_g
    ]


def track(items: Iterable[Item]) -> list[list[float]]:
    """Its own positions, `[longitude, latitude, at_ms]`, oldest first."""
    return [
        [wrapped(item["signals"]["longitude_deg"]), item["signals"]["latitude_deg"], item["at_ms"]]
        for item in readings(items)
        if isinstance(item["signals"].get("latitude_deg"), int | float) and isinstance(item["signals"].get("longitude_deg"), int | float)
    ]


def completeness(items: Sequence[Item]) -> dict[str, str]:
    """What is known of how whole the record is: readings, first, last, the longest silence between two, and what is not proven yet."""
    heard = readings(items)
    times = [item["at_ms"] for item in heard]
    if not times:
        return {"Readings": "none yet"}
    longest = max((later - earlier for earlier, later in pairwise(times)), default=0)
    return {
        "Readings": words.number(len(times)),
        "First": f"{words.stamp(times[0])} UTC",
        "Last": f"{words.stamp(times[-1])} UTC",
        "Longest silence": words.span(longest),
        **_fallen_back(heard),
        **_unproven(heard),
    }


def _fallen_back(heard: Sequence[Item]) -> dict[str, str]:
    """Of how many readings the device's clock had fallen back; nothing when there are none."""
    count = sum(map(_clock_fell_back, heard))
    return {"Clock fell back": f"{words.counted(count, 'reading')}: shown at the time of receipt"} if count else {}


def _unproven(heard: Sequence[Item]) -> dict[str, str]:
    """Of how many readings the node that took them in has not signed yet that it did, and since when; nothing when all are proven."""
    open_ = [item for item in heard if item["proven"] is False]
    if not open_:
        return {}
    signed_at_ms, by = min(item["signed_at_ms"] or 0 for item in open_), " and ".join(sorted({item["taken_in_by"] for item in open_}))
    since = (
        f"recorded by {by} after its last signature, {words.stamp(signed_at_ms)} UTC" if signed_at_ms else f"no signature of {by} is here"
    )
    return {NOT_PROVEN.capitalize(): f"{words.counted(len(open_), 'reading')}: {since}"}
