"""One container's history taken apart: its milestones over ships and quays, and what a chart of its readings says of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cargo.vocabulary.instants import DOUBTED
from dashboards import texts
from dashboards.geometry import wrapped

Item = Mapping[str, Any]
Names = Mapping[str, str]
NOT_PROVEN = "not proven yet"
BANDS = {"defrost": "defrost", "power_off": "power off", "unproven": NOT_PROVEN}
GRAVE = ("X_PROBABLE_OVERBOARD", "X_LOST_OVERBOARD", "X_MISSING", "X_FREE_FALL")
MILESTONES_HIDDEN = ("X_MUSTER",)


@dataclass(frozen=True, slots=True)
class Band:
    """A span of time, UTC ms, in which something of BANDS lasted."""

    what: str
    from_at_ms: int
    until_at_ms: int


def milestones(items: Iterable[Item], names: Names) -> list[tuple[str, str, str]]:
    """Return what happened, newest first: what and where, when, and its tone."""
    steps: list[tuple[int, str, bool, str, str]] = []
    for item in items:
        body: dict[str, Any] = item["body"] or {}
        doubted = body.get("clock_doubted") is True
        if item["kind"] == "event" and body.get("event") not in MILESTONES_HIDDEN:
            steps.append((int(body.get("event_at_ms") or item["at_ms"]), body.get("node") or "", doubted, *_event(body, names)))
        elif item["kind"] == "alert" and body.get("state") in ("raised", "cleared", "retracted"):
            steps.append((int(body.get("at_ms") or item["at_ms"]), "", doubted, *_alert(body)))
    steps.sort(key=lambda step: step[0], reverse=True)
    return [(what, _when(at_ms, node, doubted=doubted), tone) for at_ms, node, doubted, what, tone in steps]


def _when(at_ms: int, node: str, *, doubted: bool) -> str:
    return " · ".join([f"{texts.stamp(at_ms)} UTC", *([f"reported by {node}"] if node else []), *([DOUBTED] if doubted else [])])


def _alert(body: Item) -> tuple[str, str]:
    title = body.get("title") or (texts.status(body["status"]) if body.get("status") else texts.rule(body.get("rule") or "alert"))
    if body["state"] == "cleared" and body.get("status") == "REPORTED_FINAL":
        return title, "muted"  # it is as lost as it was
    return (title, "alert") if body["state"] == "raised" else (f"{body['state'].capitalize()}: {title}", "good")


def _event(body: Item, names: Names) -> tuple[str, str]:
    code = body["event"]
    ship, port = names.get(body.get("ship") or "", body.get("ship")), names.get(body.get("place") or "", body.get("place"))
    joints = {"LOAD": ("onto", "in"), "DISC": ("from", "in"), "ARRI": ("", "at"), "DEPA": ("", "from")}
    of_ship, of_port = joints.get(code, ("aboard", "in"))
    parts = [texts.event(code)]
    parts += [f"{of_ship} {ship}".strip()] if ship else []
    parts += [f"{of_port} {port}"] if port else []
    if body.get("shock_g") is not None:
        parts.append(texts.measured(body["shock_g"], "g"))
    if isinstance(body.get("until_at_ms"), int) and isinstance(body.get("event_at_ms"), int):
        peak, area = texts.measured(body.get("peak_c"), "°C"), texts.measured(body.get("degree_minutes"), "°C·min", 0)
        parts.append(f"for {texts.span(body['until_at_ms'] - body['event_at_ms'])}, at most {peak} from the setpoint, {area}")
        if body.get("unmeasured_ms"):
            parts[-1] += f", {texts.span(body['unmeasured_ms'])} of it not measured"
    tone = "alert" if code in GRAVE else "warning" if code.startswith("X_") else "accent"
    return " ".join(parts), tone


def bands(chart: Item) -> list[Band]:
    """Return the spans of each state, of an answer of `/api/containers/{number}/chart`."""
    return [Band(what, since, until) for name, what in BANDS.items() for since, until in chart["bands"][name]]


def track(chart: Item) -> list[list[float]]:
    """Return its own positions, `[longitude, latitude, at_ms]`, oldest first."""
    columns = (chart["track"][name] for name in ("longitude_deg", "latitude_deg", "at_ms"))
    return [[wrapped(longitude), latitude, at_ms] for longitude, latitude, at_ms in zip(*columns, strict=True)]


def drawn(chart: Item) -> tuple[int, int]:
    """Return of how many temperatures the chart's lines are, and how many of these they have."""
    lines = chart["lines"].items()
    return sum(line["measured"] for _, line in lines), sum(value is not None for name, line in lines for value in line[name])


def completeness(chart: Item) -> dict[str, str]:
    """Return how complete the record is known to be: readings, first, last, the longest silence between two, and what is not proven yet."""
    readings = chart["readings"]
    if not readings["count"]:
        return {"Readings": "none"}
    return {
        "Readings": texts.number(readings["count"]),
        "First": f"{texts.stamp(readings['first_at_ms'])} UTC",
        "Last": f"{texts.stamp(readings['last_at_ms'])} UTC",
        "Longest silence": texts.span(readings["longest_silence_ms"] or 0),
        **_fallen_back(readings["fell_back"]),
        **_unproven(readings["unproven"]),
    }


def _fallen_back(count: int) -> dict[str, str]:
    """Return of how many readings the device's clock had fallen back; nothing when there are none."""
    return {"Clock fell back": f"{texts.counted(count, 'reading')}: shown at the time of receipt"} if count else {}


def _unproven(readings: Item) -> dict[str, str]:
    """Return how many readings are not yet signed by the node that took them in, and since when; nothing when all are proven."""
    if not readings["count"]:
        return {}
    by, signed_at_ms = " and ".join(readings["taken_in_by"]), readings["signed_at_ms"]
    since = (
        f"recorded by {by} after its last signature, {texts.stamp(signed_at_ms)} UTC" if signed_at_ms else f"no signature of {by} is here"
    )
    return {NOT_PROVEN.capitalize(): f"{texts.counted(readings['count'], 'reading')}: {since}"}
