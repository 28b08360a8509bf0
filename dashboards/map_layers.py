"""From the map's marks to what deck.gl draws: ships with their tails, ports, boxes as little stacks, alerts, what fell. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pydeck as pdk

from dashboards import geometry, texts, theme
from dashboards.map_marks import (
    Drawn,
    Row,
    alert_rows,
    block_rows,
    fan_out,
    fix_rows,
    lost_rows,
    port_rows,
    search_rows,
    ship_rows,
    tail_rows,
)

MAP_STYLE = "/app/static/style.json"
MARKS = "'/app/static/marks.png'"
ICONS: dict[str, dict[str, Any]] = {
    "ship": {"x": 0, "y": 0, "width": 96, "height": 96, "mask": True},
    "block": {"x": 96, "y": 2, "width": 48, "height": 32, "mask": True},
    "cross": {"x": 204, "y": 0, "width": 48, "height": 48, "mask": True},
}
PACIFIC: dict[str, float] = {"longitude": 148.0, "latitude": 1.0, "zoom": 1.9}
FONT = "'Source Sans, Segoe UI, Roboto, sans-serif'"
GLIDE_MS = 900
"""Duration of a ship's glide to its new place, ms: less than a refresh, so that a browser without a graphics card rests in between."""
_SHADOW = [*theme.rgb(theme.DEEP), 235]


def deck(layers: Sequence[pdk.Layer], camera: Mapping[str, float], flight: int = 0) -> pdk.Deck:
    """Return the map. While `camera` and `flight` stay the same the viewer keeps their own pan and zoom; another `flight` goes there
    again."""
    zoom = camera["zoom"] + flight % 1_000 * 1e-6
    state = pdk.ViewState(
        longitude=camera["longitude"], latitude=camera["latitude"], zoom=zoom, min_zoom=0.6, max_zoom=13, pitch=0, bearing=0
    )
    box = f"background:{theme.PANEL};color:{theme.TEXT};border:1px solid {theme.LINE};border-radius:6px;padding:8px 11px;"
    return pdk.Deck(
        layers=list(layers),
        initial_view_state=state,
        views=[pdk.View(type="MapView", controller=True, repeat=True)],
        map_provider="mapbox",
        map_style=MAP_STYLE,
        tooltip={
            "html": "<b>{title}</b><div style='white-space:pre-line;margin-top:3px'>{told}</div>",
            "style": {"all": "unset"} | dict(part.split(":", 1) for part in box.rstrip(";").split(";")) | {"font-size": "13px"},
        },
    )


def fleet_layers(fleet: Row, now_at_ms: int, beat: int, search: Row | None = None) -> list[pdk.Layer]:
    """Return all layers of the fleet map from an answer of `/api/map`. `beat`: counts the refreshes; open alerts swell and fade with it.
    `search`: an answer of `/api/incidents/{id}/search-area`, if there is one to show."""
    names = {ship["imo"]: ship["name"] for ship in fleet["ships"]} | {port["locode"]: port["name"] for port in fleet["ports"]}
    counted = texts.as_of(fleet["as_of_at_ms"], now_at_ms)
    ships = ship_rows(fleet["ships"], fleet["places"], now_at_ms, counted, fleet["ports"])
    ports = port_rows(fleet["ports"], fleet["places"], counted)
    lost = lost_rows(fleet["lost"], now_at_ms)
    alarmed = alert_rows(fleet, names, now_at_ms)
    return [
        *([_search(search_rows(search, now_at_ms))] if search else []),
        _tails(tail_rows(fleet["ships"])),
        _pulse(alarmed, beat),
        _ports(ports),
        _blocks(block_rows(fleet["places"], ships, ports, counted)),
        _ships(ships),
        _labels("port-names", ports, [*theme.rgb(theme.MUTED), 255], "end"),
        _labels("ship-names", ships, [*theme.rgb(theme.TEXT), 255], "middle"),
        *_lost(lost, beat),
    ]


def container_layers(track: Sequence[Sequence[float]], spot: Sequence[float] | None, overboard: bool, heard: str) -> list[pdk.Layer]:
    """Return one container's own positions as a track, and its present place."""
    pieces = [
        {"source": list(source), "target": list(target), "colour": [*theme.rgb(theme.ACCENT), 190]}
        for source, target in geometry.legs(track)
    ]
    now = [{"spot": list(spot), "title": "Fell here" if overboard else "Now", "told": f"heard {heard}"}] if spot else []
    tone = theme.ALERT if overboard else theme.DUCK
    mark = _icons("now", now, "cross" if overboard else "block", get_size=15 if overboard else 9, get_color=[*theme.rgb(tone), 255])
    dots = pdk.Layer(
        "ScatterplotLayer",
        fix_rows(track),
        id="fixes",
        get_position="spot",
        get_radius=2.6,
        radius_units="'pixels'",
        get_fill_color="colour",
        pickable=True,
    )
    return [_tails(pieces), dots, mark]


