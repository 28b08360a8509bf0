"""Makes `dashboards/static/land.geojson` from Natural Earth's land, as npm's `world-atlas` ships it (public domain; packaging ISC).

npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz && python deploy/basemap/build.py package/land-50m.json
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from shapely import affinity, make_valid
from shapely.geometry import MultiPolygon, Polygon, box, mapping
from shapely.geometry.base import BaseGeometry
from shapely.ops import unary_union

TARGET = Path(__file__).parents[2] / "dashboards" / "static" / "land.geojson"
DECIMALS = 2
Point = tuple[float, float]


def decoded_arcs(topology: dict[str, Any]) -> list[list[Point]]:
    """Return the arcs of a quantised TopoJSON topology as lists of (longitude, latitude) in degrees (TopoJSON 1.0, 2.1.3 and 2.1.4)."""
    (scale_x, scale_y), (shift_x, shift_y) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        x = y = 0
        points = []
        for step_x, step_y in arc:
            x, y = x + step_x, y + step_y
            points.append((x * scale_x + shift_x, y * scale_y + shift_y))
        arcs.append(points)
    return arcs


def ring(indexes: list[int], arcs: list[list[Point]]) -> list[Point]:
    """Return one closed ring: its arcs joined, those with a negative index reversed."""
    points: list[Point] = []
    for index in indexes:
        arc = arcs[index] if index >= 0 else arcs[~index][::-1]
        points.extend(arc[1:] if points else arc)
    return points


def unwrapped(points: list[Point]) -> list[Point]:
    """Return the ring with longitudes that run on past ±180 instead of jumping."""
    turned, turn = [points[0]], 0.0
    for (before, _), (now, latitude) in pairwise(points):
        turn += 360.0 if now - before < -180 else -360.0 if now - before > 180 else 0.0
        turned.append((now + turn, latitude))
    return turned


def split(points: list[Point]) -> BaseGeometry:
    """Return the ring's area within ±180: the part beyond is cut there and moved round the globe."""
    area = make_valid(Polygon(unwrapped(points)))
    parts = [affinity.translate(area.intersection(box(-180 + turn, -90, 180 + turn, 90)), xoff=-turn) for turn in (-360, 0, 360)]
    return unary_union(parts)


def area(rings: list[list[int]], arcs: list[list[Point]]) -> BaseGeometry:
    """Return one polygon of the topology: its outer ring less its holes."""
    return split(ring(rings[0], arcs)).difference(unary_union([split(ring(hole, arcs)) for hole in rings[1:]]))


def only_polygons(shape: BaseGeometry) -> MultiPolygon:
    """Return the polygons of `shape`, without the lines and points that cutting leaves behind."""
    return MultiPolygon([part for part in getattr(shape, "geoms", [shape]) if isinstance(part, Polygon)])


def main(source: Path) -> None:
    """Write the land of the topology in `source` as one GeoJSON feature, coordinates rounded to DECIMALS."""
    topology = json.loads(source.read_text())
    arcs = decoded_arcs(topology)
    polygons = [polygon for shape in topology["objects"]["land"]["geometries"] for polygon in shape["arcs"]]
    land = only_polygons(unary_union([area(rings, arcs) for rings in polygons]))
    feature = {"type": "Feature", "properties": {}, "geometry": _rounded(mapping(land))}
    TARGET.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}, separators=(",", ":")) + "\n")
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB, {len(land.geoms)} polygons")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
