"""From the API's rows to what deck.gl draws: ships with their tails, ports, boxes as little stacks, alerts, boxes where they fell.

Pure functions; positions are WGS 84 degrees within ±180, nothing drawn crosses ±180. Every thing that can be pointed at carries `title`
and `told`, the words of its tooltip, with the age of what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pydeck as pdk

from dashboards import blocks, theme, words
from dashboards.geometry import box_of, camera, legs, wrapped

Row = Mapping[str, Any]
Drawn = dict[str, Any]
MAP_STYLE = "/app/static/style.json"
MARKS = "'/app/static/marks.png'"
ICONS: dict[str, dict[str, Any]] = {
    "ship": {"x": 0, "y": 0, "width": 96, "height": 96, "mask": True},
    "block": {"x": 96, "y": 2, "width": 48, "height": 32, "mask": True},
    "cross": {"x": 204, "y": 0, "width": 48, "height": 48, "mask": True},
}
PACIFIC: dict[str, float] = {"longitude": 134.0, "latitude": 1.0, "zoom": 2.05}
FONT = "'Source Sans, Segoe UI, Roboto, sans-serif'"
BERTH_DEG = 0.5
"""What is closer together than this shares a place on the map: berths, alerts, boxes that fell."""
LABELS_MAX, LABEL_RIGHT_PX = 7, 64
GLIDE_MS = 900
"""How long a ship glides to her new place: less than a refresh, so that a browser without a graphics card rests in between."""
SEVERITIES = ("CRITICAL", "ALARM", "WARNING", "LOG")
STACK_PX = blocks.ROWS * blocks.BLOCK_HEIGHT_PX + 22
_SHADOW = [*theme.rgb(theme.DEEP), 235]


def deck(layers: Sequence[pdk.Layer], camera: Mapping[str, float], flight: int = 0) -> pdk.Deck:
    """The map. While `camera` and `flight` stay the same the viewer keeps their own pan and zoom; another `flight` goes there again."""
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


def fleet_layers(told: Row, now_at_ms: int, beat: int) -> list[pdk.Layer]:
    """All layers of the fleet map from an answer of `/api/map`. `beat`: counts the refreshes; open alerts swell and fade with it."""
    names = {ship["imo"]: ship["name"] for ship in told["ships"]} | {port["locode"]: port["name"] for port in told["ports"]}
    ships, ports = ship_rows(told["ships"], told["places"], now_at_ms), port_rows(told["ports"], told["places"])
    lost = lost_rows(told["lost"], now_at_ms)
    alarmed = alert_rows(told["alerts"], told["ships"], names, now_at_ms)
    return [
        _tails(tail_rows(told["ships"])),
        _pulse(alarmed, beat),
        _ports(ports),
        _blocks(block_rows(told["places"], ships, ports)),
        _ships(ships),
        _labels("port-names", ports, theme.MUTED, "end"),
        _labels("ship-names", ships, theme.TEXT, "middle"),
        *_lost(lost, beat),
    ]


def ship_rows(ships: Iterable[Row], places: Iterable[Row], now_at_ms: int) -> list[Drawn]:
    """Ships that have a position, each with its heading, label, and `berth`: how many drawn before it lie at the same spot."""
    aboard = {place["place"]["id"]: place["boxes"] for place in places if place["place"] and place["place"]["kind"] == "ship"}
    drawn: list[Drawn] = []
    for ship in ships:
        where = ship["position"]
        if where is None:
            continue
        spot = [wrapped(where["longitude_deg"]), where["latitude_deg"]]
        berth = sum(1 for other in drawn if _near(other["spot"], spot))
        facts = [
            words.counted(aboard.get(ship["imo"], 0), "box", "boxes") + " aboard",
            f"{words.measured(ship['speed_kn'], 'kn')}, course {words.measured(ship['course_deg'], '°', 0)}",
            words.position(where),
            f"position {words.age(where['at_ms'], now_at_ms)}",
        ]
        name = ship["name"] or f"IMO {ship['imo']}"
        drawn.append(
            {"id": ship["imo"], "title": name, "label": name, "told": "\n".join(facts), "spot": spot, "berth": berth}
            | {"angle": -float(ship["course_deg"] or 0.0), "offset_px": [0, 24 if not berth else 24 + 16 * berth]}
        )
    return drawn


def port_rows(ports: Iterable[Row], places: Iterable[Row]) -> list[Drawn]:
    """Ports, each with what stands on its quay."""
    standing = {place["place"]["id"]: place["boxes"] for place in places if place["place"] and place["place"]["kind"] == "quay"}
    return [
        {
            "id": port["locode"],
            "title": f"{port['name']} · {port['locode']}",
            "label": port["name"],
            "told": f"{words.counted(standing.get(port['locode'], 0), 'box', 'boxes')} on the quay\n{words.position(port)}",
            "spot": [wrapped(port["longitude_deg"]), port["latitude_deg"]],
            "offset_px": [-11, 0],
        }
        for port in ports
    ]


def tail_rows(ships: Iterable[Row]) -> list[Drawn]:
    """The ships' tracks as legs that fade with their age and never cross ±180."""
    drawn = []
    for ship in ships:
        pieces = legs(ship["track"])
        for at, (source, target) in enumerate(pieces):
            alpha = round(20 + 200 * (at + 1) / len(pieces))
            drawn.append({"source": list(source), "target": list(target), "colour": [*theme.rgb(theme.ACCENT), alpha]})
    return drawn


