"""Goal: the rules inside Spark find the very episodes that the watches of ship and quay tell of, with the same ids; and where they do not
agree, because something came late, or is another here, that is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from cargo.shore_rules.alert_comparison import RULES
from hq.analytics.judging import READ, put_in_time
from landfall.system.private_files import write_private
from tests.hq_spark.judgedfleet import CHANGED, DARK, GONE, LATE, NODES, UNTAUGHT, box_says, hour, lived, said_aboard, said_on_quay, tables
from tests.support.sea import HOUR_MS, MINUTE_MS, SHIP, START_MS, number

OTHER = {number(at) for at in (LATE, DARK, CHANGED, GONE, UNTAUGHT)}
SETTINGS = """
log_dir = "{folder}/log"
tables_dir = "{folder}"
checkpoint_dir = "{folder}/checkpoint"
scratch_dir = "{folder}/scratch"
door = "http://127.0.0.1:1"
token = "none"
[spark]
master = "local[1]"
driver_memory = "1g"
shuffle_partitions = 1
[places]
{places}
"""
Episode = dict[str, Any]
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `landfall judge --json` says of the fleet's tables."""
    folder = tmp_path_factory.mktemp("fleet")
    places = [lived(folder, "albatross", f"aboard/{SHIP}", said_aboard()), lived(folder, "tokyo", "registry", said_on_quay())]
    tables(folder, places)
    for place in places:
        place.log.close()
    config = folder / "analytics.toml"
    write_private(config, SETTINGS.format(folder=folder, places="\n".join(f'{node} = "{place}"' for node, place in NODES.items())).encode())
    ran = subprocess.run([sys.executable, "-m", "landfall", "judge", "--json", "-c", str(config)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    spoken: dict[str, Any] = json.loads(ran.stdout)
    return spoken


@pytest.fixture(scope="module")
def episodes(spoken: dict[str, Any]) -> list[Episode]:
    """Each episode in both accounts."""
    found: list[Episode] = spoken["episodes"]
    return found


def of(episodes: list[Episode], at: int) -> list[Episode]:
    """Those of one box."""
    return [one for one in episodes if (one["shown"] or one["told"])["topic"] == number(at)]


def verdicts(episodes: list[Episode]) -> list[tuple[str, str]]:
    """Rule and verdict of each."""
    return [((one["shown"] or one["told"])["rule"], one["verdict"]) for one in episodes]


def test_ship_quay_and_spark_tell_the_same_episodes_with_the_same_ids(episodes: list[Episode]) -> None:
    """Of every rule, on both: whatever came out of order, or twice, and though the watches were ended and begun again."""
    agreed = [one for one in episodes if one["told"] is None or one["told"]["topic"] not in OTHER]
    agreed = [one for one in agreed if one["shown"] is None or one["shown"]["topic"] not in OTHER]
    assert [one for one in agreed if one["verdict"] != "same"] == []
    assert all(one["shown"]["alert_id"] == one["told"]["alert_id"] is not None for one in agreed)
    rules = {side: {one["told"]["rule"] for one in agreed if one["told"]["side"] == side} for side in (SHIP, "JPTYO")}
    assert rules[SHIP] | rules["JPTYO"] == RULES
    assert rules["JPTYO"] >= {"temperature", "setpoint", "power_off", "humidity", "tilt", "shock"}


def test_what_came_late_corrects_the_record_and_alarmed_nobody(episodes: list[Episode]) -> None:
    """Of the excursion the record is told, as it was; that a box had no power is seen here alone. Neither was silent, as was thought."""
    warm = [one for one in of(episodes, LATE) if one["verdict"] == "untold"]
    assert [(one["differs"], one["told"]["alert_id"]) for one in warm] == [([], None)]
    assert warm[0]["told"]["degree_minutes"] == warm[0]["shown"]["degree_minutes"] > 1_000
    assert sorted(verdicts(of(episodes, LATE))) == [("late", "unfounded"), ("silent", "unfounded"), ("temperature", "untold")]
    assert sorted(verdicts(of(episodes, DARK))) == [("late", "unfounded"), ("power_off", "untold"), ("silent", "unfounded")]


def test_another_reading_or_another_setting_is_seen(episodes: list[Episode]) -> None:
    (changed,) = of(episodes, CHANGED)
    assert (changed["verdict"], changed["differs"]) == ("different", ["peak_c", "degree_minutes"])
    assert (changed["told"]["peak_c"], changed["shown"]["peak_c"]) == (5.5, 7.0)
    assert sorted(verdicts(of(episodes, GONE))) == [("late", "untold"), ("silent", "untold"), ("temperature", "unfounded")]
    assert verdicts(of(episodes, UNTAUGHT)) == [("humidity", "untold")]


def test_each_reading_is_judged_once(spoken: Mapping[str, Any]) -> None:
    """What came twice is one; what is not at headquarters is not judged there, nor the ship's own where it is ahead of her boxes'."""
    counts = {place: told["readings"] for place, told in spoken["places"].items()}
    came = {"ship/" + SHIP: said_aboard(), "quay/JPTYO": said_on_quay()}
    apart = {place: {(one.topic, one.device, one.device_at_ms) for _, one in said} for place, said in came.items()}
    ahead = sum(1 for at_ms, one in said_aboard() if "." in one.topic and at_ms >= hour(49.5))
    gone = sum(1 for at in range(99) if box_says(GONE, at / 2)["supply_c"] == 9.0)
    assert counts == {"ship/" + SHIP: len(apart["ship/" + SHIP]) - gone - ahead, "quay/JPTYO": len(apart["quay/JPTYO"])}


def test_a_clock_that_is_hours_behind_is_put_right_as_the_place_does_it() -> None:
    """Goal: its readings stand among those of its neighbours, not hours before them."""
    behind_ms, at_ms = 3 * HOUR_MS, [START_MS + n * MINUTE_MS for n in range(600)]
    said: list[dict[str, Any]] = [
        {"topic": number(n % 40), "device": f"TRK-{n % 40}", "received_at_ms": at, "motion": True} for n, at in enumerate(at_ms)
    ]
    for one in said:
        one["device_at_ms"] = one["order_at_ms"] = one["received_at_ms"] - (behind_ms if one["topic"] == number(7) else 0)
    came = pa.RecordBatch.from_pylist([{"place": "quay/JPTYO", **one} for one in said])
    (put,) = put_in_time([came])
    wrong = [put.column("order_at_ms")[n].as_py() - at for n, at in enumerate(at_ms)]
    assert max(abs(ms) for n, ms in enumerate(wrong) if n % 40 == 7) <= 40 * MINUTE_MS
    assert not any(ms for n, ms in enumerate(wrong) if n % 40 != 7)


def test_what_no_watch_hears_is_not_judged() -> None:
    """Goal: a will and a message without a signal of its own are no readings here either, and a topic that is none ends nothing."""
    said: list[dict[str, Any]] = [
        {"topic": number(1), "motion": True, "body": None},
        {"topic": number(2), "motion": True, "body": '{"flags":["will"]}'},
        {"topic": number(3), "motion": None, "body": '{"status":"offline"}'},
        {"topic": "\n", "motion": True, "body": None},
    ]
    stamps = dict.fromkeys(("device_at_ms", "order_at_ms", "received_at_ms"), START_MS)
    (put,) = put_in_time([pa.RecordBatch.from_pylist([{"place": "quay/JPTYO", "device": "TRK", **stamps, **one} for one in said])])
    assert put.column("topic").to_pylist() == [number(1)]
    assert "body" in READ, "else Spark hands on no flags"
