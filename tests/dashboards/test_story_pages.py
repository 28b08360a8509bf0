"""Goal: the pages tell the story of A, B and C, and where to look; the buttons move the simulator's own clock, which every page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from sim.story import chapters
from tests.dashboards.visit import Visit, pages_here, visiting
from tests.support.page_stage import STARTED_S_MAX, Stage, on_stage, until
from tests.support.page_voyage import BEGINS_AT_MS, HOUR_MS, Voyage

CLOCK = "Fleet clock"
TICKING = re.compile("real time|Paused|Waiting|Ended")

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: stage.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The story at its beginning: the simulator's clock stands at six hours past, its clerk goes on writing what falls due."""
    folder = tmp_path_factory.mktemp("story")
    voyage = Voyage(folder / "fleet", 40, BEGINS_AT_MS + 6 * HOUR_MS)
    voyage.close()
    with on_stage(folder, voyage, 600.0) as one, pages_here(one.answering.url):
        yield one


PAGES = {"": "Hover for details", "containers": "Containers", "alerts": "Incidents", "ports": "Calls", "sync": "Waiting on board"}
"""The address of each page, and words that it has and no other."""


def test_every_page_shows_the_clock_and_since_when_it_is_unknown(stage: Stage) -> None:
    """The login page too; with the API away all say since when the clock is unknown and what it last was, and come back."""
    door, inside = Visit(), visiting("mira")
    door.look()
    first = door.tile(CLOCK)
    assert "UTC" in first
    door.look_until(lambda: door.tile(CLOCK) != first, "the clock to move on the login page")
    for page, heading in PAGES.items():
        inside.open(page)
        assert heading in inside.text()
        assert TICKING.search(inside.tile(CLOCK))
    stage.answering.stop()
    for visit in (door, inside):
        visit.look()
        assert re.search(r"Unknown since .* UTC \(real time\).* last known: \d+ May 2026", visit.tile(CLOCK))
    assert any("can not be reached" in banner for banner in inside.each("lf-banner"))
    stage.answering.start()
    for visit in (door, inside):
        visit.look()
        assert TICKING.search(visit.tile(CLOCK))


def test_the_buttons_move_the_simulators_clock_and_the_page_tells_the_story(stage: Stage) -> None:
    """Pause, speed, resume; then A, B and C, each with its text, where to look, what came before; no jumping back."""
    visit, clock = visiting("mira"), stage.clock
    visit.press("Pause")
    assert clock.view()["state"] == "paused"
    stood_ms = clock.now_ms()
    visit.look_until(lambda: "Paused" in visit.tile(CLOCK), "the pause on the page")
    visit.app.segmented_control(key="clock-speed").select(8_000)
    visit.look()
    assert clock.view()["speed_set"] == 8_000
    assert clock.now_ms() == stood_ms
    visit.press("Resume")
    until(lambda: clock.now_ms() > stood_ms, "the simulator's clock")
    for chapter in chapters(stage.voyage.world.timeline):
        visit.press(f"To {chapter.id}")
        until(lambda to=chapter: clock.now_ms() >= to.written_at_ms, f"chapter {chapter.id}")  # type: ignore[misc]
        title = f"{chapter.id} · {chapter.title}"
        visit.look_until(lambda title=title: any(card.startswith(title) for card in visit.each("lf-card")), title)  # type: ignore[misc]
        card = next(card for card in visit.each("lf-card") if card.startswith(title))
        assert chapter.text in card
        assert chapter.look in card
        assert re.search(r" ago|just now", card)
    assert any(card.startswith("B · Singapore: the ducks part") for card in visit.each("lf-card"))
    assert all(visit.button(f"To {chapter}").disabled for chapter in "ABC")


def test_only_operations_has_the_clocks_buttons(stage: Stage) -> None:
    """A clerk sees the story and the clock, and can not move it, by the page or past it."""
    visit = visiting("cleo")
    assert TICKING.search(visit.tile(CLOCK))
    assert not visit.has_button("Pause")
    refused = httpx.post(
        f"{stage.answering.url}/api/clock", json={"action": "pause"}, headers=stage.token_of("cleo"), trust_env=False, timeout=STARTED_S_MAX
    )
    assert refused.status_code == 403