def block_rows(places: Sequence[Row], ships: Sequence[Row], ports: Sequence[Row]) -> list[Drawn]:
    """The little containers of every place that has a mark on the map."""
    berths = {("ship", ship["id"]): ship for ship in ships} | {("quay", port["id"]): port for port in ports}
    located = [place for place in places if place["place"] and (place["place"]["kind"], place["place"]["id"]) in berths]
    per_block = blocks.boxes_per_block(located)
    drawn = []
    for place in located:
        mark = berths[place["place"]["kind"], place["place"]["id"]]
        words_of_place = "\n".join(
            f"{words.number(group['boxes'])} {group['name'] or 'without booking'}" for group in place["groups"] if not group["ended"]
        )
        for block in blocks.stack(place, per_block):
            right, down = block.offset_px
            drawn.append(
                {"title": mark["title"], "told": words_of_place, "spot": mark["spot"], "colour": list(block.colour)}
                | {"offset_px": [right, down - STACK_PX * mark.get("berth", 0)]}
            )
    return drawn


def lost_rows(lost: Iterable[Row], now_at_ms: int) -> list[Drawn]:
    """Boxes overboard that have a position: where each fell, its number and slot."""
    drawn = []
    for box in lost:
        where = box["position"]
        if where is None:
            continue
        basis = words.BASES.get(where["basis"] or "", "basis unknown")
        facts = [words.status(box["status"]), words.slot(box["slot"]), f"{words.position(where)} · {basis}"]
        facts.append(f"fell {words.age(where['at_ms'], now_at_ms)} · raised {words.age(box['raised_at_ms'], now_at_ms)}")
        drawn.append(
            {"id": box["container"], "title": box["container"], "label": box["container"], "told": "\n".join(facts)}
            | {"spot": [wrapped(where["longitude_deg"]), where["latitude_deg"]], "colour": list(box["colour"] or theme.rgb(theme.ALERT))}
        )
    return drawn


def fan_out(drawn: Sequence[Drawn]) -> list[Drawn]:
    """Labels beside boxes that fell close together, one under the other, so that all can be read; past LABELS_MAX only how many more."""
    clusters: list[list[Drawn]] = []
    for row in drawn:
        near = next((one for one in clusters if _near(one[0]["spot"], row["spot"])), None)
        if near is None:
            clusters.append([row])
        else:
            near.append(row)
    placed = []
    for cluster in clusters:
        top = -8 * min(len(cluster), LABELS_MAX + 1)
        for at, row in enumerate(cluster[:LABELS_MAX]):
            placed.append({**row, "offset_px": [LABEL_RIGHT_PX, top + 16 * at]})
        if len(cluster) > LABELS_MAX:
            more = {**cluster[0], "label": f"and {len(cluster) - LABELS_MAX} more"}
            placed.append({**more, "offset_px": [LABEL_RIGHT_PX, top + 16 * LABELS_MAX]})
    return placed


