"""Goal: the crew sees on her own ship's console, in a real browser and with no way to the internet, who is accounted for and who is not,
takes note of alerts, says what was seen, and brings the loss report to its sending; all of it is in the ship's log."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cargo.vocabulary.registry_entries import entry_body
from dashboards import texts
from edge.console.crew_api import PAGE_HEADERS
from landfall.cli.login_prompt import basic
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.cargo.lossnews import LOST_AT_MS, STACK, papers
from tests.edge.bridge import MASTER, Bridge, approve, narrow, pictures
from tests.landfall.commands import run
from tests.support.aboard import TOKEN, fleet_clock, login, message, publish_all, ship
from tests.support.browser_tab import answered_late, browser
from tests.support.credentials import PASSWORD, allow_crew
from tests.support.process import wait
from tests.support.sea import HOUR_MS, MINUTE_MS, SHIP, Sea, fall, number

UNTIL_MS = LOST_AT_MS + HOUR_MS
BOXES, UNTRACKED = 160, frozenset({3, 7, 30, 31, 101})

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: tests/support/browser_tab.py


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    folder = tmp_path_factory.mktemp("bridge")
    storm = (LOST_AT_MS - 6 * MINUTE_MS, LOST_AT_MS + 4 * MINUTE_MS)
    silent = {at: [(LOST_AT_MS, UNTIL_MS + HOUR_MS)] for at in STACK}
    sea = Sea(
        boxes=BOXES,
        rows=10,
        tiers=4,
        untracked=UNTRACKED,
        hold=frozenset(at for at in range(BOXES) if at % 4 < 2 and at // 4 % 10 in range(3, 7)),
        storms=[storm],
        silent=silent,
    )
    said = [heard for at in STACK for heard in fall(sea, at, LOST_AT_MS - (10 - at) * 1_000)]
    with fleet_clock(UNTIL_MS) as clock, ship(folder, clock=clock) as process:
        allow_crew(folder / "ship", "odd", "Mate Meyer <jo@sea>")
        process.start()
        process.wait_ready()
        told = [Record(topic=one.topic, body=entry_body(one)) for one in [*sea.entries(), *papers(sea)]]
        process.hears([Append(f"aboard/{SHIP}", to_batch(told))])
        publish_all(process.mqtt_port, [message(heard) for heard in sea.readings(UNTIL_MS, said)], process.tail)
        with browser(process.url) as windows:
            yield Bridge(process, folder, windows)


def test_the_muster_by_bay_says_who_is_gone_and_what_can_not_be_known(bridge: Bridge, tmp_path: Path) -> None:
    """The counts, with time and age; each box of a bay by shape and word, when and by which gateway it was heard; by keyboard alone."""
    tab = bridge.enter()
    page = tab.page
    tracked = BOXES - len(UNTRACKED)
    expect(page.get_by_role("heading", name=f"{tracked - len(STACK)} of {tracked} accounted for")).to_be_visible()
    expect(page.get_by_text(re.compile(r"as of \d\d:\d\d:\d\d UTC · \d+ s ago")).first).to_be_visible()
    expect(page.get_by_text(f"{len(UNTRACKED)} containers carry no tracker")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Bay 002")).click()
    expect(page.locator("tr:has(td.hatch) + tr th"), "the hatch cover lies on the hold").to_have_text("04")
    bay = page.get_by_role("button", name=re.compile(r"^Bay 002: 33 of 36 accounted for; .*3 gone"))
    bay.focus()
    bay.press("Enter")
    lost = page.get_by_role("button", name=re.compile(rf"^{number(0)}, bay 002, row \d\d, tier \d\d: gone$"))
    expect(lost.locator("use")).to_have_attribute("href", "#s-gone")
    untracked = page.get_by_role("button", name=re.compile(rf"^{number(3)}, bay 002, row \d\d, tier \d\d: no tracker$"))
    expect(untracked.locator("use")).to_have_attribute("href", "#s-not_instrumented")
    lost.focus()
    lost.press("Enter")
    box = page.get_by_label(f"Box {number(0)}")
    expect(box).to_contain_text("probably overboard")
    expect(box).to_contain_text(re.compile(r"07:59:5\d UTC · 1 h( 0 min)? ago"))
    expect(box).to_contain_text("GW-0")
    pictures(tab, "console", tmp_path)
    narrow(tab)
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name=re.compile("^Bay 006")).click()
    expect(page.get_by_role("heading", name="Bay 006")).to_be_in_viewport()
    bridge.windows.close()


def test_alerts_are_noted_aboard_and_ashore_for_both_to_see(bridge: Bridge, tmp_path: Path) -> None:
    """The crew's acknowledgement is in the ship's own log with the name; headquarters', told by `aboard/<imo>`, shows on the console."""
    records = []
    for rule, by in (("shock", "Mira Okafor"), ("incident", "Ines Duarte")):
        one = [body for body in bridge.alerts() if body["rule"] == rule][-1]
        ashore = {**one, "state": "acknowledged", "at_ms": one["at_ms"] + MINUTE_MS, "by": by}
        records.append(Record(f"acknowledgement/{one['alert_id']}", device_at_ms=ashore["at_ms"], body=ashore))
    bridge.process.hears([Append(f"aboard/{SHIP}", to_batch(records))])
    tab = bridge.enter("odd")
    page = tab.page
    page.get_by_role("button", name=re.compile("^Alerts")).click()
    page.get_by_text("3 closed").click()
    expect(page.get_by_text(re.compile(r"✓ Mira Okafor, \d\d:\d\d:\d\d UTC"))).to_be_visible()
    expect(page.get_by_text("3 containers probably overboard")).to_be_visible()
    expect(page.get_by_text(re.compile(r"✓ Ines Duarte, \d\d:\d\d:\d\d UTC"))).to_be_visible()
    page.get_by_text(re.compile("^Evidence · probability of a loss")).first.click()
    expect(page.get_by_text(re.compile("free fall of")).first).to_be_visible()
    narrow(tab)
    pictures(tab, "console-alerts", tmp_path)
    page.get_by_role("button", name="Acknowledge 3").click()
    expect(page.get_by_text("Acknowledged by Mate Meyer <jo@sea>: 3 alerts.").first).to_be_visible()
    noted = [body for body in bridge.alerts() if body["state"] == "acknowledged"]
    assert [body["by"] for body in noted] == ["Mate Meyer <jo@sea>"] * 3
    assert {body["rule"] for body in noted} == {"lost_container"}
    page.get_by_text(re.compile(r"^\d+ acknowledged$")).click()
    page.get_by_role("button", name="Take back").first.click()
    expect(page.get_by_text("Taken back by Mate Meyer <jo@sea>: the alert is open again.").first).to_be_visible()
    assert [body["by"] for body in bridge.alerts() if body["state"] == "unacknowledged"] == ["Mate Meyer <jo@sea>"]
    bridge.windows.close()


