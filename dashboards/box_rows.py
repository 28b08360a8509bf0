"""From the API's containers to the rows of their table. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cargo.loss.accounted_boxes import UNHEARD
from dashboards import digest_rows, muster_rows, page_tables, texts
from dashboards.data_grids import GridColumn
from dashboards.page_tables import Names, Row

UNACCOUNTED = frozenset(muster_rows.ACCOUNTS[name] for name in UNHEARD)
CONTAINERS = {
    "number": GridColumn("Container"),
    "age_ms": GridColumn("Last heard", texts.ago),
    "where": GridColumn("Where"),
    "account": GridColumn("Accounted for", tone=lambda text: "warning" if text in UNACCOUNTED else "plain"),
    "control_c": GridColumn("Temperature", texts.celsius),
    "air": GridColumn("Air"),
    "setpoint_c": GridColumn("Setpoint", texts.celsius),
    "booking": GridColumn("Booking"),
    "open_alerts": GridColumn("Open alerts", texts.number, tone=lambda count: "alert" if count else "muted"),
    "digest_of": GridColumn("Summary from"),
}
"""Columns of containers; the last is only there where a box has a digest that is newer than its readings."""


def columns_of(items: Iterable[Row]) -> dict[str, GridColumn]:
    """Return those of CONTAINERS that have something to show for these containers."""
    without = set() if any(digest_rows.of(item) for item in items) else {"digest_of"}
    return {name: column for name, column in CONTAINERS.items() if name not in without}


def container_rows(items: Iterable[Row], lost: Mapping[str, Row], names: Names) -> list[dict[str, Any]]:
    """Return rows of CONTAINERS. `lost`: boxes overboard by number."""
    rows = []
    for item in items:
        air, value = page_tables.control_air(item)
        digest = digest_rows.of(item)
        rows.append(
            {
                "number": item["number"],
                "where": page_tables.where(item, lost, names),
                "account": muster_rows.ACCOUNTS[item["account"]],
                "age_ms": (digest or item)["age_ms"],
                "control_c": _number(value),
                "air": "" if value is None else air,
                "setpoint_c": _number(page_tables.signal(item, "setpoint_c")),
                "booking": booking_cell(item),
                "open_alerts": item["open_alerts"],
                "digest_of": digest_rows.author(digest) if digest else "",
            }
        )
    return rows


def booking_cell(item: Row) -> str:
    """Return the booking a container is in. If another booking found it, that one comes first, with its state."""
    found, booking = item.get("found_by"), item["booking"]
    if found is None or found["booking"] == booking:
        return booking or ""
    stands = "ended" if found["ended"] else "now" if found["begun"] else "not begun"
    other = f" · {booking} {'ended' if item['ended'] else 'now'}" if booking else ""
    return f"{found['booking']} {stands}{other}"


def shown(items: int, before: int, count: int) -> str:
    """Return which containers a page of a list shows, of how many: `201 to 400 of 1,993 containers`."""
    if items in (0, count):
        return texts.counted(count, "container")
    return f"{texts.number(before + 1)} to {texts.number(before + items)} of {texts.counted(count, 'container')}"


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None
