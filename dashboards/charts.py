"""A container's temperatures as a Vega-Lite chart, °C over UTC: setpoint, supply, return, ambient; defrosts, power-offs and what is not
proven yet as bands. A span that is dragged over is its selection ZOOM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cargo.vocabulary.durations import YEAR_MS
from dashboards import texts, theme
from dashboards.container_history import NOT_PROVEN, Band, bands

Spec = dict[str, Any]
ZOOM = "zoom"
AIRS = {"setpoint": theme.MUTED, "supply": theme.ACCENT, "return": theme.DUCK, "ambient": "#6f86c9"}
BANDS = {"defrost": theme.ACCENT, "power off": theme.ALERT, NOT_PROVEN: theme.MUTED}


def temperature_chart(chart: Mapping[str, Any], now_at_ms: int, height_px: int = 320) -> Spec:
    """Return the chart of an answer of `/api/containers/{number}/chart`; the legend names only what is there."""
    lasting, shocks, span = bands(chart), chart["shocks"], (chart["since_at_ms"], chart["until_at_ms"])
    time = _time(span, now_at_ms)
    layers = [_bands(lasting, time)] if lasting else []
    layers += [_lines(chart["lines"], time)]
    layers += [_shocks(shocks, time)] if shocks["at_ms"] else []
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "height": height_px,
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
        "config": _LOOK,
    }


def _time(span: tuple[int, int], now_at_ms: int) -> Spec:
    """Return the axis of time, with the year unless it is everywhere the same and now's."""
    year = "" if {texts.year(at_ms) for at_ms in span} == {texts.year(now_at_ms)} else " %Y"
    hour = " %H:%M" if span[1] - span[0] < YEAR_MS else ""
    axis = {"format": f"%-d %b{year}{hour}", "tickCount": 6 if year else 7}
    # As text: of numbers Vega-Lite makes no times where the first layer is of lines, and draws all at the left edge.
    domain = [f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z" for at_ms in span]
    return {"field": "at_ms", "type": "temporal", "scale": {"type": "utc", "domain": domain}, "title": None, "axis": axis}


def _lines(lines: Mapping[str, Any], time: Spec) -> Spec:
    airs = {name: name.removesuffix("_c") for name in lines}
    there = [air for air in AIRS if air in airs.values()]
    return {
        "data": {"values": [{"air": air, "at_ms": lines[name]["at_ms"], "value_c": lines[name][name]} for name, air in airs.items()]},
        "transform": [{"flatten": ["at_ms", "value_c"]}],
        "params": [{"name": ZOOM, "select": {"type": "interval", "encodings": ["x"]}}],
        "mark": {"type": "line", "strokeWidth": 1.8, "strokeCap": "round", "tooltip": True},
        "encoding": {
            "x": time,
            "y": {"field": "value_c", "type": "quantitative", "title": "Temperature, °C", "scale": {"zero": False, "nice": True}},
            "color": {
                "field": "air",
                "type": "nominal",
                "title": None,
                "scale": {"domain": there, "range": [AIRS[air] for air in there]},
                "legend": {"orient": "top", "symbolType": "stroke"},
            },
            "strokeDash": {
                "field": "air",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": there, "range": [[6, 4] if air == "setpoint" else [1, 0] for air in there]},
            },
            "tooltip": [
                _MOMENT,
                {"field": "air", "title": "air"},
                {"field": "value_c", "title": "°C", "format": ".1f"},
            ],
        },
    }


def _bands(lasting: Sequence[Band], time: Spec) -> Spec:
    there = [what for what in BANDS if any(band.what == what for band in lasting)]
    return {
        "data": {"values": [{"at_ms": band.from_at_ms, "until_at_ms": band.until_at_ms, "what": band.what} for band in lasting]},
        "mark": {"type": "rect", "opacity": 0.22},
        "encoding": {
            "x": time,
            "x2": {"field": "until_at_ms"},
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "scale": {"domain": there, "range": [BANDS[what] for what in there]},
                "legend": {"orient": "top", "symbolType": "square"},
            },
        },
    }


def _shocks(shocks: Mapping[str, Any], time: Spec) -> Spec:
    return {
        "data": {"values": [{"at_ms": shocks["at_ms"], "shock_g": shocks["shock_g"]}]},
        "transform": [{"flatten": ["at_ms", "shock_g"]}],
        "mark": {"type": "point", "shape": "triangle-down", "filled": True, "size": 70, "color": theme.WARNING, "opacity": 1},
        "encoding": {
            "x": time,
            "y": {"value": 6},
            "tooltip": [_MOMENT, {"field": "shock_g", "title": "shock, g", "format": ".1f"}],
        },
    }


_MOMENT: Spec = {"field": "at_ms", "type": "temporal", "title": "UTC", "format": "%-d %b %Y %H:%M", "scale": {"type": "utc"}}
_LOOK: Spec = {
    "background": "transparent",
    "font": "Source Sans, sans-serif",
    "view": {"stroke": theme.LINE},
    "axis": {
        "labelColor": theme.MUTED,
        "titleColor": theme.MUTED,
        "gridColor": theme.LINE,
        "gridOpacity": 0.45,
        "domainColor": theme.LINE,
        "tickColor": theme.LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": theme.TEXT, "labelFontSize": 12},
}
