"""Goal: a table of containers has numbers where it shows numbers, and nothing where nothing is known; its cells say them in words."""

from __future__ import annotations

from typing import Any

from dashboards import box_rows, page_tables
from dashboards.data_grids import frame, grid
from tests.dashboards.rows import HOUR_MS, container, digest, fleet, signals

NAMES = page_tables.names_of(fleet())


def row_of(**more: Any) -> dict[str, Any]:
    (row,) = box_rows.container_rows([container(**more)], {}, NAMES)
    return row


def test_a_container_row() -> None:
    known = {"number": "BBLU1000088", "where": "Aboard Ship 9999010", "account": "heard", "booking": "BB1", "digest_of": ""}
    numbers = {"age_ms": HOUR_MS, "control_c": -0.25, "air": "supply", "setpoint_c": 5.0, "open_alerts": 2}
    assert row_of(signals=signals(setpoint_c=5.0, supply_c=-0.25), open_alerts=2) == known | numbers


def test_what_is_not_known_is_no_number() -> None:
    """Neither 0 nor a dash; what is no number is not known."""
    row = row_of(at_ms=None, age_ms=None, booking=None, signals=signals(ambient_c="warm", setpoint_c=True))
    assert [row[name] for name in ("age_ms", "control_c", "setpoint_c", "booking")] == [None, None, None, ""]


def test_a_digest_says_when_a_box_was_heard() -> None:
    row = row_of(digest=digest())
    assert (row["age_ms"], row["digest_of"]) == (HOUR_MS + 600_000, "ship-9999010")
    assert "digest_of" not in box_rows.columns_of([container()])
    assert "digest_of" in box_rows.columns_of([container(), container(digest=digest())])


def test_columns_are_sorted_by_value_and_read_in_words() -> None:
    """9 h before 10 h, −18 °C before 4 °C: as text they would not be."""
    ages = (10 * HOUR_MS, 9 * HOUR_MS, None)
    items = [
        container(age_ms=age, signals=signals(ambient_c=air) if age else {}) for age, air in zip(ages, (4.0, -18.0, None), strict=True)
    ]
    rows = box_rows.container_rows(items, {}, NAMES)
    values = frame(box_rows.CONTAINERS, rows)
    assert {name: str(kind) for name, kind in values.dtypes.items() if str(kind) != "object"} == dict.fromkeys(
        ("Last heard", "Temperature", "Setpoint", "Open alerts"), "float64"
    )
    assert list(values["Last heard"].sort_values().index) == [1, 0, 2]
    drawn = grid(box_rows.CONTAINERS, rows).to_html()
    assert {"10 h ago", "9 h ago", "−18.0 °C", "4.0 °C"} <= {cell.split("<")[0] for cell in drawn.split(">")}
    assert "nan" not in drawn


def test_which_page_of_a_list_is_shown() -> None:
    assert box_rows.shown(200, 200, 1_993) == "201 to 400 of 1,993 containers"
    assert box_rows.shown(0, 0, 0) == "0 containers"
    assert box_rows.shown(1, 0, 1) == "1 container"


def test_a_container_found_by_a_booking_says_how_that_stands() -> None:
    """By which it was found, and by which it goes now; not twice where that is the same. A customer's last may have ended as well."""

    def cell(found: str, stands: str = "now", **more: Any) -> str:
        by = {"booking": found, "from_at_ms": 1, "until_at_ms": None, "begun": stands != "not begun", "ended": stands == "ended"}
        booking: str = row_of(found_by=by, **more)["booking"]
        return booking

    assert cell("BB1") == "BB1"
    assert cell("BB0", "ended") == "BB0 ended · BB1 now"
    assert cell("BB2", "not begun") == "BB2 not begun · BB1 now"
    assert cell("BB2") == "BB2 now · BB1 now"
    assert cell("BB0", "ended", booking=None) == "BB0 ended"
    assert cell("BB2", "not begun", ended=True) == "BB2 not begun · BB1 ended"
    assert cell("BB1", "ended", ended=True) == "BB1"
