"""The strip tells how many are accounted for, how old everything is, and since when Spark stands still; chapters tell where to look."""

from __future__ import annotations

import re
from typing import Any

from dashboards import headline, muster_rows, story_chapters
from dashboards.markup import Tile
from tests.dashboards.rows import HOUR_MS, NOW_MS, Row, a_map, age, fleet, muster, port, position, ship, status


def tile(name: str, told: Any = None) -> Any:
    return next(one for one in headline.fleet_tiles(fleet(), told or status()) if one.name == name)


def mustered(told: Row, as_of_at_ms: int | None = NOW_MS - 5_000, **counts: int) -> Tile:
    known = {"boxes": 5, "lost": 0, "lost_closed": 0, "lost_unconfirmed": 0, "misread": 0, "delivered": 0, "unreported": 0}
    return headline.muster_tile(fleet(as_of_at_ms=as_of_at_ms, counts={**known, **counts}, muster=told))


def test_the_muster() -> None:
    assert (tile("Accounted for").value, tile("Accounted for").note) == ("1,993 of 2,000", "7 overboard · as of 5 s ago")
    whole = mustered(muster(5))
    assert whole.tone == "good"
    never = mustered(muster(6, never=1))
    assert (never.value, never.note[:2], never.tone) == ("5 of 6", "1 ", "plain")
    assert [mustered(muster(5), lost=2, lost_closed=closed).tone for closed in (0, 1, 2)] == ["alert", "alert", "plain"]
    lost = mustered(muster(5), lost=2, lost_closed=2)
    assert (lost.value, lost.note[:11]) == ("5 of 7", "2 overboard")
    delivered = mustered(muster(5), boxes=9, delivered=4)
    assert (delivered.value, delivered.note[:11]) == ("5 of 5", "4 delivered")
    claimed = mustered(muster(5), lost_unconfirmed=1)
    assert (claimed.value, claimed.note[:7], claimed.tone) == ("5 of 5", "1 loss ", "alert")
    misread = mustered(muster(5), misread=1)
    assert (misread.value, misread.note[:8], misread.tone) == ("5 of 5", "1 wrong ", "good")


def test_who_is_past_its_own_interval_is_no_longer_accounted_for() -> None:
    """Amber with the age bands, on the strip of staff and of an owner; the time of a ship's statement, amber when two are overdue."""
    silent = muster(8, under_1d=2, over_7d=1)
    told = mustered(silent, boxes=8)
    assert (told.value, told.tone) == ("5 of 8", "warning")
    assert told.note == "2 unheard for 6 h to 1 d · 1 unheard for over 7 d · as of 5 s ago"
    own = headline.own_tiles(fleet(muster=silent))[1]
    assert own.tone == "warning"
    assert own.note.endswith("2 unheard for 6 h to 1 d · 1 unheard for over 7 d")
    assert headline.own_tiles(fleet())[1].tone == "plain"
    stated = muster(5, NOW_MS - 20 * 60_000, by_ship=5)
    assert ("06:24 UTC" in mustered(stated).note, mustered(stated).tone) == (True, "good")
    late = muster(5, NOW_MS - 13 * HOUR_MS, overdue=True, under_1d=5)
    assert mustered(late).tone == "warning"
    assert "17 May 17:44 UTC" in mustered(late).note
    last_year = muster(5, NOW_MS - 365 * 24 * HOUR_MS, overdue=True, over_7d=5)
    assert "18 May 2025 06:44 UTC" in mustered(last_year).note
    assert mustered(muster(5, no_tracker=0)).tone == "good"