def test_what_the_page_makes_of_values(bridge: Bridge) -> None:
    """The page's own functions, asked in one tab: none of them needs the ship."""
    page = bridge.windows.tab().page
    page.goto(f"{bridge.process.url}/console")
    positions_and_probabilities_are_written_as_they_are(page)
    a_list_without_any_tracker_is_never_shown_as_all_accounted_for(page)
    a_row_where_nothing_stands_keeps_its_place_in_the_bay(page)
    bridge.windows.close()


def positions_and_probabilities_are_written_as_they_are(page: Page) -> None:
    """No sixty minutes of arc, and no probability that is none or certain."""
    said = "import('/console/pages.js').then((pages) => pages.{}({}))"
    assert page.evaluate(said.format("position", "{latitude_deg: -36.99999, longitude_deg: 139.8}")) == "37°00.0′ S 139°48.0′ E"
    assert page.evaluate(said.format("position", "{latitude_deg: 5.0, longitude_deg: -0.0125}")) == "5°00.0′ N 0°00.8′ W"
    shares = (0.0004, 0.5, 0.984, 0.9912, 0.99999)
    assert [page.evaluate(said.format("percent", share)) for share in shares] == ["< 1", "50", "98", "99.12", "> 99.99"]
    for weight in (3.0, -4.0, 0.5, 0.0):
        piece = json.dumps({"family": "presence", "weight": weight})
        assert page.evaluate(said.format("weight", piece)) == texts.weight(weight)
    assert page.evaluate(said.format("weight", '{family: "person", weight: 0}')) == texts.NOTHING


