"""Goal: the numbers that people read in a browser are those of the simulator's truth, and say how old they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboards import texts
from hq.analytics.disclosure import KIND
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.browser_tab import Tab, Windows, browser
from tests.support.page_stage import TOKEN, Stage, pages_of, staged, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The fleet off Sydney, some minutes after boxes fell."""
    with staged(tmp_path_factory.mktemp("numbers")) as one:
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    with pages_of(stage) as url, browser(url) as one:
        yield one


@pytest.fixture
def tab(windows: Windows) -> Iterator[Tab]:
    yield windows.tab()
    windows.close()


def last_reading_ms(stage: Stage, number: str) -> int:
    """When the newest reading of the box was measured."""
    return max(one.at_ms for one in stage.voyage.told if one.coordinates.stream == "containers" and one.record.topic == number)


def test_the_owner_of_a_lost_box_sees_when_it_was_last_heard(stage: Stage, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    """The ship updates the alert now, long after the box's last reading: that is no reading."""
    number = sorted(set(stage.fallen()) & set(stage.numbers("duckworks")))[0]
    body = {"alert_id": "late-update", "rule": "lost_container", "severity": "CRITICAL", "state": "updated", "evidence": [], KIND: "alert"}
    now_ms = stage.clock.now_ms()
    update = Record(number, device_at_ms=now_ms, body={**body, "at_ms": now_ms, "status": "PROBABLE_OVERBOARD"})
    AppendDoor(stage.door, TOKEN).append([Append("customers/duckworks", to_batch([update]))])
    until(lambda: "late-update" in str(stage.asked("ducks", "alerts")), "the update")
    tab.enter(windows.url, "ducks", f"/containers?container={number}")
    last = tab.page.locator(".lf-tile", has_text="Last heard").first
    expect(last).to_contain_text(texts.moment(last_reading_ms(stage, number)))
    tab.picture("lost-to-its-owner", tmp_path)
