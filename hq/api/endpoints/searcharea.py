"""Where to search for the boxes of an incident: leeway drift from where the ship was when they fell. Not for navigation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import select

from cargo.search.drift import HOUR_MS, HOURS_MAX, PARTICLES_MAX, LossSegment, TrackPoint, segment_along
from cargo.search.forecast import CURRENT_MS_MAX, WIND_MS_MAX, Forecast, Weather
from cargo.search.search_area import Search, search_area
from cargo.vocabulary.geo import is_position
from cargo.vocabulary.position_fixes import with_believed_positions
from hq.api.access import Right
from hq.api.error_answers import ApiError, not_found
from hq.api.services import Asking, StoreView

router = APIRouter()
Fields = dict[str, Any]
FIXES_WITHIN_MS = 6 * HOUR_MS
"""Maximum time between a loss and the ship's fixes that show where it was, milliseconds."""
FELL_WITHIN_MS = 6 * HOUR_MS
"""Boxes of one incident fell within so long of the first: a span that says more is cut there."""
WIND_WITHIN_MS = 6 * HOUR_MS
"""Maximum age, at a loss, of a ship's wind report that is used for the drift when the request gives no wind, milliseconds."""
Wind = Annotated[float | None, Query(ge=0, le=WIND_MS_MAX)]
Current = Annotated[float, Query(ge=0, le=CURRENT_MS_MAX)]
From = Annotated[float | None, Query(ge=0, le=360)]
Towards = Annotated[float, Query(ge=0, le=360)]
Hours = Annotated[int, Query(ge=1, le=HOURS_MAX)]
Particles = Annotated[int, Query(ge=10, le=PARTICLES_MAX)]


@router.get("/incidents/{incident_id}/search-area")
def area(
    ask: Asking,
    incident_id: str,
    wind_speed_ms: Wind = None,
    wind_from_deg: From = None,
    current_speed_ms: Current = 0.0,
    current_towards_deg: Towards = 0.0,
    hours: Hours = 24,
    particles: Particles = 1_000,
) -> Fields:
    """Return where the lost containers may be, as GeoJSON: the loss segment, and 50 % and 95 % hulls. Staff only. Not for navigation.

    Without a wind, the ship's last report before the loss is used. `weather.basis` is `GIVEN` or `SHIP`; `weather.at_ms` is the time of
    the ship's report.
    """
    ask.need(Right.SEE_SEARCH_AREAS)
    with ask.look() as look:
        segment, ship = _segment(look, incident_id)
        if (wind_speed_ms is None) != (wind_from_deg is None):
            hint = "Give wind_speed_ms and wind_from_deg, or neither."
            raise ApiError(422, "wind_incomplete", "A wind has a speed and a direction.", hint)
        basis, reported_at_ms = "GIVEN", None
        if wind_speed_ms is None or wind_from_deg is None:
            basis, (reported_at_ms, wind_speed_ms, wind_from_deg) = "SHIP", _wind(look, ship, segment)
        weather = Weather(segment.start.at_ms, wind_speed_ms, wind_from_deg, current_speed_ms, current_towards_deg)
        return look.framed(
            from_log=True,
            incident_id=incident_id,
            ship=ship,
            hours=hours,
            weather={
                "basis": basis,
                "at_ms": reported_at_ms,
                "wind_speed_ms": weather.wind_speed_ms,
                "wind_from_deg": weather.wind_from_deg,
                "current_speed_ms": weather.current_speed_ms,
                "current_towards_deg": weather.current_towards_deg,
            },
            area=search_area(Search(segment, Forecast([weather]), hours, particles)),
        )


def _segment(look: StoreView, incident_id: str) -> tuple[LossSegment, str]:
    """Return the segment on which the incident's boxes fell, and their ship. The segment is the ship's track between the first loss and the
    last, else the places in the alerts. Raises ApiError 404 for an incident that the viewer may not see, 409 for one whose place is
    unknown."""
    incidents, alerts = look.sight.incidents().subquery(), look.sight.alerts().subquery()
    rows = look.rows(select(incidents).where(incidents.c.incident_id == incident_id))
    if not rows:
        raise not_found("incident_unknown", "incident")
    row = rows[0]
    clusters = [alert["incident"] for alert in look.rows(select(alerts).where(alerts.c.incident_id == incident_id)) if alert["incident"]]
    spans = [
        (cluster["from_at_ms"], cluster["until_at_ms"]) for cluster in clusters if cluster.get("from_at_ms") and cluster.get("until_at_ms")
    ]
    start, end = (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (row["raised_at_ms"], row["raised_at_ms"])
    end = min(max(start, end), start + FELL_WITHIN_MS)
    track = look.sight.track(row["ship"]).subquery()
    near = track.c.order_at_ms.between(start - FIXES_WITHIN_MS, end + FIXES_WITHIN_MS)
    signals = [
        (reading["order_at_ms"], reading["signals"] or {}) for reading in look.rows(select(track).where(near).order_by(track.c.order_at_ms))
    ]
    there = [
        (at, values)
        for at, values in with_believed_positions(signals)
        if is_position(values.get("latitude_deg"), values.get("longitude_deg"))
    ]
    fixes = [TrackPoint(at, values["latitude_deg"], values["longitude_deg"]) for at, values in there]
    if not fixes and row["latitude_deg"] is not None:
        fixes = [TrackPoint(start, row["latitude_deg"], row["longitude_deg"])]
    segment = segment_along(fixes, start, end)
    if segment is None:
        hint = "The ship has sent no position around that time yet: ask again later."
        raise ApiError(409, "place_of_loss_unknown", "Nobody knows where these boxes fell.", hint)
    return segment, str(row["ship"])


def _wind(look: StoreView, ship: str, segment: LossSegment) -> tuple[int, float, float]:
    """Return the ship's last wind report before the loss: when (UTC ms), m/s, degrees it came from. Raises ApiError 422 when there is
    none."""
    weather = look.sight.weather(ship).subquery()
    before = weather.c.order_at_ms.between(segment.start.at_ms - WIND_WITHIN_MS, segment.end.at_ms)
    for one in look.rows(select(weather).where(before).order_by(weather.c.order_at_ms.desc())):
        signals = one["signals"] or {}
        if {"wind_speed_ms", "wind_direction_deg"} <= signals.keys():
            return one["order_at_ms"], min(signals["wind_speed_ms"], WIND_MS_MAX), signals["wind_direction_deg"]
    raise ApiError(422, "wind_unknown", "The ship reported no wind before the loss.", "Give wind_speed_ms and wind_from_deg.")