def a_list_without_any_tracker_is_never_shown_as_all_accounted_for(page: Page) -> None:
    """Nought of nought is all of them; what nobody can know is not green."""
    shown = """async (accounted) => {
        const { musterPage } = await import("/console/pages.js");
        const nobody = { not_on_list: [], bays: [], at_ms: 0 };
        const muster = { total: 5, instrumented: accounted, accounted, reasons: { not_instrumented: 5 }, ...nobody };
        const heading = musterPage({ muster })[0].querySelector("h1");
        return [heading.className, heading.textContent.trim()];
    }"""
    assert page.evaluate(shown, 0) == ["sum not_instrumented", "No count: no container on the list carries a tracker"]
    assert page.evaluate(shown, 2) == ["sum num heard", "2 of 2 accounted for"]


def a_row_where_nothing_stands_keeps_its_place_in_the_bay(page: Page) -> None:
    """Between two stacks that stand there is room for each that does not; no row 00 where the ship has none."""
    shown = """async (rows) => {
        const { bayPanel } = await import("/console/pages.js");
        const boxes = rows.map((row) => ({ row, tier: 82, on_deck: true, slot: "0420082", container: "MSKU0000000", reason: "heard" }));
        return [...bayPanel({ bay: "042", at_ms: 0, boxes }).querySelectorAll("thead th")].map((one) => one.textContent);
    }"""
    assert page.evaluate(shown, [1, 8, 2]) == ["tier", "08", "06", "04", "02", "01"]
    assert page.evaluate(shown, [0, 5]) == ["tier", "00", "01", "03", "05"]
    hatch = """async () => {
        const { bayPanel } = await import("/console/pages.js");
        const boxes = [84, 72, 4].map((tier) => ({ row: 1, tier, on_deck: tier > 70, slot: "0420182", container: "", reason: "heard" }));
        return bayPanel({ bay: "042", at_ms: 0, boxes }).querySelector("tr:has(td.hatch) + tr th").textContent;
    }"""
    assert page.evaluate(hatch) == "04", "it lies under all that the node says stands on deck"


ASHORE = """async () => {
    const { lossPage } = await import("/console/pages.js");
    const report = { incident_id: "i", report_id: "i-1", number: 1, kind: "INITIAL", state: "sent" };
    return lossPage({ alerts: [], reports: [report], reports_waiting: 0 }).flat(9).find((one) => one && one.tagName === "P").textContent;
}"""


def test_what_a_line_may_not_hold_is_refused_and_nothing_typed_is_lost_or_left_out(bridge: Bridge) -> None:
    """It is said in a sentence that is in view; what was typed stays until it is kept or taken back, and nothing is approved over it."""
    page = bridge.enter().page
    loss = page.get_by_role("button", name="Loss", exact=True)
    loss.click()
    page.get_by_role("button", name=re.compile("^1. INITIAL")).click()
    page.get_by_label("Seen afloat").fill("many")
    page.get_by_label("Action taken").fill("engines stopped")
    page.get_by_label("The number is").select_option("COUNTED")
    page.get_by_role("button", name="Save").click()
    refused = page.get_by_role("alert").get_by_text("afloat is a whole number up to 30,000, not 'many'")
    expect(refused, "wherever on the page one is").to_be_in_viewport()
    page.get_by_role("button", name="Muster").click()
    loss.click()
    expect(page.get_by_label("Action taken")).to_have_value("engines stopped")
    expect(page.get_by_label("The number is")).to_have_value("COUNTED")
    approve(page)
    expect(page.get_by_role("alert").get_by_text("Not approved: 3 lines are changed and not saved yet.")).to_be_in_viewport()
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("The number is")).to_have_value("ESTIMATED")
    assert {row["body"]["state"] for row in bridge.process.rows("reports")} == {"draft"}
    bridge.windows.close()


