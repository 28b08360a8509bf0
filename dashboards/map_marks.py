"""From the API's rows to the marks of the map: where each stands, what it says when pointed at, how old that is. Pure functions.

Positions are `[longitude, latitude]`, WGS 84 degrees within ±180; nothing crosses ±180. Every mark that can be pointed at carries `title`
and `told`, the words of its tooltip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cargo.alerts.alert_log import count_alerts
from dashboards import container_blocks, texts, theme
from dashboards.geometry import legs, wrapped

Row = Mapping[str, Any]
Drawn = dict[str, Any]
BERTH_DEG = 0.5
"""Distance below which berths, alerts and fallen boxes share a place on the map, degrees."""
STACK_PX = container_blocks.ROWS * container_blocks.BLOCK_HEIGHT_PX + 22
LABELS_MAX, LABEL_RIGHT_PX, LABEL_ABOVE_PX = 7, 64, 62
SEVERITIES = ("CRITICAL", "ALARM", "WARNING", "LOG")


def ship_rows(ships: Iterable[Row], places: Iterable[Row], now_at_ms: int, counted: str, ports: Sequence[Row] = ()) -> list[Drawn]:
    """Return the ships that have a position, each with its heading, label, and `berth`: how many drawn before it lie at the same spot.
    `counted`: how old the places are. The label is under the ship, or above its boxes if it lies at one of the `ports`, whose own boxes are
    drawn there."""
    quays = [[wrapped(port["longitude_deg"]), port["latitude_deg"]] for port in ports]
    aboard = {place["place"]["id"]: place["boxes"] for place in places if place["place"] and place["place"]["kind"] == "ship"}
    drawn: list[Drawn] = []
    for ship in ships:
        where = ship["position"]
        if where is None:
            continue
        spot = [wrapped(where["longitude_deg"]), where["latitude_deg"]]
        berth = sum(1 for other in drawn if _near(other["spot"], spot))
        facts = [
            f"{texts.counted(aboard.get(ship['imo'], 0), 'box', 'boxes')} aboard, {counted}",
            f"{texts.measured(ship['speed_kn'], 'kn')}, course {texts.measured(ship['course_deg'], '°', 0)}",
            texts.position(where),
            f"position {texts.age(where['at_ms'], now_at_ms)}",
        ]
        name = ship["name"] or f"IMO {ship['imo']}"
        drawn.append(
            {"id": ship["imo"], "title": name, "label": name, "told": "\n".join(facts), "spot": spot, "berth": berth}
            | {"angle": -float(ship["course_deg"] or 0.0), "offset_px": [0, _label_down_px(spot, berth, quays)]}
        )
    return drawn


def _label_down_px(spot: list[float], berth: int, quays: Sequence[list[float]]) -> int:
    moored = any(_near(quay, spot) for quay in quays)
    return -(LABEL_ABOVE_PX + STACK_PX * berth) if moored else 24 + 16 * berth


def port_rows(ports: Iterable[Row], places: Iterable[Row], counted: str) -> list[Drawn]:
    """Return ports, each with the boxes on its quay. `counted`: how old the places are."""
    standing = {place["place"]["id"]: place["boxes"] for place in places if place["place"] and place["place"]["kind"] == "quay"}
    return [
        {
            "id": port["locode"],
            "title": f"{port['name']} · {port['locode']}",
            "label": port["name"],
            "told": f"{texts.counted(standing.get(port['locode'], 0), 'box', 'boxes')} on the quay, {counted}\n{texts.position(port)}",
            "spot": [wrapped(port["longitude_deg"]), port["latitude_deg"]],
            "offset_px": [-11, 0],
        }
        for port in ports
    ]


def tail_rows(ships: Iterable[Row]) -> list[Drawn]:
    """Return the ships' tracks as legs that fade with their age and never cross ±180."""
    drawn = []
    for ship in ships:
        pieces = legs(ship["track"])
        for at, (source, target) in enumerate(pieces):
            alpha = round(20 + 200 * (at + 1) / len(pieces))
            drawn.append({"source": list(source), "target": list(target), "colour": [*theme.rgb(theme.ACCENT), alpha]})
    return drawn


def block_rows(places: Sequence[Row], ships: Sequence[Row], ports: Sequence[Row], counted: str) -> list[Drawn]:
    """Return the little containers of every place that has a mark on the map. `counted`: how old the places are."""
    berths = {("ship", ship["id"]): ship for ship in ships} | {("quay", port["id"]): port for port in ports}
    located = [place for place in places if place["place"] and (place["place"]["kind"], place["place"]["id"]) in berths]
    per_block = container_blocks.boxes_per_block(located)
    drawn = []
    for place in located:
        mark = berths[place["place"]["kind"], place["place"]["id"]]
        words_of_place = "\n".join(f"{texts.number(group['boxes'])} {container_blocks.owner_of(group)}" for group in place["groups"])
        for block in container_blocks.stack(place, per_block):
            right, down = block.offset_px
            drawn.append(
                {"title": mark["title"], "told": f"{words_of_place}\n{counted}", "spot": mark["spot"], "colour": list(block.colour)}
                | {"offset_px": [right, down - STACK_PX * mark.get("berth", 0)]}
            )
    return drawn


