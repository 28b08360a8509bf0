"""Goal: what the pages show operations and customers is right, over a real API and store. In a browser: `test_browser.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from cargo.vocabulary.trade_codes import make_container
from dashboards import texts
from hq.analytics.disclosure import KIND
from landfall.transport.http_client import AppendDoor
from sim.voyages import SHIPS
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.dashboards.lossreport import report
from tests.dashboards.visit import Visit, pages_here, visiting
from tests.support.page_stage import TOKEN, Stage, staged, until

AS_OF = re.compile(r"as of \d+ May 2026, \d\d:\d\d UTC")
TICKING = re.compile("real time|Paused|Waiting|Ended")
STILL = re.compile(r"stopped since \d+ May 2026, \d\d:\d\d UTC \(fleet\), .* \(real time\)")

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: stage.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The fleet off Sydney, some minutes after boxes fell; this process serves its pages."""
    with staged(tmp_path_factory.mktemp("pages")) as one, pages_here(one.answering.url):
        yield one


def test_the_map_is_given_every_lost_box(stage: Stage) -> None:
    visit = visiting("mira")
    assert f"{len(stage.fallen())} overboard" in visit.tile("Accounted for")
    assert "C · Off Sydney: boxes overboard" in visit.text()
    [chart] = visit.app.get("deck_gl_json_chart")
    assert all(number in chart.proto.json for number in stage.fallen())


def test_a_container_is_found_opened_and_shared(stage: Stage) -> None:
    """By its number however it is written; its page has temperatures and milestones, and its address leads there after logging in."""
    number = next(number for number in stage.voyage.world.boxes.numbers if number.startswith("BBRU"))
    visit = visiting("mira", "containers")
    visit.fill("Container number", f"{number[:4].lower()} {number[4:10]} {number[10]}")
    assert visit.app.query_params == {"container": number}
    assert {"Milestones", "Loaded onto"} <= set(re.findall("Milestones|Loaded onto", visit.text()))
    assert len(visit.app.get("vega_lite_chart")) == 1
    assert visit.tile("Last heard").split("ago")[0] != visit.tile("Last heard")
    other = Visit()
    other.open("containers", container=number)
    assert not other.was_given("Milestones")
    other.log_in("mira")
    assert "Milestones" in other.text()
    assert number in other.text()


def test_a_booked_containers_consignee_is_called_by_its_name(stage: Stage) -> None:
    bookings = stage.asked("ducks", "bookings?limit=500")
    found = next(one for one in bookings["items"] if not one["containers"][0]["ended"])
    visit = visiting("mira", "containers")
    visit.fill("Container number", found["containers"][0]["container"])
    assert bookings["names"][f"customer/{found['consignee']}"] in visit.text()


def test_a_misread_number_gets_help(stage: Stage) -> None:
    """A wrong check digit is explained, and the box it was meant to be is one click away."""
    number = stage.voyage.world.boxes.numbers[0]
    wrong = number[:10] + str((int(number[10]) + 1) % 10)
    visit = visiting("mira", "containers")
    visit.fill("Container number", wrong)
    assert f"{number[:10]} is {number[10]}, not {wrong[10]}" in visit.text()
    visit.press(number)
    assert visit.app.query_params == {"container": number}
    assert "Milestones" in visit.text()


def test_a_booking_is_searched_by_its_owner_and_by_nobody_else(stage: Stage) -> None:
    """Its boxes and how old that is; to another customer it is a booking that does not exist."""
    own = set(stage.numbers("duckworks"))
    found = next(one for one in stage.asked("ducks", "bookings?limit=500")["items"] if not one["containers"][0]["ended"])
    assert {box["container"] for box in found["containers"]} <= own
    visit = visiting("ducks", "containers")
    visit.fill("Booking", found["reference"])
    boxes = texts.counted(len(found["containers"]), "container")
    assert re.search(rf"{boxes} · as of .* ago · select a row to open", visit.text())
    other = visiting("merlion", "containers")
    for reference in (found["reference"], "BB0000000"):
        other.fill("Booking", reference)
        assert re.search("0 containers · as of .* No container.", other.text())
    assert not [number for number in own if other.was_given(number)]


def test_a_list_is_ordered_by_the_api_and_its_columns_are_numbers(stage: Stage) -> None:
    """By number first; then by when its boxes were heard, which the table has as numbers, as it has temperatures and alerts."""
    visit = visiting("mira", "containers")
    for label, sort in ((None, "number"), ("heard longest ago first", "heard_oldest"), ("by place", "place")):
        if label:
            visit.choose("Order", label)
        [shown] = visit.app.dataframe
        told = stage.asked("mira", f"containers?limit=200&sort={sort}")["items"]
        assert list(shown.value["Container"]) == [box["number"] for box in told]
        assert {str(shown.value[name].dtype) for name in ("Last heard", "Temperature", "Setpoint", "Open alerts")} == {"float64"}
        assert list(shown.value["Open alerts"]) == [box["open_alerts"] for box in told]
    assert shown.value["Open alerts"].sum() >= len(stage.fallen())
    assert shown.value["Setpoint"].isna().any(), "a dry box has no setpoint, and not 0 °C"


