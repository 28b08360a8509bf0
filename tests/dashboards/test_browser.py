"""The pages in a real browser, over a real API and store: what operations and a customer see, with no way to the internet.

A map is dear where no graphics card draws it: a test that needs none enters at the page it is about.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

from cargo.bookings import Registry
from cargo.identifiers import make_container
from cargo.lossform import Filled
from cargo.lossreport import Box, Content, Head, ReportBook, Sending, approve, drafted, mark_sent
from cargo.sighting import Sighted
from dashboards import theme, words
from streams.link.door import AppendDoor
from streams.log import Append
from streams.records import Record, to_batch
from tests.dashboards.stage import TOKEN, Stage, staged, until
from tests.dashboards.tab import LAND, PASSWORD, Tab, Windows, browser

SEA, DUCK = (0x0B, 0x1D, 0x2E), (255, 205, 40)
MOVED_PX = 10_000
"""When so much of the map is land that was not, or is no more, another part of the world is seen."""
LOOKS = 4
Pixels = NDArray[np.bool_]

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The fleet off Sydney, some minutes after boxes fell."""
    with staged(tmp_path_factory.mktemp("pages")) as one:
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    with browser(stage.url) as one:
        yield one


@pytest.fixture
def new_tab(windows: Windows) -> Iterator[Callable[[], Tab]]:
    """Opens tabs that ask nobody outside, whatever they show."""
    yield windows.tab
    windows.close()


@pytest.fixture
def tab(new_tab: Callable[[], Tab]) -> Tab:
    return new_tab()


def wait_for_refreshes(page: Page, count: int) -> None:
    """Waits until the fleet's clock has moved `count` times on the page."""
    clock = page.locator(".lf-tile", has_text="Fleet clock").first
    for _ in range(count):
        before = clock.inner_text()
        until(lambda before=before: clock.inner_text() != before, "the next refresh")  # type: ignore[misc]


def test_the_map_draws_without_internet(stage: Stage, tab: Tab) -> None:
    """Land, sea, ducks and the lost are there though every outside request is refused."""
    tab.enter(stage.url, "mira")
    expect(tab.page.get_by_text("boxes overboard").first).to_be_visible()
    expect(tab.page.get_by_text(f"{len(stage.fallen())} overboard").first).to_be_visible()
    until(lambda: tab.painted(LAND).sum() > 20_000, "the land")
    assert tab.painted(SEA).sum() > 20_000
    until(lambda: tab.painted(DUCK).sum() > 20, "a block of ducks")
    for number in stage.fallen():
        assert tab.was_told(number)


@pytest.mark.long
def test_refreshes_leave_the_viewers_pan_and_zoom_alone(stage: Stage, tab: Tab) -> None:
    """Zoomed and dragged, the same land lies on the same pixels two refreshes later; a button flies elsewhere."""
    tab.enter(stage.url, "mira")
    until(lambda: tab.painted(LAND).sum() > 20_000, "the land")
    first = tab.painted(LAND)
    for _ in range(2):
        tab.page.get_by_role("button", name="Zoom in").click()
    until(lambda: differing(tab.painted(LAND), first) > MOVED_PX, "the zoom")
    zoomed = settled(tab)
    until(lambda: dragged_from(tab, zoomed), "the drag")
    dragged = settled(tab)
    wait_for_refreshes(tab.page, 2)
    assert differing(settled(tab), dragged) < MOVED_PX / 10
    tab.page.get_by_role("button", name="Where they fell").click()
    until(lambda: differing(tab.painted(LAND), dragged) > MOVED_PX, "the flight")


def dragged_from(tab: Tab, before: Pixels) -> bool:
    """Drags the map; whether it followed: a drag that began while the page drew the map anew does not."""
    drag(tab, right_px=-150, down_px=90)
    return differing(settled(tab), before) > MOVED_PX


def drag(tab: Tab, right_px: int, down_px: int) -> None:
    """Takes the map by its upper left quarter and moves it."""
    box = tab.map.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 4
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + right_px, y + down_px, steps=8)
    tab.page.mouse.up()


def settled(tab: Tab) -> Pixels:
    """The land, once the map has come to rest: several looks alike, for a busy browser shows the same frame twice on its way."""
    seen = [tab.painted(LAND)]

    def still() -> bool:
        seen.append(tab.painted(LAND))
        return len(seen) >= LOOKS and all(differing(seen[-1], one) < MOVED_PX / 50 for one in seen[-LOOKS:-1])

    until(still, "the map's rest")
    return seen[-1]


def differing(one: Pixels, other: Pixels) -> int:
    """How many pixels of each are farther than one pixel from all of the other: a line of text above it that wraps moves the map by parts
    of a pixel on the page."""
    return int((one & ~widened(other)).sum() + (other & ~widened(one)).sum())