def camera_over(bounds: Row | None, width_px: int, height_px: int) -> dict[str, float]:
    """Return where the camera stands to see the bounds that an answer of `/api/map` gives; the whole Pacific for none."""
    return geometry.camera(bounds, width_px, height_px, zoom_max=6.0) or PACIFIC


def camera_for(points: Sequence[Sequence[float]], width_px: int, height_px: int) -> dict[str, float]:
    """Return where the camera stands to see these points `[longitude, latitude, …]`; the whole Pacific for none."""
    return geometry.camera(geometry.box_of(points), width_px, height_px, zoom_max=6.0) or PACIFIC


def _search(rows: list[Drawn]) -> pdk.Layer:
    return pdk.Layer(
        "PolygonLayer",
        rows,
        id="search-area",
        get_polygon="ring",
        get_fill_color="fill",
        get_line_color="line",
        stroked=True,
        line_width_min_pixels=1,
        pickable=True,
    )


def _tails(rows: list[Drawn]) -> pdk.Layer:
    return pdk.Layer(
        "LineLayer",
        rows,
        id="tails",
        get_source_position="source",
        get_target_position="target",
        get_color="colour",
        get_width=2.5,
        width_units="'pixels'",
        pickable=False,
    )


def _pulse(rows: list[Drawn], beat: int) -> pdk.Layer:
    swollen = beat % 2 == 1
    return pdk.Layer(
        "ScatterplotLayer",
        [{**row, "fill": [*row["colour"], 30 if swollen else 80]} for row in rows],
        id="alerts",
        get_position="spot",
        get_radius=34 if swollen else 18,
        radius_units="'pixels'",
        get_fill_color="fill",
        get_line_color="colour",
        stroked=True,
        get_line_width=1.6,
        line_width_units="'pixels'",
        pickable=True,
    )


def _ports(rows: list[Drawn]) -> pdk.Layer:
    return pdk.Layer(
        "ScatterplotLayer",
        rows,
        id="ports",
        get_position="spot",
        get_radius=5,
        radius_units="'pixels'",
        get_fill_color=[*theme.rgb(theme.DEEP), 255],
        get_line_color=[*theme.rgb(theme.MUTED), 255],
        stroked=True,
        get_line_width=2,
        line_width_units="'pixels'",
        pickable=True,
    )


def _icons(layer_id: str, rows: list[Drawn], icon: str, **how: Any) -> pdk.Layer:
    mark = {"data": rows, "id": layer_id, "icon_atlas": MARKS, "icon_mapping": ICONS, "get_icon": f"'{icon}'"}
    return pdk.Layer("IconLayer", get_position="spot", size_units="'pixels'", pickable=True, **(mark | how))


def _ships(rows: list[Drawn]) -> pdk.Layer:
    return _icons(
        "ships",
        rows,
        "ship",
        get_size=34,
        get_angle="angle",
        get_color=[255, 255, 255, 255],
        transitions={"getPosition": GLIDE_MS, "getAngle": GLIDE_MS},
    )


def _blocks(rows: list[Drawn]) -> pdk.Layer:
    return _icons(
        "boxes", rows, "block", get_size=5.2, get_color="colour", get_pixel_offset="offset_px", transitions={"getPosition": GLIDE_MS}
    )


def _labels(layer_id: str, rows: list[Drawn], colour: list[int] | str, anchor: str) -> pdk.Layer:
    """Return a layer of labels. `colour`: of all of them, or the name of the field that has each one's."""
    return pdk.Layer(
        "TextLayer",
        rows,
        id=layer_id,
        get_position="spot",
        get_text="label",
        get_size=12.5,
        get_color=colour,
        get_pixel_offset="offset_px",
        get_text_anchor=f"'{anchor}'",
        font_family=FONT,
        font_weight=600,
        character_set="'auto'",
        font_settings={"sdf": True, "fontSize": 48, "buffer": 8, "radius": 16},
        outline_width=3,
        outline_color=_SHADOW,
        transitions={"getPosition": GLIDE_MS} if layer_id == "ship-names" else {},
    )


def _lost(rows: list[Drawn], beat: int) -> list[pdk.Layer]:
    """Return the layers of lost boxes. Open ones swell with the beat; a closed one stands still."""
    sized = [{**row, "size_px": 14 if row["closed"] or beat % 2 else 17} for row in rows]
    crosses = _icons("lost", sized, "cross", get_size="size_px", get_color="colour")
    return [crosses, _labels("lost-numbers", fan_out(rows), "colour", "start")]