def test_a_report_is_edited_approved_and_written_down_as_sent(bridge: Bridge, tmp_path: Path) -> None:
    """What is given is kept with who gave it; the files are what the log says."""
    tab = bridge.enter()
    page = tab.page
    page.get_by_role("button", name="Loss", exact=True).click()
    page.get_by_role("button", name=re.compile("^1. INITIAL")).click()
    expect(page.get_by_label("Latitude")).to_have_value("36°06.0′ N")
    page.get_by_label("Latitude").fill("36 07.5 N")
    page.get_by_label("Seen afloat").fill("2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(f"Saved as given by {MASTER}: 2 lines.").first).to_be_visible()
    expect(page.get_by_label("Latitude")).to_have_value("36°07.5′ N")
    expect(page.get_by_label("Seen afloat")).to_have_value("2")
    narrow(tab)
    expect(page.get_by_role("row", name=re.compile("Seen afloat"))).to_contain_text(f"given {MASTER}")
    for field, value in (("Wind, m/s", "17"), ("from, degrees", "200"), ("Current, m/s", "0.4"), ("to, degrees", "20")):
        page.get_by_label(field).fill(value)
    page.get_by_role("button", name="Fill in the drift, 24 h").click()
    expect(page.get_by_label("Drift of the containers")).to_have_value(re.compile("from 200° and a current of 0.4 m/s to 20°"))
    pictures(tab, "console-report", tmp_path)
    expect(page.get_by_label("IMO number"), "the registry knows it").to_have_count(0)
    page.get_by_role("button", name=f"Approve as {MASTER}").click()
    approval = page.get_by_role("group", name="Approve this report")
    expect(approval).to_contain_text(re.compile("Empty, voluntary: .*Action taken"))
    approval.get_by_role("button", name="Cancel").click()
    expect(approval).to_have_count(0)
    page.get_by_role("button", name=f"Approve as {MASTER}").click()
    approval.get_by_role("button", name="Approve version").click()
    page.get_by_label("name", exact=True).fill("RCC Japan")
    page.get_by_label("It went to").select_option("COASTAL_STATE")
    page.get_by_label("by what means").fill("Inmarsat-C")
    page.get_by_label("when, UTC").fill(datetime.fromtimestamp((UNTIL_MS - 10 * MINUTE_MS) / 1000, UTC).strftime("%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Record as sent").click()
    expect(page.get_by_role("cell", name="Nearest coastal State RCC Japan", exact=True)).to_be_visible()
    page.get_by_label("Who acknowledged it at Nearest coastal State RCC Japan").fill("duty officer Sato")
    page.get_by_role("button", name="Acknowledged now").click()
    expect(page.get_by_role("cell", name="✓ duty officer Sato")).to_be_visible()
    expect(page.get_by_role("heading", name="3 containers probably overboard, reported")).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile("^reported as lost"))).to_have_count(3)
    with page.expect_download() as saved:
        page.get_by_role("button", name="PDF").click()
    assert saved.value.path().read_bytes().startswith(b"%PDF-")
    assert saved.value.suggested_filename.endswith("-1.pdf")
    sendings = [row["body"]["sending"] for row in bridge.process.rows("reports") if row["body"].get("sending")]
    assert [one["sent_at_ms"] for one in sendings] == [UNTIL_MS - 10 * MINUTE_MS]
    states = [row["body"]["state"] for row in bridge.process.rows("reports")]
    assert states[-5:] == ["edited", "edited", "approved", "sent", "sent"], "the last is the receipt"
    expect(page.get_by_text(f"{len(states)} records of the reports are not ashore yet.")).to_be_visible()
    assert page.evaluate(ASHORE) == "All records of the reports are ashore: a port or headquarters has them."
    page.get_by_label("How many are adrift").fill("2")
    page.get_by_role("button", name="Draft a report").click()
    expect(page.get_by_role("heading", name="Report of containers seen adrift")).to_be_visible()
    assert bridge.process.rows("reports")[-1]["body"]["content"]["lines"]["number_lost"]["value"] == 2
    adrift = page.locator("section.panel", has=page.get_by_role("heading", name="Report of containers seen adrift"))
    adrift.get_by_role("button", name=re.compile("^1. INITIAL")).click()
    approve(adrift)
    adrift.get_by_role("button", name="Draft an UPDATE").click()
    expect(adrift.get_by_role("button", name=re.compile("^2. UPDATE · draft"))).to_be_visible()
    expect(adrift.get_by_role("button", name="Draft an UPDATE")).to_have_count(0)
    bridge.windows.close()