def widened(one: Pixels) -> Pixels:
    """By one pixel to every side."""
    rows, columns = one.shape
    framed = np.pad(one, 1)
    wide = one.copy()
    for down, right in itertools.product(range(3), repeat=2):
        wide |= framed[down : down + rows, right : right + columns]
    return wide


def test_a_container_is_found_opened_and_shared(stage: Stage, tab: Tab) -> None:
    """By its number however it is written; its page has temperatures and milestones, and its address leads there after logging in."""
    number = next(number for number in stage.voyage.world.boxes.numbers if number.startswith("BBRU"))
    tab.enter(stage.url, "mira", "/containers")
    page = tab.page
    box = page.get_by_label("Container number")
    box.fill(f"{number[:4].lower()} {number[4:10]} {number[10]}")
    box.press("Enter")
    page.wait_for_url(re.compile(f"container={number}"))
    expect(page.get_by_text("Milestones")).to_be_visible()
    expect(page.get_by_text("Loaded onto").first).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first).to_be_visible()
    expect(page.locator(".lf-tile", has_text="Last heard").first).to_contain_text("ago")
    shared = page.url
    page.goto("about:blank")
    tab.enter(shared, "mira")
    expect(page.get_by_text("Milestones")).to_be_visible()
    expect(page.get_by_text(number).first).to_be_visible()


def test_a_misread_number_gets_help(stage: Stage, tab: Tab) -> None:
    """A wrong check digit is explained, and the box it was meant to be is one click away."""
    number = stage.voyage.world.boxes.numbers[0]
    wrong = number[:10] + str((int(number[10]) + 1) % 10)
    tab.enter(stage.url, "mira", "/containers")
    page = tab.page
    page.get_by_label("Container number").fill(wrong)
    page.get_by_label("Container number").press("Enter")
    expect(page.get_by_text(f"the check digit of {number[:10]} is {number[10]}, not {wrong[10]}")).to_be_visible()
    page.get_by_role("button", name=number).click()
    page.wait_for_url(re.compile(f"container={number}"))
    expect(page.get_by_text("Milestones")).to_be_visible()


def test_a_booking_is_searched_by_its_owner_and_by_nobody_else(stage: Stage, tab: Tab, new_tab: Callable[[], Tab]) -> None:
    """Its boxes and how old that is; to another customer it is a booking that does not exist."""
    own = set(stage.numbers("duckworks"))
    found = next(one for one in asked(stage, "ducks", "bookings?limit=500")["items"] if not one["containers"][0]["ended"])
    assert {box["container"] for box in found["containers"]} <= own
    tab.enter(stage.url, "ducks", "/containers")
    tab.page.get_by_label("Booking").fill(found["reference"])
    tab.page.get_by_label("Booking").press("Enter")
    boxes = words.counted(len(found["containers"]), "container")
    expect(tab.page.get_by_text(re.compile(rf"^{boxes} · as of .* ago · choose one to open it$"))).to_be_visible()
    other = new_tab()
    other.enter(stage.url, "merlion", "/containers")
    for reference in (found["reference"], "BB0000000"):
        other.page.get_by_label("Booking").fill(reference)
        other.page.get_by_label("Booking").press("Enter")
        expect(other.page.get_by_text(re.compile("^0 containers · as of"))).to_be_visible()
        expect(other.page.get_by_text("No container.")).to_be_visible()
    assert not [number for number in own if other.was_told(number)]


def asked(stage: Stage, username: str, path: str) -> Any:
    """What the API answers this user."""
    login = {"username": username, "password": PASSWORD}
    token = httpx.post(f"{stage.answering.url}/api/token", data=login, trust_env=False).json()["access_token"]
    return httpx.get(f"{stage.answering.url}/api/{path}", headers={"Authorization": f"Bearer {token}"}, trust_env=False).json()


def test_an_incident_shows_its_evidence_and_is_acknowledged(stage: Stage, tab: Tab) -> None:
    """One incident with every lost box, its slot and why; taking note of it goes to headquarters' log and comes back with the name."""
    tab.enter(stage.url, "mira", "/alerts")
    page = tab.page
    expect(page.get_by_text(f"{len(stage.fallen())} containers probably overboard")).to_be_visible()
    for number in stage.fallen():
        expect(page.get_by_role("cell", name=number).first).to_be_visible()
    expect(page.get_by_text("free fall").first).to_be_visible()
    expect(page.get_by_text("on deck").first).to_be_visible()
    page.get_by_role("button", name=re.compile(r"^Acknowledge \d")).click()
    expect(page.get_by_text("acknowledged by Mira Okafor").first).to_be_visible()


