"""Goal: the loss is known everywhere within seconds, at real time, though Spark stands still; and everyone is told since when it does."""

from __future__ import annotations

import pytest

from streams.derived import parent_of
from tests.e2e.offsydney import FIRST, ONLOOKERS, SHORE, loss_records
from tests.e2e.played import Played

WITHIN_S = 3.0

pytestmark = pytest.mark.timeout(900)  # the voyage itself is played within the first of these tests


def test_headquarters_and_all_ports_have_the_alert_within_seconds(played: Played) -> None:
    """Each box's, by the wall's clock, from when the ship's log was seen to have it; the fleet's clock ran at 1x."""
    seen, truth = played.off_sydney, played.voyage.truth
    raised = {row.record.topic: row.coordinates for row in reversed(loss_records(played.voyage, FIRST))}
    assert raised.keys() == truth.fallen().keys()
    ship_s = {box: seen.witness.had_at_s(FIRST, record) for box, record in raised.items()}
    assert min(ship_s.values()) > seen.real_time_from_s
    took_s = {(node, box): seen.witness.had_at_s(node, record) - ship_s[box] for box, record in raised.items() for node in SHORE}
    assert all(took < WITHIN_S for took in took_s.values()), took_s


def test_the_map_shows_the_loss_though_spark_stands_still(played: Played) -> None:
    assert played.off_sydney.on_map == played.voyage.truth.fallen().keys()


def test_with_spark_stopped_its_results_stand_still_and_readings_go_on_coming(played: Played) -> None:
    still = played.off_sydney.standstill
    spoken = {name for name in still.before if name in ("states", "hours") or (name.startswith("customers/") and parent_of(name) == name)}
    assert "states" in spoken
    assert {name: still.then[name] for name in spoken} == {name: still.before[name] for name in spoken}
    assert still.then["ships"] > still.before["ships"]


def test_headquarters_is_told_what_waits_on_board(played: Played) -> None:
    """Over the satellite, whose alerts and positions have come: the readings of a whole passage, and since when, and no alert."""
    seen = played.off_sydney
    told = {one["node"]: one["streams"] for one in seen.standstill.status["operations"]["waiting"]}
    lacked = sum(end - seen.held_back[0][origin] for origin, end in seen.held_back[1].items() if origin.node == FIRST)
    assert told[FIRST]["containers"]["records"] >= lacked > 0
    assert told[FIRST]["containers"]["since_at_ms"] < min(played.voyage.truth.fallen().values())
    assert "alerts" not in told[FIRST]
    assert [one["waiting"] for name, one in seen.standstill.status.items() if name != "operations"] == [[], []]


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