def test_an_incident_shows_its_evidence_and_is_acknowledged(stage: Stage) -> None:
    """One incident with every lost box, its slot and why; taking note of it goes to headquarters' log and comes back with the name."""
    visit = visiting("mira", "alerts")
    shown = visit.text()
    assert f"{len(stage.fallen())} containers probably overboard" in shown
    for number in stage.fallen():
        assert f"{number} bay " in shown
    assert {"free fall", "on deck"} <= set(re.findall("free fall|on deck", shown))
    visit.press(r"Acknowledge \d")
    visit.look_until(lambda: "acknowledged by Mira Okafor" in visit.text(), "the acknowledgement")


def test_a_loss_report_is_read_at_headquarters_and_its_owner_is_told_of_its_boxes_alone(stage: Stage) -> None:
    """The desk shows how far the ship's report came and to whom it went; an owner its own boxes, and no total."""
    report(stage)
    visit = visiting("mira", "alerts")
    shown = visit.text()
    assert {"Loss report 1, INITIAL", "Containers seen adrift, report 1, INITIAL"} <= set(
        re.findall(r"Loss report 1, INITIAL|Containers seen adrift, report 1, INITIAL", shown)
    )
    assert "2 seen adrift, 33°54.0′S 151°54.0′E" in shown
    assert re.search(f"{len(stage.fallen())} lost, 1 at risk, .* approved by Master Moe, .* sent 1 time", shown)
    assert "RCC Australia" in shown
    assert any("LOSS OF FREIGHT CONTAINER(S) FROM A SHIP" in code.value for code in visit.app.code)
    owner = visiting("ducks")
    own = sorted(set(stage.fallen()) & set(stage.numbers("duckworks")))
    shown = owner.text()
    assert re.search(f"Notice of loss .* {texts.counted(len(own), 'container')} of yours", shown)
    assert all(f"{number} Probably lost overboard" in shown for number in own)
    assert not owner.was_given(stage.numbers("merlion")[0])


def test_a_loss_that_no_load_list_confirms_is_said_to_be_that(stage: Stage) -> None:
    """In the desk's table, on the box's page, which goes on saying where it is, and in its owner's table."""
    boxes = [box for box in stage.asked("ducks", "containers")["items"] if box["place"] and not box["ended"]]
    boxes = [box for box in boxes if box["place"]["id"] != SHIPS[1].imo]
    number = next(box["number"] for box in boxes if box["number"] not in stage.fallen())
    claim(stage, number, SHIPS[1].imo)
    visit, said = visiting("mira", "alerts"), f"Not confirmed: no load list of {SHIPS[1].name} has this box."
    visit.look_until(lambda: claimed(visit, number), "the claim")
    assert "1 loss not confirmed" in visit.tile("Accounted for")
    visit.open("containers", container=number)
    assert said in visit.text()
    assert re.search(r"Now (Aboard|On the quay).* \(loss not confirmed\)", visit.tile("Now"))
    owner = visiting("ducks")
    owner.look_until(lambda: claimed(owner, number), "the owner's alert")


def claimed(visit: Visit, number: str) -> bool:
    """Whether the table of alerts has this box as probably lost, and says that nothing confirms it."""
    [table] = [one.value for one in visit.app.dataframe if "Alert" in one.value]
    return list(table[table["Container"] == number]["Alert"]) == ["Probably overboard (not confirmed)"]


def claim(stage: Stage, number: str, imo: str) -> None:
    """Headquarters' log, and its owner's stream, have a ship's alert that it lost this box."""
    at_ms = stage.clock.now_ms()
    known = {"alert_id": f"{imo}-claim", "rule": "lost_container", "severity": "CRITICAL", "state": "raised", "at_ms": at_ms}
    body = {**known, "status": "PROBABLE_OVERBOARD", "title": f"{number} probably overboard", "ship": imo}
    owners = {**known, "status": "PROBABLE_OVERBOARD", "evidence": [], KIND: "alert"}
    records = {"alerts": body, "customers/duckworks": owners}
    appends = [Append(stream, to_batch([Record(number, device_at_ms=at_ms, body=one)])) for stream, one in records.items()]
    AppendDoor(stage.door, TOKEN).append(appends)