def lost_rows(lost: Iterable[Row], now_at_ms: int) -> list[Drawn]:
    """Return boxes overboard that have a position: where each fell, its number and slot; in a quiet colour if a final report closed it."""
    drawn = []
    for box in lost:
        where = box["position"]
        if where is None:
            continue
        basis = texts.BASES.get(where["basis"] or "", "basis unknown")
        status = texts.status(box["status"]) + (", not confirmed" if box["unconfirmed"] else "")
        facts = [status, texts.slot(box["slot"]), f"{texts.position(where)} · {basis}"]
        facts.append(f"fell {texts.age(where['at_ms'], now_at_ms)} · raised {texts.age(box['raised_at_ms'], now_at_ms)}")
        drawn.append(
            {"id": box["container"], "title": box["container"], "label": box["container"], "told": "\n".join(facts)}
            | {"spot": [wrapped(where["longitude_deg"]), where["latitude_deg"]], "closed": box["closed"]}
            | {"colour": [*theme.rgb(theme.MUTED if box["closed"] else theme.ALERT), 255]}
        )
    return drawn


def search_rows(search: Row, now_at_ms: int) -> list[Drawn]:
    """Return where to search when the drift ends, from an answer of `/api/incidents/{id}/search-area`: a row a polygon, the larger
    first."""
    weather = search["weather"]
    by = f"as the ship reported {texts.age(weather['at_ms'], now_at_ms)}" if weather["basis"] == "SHIP" else "as given"
    blown = f"wind {weather['wind_speed_ms']:.0f} m/s from {weather['wind_from_deg']:.0f}°, {by}"
    drawn = []
    for feature in search["area"]["features"]:
        properties, shape = feature["properties"], feature["geometry"]
        if properties["what"] != "hull" or properties["hours"] != search["hours"]:
            continue
        facts = (
            f"{properties['share']:.0%} within {texts.number(round(properties['area_nm2']))} nm² after {properties['hours']} h",
            blown,
            "Not for navigation",
        )
        rings = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
        tone = theme.rgb(theme.DUCK if properties["class"] == "container_20ft" else theme.ACCENT)
        drawn += [
            {"title": f"Search area: {properties['told']}", "told": "\n".join(facts), "ring": part[0], "share": properties["share"]}
            | {"fill": [*tone, 26 if properties["share"] > 0.5 else 60], "line": [*tone, 170]}
            for part in rings
        ]
    return sorted(drawn, key=lambda row: -row["share"])


def fan_out(drawn: Sequence[Drawn]) -> list[Drawn]:
    """Return labels next to boxes that fell close together, one under the other, so that all are legible; past LABELS_MAX only a count."""
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


def alert_rows(fleet: Row, names: Mapping[str, str], now_at_ms: int) -> list[Drawn]:
    """Return one mark for every spot with open alerts. The spot is where the gravest says it happened, else its ship's place, else the
    place that received its box."""
    where = {("ship", ship["imo"]): ship["position"] for ship in fleet["ships"]}
    where |= {("quay", port["locode"]): port for port in fleet["ports"]}
    clusters: list[tuple[list[float], list[Row]]] = []
    for alert in sorted(fleet["alerts"], key=lambda alert: (SEVERITIES.index(alert["severity"]), -alert["raised_at_ms"])):
        place = alert["place"] or {"kind": "ship", "id": alert["ship"]}
        at = alert["position"] or where.get(("ship", alert["ship"])) or where.get((place["kind"], place["id"]))
        if not at:
            continue
        spot = [wrapped(at["longitude_deg"]), at["latitude_deg"]]
        near = next((raised for cluster_spot, raised in clusters if _near(cluster_spot, spot)), None)
        if near is None:
            clusters.append((spot, [alert]))
        else:
            near.append(alert)
    return [_alarmed(spot, raised, names, now_at_ms) for spot, raised in clusters]


def _alarmed(spot: list[float], raised: list[Row], names: Mapping[str, str], now_at_ms: int) -> Drawn:
    gravest = raised[0]
    ship = names.get(gravest["ship"] or "", "")
    facts = [gravest["title"], *([ship] if ship else []), f"raised {texts.age(gravest['raised_at_ms'], now_at_ms)}"]
    tone = theme.TONES[theme.SEVERITY_TONES.get(gravest["severity"], "warning")]
    title = texts.counted(count_alerts(raised), "open alert")
    return {"title": title, "told": "\n".join(facts), "spot": spot, "colour": [*theme.rgb(tone)]}


def _near(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) < BERTH_DEG for a, b in zip(one, other, strict=True))


def spot_of(box: Row, fleet: Row, lost: Mapping[str, Row]) -> dict[str, Any] | None:
    """Return where one container (of `/api/containers/{number}`) is: where it fell, its ship's or port's place, or its own last position.

    `{"longitude_deg", "latitude_deg", "at_ms"}`; `at_ms`: when it fell, the time of the ship's or its own position, or when the quay last
    heard it (UTC ms).
    """
    heard = {"at_ms": box["at_ms"]}
    places = {("ship", ship["imo"]): ship["position"] for ship in fleet["ships"]} | {
        ("quay", port["locode"]): port | heard for port in fleet["ports"]
    }
    at = (lost.get(box["number"]) or {}).get("position")
    if at is None and box["place"] and not box["ended"]:
        at = places.get((box["place"]["kind"], box["place"]["id"]))
    at = at or box["position"]
    return {"longitude_deg": wrapped(at["longitude_deg"]), "latitude_deg": at["latitude_deg"], "at_ms": at["at_ms"]} if at else None


def fix_rows(track: Sequence[Sequence[float]]) -> list[Drawn]:
    """Return one container's own positions `[longitude, latitude, at_ms]`, each with its time."""
    return [
        {
            "spot": list(fix[:2]),
            "colour": [*theme.rgb(theme.ACCENT)],
            "title": "Its own position",
            "told": f"{texts.position({'longitude_deg': fix[0], 'latitude_deg': fix[1]})}\n{texts.stamp(round(fix[2]))} UTC",
        }
        for fix in track
    ]
