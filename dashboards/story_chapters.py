"""The story's chapters as the page shows them: what has just happened, what was measured of it, and where on the map to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cargo.vocabulary.durations import HOUR_MS
from dashboards import texts

Answer = Mapping[str, Any]
INCIDENT_ZOOM, PORT_ZOOM = 6.2, 4.6


@dataclass(frozen=True, slots=True)
class CameraView:
    """Somewhere the map can go: what the button says, and where the camera stands then."""

    title: str
    longitude: float
    latitude: float
    zoom: float


def port_of(chapter: Answer, ports: Iterable[Answer]) -> Answer | None:
    """Return the port whose name a chapter's title bears."""
    return next((port for port in ports if port["name"] in chapter["title"]), None)


def looks(chapter: Answer, fleet: Answer, incidents: Sequence[Answer]) -> list[CameraView]:
    """Return where to look for this chapter: its incident, its port, and the ships its text names. `fleet`: an answer of `/api/map`."""
    views = []
    if incident := incident_of(chapter, incidents):
        where = incident["position"]
        views.append(CameraView("Where they fell", where["longitude_deg"], where["latitude_deg"], INCIDENT_ZOOM))
    if port := port_of(chapter, fleet["ports"]):
        views.append(CameraView(port["name"], port["longitude_deg"], port["latitude_deg"], PORT_ZOOM))
    for ship in fleet["ships"]:
        if ship["position"] and ship["name"] and ship["name"] in chapter["text"]:
            views.append(CameraView(ship["name"], ship["position"]["longitude_deg"], ship["position"]["latitude_deg"], PORT_ZOOM))
    return views


def incident_of(chapter: Answer, incidents: Sequence[Answer]) -> Answer | None:
    """Return the last incident raised before the chapter's text was written, when the chapter is about boxes overboard."""
    if "overboard" not in chapter["title"]:
        return None
    return next((one for one in incidents if one["position"] and one["raised_at_ms"] <= chapter["at_ms"] + HOUR_MS), None)


def measured(chapter: Answer, port: Answer | None, incidents: Sequence[Answer], names: Mapping[str, str]) -> list[str]:
    """Return sentences with numbers on what the sensors and papers say of this chapter. `port`: the answer of `/api/ports` for its port."""
    if incident := incident_of(chapter, incidents):
        return _incident_facts(incident)
    if port is None:
        return []
    calls = [call for call in port["calls"] if call["sailed_at_ms"] is not None and call["sailed_at_ms"] <= chapter["at_ms"] + HOUR_MS]
    return _call_facts(calls[0], names) if calls else []


def _call_facts(call: Answer, names: Mapping[str, str]) -> list[str]:
    ship = names.get(call["ship"], call["ship"])
    facts = [f"{ship} sailed {texts.stamp(call['sailed_at_ms'])} UTC"]
    for key, listed, verb in (("discharged", "to_discharge", "came off"), ("loaded", "to_load", "went aboard")):
        if call[listed]["count"]:
            facts.append(
                f"{texts.number(call[key]['count'])} of {texts.counted(call[listed]['count'], 'listed box', 'listed boxes')} {verb}"
            )
    muster = call["muster"]
    if muster and muster["instrumented"] is not None:
        counted = f"{texts.number(muster['accounted'])} of {texts.number(muster['instrumented'])} accounted for"
        facts.append(f"muster of {texts.stamp(muster['at_ms'])} UTC: {counted}")
    if call["left_behind"]["count"]:
        facts.append(f"{texts.counted(call['left_behind']['count'], 'box', 'boxes')} left behind")
    return facts


def _incident_facts(incident: Answer) -> list[str]:
    return [
        f"{texts.counted(len(incident['containers']), 'box', 'boxes')} in bay {', '.join(f'{bay:03d}' for bay in incident['bays']) or '–'}",
        f"raised {texts.stamp(incident['raised_at_ms'])} UTC at {texts.position(incident['position'])}",
        f"{texts.counted(incident['open_alerts'], 'alert')} open",
    ]