def test_ports_and_health_say_what_is_known_and_how_old(stage: Stage) -> None:
    """Singapore's calls against what the sensors heard; every node's last word."""
    visit = visiting("mira", "ports")
    assert "Loaded, confirmed aboard" in visit.text()
    visit.open("sync")
    assert "hq analytics" in visit.text()
    assert "satellite 612 ms" in visit.text()
    assert re.search(r" [1-9][0-9,]* records? for a link to port; 2 ships, as of", visit.tile("Waiting on board"))


def test_logging_out_ends_the_session(stage: Stage) -> None:
    """A wrong password says so; after logging out nothing but the door is left."""
    visit = Visit()
    visit.look()
    visit.log_in("mira", "not her password")
    assert "Wrong username or password." in visit.text()
    visit.log_in("mira")
    assert visit.has_button("Log out")
    visit.press("Log out")
    assert "You have logged out." in visit.text()
    assert [field.label for field in visit.app.text_input] == ["Username", "Password"]
    assert visit.app.query_params == {}
    assert not visit.has_button("Log out")
    visit.open("alerts")
    assert "Incidents" not in visit.text()


def test_a_customer_sees_its_boxes_and_no_other(stage: Stage) -> None:
    """The duck owner's pages: its own boxes, by whatever way; no foreign number ever reaches its browser, seen or unseen."""
    own, foreign = stage.numbers("duckworks"), stage.others("duckworks")
    visit = visiting("ducks")
    assert visit.pages() == {"Your cargo", "Containers"}
    assert "Bookings" in visit.text()
    bookings, boxes = (one.value for one in visit.app.dataframe if "Alert" not in one.value)
    assert bookings["Boxes"].sum() == len(boxes) == len(own)
    assert all(visit.was_given(number) for number in own)
    visit.open("containers")
    nobody = make_container("MSKU", 999_990)
    assert nobody not in stage.voyage.world.boxes.numbers
    answers = []
    for wanted in (foreign[0], nobody):
        visit.fill("Container number", wanted)
        [banner] = [text for text in visit.each("lf-banner") if wanted in text]
        answers.append(banner.replace(wanted, "NUMBER"))
    assert answers[0] == answers[1]
    assert not [number for number in foreign[1:] if visit.was_given(number)]
    visit.fill("Container number", own[0])
    assert visit.app.query_params == {"container": own[0]}
    assert "Milestones" in visit.text()
    for page in ("alerts", "ports", "sync"):
        visit.open(page)
        assert not [number for number in foreign[1:] if visit.was_given(number)]


def shows_no(visit: Visit, kind: str) -> bool:
    """Whether the page has nothing of this class."""
    return not visit.each(kind)


def test_every_role_is_told_since_when_spark_stands_still(stage: Stage) -> None:
    """Staff, crew and customers, each with what is old then: a customer's alerts too. When it speaks again the sentence goes."""
    visits = {who: visiting(who, page) for who, page in (("mira", "sync"), ("cleo", "containers"), ("crew", "containers"), ("ducks", ""))}
    for who, visit in visits.items():
        [still] = [text for text in visit.each("lf-banner") if "stopped since" in text]
        assert STILL.search(still)
        assert ("alerts too, is as old" if who == "ducks" else "alerts still come") in still
    with stage.spark_speaking():
        for visit in visits.values():
            visit.look_until(partial(shows_no, visit, "lf-banner"), "an end of the sentence")


def test_a_store_that_is_rebuilt_is_told_and_comes_back(stage: Stage) -> None:
    """The serving database deleted under the pages: they keep what they had, say so and of when it is, and go on when it is there again."""
    pages = [visiting("mira", page) for page in ("", "containers", "alerts", "ports", "sync")] + [visiting("ducks")]
    before = [(visit.drawn()[-1], len(visit.app.dataframe)) for visit in pages]
    assert not any(visit.each("lf-kept") for visit in pages)
    stage.projecting.stop()
    for name in (stage.database, *stage.database.parent.glob("serving.db-*")):
        name.unlink()
    new = visiting("mira")
    assert (new.each("lf-kept"), "Readings received" in new.text()) == ([], False), "nothing was seen before"
    assert any("serving database" in banner for banner in new.each("lf-banner"))
    for visit, (piece, tables) in zip(pages, before, strict=True):
        visit.look()
        kept = visit.each("lf-kept")
        assert len(kept) >= 2, "the strip and the page"
        assert all("serving database" in one and AS_OF.search(one) for one in kept)
        assert TICKING.search(visit.tile("Fleet clock")), "that is the API's own"
        assert (len(visit.app.dataframe), piece in visit.drawn()) == (tables, True)
    stage.projecting.start()
    for visit in pages:
        visit.look_until(partial(shows_no, visit, "lf-kept"), "the store")
    until(lambda: stage.asked("mira", "map")["places"] != [], "the map's places")