def test_ships_and_quays_with_their_musters() -> None:
    """Each with who is not accounted for and by what it is counted; places without boxes are left out."""
    ships = [{**ship(), "muster": muster(5, NOW_MS, by_ship=4, not_by_ship=1)}]
    ports = [
        {**port(), "muster": muster(658, under_1d=200, under_3d=122)},
        {**port("JPTYO", "Tokyo"), "muster": {**muster(0), "accounts": {}}},
    ]
    rows = muster_rows.place_rows(fleet(ships=ships, ports=ports))
    assert [(row["place"], row["boxes"]) for row in rows] == [("Ship 9999010", "4 of 5"), ("Quay in Singapore", "336 of 658")]
    assert rows[0]["others"].startswith("1 ")
    assert "06:44 UTC" in rows[0]["by"]
    assert [part.split(" ")[0] for part in rows[1]["others"].split(" · ")] == ["200", "122"]


def test_everything_has_its_age() -> None:
    assert (tile("Readings received").value, tile("Readings received").note) == ("1,999", "newest 1 min ago")
    assert (tile("Open alerts").value, tile("Open alerts").note) == ("9", "as of 5 s ago")
    spark_stands = status(age(fleet_ms=600_000))
    assert tile("Open alerts", spark_stands).note == "as of 5 s ago"
    assert tile("Open alerts", {**spark_stands, "projector": age(fleet_ms=120_000)}).note == "as of 2 min ago"
    acknowledged = headline.alerts_tile({"open_alerts": 0, "acknowledged_alerts": 12}, NOW_MS, NOW_MS)
    assert (acknowledged.value, acknowledged.note[:3], acknowledged.tone) == ("0", "12 ", "good")
    aged = headline.alerts_tile({"open_alerts": 0, "acknowledged_alerts": 0}, NOW_MS - 2 * headline.AGED_MS, NOW_MS)
    assert (aged.tone, aged.note) == ("warning", "as of 2 h ago"), "what nobody has looked at since is no good news"
    unknown = headline.alerts_tile({"open_alerts": 0, "acknowledged_alerts": 0}, None, NOW_MS)
    assert unknown.tone == "plain", "of what is not known yet no number is good"
    assert headline.own_tiles(fleet(as_of_at_ms=NOW_MS - 60_000))[2].note == "as of 1 min ago"
    assert tile("Fleet clock").note == "4,000× real time"
    stopped = {state: headline.clock_tile(fleet(clock={"now_at_ms": NOW_MS, "speed": 0, "state": state})) for state in ("waiting", "ended")}
    assert [(one.note, one.tone) for one in stopped.values()] == [("Waiting", "warning"), ("Ended", "warning")]
    assert (tile("Analytics updated").value, tile("Analytics updated").note) == ("5 s ago", "updated 2 s ago (real time)")
    assert headline.own_tiles(fleet())[-1].value == "5 s ago"


def test_spark_standing_still_is_said_with_since_when() -> None:
    """By the wall's clock, whatever the fleet's does; an engine that never spoke is another thing than one that stopped."""
    assert headline.still_since(status()) is None
    assert headline.still_since(status(age(fleet_ms=50_000_000, wall_ms=2_000))) is None
    still = headline.still_since(status(age(fleet_ms=600_000, wall_ms=600_000)))
    assert still is not None
    assert "since 18 May 2026, 06:34 UTC" in still
    assert "10 min" in still
    assert still.endswith("alerts still come.")
    assert (headline.still_since(status(age(600_000, 600_000)), alerts_come=False) or "").endswith("as old as that.")
    assert headline.still_since(status(age(None, None))) is None
    assert "are starting" in (headline.starting(status(age(None, None))) or "")
    assert headline.starting(status()) is None
    broken = headline.still_since(status({**age(600_000, 2_000), "well": False})) or ""
    assert "18 May 2026, 06:34 UTC" in broken
    assert headline.own_tiles(fleet())[1].note == "1,500 aboard ships · 493 on quays · 7 overboard"
    overdue = headline.own_tiles(fleet(muster={**muster(7, NOW_MS - 20 * 3_600_000, by_ship=7), "overdue": True}))[1]
    assert (overdue.tone, overdue.note.endswith("the next two are overdue")) == ("warning", True)
    counts = {"boxes": 7, "lost": 0, "lost_unconfirmed": 0, "misread": 0, "on_ship": 2, "on_quay": 0}
    waiting = fleet(counts={**counts, "delivered": 2, "unreported": 3, "open_alerts": 0, "acknowledged_alerts": 0})
    assert [part.split(" ")[0] for part in headline.own_tiles(waiting)[1].note.split(" · ")] == ["2", "0", "2", "3"]


