"""Goal: which boxes of a gateway should have spoken is counted quickly, and as each box's own interval says."""

from __future__ import annotations

import random

import pytest

from cargo.loss.container_state import Box
from cargo.loss.report_interval import GRACE_MS_MIN, Habit
from cargo.loss.watch_state import WatchState
from tests.support.sea import HOUR_MS, MINUTE_MS, START_MS, settings

GATEWAY = "GW-1"


@pytest.mark.parametrize("usual_ms", [30_000, HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS])
def test_the_count_is_that_of_each_boxs_interval(usual_ms: int) -> None:
    chance = random.Random(usual_ms)
    state = WatchState(settings(dry_interval_ms=usual_ms))
    for at in range(400):
        box = state.memory.boxes[f"BOX{at}"] = Box.new(f"BOX{at}")
        box.aboard, box.gateway, box.heard_at_ms = chance.random() < 0.9, GATEWAY, START_MS + chance.randrange(60 * HOUR_MS)
        for _ in range(chance.choice((0, 0, 2, 6))):
            box.habit.note(chance.choice((MINUTE_MS // 2, HOUR_MS, 30 * HOUR_MS)) + chance.randrange(1_000), storm=False)
        state.on_gateway.setdefault(GATEWAY, {})[box.number] = box
    found = set()
    for _ in range(60):
        since_ms = START_MS + chance.randrange(100 * HOUR_MS)
        until_ms = since_ms + chance.randrange(3 * HOUR_MS)
        due = [
            box
            for box in state.memory.boxes.values()
            if box.aboard
            and since_ms + GRACE_MS_MIN < box.heard_at_ms + Habit.interval_ms(box.habit, usual_ms, storm=False) < until_ms - GRACE_MS_MIN
        ]
        assert state.were_due(GATEWAY, since_ms, until_ms) == len(due)
        found.add(len(due))
    assert max(found) >= 10
