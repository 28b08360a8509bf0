"""Goal: a person works through 500 open alerts: an old CRITICAL one stands first, several are acknowledged or closed at once, and an alert
that got worse after its acknowledgement asks again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from dashboards.views import alert_table
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.browser_tab import Tab, Windows, browser
from tests.support.page_stage import TOKEN, Stage, pages_at, staged, until

ALERTS, ROW_PX = 500, 35
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
REFRESH_S = 4.0
WIDE: ViewportSize = {"width": 1400, "height": 1100}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Boxes with 500 newer warnings than a CRITICAL alarm, and a reefer that is too warm."""
    with staged(tmp_path_factory.mktemp("pages")) as one:
        numbers, at_ms = one.voyage.world.boxes.numbers, one.clock.now_ms() - 3 * HOUR_MS
        ship = one.asked("mira", "fleet")["ships"][0]["imo"]
        old = body(f"{ship}-old", "CRITICAL", "stack_down", at_ms, ship, title=f"{numbers[0]}: a stack is down")
        told = [
            (
                numbers[at % len(numbers)],
                body(f"{ship}{at:04}-1", "WARNING", "shock", at_ms + at * 15_000, ship, title="hard shock"),
            )
            for at in range(1, ALERTS)
        ]
        say(one, (numbers[0], old), *told, (numbers[1], warm(ship, "raised", at_ms, 4.5)))
        until(lambda: one.asked("mira", "alerts?count=true")["counts"]["open"] > ALERTS, "the alerts")
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    with pages_at(stage.folder, stage.answering.url, refresh_s=REFRESH_S) as url, browser(url) as one:
        yield one
        one.close()


def body(id_: str, severity: str, rule: str, at_ms: int, ship: str, **more: Any) -> dict[str, Any]:
    return {"alert_id": id_, "rule": rule, "severity": severity, "state": "raised", "at_ms": at_ms, "ship": ship, "detail": "told", **more}


def warm(ship: str, state: str, at_ms: int, air_c: float) -> dict[str, Any]:
    """A reefer at -18 °C that is too warm."""
    figure = {"figure": air_c, "unit": "°C", "limit": -15.0, "worse": "up"}
    return body(f"{ship}-warm", "ALARM", "temperature", at_ms, ship, title="Reefer too warm", **figure) | {"state": state}


def say(stage: Stage, *told: tuple[str, dict[str, Any]]) -> None:
    """These changes of alerts are in headquarters' log."""
    records = [Record(number, device_at_ms=one["at_ms"], body=one) for number, one in told]
    AppendDoor(stage.door, TOKEN).append([Append("alerts", to_batch(records))])


def entered(windows: Windows) -> Tab:
    tab = windows.tab()
    tab.page.set_viewport_size(WIDE)
    tab.enter(windows.url, "mira", "/alerts")
    expect(table(tab.page)).to_be_visible()
    return tab


def table(page: Page) -> Locator:
    return page.get_by_test_id("stDataFrame").first


def choose(page: Page, filter_: str, words: str) -> None:
    """Sets one of the filters above the table."""
    page.get_by_role("combobox", name=re.compile(filter_)).click()
    page.keyboard.type(words)
    expect(page.get_by_role("option", name=words)).to_be_visible()
    page.keyboard.press("Enter")


def row(tab: Tab, number: int) -> None:
    """Chooses a row of the table, from 1, or lets go of it. A click on a table that is being filled anew chooses nothing."""
    tab.wait_idle()
    expect(tab.page.get_by_test_id(f"glide-cell-3-{number - 1}")).to_be_attached()
    table(tab.page).click(position={"x": 12, "y": ROW_PX * (number + 0.5)})


def stage_of(stage: Stage, severity: str, end: str) -> str:
    found = [one for one in stage.asked("mira", f"alerts?severity={severity}&limit=500")["items"] if one["alert_id"].endswith(end)]
    return str(found[0]["stage"])


def notes_of_closed(stage: Stage) -> list[str]:
    return [one["note"] for one in stage.asked("mira", "alerts?state=closed&limit=500")["items"]]


