"""Goal: a digest is told as one, with its window, its age and that readings wait; in port the readings' own age is told again."""

from __future__ import annotations

from dashboards import digest_rows, texts
from tests.dashboards.rows import HOUR_MS, NOW_MS, container, digest


def test_the_age_is_that_of_the_digest_and_says_so() -> None:
    both = [container(), container(age_ms=40 * HOUR_MS, digest=digest())]
    assert [digest_rows.heard(one) for one in both] == ["1 h ago", "1 h 10 min ago, by the summary of ship-9999010"]
    owners = container(age_ms=40 * HOUR_MS, digest={"at_ms": NOW_MS - HOUR_MS, "age_ms": HOUR_MS})
    assert digest_rows.heard(owners) == "1 h ago, by the summary of its ship"


def test_which_window_it_is_of_and_what_waits() -> None:
    window = f"{texts.stamp(NOW_MS - 7 * HOUR_MS)} to {texts.stamp(NOW_MS - HOUR_MS)} UTC"
    told = "last heard 1 h 10 min ago; 6 readings wait on board."
    assert digest_rows.sentence(digest()) == f"Summary by ship-9999010 of {window}; {told}"
    assert digest_rows.sentence({**digest(), "readings": 1}).endswith("1 reading waits on board.")


def test_what_was_heard_is_told_and_nothing_else() -> None:
    """A reefer's airs, power and blows; a dry box that said nothing but that it is there has no rows."""
    reefer = digest(
        setpoint_min_c=-18.0,
        setpoint_mean_c=-18.0,
        setpoint_max_c=-18.0,
        return_min_c=-18.4,
        return_mean_c=-17.9,
        return_max_c=-12.0,
        power_on=True,
        power_off_readings=2,
        door_open=False,
        door_open_readings=0,
        shock_max_g=2.5,
        shocks=1,
        battery_mv=3_612,
        latitude_deg=-33.5,
        longitude_deg=151.25,
        silence_max_s=3_720,
    )
    assert digest_rows.air_rows(reefer) == [
        {"what": "Setpoint", "least": "−18.0 °C", "mean": "−18.0 °C", "most": "−18.0 °C"},
        {"what": "Return air", "least": "−18.4 °C", "mean": "−17.9 °C", "most": "−12.0 °C"},
    ]
    assert digest_rows.facts(reefer) == {
        "Power": "on; 2 readings without power",
        "Door": "closed",
        "Largest shock": "2.5 g; 1 shock of 2 g and more",
        "Battery": "3,612 mV",
        "Its own position": "33°30.0′S 151°15.0′E",
        "Longest silence": "1 h 2 min",
    }
    assert (digest_rows.air_rows(digest()), digest_rows.facts(digest())) == ([], {})
