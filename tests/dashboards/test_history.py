"""A container's timeline taken apart: milestones newest first, bands as long as readings confirm them, its track, what is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cargo.vocabulary.instants import DOUBTED
from dashboards import charts, container_history, texts
from dashboards.container_history import Band
from tests.dashboards.rows import HOUR_MS, NOW_MS, chart, event

NAMES = {"9999010": "Big Blue", "SGSIN": "Singapore"}


def instant(at_ms: int) -> str:
    """A time as the chart's axis has it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def at(hours: int) -> int:
    return NOW_MS + hours * HOUR_MS


def test_milestones() -> None:
    """Where and when, told by whom; grave ones stand out; musters are the ship's, not the box's."""
    raised = {
        **event(at(3), "-"),
        "kind": "alert",
        "body": {"state": "raised", "title": "", "status": "PROBABLE_OVERBOARD", "at_ms": at(3)},
    }
    items = [
        event(at(1), "LOAD", ship="9999010", place="SGSIN"),
        event(at(2), "X_SHOCK", shock_g=7.4, place="SGSIN", clock_doubted=True),
        event(at(2), "X_MUSTER"),
        raised,
    ]
    told = container_history.milestones(items, NAMES)
    assert [what for what, _, _ in told] == ["Probably overboard", "Shock in Singapore 7.4 g", "Loaded onto Big Blue in Singapore"]
    assert [tone for _, _, tone in told] == ["alert", "warning", "accent"]
    assert told[2][1].endswith(" tokyo")
    assert [DOUBTED in when for _, when, _ in told] == [False, True, False]


def test_a_loss_that_a_final_report_closed_is_no_good_news() -> None:
    cleared = {"state": "cleared", "title": "BBLU1000088 lost overboard, reported for good", "status": "REPORTED_FINAL", "at_ms": at(3)}
    warm = {"state": "cleared", "title": "", "rule": "temperature", "at_ms": at(2)}
    items = [{**event(at(3), "-"), "kind": "alert", "body": body} for body in (cleared, warm)]
    assert [(what, tone) for what, _, tone in container_history.milestones(items, NAMES)] == [
        ("BBLU1000088 lost overboard, reported for good", "muted"),
        (f"Cleared: {texts.rule('temperature')}", "good"),
    ]


def test_an_excursion_is_told_with_what_it_came_to() -> None:
    whole = event(at(1), "X_EXCURSION", place="SGSIN", event_at_ms=at(1), until_at_ms=at(3), peak_c=-7.5, degree_minutes=900.0)
    bare = event(at(0), "X_EXCURSION", place="SGSIN")
    unmeasured_ms = at(20) - at(0)
    silent = event(
        at(4), "X_EXCURSION", event_at_ms=at(4), until_at_ms=at(30), peak_c=5.0, degree_minutes=90.0, unmeasured_ms=unmeasured_ms
    )
    told = [what for what, _, _ in container_history.milestones([whole, bare, silent], NAMES)]
    assert told == [
        "Temperature out of range for 1 d 2 h, at most 5.0 °C from the setpoint, 90 °C·min, 20 h of it not measured",
        "Temperature out of range in Singapore for 2 h, at most −7.5 °C from the setpoint, 900 °C·min",
        "Temperature out of range in Singapore",
    ]


def test_bands_track_and_counts_are_those_of_the_answer() -> None:
    told = chart(
        at(0),
        at(9),
        bands={"defrost": [[at(0), at(1)]], "power_off": [], "unproven": [[at(4), at(5)]]},
        track={"measured": 70, "at_ms": [at(0)], "latitude_deg": [1.0], "longitude_deg": [181.0]},
        lines={"ambient_c": line("ambient_c", (at(0), 30.0), (at(1), None), (at(2), 31.0), measured=900)},
    )
    assert container_history.bands(told) == [Band("defrost", at(0), at(1)), Band("not proven yet", at(4), at(5))]
    assert container_history.track(told) == [[-179.0, 1.0, at(0)]]
    assert container_history.drawn(told) == (900, 2)


def test_completeness_says_what_the_readings_are() -> None:
    assert container_history.completeness(chart()) == {"Readings": "none"}
    told = container_history.completeness(chart(at(0), at(1), at(9)))
    assert (told["Readings"], told["Last"], told["Longest silence"]) == ("3", f"{texts.stamp(at(9))} UTC", "1 h")
    assert "Not proven yet" not in told
    assert "Clock fell back" not in told


def test_what_is_not_proven_yet_is_counted_with_since_when() -> None:
    """With the time of the last signature, where there is one; and so are readings of a clock that fell back."""
    readings = chart(at(0))["readings"]

    def told(signed_at_ms: int | None) -> dict[str, str]:
        unproven = {"count": 2, "taken_in_by": ["albatross", "tokyo"], "signed_at_ms": signed_at_ms}
        return container_history.completeness(chart(at(0), readings={**readings, "unproven": unproven, "fell_back": 1}))

    assert told(at(3))["Not proven yet"] == (
        f"2 readings: recorded by albatross and tokyo after its last signature, {texts.stamp(at(3))} UTC"
    )
    assert told(None)["Not proven yet"].startswith("2 readings: ")
    assert told(None)["Clock fell back"].startswith("1 reading")


def test_the_chart_names_only_what_is_there() -> None:
    """Units on the axis, UTC over the whole span, no legend for what was not measured, and no address outside in its data."""
    lines = {name: line(name, (at(0), 5.0)) for name in ("supply_c", "setpoint_c")}
    bands = {"defrost": [[at(0), at(1)]], "power_off": [], "unproven": []}
    spec = charts.temperature_chart(chart(at(0), at(8), lines=lines, bands=bands), NOW_MS)
    lasting, airs = spec["layer"]
    assert lasting["encoding"]["color"]["scale"]["domain"] == ["defrost"]
    assert airs["encoding"]["color"]["scale"]["domain"] == ["setpoint", "supply"]
    assert airs["encoding"]["y"]["title"] == "Temperature, °C"
    assert airs["encoding"]["x"]["scale"] == {"type": "utc", "domain": [instant(at(0)), instant(at(8) + 1)]}
    shocks = {"measured": 1, "at_ms": [at(0)], "shock_g": [3.0]}
    assert len(charts.temperature_chart(chart(at(0), lines=lines), NOW_MS)["layer"]) == 1
    assert len(charts.temperature_chart(chart(at(0), lines=lines, shocks=shocks), NOW_MS)["layer"]) == 2


def test_the_axis_has_the_year_where_it_is_not_this_one() -> None:
    def axis(*at_ms: int) -> str:
        spec = charts.temperature_chart(chart(*at_ms, lines={"supply_c": line("supply_c", (at_ms[0], 5.0))}), NOW_MS)
        return str(spec["layer"][0]["encoding"]["x"]["axis"]["format"])

    assert axis(at(0), at(8)) == "%-d %b %H:%M"
    assert axis(at(-24 * 300), at(0)) == "%-d %b %Y %H:%M"
    assert axis(at(-24 * 400), at(0)) == "%-d %b %Y"


def line(name: str, *points: tuple[int, float | None], measured: int = 1) -> dict[str, Any]:
    return {"measured": measured, "at_ms": [at_ms for at_ms, _ in points], name: [value for _, value in points]}
