"""A container's timeline taken apart: milestones newest first, bands as long as readings confirm them, its track, what is missing."""

from __future__ import annotations

from dashboards import charts, history, words
from dashboards.history import Band
from tests.dashboards.rows import HOUR_MS, NOW_MS, event, reading

NAMES = {"9999010": "Big Blue", "SGSIN": "Singapore"}


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
        event(at(2), "X_SHOCK", shock_g=7.4, place="SGSIN"),
        event(at(2), "X_MUSTER"),
        raised,
    ]
    told = history.milestones(items, NAMES)
    assert [what for what, _, _ in told] == ["Probably overboard", "Shock in Singapore 7.4 g", "Loaded onto Big Blue in Singapore"]
    assert [tone for _, _, tone in told] == ["alert", "warning", "accent"]
    assert told[2][1].endswith("UTC · told by tokyo")


def test_a_loss_that_a_final_report_closed_is_no_good_news() -> None:
    cleared = {"state": "cleared", "title": "BBLU1000088 lost overboard, reported for good", "status": "REPORTED_FINAL", "at_ms": at(3)}
    warm = {"state": "cleared", "title": "", "rule": "temperature", "at_ms": at(2)}
    items = [{**event(at(3), "-"), "kind": "alert", "body": body} for body in (cleared, warm)]
    assert [(what, tone) for what, _, tone in history.milestones(items, NAMES)] == [
        ("BBLU1000088 lost overboard, reported for good", "muted"),
        (f"Cleared: {words.rule('temperature')}", "good"),
    ]


def test_an_excursion_is_told_with_what_it_came_to() -> None:
    whole = event(at(1), "X_EXCURSION", place="SGSIN", event_at_ms=at(1), until_at_ms=at(3), peak_c=-7.5, degree_minutes=900.0)
    bare = event(at(0), "X_EXCURSION", place="SGSIN")
    unmeasured_ms = at(20) - at(0)
    silent = event(
        at(4), "X_EXCURSION", event_at_ms=at(4), until_at_ms=at(30), peak_c=5.0, degree_minutes=90.0, unmeasured_ms=unmeasured_ms
    )
    told = [what for what, _, _ in history.milestones([whole, bare, silent], NAMES)]
    assert told == [
        "Temperature out of range for 1 d 2 h, at most 5.0 °C from the setpoint, 90 °C·min, 20 h of it not measured",
        "Temperature out of range in Singapore for 2 h, at most −7.5 °C from the setpoint, 900 °C·min",
        "Temperature out of range in Singapore",
    ]


def test_bands_last_as_long_as_readings_say() -> None:
    """From the first reading that says so to the first that does not; across a long silence nothing is claimed."""
    items = [reading(at(0), power_on=True), reading(at(1), power_on=False), reading(at(2), power_on=False), reading(at(3), power_on=True)]
    assert history.bands(items) == [Band("power off", at(1), at(3))]
    silent = [
        reading(at(0), power_on=False),
        reading(at(1), power_on=False),
        reading(at(20), power_on=False),
        reading(at(21), power_on=False),
    ]
    assert history.bands(silent) == [Band("power off", at(0), at(1)), Band("power off", at(20), at(21))]
    assert history.bands([reading(at(0), defrosting=True)]) == [Band("defrost", at(0), at(0))]
    assert history.bands([reading(at(0), ambient_c=3.0)]) == []


def test_points_track_and_shocks() -> None:
    items = [
        reading(at(0), ambient_c=30.0, latitude_deg=1.0, longitude_deg=181.0, shock_g=7.4),
        reading(at(1), latitude_deg=1.0, shock_g=0.3),
    ]
    assert history.temperatures(items) == [{"at_ms": at(0), "air": "ambient", "value_c": 30.0}]
    assert history.track(items) == [[-179.0, 1.0, at(0)]]
    assert history.shocks(items) == [{"at_ms": at(0), "shock_g": 7.4}]


def test_completeness_tells_the_longest_silence() -> None:
    assert history.completeness([]) == {"Readings": "none yet"}
    told = history.completeness([reading(at(0)), reading(at(1)), reading(at(9))])
    assert (told["Readings"], told["Longest silence"]) == ("3", "8 h")


def test_what_is_not_proven_yet_is_marked_with_since_when() -> None:
    """From the first reading that nobody has signed to the last; with the time of the last signature, where there is one."""
    unproven = {"proven": False, "signed_at_ms": at(3)}
    items = [reading(at(0)), *({**reading(at(hour)), **unproven} for hour in (4, 5)), {**reading(at(6)), "proven": None}]
    assert history.bands(items) == [Band("not proven yet", at(4), at(5))]
    told = history.completeness(items)["Not proven yet"]
    assert told == f"2 readings: recorded by albatross after its last signature, {words.stamp(at(3))} UTC"
    never = {"proven": False, "signed_at_ms": None}
    assert history.completeness([{**reading(at(0)), **never}])["Not proven yet"] == "1 reading: no signature of albatross is here"
    assert "Not proven yet" not in history.completeness([reading(at(0))])


def test_the_chart_names_only_what_is_there() -> None:
    """Units on the axis, UTC, no legend for what was not measured, and no address outside in its data."""
    points = history.temperatures([reading(at(0), setpoint_c=5.0, supply_c=5.1)])
    spec = charts.temperature_chart(points, [Band("defrost", at(0), at(1))], [])
    bands, lines = spec["layer"]
    assert bands["encoding"]["color"]["scale"]["domain"] == ["defrost"]
    assert lines["encoding"]["color"]["scale"]["domain"] == ["setpoint", "supply"]
    assert lines["encoding"]["y"]["title"] == "Temperature, °C"
    assert lines["encoding"]["x"]["scale"]["type"] == "utc"
    assert len(charts.temperature_chart(points, [], [])["layer"]) == 1
    assert len(charts.temperature_chart(points, [], [{"at_ms": at(0), "shock_g": 3.0}])["layer"]) == 2


def test_readings_of_a_clock_that_fell_back_are_shown_where_they_were_received() -> None:
    """In their order of then, and the page says so. What programs append as flags is nobody's word."""
    fallen = {**reading(at(-2_160), return_c=18.0), "received_at_ms": at(3), "body": {"flags": ["clock_back"]}}
    items = [fallen, {**reading(at(1), return_c=4.0), "body": {"flags": 5}}, reading(at(2), return_c=4.1)]
    assert [(point["at_ms"], point["value_c"]) for point in history.temperatures(items)] == [(at(1), 4.0), (at(2), 4.1), (at(3), 18.0)]
    told = history.completeness(items)
    assert (told["Longest silence"], told["Clock fell back"]) == ("1 h", "1 reading: shown at the time of receipt")
    assert "Clock fell back" not in history.completeness(items[1:])
