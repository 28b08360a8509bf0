"""Goal: the analytics killed with SIGKILL between any two of their commits, and started again, leave nothing out and do nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from hq.analytics.checkpoint import last_done
from hq.analytics.settings import AnalyticsSettings
from hq.spark_session import SparkSettings
from landfall.node.node import Node
from streams.commit_points import CRASH_VARIABLE
from streams.model.identifiers import Coordinates
from streams.model.records import Record, StoredRecord
from tests.hq_spark import truth
from tests.node.points import ANALYTICS
from tests.support.spark_fleet import (
    BEARS,
    BOXES,
    DUCKS,
    HOUR_MS,
    NOON_MS,
    PLACES,
    TOKEN,
    Place,
    append,
    booking,
    caught_up,
    headquarters,
    last_word,
    policy,
    reading,
    rows,
    wait_until,
)

FIRST = {"analytics.begun", "analytics.requested", "analytics.hours", "analytics.state", "analytics.optimized"}
SETTLING = ("analytics.hours", "analytics.state")
COMPACTING = ("analytics.optimized", "analytics.vacuumed")
PASSAGES = tuple(f"{point}:{1 if point in FIRST else 2}" for point in ANALYTICS)
"""Each start begins with the micro-batch that the last kill cut short, then takes the next: so `:2` is reached in a new one; and
with the hours settled last, told once more before others are settled. A request has one append here, so that a step that gives to
both customers makes two, with `analytics.requested` between them. The first one finds what Spark is to read, and no history."""
ALARMED = "analytics.alerts:2"
LIKE_ANOTHER = {"analytics.metrics", "analytics.hours_stream", "analytics.state", "analytics.vacuumed"}
"""What comes right behind another commit of its kind: an append, the settling of hours, the joining of files."""
SAMPLE = tuple(passage for passage in PASSAGES if passage.partition(":")[0] not in LIKE_ANOTHER)
RESTING_MS = 86_400_000
"""Micro-batches begin at multiples of this, the first at once: after that Spark rests until midnight (UTC)."""
POLL_S = 0.0005
DRIVER = [sys.executable, "-m", "tests.hq_spark.driver"]
START_S = 900
BEARS_UNTIL_MS = {2: NOON_MS + 2 * HOUR_MS, 3: NOON_MS + 5 * HOUR_MS, 5: NOON_MS + 8 * HOUR_MS}
"""In these phases the booking comes, late, and is made longer: killed while both customers are given theirs, before, and after."""
JUMP = 35.0, -35.0
"""So a box says its latitude in the phase before the kill behind an alert and in that phase: no ship runs so far in two hours."""


class Driver:
    """The analytics in a process of their own, Spark starting; `begin` lets them. Killed at the end of the block whatever happens."""

    def __init__(self, settings: Path, crash_at: str | None) -> None:
        environment = {**os.environ, **({CRASH_VARIABLE: crash_at} if crash_at else {})}
        with settings.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen([*DRIVER, str(settings)], env=environment, stdin=subprocess.PIPE, stderr=log)

    def begin(self) -> None:
        """Analyse, with the settings as they are now."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"begin\n")
        self.process.stdin.close()

    def end(self) -> None:
        """SIGKILL, if it still lives."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextmanager
def drivers(settings: Path, passages: tuple[str, ...]) -> Iterator[Iterator[Driver]]:
    """One driver for each of `passages`, one to be killed from outside, one that lives on: each is started while the one before it is at
    work."""
    started = [Driver(settings, passages[0])]

    def in_turn() -> Iterator[Driver]:
        for crash_at in (*passages[1:], None, None):
            started.append(Driver(settings, crash_at))
            yield started[-2]
        yield started[-1]

    try:
        yield in_turn()
    finally:
        for one in started:
            one.end()


def voyage(phase: int, ship: Place, quay: Place, node: Node, latitude_deg: float | None = None) -> None:
    """What happens in the phase's two hours: readings of four boxes, a position, a reading the quay hears too, one that comes late; and one
    box that says where it is, if it does."""
    begin = NOON_MS + phase * 2 * HOUR_MS
    for half in range(2):
        at = begin + half * HOUR_MS
        minutes = range(0, 60, 7)
        said = [reading(box, at + m * 60_000 + n, return_c=phase + m / 10, gateway="GW-1") for m in minutes for n, box in enumerate(BOXES)]
        late = [reading(BOXES[0], NOON_MS + phase * 1000 + half, return_c=-9.5, door_open=True)]
        ship.say("containers", said + late, at + HOUR_MS)
        fix = {"latitude_deg": 35.0 - phase, "longitude_deg": 139.0, "speed_kn": 14.5}
        ship.say("ships", [Record("9321483.location", "GNSS", at, fix)], at)
        ship.say("events", [Record(BOXES[1], None, at, {}, {"event_id": f"{phase}-{half}", "event": "LOAD", "event_at_ms": at})], at)
        ship.say("alerts", list(losses(2 * phase + half, at)), at)
        if half == 0 and latitude_deg is not None:
            ship.say("containers", [reading(BOXES[3], at + 59 * 60_000, latitude_deg=latitude_deg, longitude_deg=139.0)], at + HOUR_MS)
        twice = said[1]
        quay.say("containers", [Record(twice.topic, twice.device, twice.device_at_ms, {**twice.signals, "gateway": "Q"})], at)
    ship.tell(node)
    quay.tell(node)


def losses(number: int, at_ms: int) -> Iterator[Record]:
    """A box is probably lost; of every other such alert a person confirms it an hour later; after two hours it is heard again."""
    said = [(number, "raised", "PROBABLE_OVERBOARD")]
    if number % 2:
        said.append((number - 1, "updated", "CONFIRMED_LOST"))
    if number >= 2:
        said.append((number - 2, "retracted", "FOUND"))
    for lost, state, status in said:
        body = {"alert_id": f"lost-{lost}", "rule": "lost_container", "state": state, "status": status, "at_ms": at_ms}
        yield Record(BOXES[1], None, at_ms, {}, body)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "passages",
    [pytest.param(SAMPLE, marks=pytest.mark.long), pytest.param(PASSAGES, marks=pytest.mark.torture)],
    ids=["each-kind", "each"],
)
def test_killed_between_any_two_commits_nothing_is_lost_or_doubled(tmp_path: Path, passages: tuple[str, ...]) -> None:
    """At each kind of commit by `make long`; behind each single one by `make torture`."""
    alarmed = passages.index(ALARMED)
    ship, quay = Place(tmp_path / "ship", "albatross"), Place(tmp_path / "quay", "singapore")
    end, settings = NOON_MS + 2 * HOUR_MS, tmp_path / "settings.json"
    with closing(ship.log), closing(quay.log), headquarters(tmp_path / "hq") as node:
        write_settings(settings, node.url)
        ducks = booking("DUCK-1", 1, DUCKS, (BOXES[0], NOON_MS, end), (BOXES[1], NOON_MS + HOUR_MS, None))
        append(node, "registry", [policy("sent"), ducks])

        def happen(phase: int) -> None:
            voyage(phase, ship, quay, node, dict(enumerate(JUMP, alarmed - 1)).get(phase))
            if phase in BEARS_UNTIL_MS:
                append(node, "registry", [booking("BEAR-1", phase, BEARS, (BOXES[2], NOON_MS, BEARS_UNTIL_MS[phase]))])

        with drivers(settings, passages) as in_turn:
            for phase, passage in enumerate(passages):
                happen(phase)
                write_settings(settings, node.url, (passage,))
                one = next(in_turn)
                one.begin()
                assert one.process.wait(START_S) == -signal.SIGKILL, f"{passage} was not reached"
            happen(len(passages))
            write_settings(settings, node.url, (), RESTING_MS)
            kill_between_micro_batches(next(in_turn), tmp_path / "checkpoint")
            happen(len(passages) + 1)
            write_settings(settings, node.url)
            kept = live_on(next(in_turn), node, str(tmp_path / "tables"))
        far = (1 << 63) - 1
        spans = {
            DUCKS: [(BOXES[0], NOON_MS, end), (BOXES[1], NOON_MS + HOUR_MS, far)],
            BEARS: [(BOXES[2], NOON_MS, BEARS_UNTIL_MS[5])],
        }
        truth.check_customers(node.log, kept, spans)
        truth.check_states(node.log, kept)
        own = [row for row in rows(node.log, "alerts") if row.coordinates.origin.node == "hq"]
        alerts = [(row.record.topic, row.record.body["rule"]) for row in own if row.record.body]
        assert alerts == [(BOXES[3], "impossible_speed")], "an alert of the whole fleet's rules is missing, or raised twice"


def kill_between_micro_batches(one: Driver, checkpoint: Path) -> None:
    """SIGKILL where Spark has ended a micro-batch and rests: no point of ours lies there."""
    before, deadline_s = last_done(checkpoint), time.monotonic() + START_S
    one.begin()
    while last_done(checkpoint) == before:
        assert one.process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline_s, "no micro-batch is done"
        time.sleep(POLL_S)
    one.end()
    done = last_done(checkpoint)
    assert done is not None
    assert not (checkpoint / "offsets" / str(done + 1)).exists(), "the next micro-batch has begun"
    version, *words = (checkpoint / "commits" / str(done)).read_text().splitlines()
    assert version.startswith("v"), "the end of the micro-batch is not whole"
    assert json.loads("".join(words)), "the end of the micro-batch is not whole"
    assert (checkpoint / "offsets" / str(done)).exists()


def live_on(last: Driver, node: Node, tables: str) -> dict[Coordinates, StoredRecord]:
    """The last driver works all off, settles the hours, joins small files, and ends when asked; returns what the history then has."""
    last.begin()
    wait_until(lambda: caught_up(node.log), "the last micro-batch", START_S)
    kept = truth.check_history(node.log, tables)
    wait_until(lambda: truth.last_hours(node.log) == truth.hours_of(kept), "the hours to be settled", START_S)
    wait_until(lambda: "compact" in last_word(node.log)["histograms"], "small files to be joined", START_S)
    assert truth.check_history(node.log, tables).keys() == kept.keys()
    last.process.send_signal(signal.SIGTERM)
    assert last.process.wait(60) == 0, "SIGTERM does not end it cleanly"
    return kept


def write_settings(file: Path, url: str, passages: tuple[str, ...] = SETTLING + COMPACTING, trigger_ms: int = 200) -> None:
    """The analytics settle and compact at once where one of `passages` is part of that; else much later than they live: it is much work."""
    settling, compacting = (any(passage.startswith(points) for passage in passages) for points in (SETTLING, COMPACTING))
    folder = file.parent
    settings = AnalyticsSettings(
        log_dir=folder / "hq" / "log",
        tables_dir=str(folder / "tables"),
        checkpoint_dir=folder / "checkpoint",
        scratch_dir=folder / "scratch",
        door=url,
        token=SecretStr(TOKEN),
        places=PLACES,
        spark=SparkSettings(master="local[1]", driver_memory="1g", shuffle_partitions=1),
        request_records_max=1,
        trigger_ms=trigger_ms,
        settle_interval_s=3.0 if settling else 900.0,
        compact_interval_s=1.0 if compacting else 900.0,
    )
    file.write_text(settings.model_dump_json().replace("**********", TOKEN))