def test_the_old_critical_alarm_is_worked_on_first(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    """It stands before 500 newer warnings, is acknowledged with a note, leaves "Open" for "Acknowledged", and is taken back there."""
    tab = entered(windows)
    page = tab.page
    choose(page, "Rule", "Stack down")
    expect(page.get_by_text(re.compile("^1 row ·"))).to_be_visible()
    row(tab, 1)
    expect(page.get_by_role("button", name="Acknowledge 1")).to_be_visible()
    expect(page.get_by_text("a stack is down").last).to_be_visible()
    tab.picture("desk-details", tmp_path)
    page.get_by_label("Note").fill("the mate looks")
    page.get_by_label("Note").press("Enter")
    page.get_by_role("button", name="Acknowledge 1").click()
    until(lambda: stage_of(stage, "CRITICAL", "-old") == "acknowledged", "the acknowledgement")
    expect(page.get_by_text("No alert.", exact=True)).to_be_visible()
    page.get_by_text(re.compile("^Acknowledged 1$")).click()
    expect(page.get_by_text(re.compile("^1 row ·"))).to_be_visible()
    row(tab, 1)
    expect(page.get_by_text(re.compile("Acknowledged by Mira Okafor .*: the mate looks"))).to_be_visible()
    page.get_by_role("button", name="Take back 1").click()
    until(lambda: stage_of(stage, "CRITICAL", "-old") == "open", "that it is open again")


def test_several_are_acknowledged_and_closed_at_once(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    """The counts are those of the strip; the second page goes on where the first ends; the file has all of them."""
    tab = entered(windows)
    page = tab.page
    open_now = stage.asked("mira", "alerts?state=open&count=true&limit=1")
    counts, rows = open_now["counts"], open_now["rows"]
    expect(page.locator(".lf-tile", has_text="Open alerts")).to_contain_text(str(counts["open"]))
    expect(page.get_by_text(re.compile(f"^Open {counts['open']}$"))).to_be_visible()
    expect(page.get_by_text(f"1 to {alert_table.LISTED_MAX} of {rows} rows")).to_be_visible()
    choose(page, "Severity", "warning")
    expect(page.get_by_text(f"1 to {alert_table.LISTED_MAX} of {ALERTS - 1} rows")).to_be_visible()
    tab.wait_idle()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save all as CSV").click()
    assert len(saving.value.path().read_text().splitlines()) == ALERTS
    for number in (1, 2, 3):
        row(tab, number)
    expect(page.get_by_role("button", name="Acknowledge 3")).to_be_visible()
    tab.picture("desk-several", tmp_path)
    page.get_by_role("button", name="Acknowledge 3").click()
    until(lambda: stage.asked("mira", "alerts?count=true&limit=1")["counts"]["acknowledged"] == 3, "the acknowledgements")
    expect(page.get_by_text(re.compile("^Acknowledged 3$"))).to_be_visible()
    following = stage.asked("mira", "alerts?state=open&severity=WARNING&limit=1")["items"][0]["topic"]
    expect(page.get_by_test_id("glide-cell-3-0")).to_have_text(following)
    for number in (1, 2):
        row(tab, number)
    page.get_by_label("Note").fill("looked at")
    page.get_by_label("Note").press("Enter")
    page.get_by_role("button", name="Close 2").click()
    until(lambda: notes_of_closed(stage).count("looked at") == 2, "the closing")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text(re.compile(f"^{alert_table.LISTED_MAX + 1} to "))).to_be_visible()


def test_a_reefer_that_warms_on_asks_again(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    """Acknowledged at +4.5 °C, then +42.5 °C: open again on the desk, with a button and what changed since who acknowledged it."""
    ship = stage.asked("mira", "fleet")["ships"][0]["imo"]
    tab = entered(windows)
    page = tab.page
    choose(page, "Rule", "Temperature out of range")
    first = stage.asked("mira", "alerts?rule=temperature&state=open")["items"]
    expect(page.get_by_text(re.compile(f"^{len(first)} rows? ·"))).to_be_visible()
    row(tab, 1 + [one["alert_id"] for one in first].index(f"{ship}-warm"))
    page.get_by_role("button", name="Acknowledge 1").click()
    until(lambda: stage_of(stage, "ALARM", "-warm") == "acknowledged", "the acknowledgement")
    say(stage, (stage.voyage.world.boxes.numbers[1], warm(ship, "updated", stage.clock.now_ms(), 42.5)))
    until(lambda: stage_of(stage, "ALARM", "-warm") == "open", "that it is open again")
    page.reload()
    tab.enter(windows.url, "mira", "/alerts")
    choose(page, "Rule", "Temperature out of range")
    expect(page.get_by_text(re.compile(f"^{len(first)} rows? ·"))).to_be_visible()
    first = stage.asked("mira", "alerts?rule=temperature&state=open")["items"]
    row(tab, 1 + [one["alert_id"] for one in first].index(f"{ship}-warm"))
    expect(page.get_by_text(re.compile("Worse since Mira Okafor acknowledged it .*: 4.5 → 42.5 °C"))).to_be_visible()
    expect(page.get_by_role("button", name="Acknowledge 1")).to_be_visible()
    tab.picture("desk-worse", tmp_path)


def test_the_portals_alerts_fit_their_page(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    """At 1,100 px no part of the table is cut off on the right."""
    tab = windows.tab()
    tab.enter(windows.url, "ducks")
    expect(table(tab.page)).to_be_visible()
    box = table(tab.page).bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1100
    table(tab.page).scroll_into_view_if_needed()
    tab.picture("portal-alerts", tmp_path)