def alert_rows(alerts: Iterable[Row], ships: Iterable[Row], names: Mapping[str, str], now_at_ms: int) -> list[Drawn]:
    """One mark for every spot with open alerts: where the gravest says it happened, else where its ship is."""
    where = {ship["imo"]: ship["position"] for ship in ships}
    clusters: list[tuple[list[float], list[Row]]] = []
    for alert in sorted(alerts, key=lambda one: (SEVERITIES.index(one["severity"]), -one["raised_at_ms"])):
        at = alert["position"] or where.get(alert["ship"] or "")
        if not at:
            continue
        spot = [wrapped(at["longitude_deg"]), at["latitude_deg"]]
        near = next((raised for known, raised in clusters if _near(known, spot)), None)
        if near is None:
            clusters.append((spot, [alert]))
        else:
            near.append(alert)
    return [_alarmed(spot, raised, names, now_at_ms) for spot, raised in clusters]


def _alarmed(spot: list[float], raised: list[Row], names: Mapping[str, str], now_at_ms: int) -> Drawn:
    gravest = raised[0]
    ship = names.get(gravest["ship"] or "", "")
    facts = [gravest["title"], *([ship] if ship else []), f"raised {words.age(gravest['raised_at_ms'], now_at_ms)}"]
    tone = theme.TONES[theme.SEVERITY_TONES.get(gravest["severity"], "warning")]
    title = words.counted(len(raised), "open alert")
    return {"title": title, "told": "\n".join(facts), "spot": spot, "colour": [*theme.rgb(tone)]}


def _near(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) < BERTH_DEG for a, b in zip(one, other, strict=True))


def spot_of(box: Row, told: Row, lost: Mapping[str, Row]) -> list[float] | None:
    """Where one container (of `/api/containers/{number}`) is now: where it fell, its ship's or port's place, or its own last position."""
    if fallen := (lost.get(box["number"]) or {}).get("position"):
        return [wrapped(fallen["longitude_deg"]), fallen["latitude_deg"]]
    places = {("ship", ship["imo"]): ship["position"] for ship in told["ships"]} | {
        ("quay", port["locode"]): port for port in told["ports"]
    }
    at = places.get((box["place"]["kind"], box["place"]["id"])) if box["place"] and not box["ended"] else None
    at = at or box["position"]
    return [wrapped(at["longitude_deg"]), at["latitude_deg"]] if at else None


def container_layers(track: Sequence[Sequence[float]], spot: Sequence[float] | None, overboard: bool, heard: str) -> list[pdk.Layer]:
    """One container's own positions as a track, and where it is now."""
    pieces = [{"source": list(source), "target": list(target), "colour": [*theme.rgb(theme.ACCENT), 190]} for source, target in legs(track)]
    fixes = [
        {
            "spot": list(fix[:2]),
            "colour": [*theme.rgb(theme.ACCENT)],
            "title": "Its own position",
            "told": f"{words.position({'longitude_deg': fix[0], 'latitude_deg': fix[1]})}\n{words.stamp(round(fix[2]))} UTC",
        }
        for fix in track
    ]
    now = [{"spot": list(spot), "title": "Fell here" if overboard else "Now", "told": f"heard {heard}"}] if spot else []
    tone = theme.ALERT if overboard else theme.DUCK
    mark = _icons("now", now, "cross" if overboard else "block", get_size=15 if overboard else 9, get_color=[*theme.rgb(tone), 255])
    dots = pdk.Layer(
        "ScatterplotLayer",
        fixes,
        id="fixes",
        get_position="spot",
        get_radius=2.6,
        radius_units="'pixels'",
        get_fill_color="colour",
        pickable=True,
    )
    return [_tails(pieces), dots, mark]


def camera_over(bounds: Row | None, width_px: int, height_px: int) -> dict[str, float]:
    """Where the camera stands to see the bounds that an answer of `/api/map` gives; the whole Pacific for none."""
    return camera(bounds, width_px, height_px, zoom_max=6.0) or PACIFIC


def camera_for(points: Sequence[Sequence[float]], width_px: int, height_px: int) -> dict[str, float]:
    """Where the camera stands to see these points `[longitude, latitude, …]`; the whole Pacific for none."""
    return camera(box_of(points), width_px, height_px, zoom_max=6.0) or PACIFIC


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


def _labels(layer_id: str, rows: list[Drawn], colour: str, anchor: str) -> pdk.Layer:
    return pdk.Layer(
        "TextLayer",
        rows,
        id=layer_id,
        get_position="spot",
        get_text="label",
        get_size=12.5,
        get_color=[*theme.rgb(colour), 255],
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
    crosses = _icons("lost", rows, "cross", get_size=14 if beat % 2 else 17, get_color=[*theme.rgb(theme.ALERT), 255])
    return [crosses, _labels("lost-numbers", fan_out(rows), theme.ALERT, "start")]