def test_what_was_seen_on_board_takes_the_alert_back_and_outlives_a_kill(bridge: Bridge, capsys: pytest.CaptureFixture[str]) -> None:
    """Who said what is a record of `decisions`, from the console or by command; muster and alert follow, also after kill -9."""
    tab = bridge.enter()
    page = tab.page
    page.get_by_role("button", name=re.compile("^Bay 002")).click()
    page.get_by_role("button", name=re.compile(f"^{number(2)}")).click()
    page.get_by_label("Note").fill("lies on the hatch, says Rene\u0301")
    page.get_by_role("button", name="Stack collapsed, still aboard").click()
    expect(page.get_by_role("button", name=re.compile(f"^{number(2)}.*: fallen, still aboard$"))).to_be_visible()
    [kept] = [body for row in bridge.process.rows("decisions") if (body := row["body"])["said"] != "reported"]
    assert {name: kept[name] for name in ("container", "said", "by", "note")} == {
        "container": number(2),
        "said": "collapsed",
        "by": MASTER,
        "note": "lies on the hatch, says Ren\u00e9",
    }
    wait(lambda: any(body["state"] == "retracted" for body in bridge.alerts()), bridge.process.tail)
    back = next(body for body in bridge.alerts() if body["state"] == "retracted")
    assert (back["by"], back["detail"].endswith(f"{MASTER}: lies on the hatch, says Ren\u00e9")) == (MASTER, True)
    config, mate = ("-c", bridge.process.config), login("mate", bridge.folder)
    told = run(capsys, "ship", "decide", number(1), "gone", *mate, *config)
    assert told[:2] == (0, f"{number(1)}: count taken: gone, says Mate Meyer\n"), told
    expect(page.get_by_role("button", name=re.compile(f"^{number(1)}"))).to_be_visible()
    page.get_by_role("button", name=re.compile(f"^{number(1)}")).click()
    expect(page.get_by_label(f"Box {number(1)}")).to_contain_text("reported as lost")
    title = f"{number(1)} lost overboard, reported"
    wait(lambda: any((body["status"], body["title"]) == ("REPORTED_INITIAL", title) for body in bridge.alerts()), bridge.process.tail)
    code, _, err = run(capsys, "ship", "decide", number(20), "seen", *mate, *config)
    assert (code, "[said_not_possible]" in err, number(20) in err) == (2, True, True), err
    (bridge.folder / "ship" / "watch.snapshot").unlink(missing_ok=True)
    bridge.process.kill()
    expect(page.get_by_role("alert").get_by_text(re.compile(r"The node can not be reached\. What you see is \d+ s old"))).to_be_visible()
    age = page.get_by_text(re.compile(r"as of \d\d:\d\d:\d\d UTC · ")).first
    expect(age, "ages stand still").not_to_have_text(age.inner_text())
    bridge.process.start()
    bridge.process.wait_ready()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("button", name=re.compile(f"^{number(2)}.*: fallen, still aboard$"))).to_be_visible()
    assert len([body for body in bridge.alerts() if body["state"] == "retracted"]) == 1
    bridge.windows.close()


def test_the_final_report_closes_the_incident_and_the_muster_goes_on_saying_who_is_gone(bridge: Bridge, tmp_path: Path) -> None:
    """Nothing of it is open, nothing red but who is gone; by whom and when it was closed stands there, and its reports are read on."""
    tab = bridge.enter()
    page = tab.page
    page.get_by_role("button", name="Loss", exact=True).click()
    page.get_by_role("button", name="Draft the FINAL").first.click()
    page.get_by_role("button", name=re.compile("^2. FINAL")).click()
    page.get_by_label("The number is").select_option("COUNTED")
    with answered_late(page, "**/ship/board"):
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(f"Saved as given by {MASTER}: 1 line.").first).to_be_visible()
    approve(page)
    expect(page.get_by_text(f"Approved by {MASTER}.").first).to_be_visible()
    page.get_by_label("by what means").fill("Inmarsat-C")
    page.get_by_role("button", name="Record as sent").click()
    title = "2 containers probably overboard, 1 of them for certain, reported for good"
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    closed = page.locator("section.alert.closed", has=page.get_by_role("heading", name=title))
    expect(closed).to_contain_text(re.compile(rf"closed at [\d-]+T[\d:]+Z: its loss was reported for good, says {MASTER}"))
    expect(closed).to_contain_text(re.compile(rf"cleared \d\d:\d\d:\d\d UTC · .* by {MASTER}"))
    expect(closed.get_by_role("cell", name=re.compile("^reported as lost, final report"))).to_have_count(2)
    expect(closed.get_by_role("cell", name="taken back")).to_have_count(1)
    expect(page.get_by_role("button", name=re.compile("^2. FINAL · sent"))).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    pictures(tab, "console-closed", tmp_path)
    page.get_by_role("button", name=re.compile("^Alerts")).click()
    expect(page.locator("section.ALARM", has=page.get_by_text(f"{number(2)}: a stack is down"))).to_be_visible()
    expect(page.get_by_role("heading", name="1 open", exact=True), "that of the box which lies aboard").to_be_visible()
    expect(page.locator("section.CRITICAL")).to_have_count(0)
    page.get_by_text(re.compile(r"^\d+ closed$")).click()
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    pictures(tab, "console-alerts-closed", tmp_path)
    page.get_by_role("button", name="Muster").click()
    expect(page.get_by_role("button", name=re.compile(r"^Bay 002: 34 of 36 accounted for; .*2 gone"))).to_be_visible()
    expect(page.get_by_text("2 containers of those gone are reported as lost.")).to_be_visible()
    pictures(tab, "console-muster-closed", tmp_path)
    bridge.windows.close()