def test_a_loss_report_is_read_at_headquarters_and_its_owner_is_told_of_its_boxes_alone(
    stage: Stage, tab: Tab, new_tab: Callable[[], Tab], tmp_path: Path
) -> None:
    """The desk shows how far the ship's report came and to whom it went, its text, and the PDF, and drafts the FINAL; an owner its own
    boxes, and no total."""
    [incident] = asked(stage, "mira", "incidents")["items"]
    report(stage, incident)
    tab.enter(stage.url, "mira", "/alerts")
    page = tab.page
    expect(page.get_by_text("Loss report 1, INITIAL")).to_be_visible()
    expect(page.get_by_text("Containers seen adrift, report 1, INITIAL")).to_be_visible()
    expect(page.get_by_text(re.compile("2 seen adrift, 33°54.0′S 151°54.0′E"))).to_be_visible()
    history = re.compile(f"{len(stage.fallen())} lost, 1 at risk, .* approved by Master Moe, .* sent 1 time")
    expect(page.get_by_text(history)).to_be_visible()
    loss = page.locator("[class*='st-key-incident-']")
    expect(loss.get_by_role("cell", name="Nearest coastal State RCC Australia")).to_be_visible()
    loss.get_by_text("Report in the company's name").click()
    loss.get_by_label("Who that is").fill("MV Concordia")
    loss.get_by_label("By what means").fill("e-mail")
    loss.get_by_role("button", name="Write down as sent now").click()
    expect(loss.get_by_role("cell", name="Ships in the vicinity MV Concordia")).to_be_visible()
    expect(loss.get_by_role("cell", name="Mira Okafor", exact=True)).to_be_visible()
    loss.get_by_text("As text to transcribe").click()
    expect(loss.get_by_text("LOSS OF FREIGHT CONTAINER(S) FROM A SHIP").first).to_be_visible()
    with page.expect_download() as saved:
        loss.get_by_role("button", name="PDF").click()
    assert saved.value.path().read_bytes().startswith(b"%PDF-")
    page.set_viewport_size({"width": 1100, "height": 2600})
    tab.picture("desk-report", tmp_path)
    loss.get_by_role("button", name="Draft the FINAL here").click()
    expect(loss.get_by_text("Loss report 2, FINAL")).to_be_visible()
    expect(loss.get_by_text(re.compile("written by Mira Okafor"))).to_be_visible()
    owner = new_tab()
    owner.enter(stage.url, "ducks")
    own = sorted(set(stage.fallen()) & set(stage.numbers("duckworks")))
    other = stage.numbers("merlion")[0]
    notice = owner.page.locator("[class*='st-key-notice-']")
    boxes = words.counted(len(own), "container")
    expect(notice.get_by_text(re.compile(f"Notice of loss.*{boxes} of yours"))).to_be_visible()
    for number in own:
        expect(notice.get_by_role("cell", name=number)).to_be_visible()
    expect(notice.get_by_role("cell", name="Probably lost overboard").first).to_be_visible()
    owner.page.set_viewport_size({"width": 1100, "height": 1500})
    owner.picture("portal-notice", tmp_path)
    assert not owner.was_told(other)


def report(stage: Stage, incident: Mapping[str, Any]) -> None:
    """The ship's report of the incident, approved, and sent to the coastal State, comes to headquarters' log; and one of what she saw
    adrift."""
    at_ms = incident["raised_at_ms"]
    fell = {"latitude_deg": -33.9, "longitude_deg": 151.9, "lost_at_ms": at_ms - 90_000, "lost_until_ms": at_ms - 80_000}
    lost = tuple(Box(container=number, at_ms=at_ms, cargo="goods", **fell) for number in stage.fallen())
    beside = (Box(container=stage.numbers("merlion")[0], at_ms=at_ms),)
    lines = {"number_lost": Filled(len(lost), "RECKONED", "boxes with trackers"), "number_is": Filled("ESTIMATED", "RECKONED")}
    lines["reported_by"] = Filled("COMPANY", "GIVEN", "Mira Okafor")
    head = Head(incident["incident_id"], incident["ship"], "INITIAL", 1)
    made = [drafted(head, Content(lines, lost, beside, ()), "news", 0, f"ship-{incident['ship']}", at_ms)]
    made.append(approve(ReportBook([made[0].body]).reports()[0], "Master Moe", at_ms + 60_000))
    sending = Sending(at_ms + 120_000, "COASTAL_STATE", "RCC Australia", "Inmarsat-C", "Master Moe")
    made.append(mark_sent(ReportBook([one.body for one in made]).reports()[0], sending, at_ms + 120_000))
    where = (at_ms, {"latitude_deg": -33.9, "longitude_deg": 151.9})
    made += Sighted("Mate Meyer", {"number_lost": "2"}).made(incident["ship"], Registry(), where, at_ms)
    records = [Record(one.topic, device_at_ms=one.at_ms, body=one.body) for one in made]
    AppendDoor(stage.door, TOKEN).append([Append("reports", to_batch(records))])


