"""A container's temperatures as a Vega-Lite chart, °C over UTC: setpoint, supply, return, ambient; defrosts, power-offs and what is not
proven yet as bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards import theme
from dashboards.history import NOT_PROVEN, Band

Spec = dict[str, Any]
AIRS = {"setpoint": theme.MUTED, "supply": theme.ACCENT, "return": theme.DUCK, "ambient": "#6f86c9"}
BANDS = {"defrost": theme.ACCENT, "power off": theme.ALERT, NOT_PROVEN: theme.MUTED}
_TIME: Spec = {
    "field": "at_ms",
    "type": "temporal",
    "scale": {"type": "utc"},
    "title": None,
    "axis": {"format": "%-d %b %H:%M", "tickCount": 7},
}


def temperature_chart(points: Sequence[Spec], bands: Sequence[Band], shocks: Sequence[Spec], height_px: int = 320) -> Spec:
    """The chart of `history.temperatures`, `history.bands` and `history.shocks`; the legend names only what is there."""
    layers = [_bands(bands)] if bands else []
    layers += [_lines(points)]
    layers += [_shocks(shocks)] if shocks else []
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "height": height_px,
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
        "config": _LOOK,
    }


def _lines(points: Sequence[Spec]) -> Spec:
    airs = [air for air in AIRS if any(point["air"] == air for point in points)]
    return {
        "data": {"values": list(points)},
        "mark": {"type": "line", "strokeWidth": 1.8, "tooltip": True},
        "encoding": {
            "x": _TIME,
            "y": {"field": "value_c", "type": "quantitative", "title": "Temperature, °C", "scale": {"zero": False, "nice": True}},
            "color": {
                "field": "air",
                "type": "nominal",
                "title": None,
                "scale": {"domain": airs, "range": [AIRS[air] for air in airs]},
                "legend": {"orient": "top", "symbolType": "stroke"},
            },
            "strokeDash": {
                "field": "air",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": airs, "range": [[6, 4] if air == "setpoint" else [1, 0] for air in airs]},
            },
            "tooltip": [
                {"field": "at_ms", "type": "temporal", "title": "UTC", "format": "%-d %b %H:%M", "scale": {"type": "utc"}},
                {"field": "air", "title": "air"},
                {"field": "value_c", "title": "°C", "format": ".1f"},
            ],
        },
    }


def _bands(bands: Sequence[Band]) -> Spec:
    there = [what for what in BANDS if any(band.what == what for band in bands)]
    return {
        "data": {"values": [{"at_ms": band.from_at_ms, "until_at_ms": band.until_at_ms, "what": band.what} for band in bands]},
        "mark": {"type": "rect", "opacity": 0.22},
        "encoding": {
            "x": _TIME,
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


def _shocks(shocks: Sequence[Spec]) -> Spec:
    return {
        "data": {"values": list(shocks)},
        "mark": {"type": "point", "shape": "triangle-down", "filled": True, "size": 70, "color": theme.WARNING, "opacity": 1},
        "encoding": {
            "x": _TIME,
            "y": {"value": 6},
            "tooltip": [{"field": "shock_g", "title": "shock, g", "format": ".1f"}, {"field": "at_ms", "type": "temporal", "title": "UTC"}],
        },
    }


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