def test_link_and_backlog_say_what_waits_and_since_when(bridge: Bridge, tmp_path: Path) -> None:
    """The backlog by stream with its age, and the crew's own choice of link."""
    tab = bridge.enter()
    page = tab.page
    page.get_by_role("button", name="Link & backlog").click()
    expect(page.get_by_role("heading", name="No link now")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(r"^containers [\d,]+ \d\d:\d\d:\d\d UTC · \d+ h( \d+ min)? ago$"))).to_be_visible()
    page.get_by_role("button", name="none").click()
    expect(page.get_by_text("Link: none.").first).to_be_visible()
    pictures(tab, "console-link", tmp_path)
    page.route("**/ship/board", lambda route: route.fulfill(json={**route.fetch().json(), "troubles": ["its clock is wrong"]}))
    expect(page.get_by_role("alert")).to_have_text("This node: its clock is wrong.")
    bridge.windows.close()


def test_a_wrong_password_gets_a_sentence_and_nothing_of_the_ship(bridge: Bridge) -> None:
    tab = bridge.enter(password="not the right one")
    expect(tab.page.get_by_role("alert")).to_contain_text("Wrong username or password")
    expect(tab.page.get_by_text("accounted for")).to_have_count(0)
    bridge.windows.close()


def test_all_but_the_page_is_behind_a_login_and_what_is_refused_says_why(bridge: Bridge) -> None:
    """The page is for anybody and holds nothing."""
    url, bearer, as_mate = bridge.process.url, f"Bearer {TOKEN}", basic("mate", PASSWORD)
    with urllib.request.urlopen(f"{url}/console") as page:
        assert PAGE_HEADERS.items() <= dict(page.headers).items()
        assert SHIP not in page.read().decode()
    for path in ("/ship/board", "/ship/bays/002", "/ship/reports/x.pdf"):
        assert refused(f"{url}{path}")[0] == 401
    assert refused(f"{url}/ship/bays/999", bearer) == (400, "bay_unknown")
    assert refused(f"{url}/ship/reports/x.pdf", bearer) == (400, "report_unknown")
    assert refused(f"{url}/ship/link", bearer, {"link": "wifi"}) == (400, "link_unknown")
    assert refused(f"{url}/ship/report", as_mate, {"do": "final", "incident": "x"}) == (400, "incident_unknown")
    none, healthy = {"alert": "none"}, {"container": number(20), "said": "gone"}
    assert refused(f"{url}/ship/acknowledge", as_mate, none) == (400, "alert_unknown")
    assert refused(f"{url}/ship/decide", as_mate, healthy) == (400, "said_not_possible")
    assert refused(f"{url}/ship/acknowledge", as_mate, {**none, "by": "Master Moe"})[0] == 400
    for path, body in (("acknowledge", none), ("decide", healthy), ("report", {"do": "final", "incident": "x"})):
        assert refused(f"{url}/ship/{path}", bearer, body) == (403, "person_expected")


def refused(url: str, shown: str = "", body: dict[str, Any] | None = None) -> tuple[int, str]:
    """The status and the code with which the node refuses; a byte order mark before the body is read over."""
    request = urllib.request.Request(url, f"\ufeff{json.dumps(body)}".encode() if body else None, {"Authorization": shown})
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request)
    with told.value as answer:
        return answer.code, json.load(answer)["code"]