CHAPTER = {"chapter": "C", "title": "Off Sydney: boxes overboard", "text": "Ship 9999010 has rolled", "look": "The map", "at_ms": NOW_MS}
INCIDENT = {
    "incident_id": "i",
    "position": position(),
    "raised_at_ms": NOW_MS - 60_000,
    "containers": ["A", "B"],
    "bays": [94],
    "open_alerts": 3,
    "acknowledged_alerts": 0,
}


def test_a_chapter_leads_to_what_it_tells() -> None:
    """To where they fell, to its port, to the ships it names; what has not happened yet leads nowhere."""
    told = a_map(ports=[port("AUSYD", "Sydney", 151.2, -33.9), port()])
    found = story_chapters.looks(CHAPTER, told, [INCIDENT])
    assert [look.title for look in found] == ["Where they fell", "Sydney", "Ship 9999010"]
    assert (found[0].longitude, found[0].latitude) == (151.92, -33.44)
    assert [look.title for look in story_chapters.looks({**CHAPTER, "title": "Nowhere"}, a_map(ships=[ship(position=None)]), [])] == []
    later = {**INCIDENT, "raised_at_ms": NOW_MS + 40 * 3_600_000}
    assert story_chapters.incident_of(CHAPTER, [later]) is None


def test_chapters_tell_what_was_measured() -> None:
    """Numbers come from the sensors and papers, not from the story."""
    assert story_chapters.measured(CHAPTER, None, [INCIDENT], {})[0] == "2 boxes in bay 094"
    named = {
        name: {"count": count, "containers": []}
        for name, count in (("discharged", 35), ("to_discharge", 35), ("loaded", 80), ("to_load", 81))
    }
    muster = {"at_ms": NOW_MS - 60_000, "accounted": 150, "instrumented": 153}
    call = {"ship": "9999010", "sailed_at_ms": NOW_MS - 60_000, "left_behind": {"count": 1, "containers": []}, "muster": muster, **named}
    story = {**CHAPTER, "title": "Singapore: the ducks part"}
    facts = story_chapters.measured(story, {"calls": [{**call, "sailed_at_ms": None}, call]}, [], {"9999010": "Big Blue"})
    assert facts[0].startswith("Big Blue sailed 18 May")
    assert [re.findall(r"\d+ of \d+|06:43:09|\d+ box\b", fact) for fact in facts[1:]] == [
        ["35 of 35"],
        ["80 of 81"],
        ["06:43:09", "150 of 153"],
        ["1 box"],
    ]
    assert story_chapters.measured(story, {"calls": []}, [], {}) == story_chapters.measured(story, None, [], {}) == []


def test_what_the_pages_lack_is_said_on_each() -> None:
    told = [{"process": name, "node": "hq", "troubles": [f"{name} lacks some"]} for name in ("projector", "analytics", "fanout")]
    assert headline.lacks(status() | {"processes": told}) == ["projector lacks some", "analytics lacks some"]
    assert headline.lacks(status(age(600_000, 600_000)) | {"processes": told}) == ["projector lacks some"]


def test_an_acknowledged_alert_of_a_box_is_not_open() -> None:
    told = [
        headline.box_alerts_tile([{"stage": stage} for stage in stages]) for stages in ((), ("acknowledged",), ("open", "acknowledged"))
    ]
    assert [(one.value, one.note, one.tone) for one in told] == [
        *(("0", "", "good"), ("0", "1 acknowledged", "plain"), ("1", "1 acknowledged", "alert"))
    ]
