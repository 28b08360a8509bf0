"""A ship's digest of one container, in words: what its readings that wait on board come to. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards import texts
from dashboards.markup import MarkupColumn

Digest = Mapping[str, Any]
COLUMNS = (
    MarkupColumn("what", "6-hour summary"),
    MarkupColumn("least", "Min", right=True),
    MarkupColumn("mean", "Mean", right=True),
    MarkupColumn("most", "Max", right=True),
)
AIRS = {"setpoint": "Setpoint", "supply": "Supply air", "return": "Return air", "ambient": "Ambient"}


def of(container: Mapping[str, Any]) -> Digest | None:
    """Return the digest that is newer than the container's readings, if there is one; an owner gets its time alone."""
    digest: Digest | None = container["digest"]
    return digest


def heard(container: Mapping[str, Any]) -> str:
    """Return how long ago a container was heard, by its readings here or by the digest of the ship that has newer ones."""
    digest = of(container)
    return f"{texts.ago(digest['age_ms'])}, by the summary of {author(digest)}" if digest else texts.ago(container["age_ms"])


def author(digest: Digest) -> str:
    """Return the node that made the digest, as far as the viewer may know it."""
    return str(digest.get("node", "its ship"))


def sentence(digest: Digest) -> str:
    """Return a sentence with the window, and that it is a digest."""
    window = f"{texts.stamp(digest['from_at_ms'])} to {texts.stamp(digest['until_at_ms'])} UTC"
    readings = texts.counted(digest["readings"], "reading waits", "readings wait")
    return f"Summary by {digest['node']} of {window}; last heard {texts.ago(digest['age_ms'])}; {readings} on board."


def air_rows(digest: Digest) -> list[dict[str, str]]:
    """Return rows of COLUMNS: the temperatures that were received."""
    signals, rows = digest["signals"], []
    for air, what in AIRS.items():
        values = [signals.get(f"{air}_{part}_c") for part in ("min", "mean", "max")]
        if values != [None] * 3:
            least, mean, most = (texts.measured(value, "°C") for value in values)
            rows.append({"what": what, "least": least, "mean": mean, "most": most})
    return rows


def facts(digest: Digest) -> dict[str, str]:
    """Return the other facts of the digest, by name."""
    signals = digest["signals"]
    found: dict[str, str] = {}
    if "power_on" in signals:
        found["Power"] = _switch(signals["power_on"], "on", "off", signals.get("power_off_readings"), "without power")
    if "door_open" in signals:
        found["Door"] = _switch(signals["door_open"], "open", "closed", signals.get("door_open_readings"), "with an open door")
    if "shock_max_g" in signals:
        shocks = texts.counted(signals.get("shocks", 0), "shock")
        found["Largest shock"] = f"{texts.measured(signals['shock_max_g'], 'g')}; {shocks} of 2 g and more"
    if "battery_mv" in signals:
        found["Battery"] = texts.measured(signals["battery_mv"], "mV", 0)
    if texts.position(signals) != texts.NOTHING:
        found["Its own position"] = texts.position(signals)
    if "silence_max_s" in signals:
        found["Longest silence"] = texts.span(signals["silence_max_s"] * 1_000)
    return found


def _switch(said: Any, yes: str, no: str, counted: Any, of_which: str) -> str:
    last = yes if said else no
    return f"{last}; {texts.counted(counted, 'reading')} {of_which}" if counted else last
