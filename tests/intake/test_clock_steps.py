"""Goal: a stack that falls overboard is told though the ship's own clock stood years ahead for a while, and after any restart."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

import landfall.watch.watch_service
from cargo.loss.reading_rows import Heard
from streams.model.clock import StillClock
from streams.model.clock_check import CheckedClock, ClockCheck
from tests.intake.test_watching import Aboard
from tests.support.fleet import Stepped
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, Sea, fall

YEARS_MS = 10 * 365 * 24 * HOUR_MS
AHEAD_MS = SAILS_MS + HOUR_MS
RIGHT_MS = AHEAD_MS + 10 * MINUTE_MS
FALLS_MS = RIGHT_MS + 10 * MINUTE_MS
UNTIL_MS = FALLS_MS + HOUR_MS
BOXES = {Sea(boxes=24).stowed(box).container for box in range(3)}


class Checked(CheckedClock, StillClock):
    """A clock under check, as a node has it."""

    def __init__(self, clock: Stepped) -> None:
        StillClock.__init__(self)
        self.stepping, self.check = clock, ClockCheck(clock)
        CheckedClock.__init__(self, clock, self.check)

    def advance(self, seconds: float) -> None:
        self.stepping.advance(seconds)


class AboardStepping(Aboard):
    """A log and a watch on a ship whose clock steps."""

    def __init__(self, folder: Path) -> None:
        self.stepping = Stepped(SAILS_MS)
        self.checked = Checked(self.stepping)
        super().__init__(folder, self.checked)

    def hears(self, readings: list[Heard]) -> None:
        for _, together in groupby(readings, key=lambda one: one.order_at_ms // MINUTE_MS):
            said = list(together)
            self.stepping.at_ms = said[-1].order_at_ms + 500
            self.append(said)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landfall.watch.watch_service, "GATHER_S", 0.0)


@pytest.mark.parametrize("snapshot", ["kept", "lost"])
@pytest.mark.parametrize(
    ("confirmed", "known"), [(True, True), (True, False), (False, True)], ids=["confirmed", "no-device-known", "alone"]
)
async def test_a_stack_is_told_lost_after_the_clock_was_years_ahead(tmp_path: Path, *, confirmed: bool, snapshot: str, known: bool) -> None:
    sea = Sea(boxes=24, interval_ms=5 * MINUTE_MS, silent={box: [(FALLS_MS, UNTIL_MS)] for box in range(3)})
    readings = sea.readings(UNTIL_MS, [one for box in range(3) for one in fall(sea, box, FALLS_MS - 5_000 + box)])
    aboard = AboardStepping(tmp_path)
    aboard.told()
    aboard.hears([one for one in readings if (AHEAD_MS - HOUR_MS if known else AHEAD_MS) <= one.order_at_ms < AHEAD_MS])
    await aboard.watch()
    aboard.stepping.ahead_ms = YEARS_MS
    aboard.hears([one for one in readings if AHEAD_MS <= one.order_at_ms < RIGHT_MS])
    await aboard.watch()
    aboard.stepping.ahead_ms = 0
    if confirmed:
        aboard.checked.check.heard("tokyo", RIGHT_MS)
        aboard.log.open_generation("the clock was ahead")
    if snapshot == "lost":
        (tmp_path / "watch.snapshot").unlink()
    aboard.hears([one for one in readings if one.order_at_ms >= RIGHT_MS])
    await aboard.watch()
    lost = {topic for topic, body in aboard.made() if body.get("rule") == "lost_container"}
    aboard.log.close()
    assert lost == BOXES
