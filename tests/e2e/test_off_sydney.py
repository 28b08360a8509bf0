"""Goal: the loss is known everywhere within seconds, at real time, though Spark stands still; and everyone is told since when it does."""

from __future__ import annotations

import pytest

from streams.derived import parent_of
from tests.e2e.offsydney import AT_ONCE, FIRST, ONLOOKERS, SHORE, loss_records
from tests.e2e.played import Played
from tests.e2e.witness import had_at_ms

WITHIN_MS = 10_000

pytestmark = pytest.mark.timeout(900)  # the voyage itself is played within the first of these tests


def test_headquarters_and_all_ports_have_the_alert_within_seconds(played: Played) -> None:
    """By the stamps in the logs: the ship's on her alert, and each node's own on how far it had her alerts; the clock ran at 1x."""
    since, until = played.off_sydney.real_time
    first = {row.record.topic: row for row in reversed(loss_records(played.voyage, FIRST))}
    raised = sorted(first.values(), key=lambda row: row.coordinates.offset)[:AT_ONCE]
    assert all(since < row.received_at_ms < until for row in raised)
    took_ms = {
        (node, row.record.topic): had_at_ms(played.voyage, node, row.coordinates) - row.received_at_ms for row in raised for node in SHORE
    }
    assert all(took < WITHIN_MS for took in took_ms.values()), took_ms


def test_the_map_shows_the_loss_though_spark_stands_still(played: Played) -> None:
    assert played.off_sydney.on_map
    assert played.off_sydney.on_map <= played.voyage.truth.fallen().keys()


def test_with_spark_stopped_its_results_stand_still_and_readings_go_on_coming(played: Played) -> None:
    still = played.off_sydney.standstill
    spoken = {name for name in still.before if name in ("states", "hours") or (name.startswith("customers/") and parent_of(name) == name)}
    assert "states" in spoken
    assert {name: still.then[name] for name in spoken} == {name: still.before[name] for name in spoken}
    assert still.then["ships"] > still.before["ships"]


def test_everyone_is_told_since_when(played: Played) -> None:
    """Operations, a customer and a crew: when Spark spoke last, by the wall; and that places are as old as the newest that it had read."""
    still = played.off_sydney.standstill
    read_until_ms = min(still.word["at_ms"], still.word.get("newest_at_ms") or still.word["at_ms"])
    for username in ONLOOKERS:
        told = still.status[username]["spark"]
        assert told["wall_at_ms"] == still.word["wall_at_ms"]
        assert told["at_ms"] <= read_until_ms
        assert told["at_ms"] == still.status[ONLOOKERS[0]]["spark"]["at_ms"] == still.map[username]["as_of_at_ms"]
        assert min(told["age_ms"], told["wall_age_ms"]) > 0
