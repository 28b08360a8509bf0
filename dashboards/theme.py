"""The look: one palette for pages, charts and map, Streamlit's theme made of it, and the few style rules Streamlit has no setting for."""

from __future__ import annotations

Colour = tuple[int, int, int]

SEA = "#0b1d2e"
PANEL = "#10263a"
DEEP = "#071422"
LINE = "#21405a"
TEXT = "#e4eef5"
MUTED = "#8fabc0"
ACCENT = "#4cc2e0"
PRIMARY = "#1787ad"
DUCK = "#f7c843"
ALERT = "#ff5d55"
WARNING = "#f5a13b"
GOOD = "#5fd4a0"

TONES: dict[str, str] = {"alert": ALERT, "warning": WARNING, "good": GOOD, "accent": ACCENT, "muted": MUTED, "plain": TEXT}
SEVERITY_TONES: dict[str, str] = {"CRITICAL": "alert", "ALARM": "alert", "WARNING": "warning", "LOG": "muted"}

THEME: dict[str, str | bool] = {
    "base": "dark",
    "primaryColor": PRIMARY,
    "backgroundColor": DEEP,
    "secondaryBackgroundColor": PANEL,
    "textColor": TEXT,
    "linkColor": ACCENT,
    "borderColor": LINE,
    "redColor": ALERT,
    "orangeColor": WARNING,
    "greenColor": GOOD,
    "blueColor": ACCENT,
    "yellowColor": DUCK,
    "dataframeBorderColor": LINE,
    "dataframeHeaderBackgroundColor": PANEL,
    "showWidgetBorder": True,
    "baseRadius": "0.45rem",
    "buttonRadius": "0.45rem",
}


def rgb(colour: str) -> Colour:
    """Return `#rrggbb` as three numbers 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def css(colour: object) -> str:
    """Return a colour of the registry, `[r, g, b]`, as a style writes it; a muted one for anything else."""
    if isinstance(colour, list | tuple) and len(colour) == 3 and all(isinstance(part, int) and 0 <= part <= 255 for part in colour):
        return "#{:02x}{:02x}{:02x}".format(*colour)
    return MUTED
