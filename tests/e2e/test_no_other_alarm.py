"""Goal: every alarm of every rule has its cause in the truth, and every cause its alarm: no other alert, missing box or distrusted clock.

Of the rules these may speak, and do: `lost_container` and `shock` for each box that fell, and one `incident` for all of them;
`missing_at_discharge` for a box whose device had failed and that a ship was to put ashore. A box that no ship hears, though her list has
it aboard, is missing there (`X_MISSING`), `late` and maybe `silent`: one whose device failed, and the one that the clerk listed too
early. All others are silent: no box is unheard for 49 hours (`silent`) while some place that heard it goes on hearing others, none is on
two ships (`two_ships`) or faster than a lorry (`impossible_speed`), no power is off for 4 hours (`power_off`), no air 3 °C out
(`temperature`), no door open at sea (`door_open`), no stack down that still speaks (`stack_down`). The gateway's outage is shorter than
two of its boxes' intervals.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from cargo.loss.reading_rows import CLOCK_BACK
from cargo.loss.watch_outcome import WatchPlace
from tests.e2e.amending import FIRST_IMO, SECOND_IMO, SINGAPORE
from tests.e2e.offsydney import FIRST
from tests.e2e.played import Played

pytestmark = pytest.mark.timeout(3_600)  # the voyage itself is played within the first of these tests

SILENCE = ("late", "silent")
ABOARD = {f"ship/{FIRST_IMO}": FIRST_IMO, f"ship/{SECOND_IMO}": SECOND_IMO}


def test_each_alert_has_its_cause_and_each_cause_its_alert(played: Played) -> None:
    truth = played.voyage.truth
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    states: dict[str, set[str]] = defaultdict(set)
    for row in played.voyage.rows("hq", "alerts"):
        body = row.record.body or {}
        ids[body["rule"], row.record.topic].add(body["alert_id"])
        states["silence" if body["rule"] in SILENCE else "blow" if body["rule"] == "shock" else "else"].add(body["state"])
    due_ashore = {box for box in truth.failed() for ship in ABOARD if box in truth.moved(ship, SINGAPORE)}
    wanted = {(rule, box) for box in truth.fallen() for rule in ("lost_container", "shock")}
    wanted |= {("incident", WatchPlace(FIRST, ship=FIRST_IMO).log_topic)} | {("missing_at_discharge", box) for box in due_ashore}
    missing = unheard(played)
    quiet = {rule: {box: len(ids.pop((rule, box))) for name, box in list(ids) if name == rule} for rule in SILENCE}
    assert ids.keys() == wanted
    assert all(len(each) == 1 for each in ids.values()), "one thing was alarmed of twice"
    assert quiet["late"] == Counter(box for _, box in missing)
    assert still_silent(played) <= quiet["late"].keys(), "where Spark is behind a box may be silent until its readings are read"
    assert states["else"] == {"raised", "updated"}, "an alarm was taken back"
    assert states["blow"] - {"updated"} == {"raised", "cleared"}, "a box that is lost is one alert: that of its blow is over"
    assert states["silence"] <= {"raised", "cleared"}


def test_each_missing_box_has_its_cause_and_none_is_found(played: Played) -> None:
    told: dict[str, set[tuple[str, str]]] = {"X_MISSING": set(), "X_FOUND": set()}
    for row in played.voyage.rows("hq", "events"):
        body = row.record.body or {}
        if body["event"] in told:
            told[body["event"]].add((body["ship"], row.record.topic))
    assert told["X_MISSING"] == unheard(played)
    assert told["X_FOUND"] == set()


def still_silent(played: Played) -> set[str]:
    """The boxes that headquarters still calls silent at the end."""
    states: dict[str, tuple[str, str]] = {}
    for row in played.voyage.rows("hq", "alerts"):
        body = row.record.body or {}
        if body["rule"] == "silent":
            states[body["alert_id"]] = row.record.topic, body["state"]
    return {box for box, state in states.values() if state == "raised"}


def unheard(played: Played) -> set[tuple[str, str]]:
    """Ship and box, of every box that a ship's list has aboard and no ship can hear."""
    truth = played.voyage.truth
    carried = {(imo, box) for box in truth.failed() for stage in truth.stages[box] if (imo := ABOARD.get(stage["place"] or ""))}
    return carried | {(FIRST_IMO, played.amended.late)}


def test_no_clock_is_distrusted_but_those_that_are_wrong(played: Played) -> None:
    flagged = {
        (row.record.topic, flag)
        for stream in ("containers", "ships")
        for row in played.voyage.rows("hq", stream)
        for flag in (row.record.body or {}).get("flags", ())
        if flag in ("future", "stale", CLOCK_BACK)
    }
    assert {topic for topic, _ in flagged} <= played.voyage.truth.clocks_off()
