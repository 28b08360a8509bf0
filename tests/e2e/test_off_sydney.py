"""Goal: the loss is known everywhere at real time, though Spark is not there; and everyone is told since when it stands still."""

from __future__ import annotations

import pytest

from streams.config.companion_streams import parent_of
from tests.e2e.asked import ordeal_alone
from tests.e2e.offsydney import FIRST, ONLOOKERS, SHORE, lacking, loss_records
from tests.e2e.ordeal import Standstill, ordeal_of
from tests.e2e.played import Played

pytestmark = pytest.mark.timeout(3_600)  # the voyage itself is played within the first of these tests


def test_headquarters_and_all_ports_have_the_alerts_at_real_time(played: Played) -> None:
    """The clock runs at 1x when the last of them has the last alert. `bench/voyage.py` measures how many seconds that takes."""
    seen, fallen = played.off_sydney, played.voyage.truth.fallen()
    assert {row.record.topic for row in loss_records(played.voyage, FIRST)} == fallen.keys()
    assert (seen.speed, seen.losses) == (1.0, {node: set(fallen) for node in SHORE})


def test_the_map_shows_the_loss_though_spark_is_not_there(played: Played) -> None:
    assert played.off_sydney.on_map == played.voyage.truth.fallen().keys()


def standstill(played: Played) -> Standstill:
    """What was to be seen with Spark dead."""
    seen = ordeal_of(played).standstill
    assert seen is not None
    return seen


@ordeal_alone
def test_with_spark_dead_its_results_stand_still_and_readings_go_on_coming(played: Played) -> None:
    still = standstill(played)
    spoken = {name for name in still.before if name in ("states", "hours") or (name.startswith("customers/") and parent_of(name) == name)}
    assert "states" in spoken
    assert {name: still.then[name] for name in spoken} == {name: still.before[name] for name in spoken}
    assert still.then["ships"] > still.before["ships"]


def test_headquarters_is_told_what_waits_on_board(played: Played) -> None:
    """Over the satellite, whose alerts and positions have come: the readings of a whole passage, and since when, and no alert."""
    seen = played.off_sydney
    told = {one["node"]: one["streams"] for one in seen.waiting["operations"]}
    assert told[FIRST]["containers"]["records"] >= lacking(seen.held_back) > 0
    assert told[FIRST]["containers"]["since_at_ms"] < min(played.voyage.truth.fallen().values())
    assert "alerts" not in told[FIRST]
    assert [waiting for name, waiting in seen.waiting.items() if name != "operations"] == [[], []]


@ordeal_alone
def test_everyone_is_told_since_when(played: Played) -> None:
    """Operations, a customer and a crew: when Spark spoke last, by the wall; and that places are as old as the newest that it had read."""
    still = standstill(played)
    read_until_ms = min(still.word["at_ms"], still.word.get("newest_at_ms") or still.word["at_ms"])
    for username in ONLOOKERS:
        told = still.status[username]["spark"]
        assert told["wall_at_ms"] == still.word["wall_at_ms"]
        assert told["at_ms"] <= read_until_ms
        assert told["at_ms"] == still.status[ONLOOKERS[0]]["spark"]["at_ms"] == still.map[username]["as_of_at_ms"]
        assert min(told["age_ms"], told["wall_age_ms"]) > 0