def test_ports_and_health_say_what_is_known_and_how_old(stage: Stage, tab: Tab) -> None:
    """Singapore's calls against what the sensors heard; every node's last word."""
    tab.enter(stage.url, "mira", "/ports")
    page = tab.page
    expect(page.get_by_text("Loaded, confirmed aboard").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"with a tracker accounted for")).first).to_be_visible()
    page.get_by_role("link", name="Sync & health").click()
    expect(page.get_by_role("cell", name="analytics")).to_be_visible()
    expect(page.get_by_role("cell", name="612 ms").first).to_be_visible()
    expect(page.get_by_role("cell", name="satellite").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"for a link to port; 2 ships, as of"))).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile(r"^[1-9][0-9,]* records?$")).first).to_be_visible()


def test_logging_out_ends_the_session(stage: Stage, tab: Tab) -> None:
    """A wrong password says so; after logging out, or loading the page anew, nothing but the door is left."""
    page = tab.page
    page.goto(stage.url)
    page.get_by_label("Username").fill("mira")
    page.get_by_label("Password").first.fill("not her password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Username or password are not right.")).to_be_visible()
    tab.enter(stage.url, "mira", "/containers")
    tab.leave()
    expect(page.locator(".st-key-who")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Username")).to_be_visible()


def test_a_customer_sees_its_boxes_and_no_other(stage: Stage, tab: Tab) -> None:
    """The duck owner's pages: its own boxes, by whatever way; no foreign number ever reaches its browser, seen or unseen."""
    tab.enter(stage.url, "ducks")
    page = tab.page
    expect(page.locator(".lf-heading", has_text="Bookings")).to_be_visible()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    assert page.get_by_role("link", name=re.compile("Alerts desk|Ports|Sync|Fleet map")).count() == 0
    until(lambda: all(tab.was_told(number) for number in stage.numbers("duckworks")), "all of its boxes")
    page.get_by_role("link", name="Containers").click()
    own, foreign = stage.numbers("duckworks")[0], stage.others("duckworks")
    wanted = page.get_by_label("Container number")
    answers = []
    nobody = _valid_but_unknown(stage)
    for asked in (foreign[0], nobody):
        wanted.fill(asked)
        wanted.press("Enter")
        banner = page.locator(".lf-banner", has_text=asked)
        expect(banner).to_be_visible()
        answers.append(banner.inner_text().replace(asked, "NUMBER"))
    assert answers[0] == answers[1]
    heard = [frame.replace(foreign[0], "") for frame in tab.heard]
    assert not [number for number in foreign[1:] if any(number in frame for frame in heard)]
    wanted.fill(own)
    wanted.press("Enter")
    page.wait_for_url(re.compile(f"container={own}"))
    expect(page.get_by_text("Milestones")).to_be_visible()


def _valid_but_unknown(stage: Stage) -> str:
    number = make_container("MSKU", 999_990)
    assert number not in stage.voyage.world.boxes.numbers
    return number


@pytest.mark.long
def test_every_role_is_told_since_when_spark_stands_still(stage: Stage, new_tab: Callable[[], Tab]) -> None:
    """Staff, crew and customers, each with what is old then: a customer's alerts too. When it speaks again the sentence goes."""
    pages = {"mira": "/sync", "cleo": "/containers", "crew": "/containers", "ducks": "/containers"}
    tabs = {username: new_tab() for username in pages}
    for username, tab in tabs.items():
        tab.enter(stage.url, username, pages[username])
        still = tab.page.locator(".lf-banner", has_text="stand still since")
        expect(still).to_be_visible()
        expect(still).to_contain_text(re.compile(r"since \d+ May 2026, \d\d:\d\d UTC \(fleet\), .* by the wall's clock"))
        expect(still).to_contain_text("alerts too, is as old" if username == "ducks" else "alerts still come")
    with stage.spark_speaking():
        for tab in tabs.values():
            expect(tab.page.locator(".lf-banner")).to_have_count(0)


def test_a_store_that_is_rebuilt_is_told_and_comes_back(stage: Stage, tab: Tab) -> None:
    """The serving database deleted under the pages: they say so, and go on by themselves when it is there again."""
    tab.enter(stage.url, "mira")
    page = tab.page
    expect(page.get_by_text("Readings received")).to_be_visible()
    stage.projecting.stop()
    for name in (stage.database, *stage.database.parent.glob("serving.db-*")):
        name.unlink()
    expect(page.get_by_text(re.compile("serving database")).first).to_be_visible()
    stage.projecting.start()
    expect(page.get_by_text("Readings received")).to_be_visible()


def test_the_palette_is_the_basemaps() -> None:
    """The map's sea in `style.json` is the theme's, so that nothing shows a seam."""
    assert theme.rgb(theme.SEA) == SEA
