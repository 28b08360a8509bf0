"""What people read is right: units, true minus signs, ages in two units, positions in degrees and minutes, nothing said of the unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards import markup, texts
from tests.dashboards.rows import container


@pytest.mark.parametrize(
    ("duration_ms", "told"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (245_000, "4 min 5 s"),
        (11_520_000, "3 h 12 min"),
        (7_200_000, "2 h"),
        (187_200_000, "2 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_spans(duration_ms: int, told: str) -> None:
    assert texts.span(duration_ms) == told


def test_ages() -> None:
    """A clock slightly ahead is no age, and what was never heard is never."""
    assert texts.ago(11_520_000) == "3 h 12 min ago"
    assert texts.ago(-40) == texts.ago(400) == "just now"
    assert texts.ago(-120_000) == "2 min ahead of the clock"
    assert texts.ago(-2 * 86_400_000) == "clock wrong by 2 d"
    assert texts.ago(-9 * 365 * 86_400_000) == "clock wrong by 9 y"
    assert texts.ago(None) == texts.age(None, 5) == "never"
    assert texts.age(1_000, 61_000) == "1 min ago"


@pytest.mark.parametrize(
    ("latitude", "longitude", "told"),
    [
        (-33.868, 151.2073, "33°52.1′S 151°12.4′E"),
        (1.264, 103.79, "01°15.8′N 103°47.4′E"),
        (0.0, -118.2608, "00°00.0′N 118°15.6′W"),
        (10.99999, 179.99999, "11°00.0′N 180°00.0′E"),
        (5.0, 241.7392, "05°00.0′N 118°15.6′W"),
    ],
)
def test_positions(latitude: float, longitude: float, told: str) -> None:
    assert texts.position({"latitude_deg": latitude, "longitude_deg": longitude}) == told


def test_nothing_is_made_up() -> None:
    """Where nothing is known, that is what is said."""
    assert texts.position(None) == texts.position({"latitude_deg": None, "longitude_deg": None}) == texts.NOTHING
    assert texts.measured(None, "°C") == texts.measured(True, "°C") == texts.measured("x", "°C") == texts.NOTHING
    assert texts.moment(None) == texts.stamp(None) == texts.number(None) == texts.size(None) == texts.likelihood(None) == texts.NOTHING


def test_numbers_carry_units() -> None:
    assert texts.measured(-18.24, "°C") == "−18.2 °C"
    assert texts.measured(612, "ms", 0) == "612 ms"
    assert texts.counted(1, "box", "boxes") == "1 box"
    assert texts.counted(1993, "box", "boxes") == "1,993 boxes"
    assert [texts.size(count) for count in (999, 48_212, 12_300_000, 5_000_000_000)] == ["999 B", "48.2 kB", "12.3 MB", "5.0 GB"]
    assert texts.moment(1_777_593_600_000) == "1 May 2026, 00:00 UTC"


def test_certainty_is_never_claimed() -> None:
    assert [texts.likelihood(p) for p in (0.999999, 0.9997, 0.98, 0.001)] == ["> 99.99 %", "99.97 %", "98 %", "< 1 %"]
    assert [texts.weight(w) for w in (3.0, -4.0, 0.0, 0.3)] == [
        "1,000× for a loss",
        "10,000× against a loss",
        "opens the case",
        "2.0× for a loss",
    ]


def test_codes_become_words() -> None:
    names = {"9999010": "Big Blue", "SGSIN": "Singapore"}
    assert texts.slot("0741284") == "bay 074, row 12, tier 84, on deck"
    assert texts.slot("0740006").endswith("in the hold")
    assert texts.slot(None) == texts.NOTHING
    assert texts.event("LOAD") == "Loaded"
    assert texts.event("X_NEVER_SEEN") == "Never seen"
    assert texts.place({"kind": "quay", "id": "SGSIN"}, names) == "On the quay in Singapore"
    assert texts.place({"kind": "ship", "id": "1"}, names) == "Aboard 1"
    assert texts.custody("delivered", names) == "Delivered"
    assert texts.custody("ship/9999010", names) == "Aboard Big Blue"
    states = ("paused", "waiting", "ended")
    assert [texts.pace({"speed": 0, "state": state}) for state in states] == ["Paused", "Waiting", "Ended"]
    works = {state: sorted(texts.clock_actions(state)) for state in ("running", "waiting", "paused", "ended")}
    moving = ["jump", "pause", "speed"]
    assert works == {"running": moving, "waiting": moving, "paused": ["jump", "resume", "speed"], "ended": []}
    assert texts.pace({"speed": 4000.0, "state": "running"}) == "4,000× real time"
    assert [texts.severity(code) for code in ("LOG", "WARNING", "CRITICAL")] == ["info", "warning", "critical"]


@given(st.floats(-90, 90), st.floats(-540, 540))
def test_positions_have_one_form(latitude: float, longitude: float) -> None:
    """Degrees, minutes below sixty, a side: whatever the numbers."""
    told = texts.position({"latitude_deg": latitude, "longitude_deg": longitude})
    for part, width in zip(told.split(" "), (2, 3), strict=True):
        degrees, rest = part.split("°")
        assert len(degrees) == width
        assert float(rest[:-2]) < 60
        assert rest[-2] == "′"


def test_a_wrong_check_digit_is_told() -> None:
    """The banner on a container's page; none where the number is right."""
    assert texts.number_problem(container()) is None
    told = texts.number_problem(container(number_problem="the check digit of BBLU100008 is 8, not 9"))
    assert told is not None
    assert told[0].endswith(": the check digit of BBLU100008 is 8, not 9.")
    assert "not counted in the fleet" in markup.banner(*told)


def test_a_sighting_in_a_line() -> None:
    known = {
        "number_lost": 2,
        "occurred_at": "2026-05-01T04:00:12Z",
        "description": "blue",
        "latitude_deg": -33.868,
        "longitude_deg": 151.2,
    }
    lines = {name: {"value": value} for name, value in known.items()}
    assert texts.sighted(lines) == "2 seen adrift, 33°52.1′S 151°12.0′E, 2026-05-01T04:00:12Z, blue"
    assert texts.sighted({"number_lost": {"value": None}}) == "– seen adrift"
