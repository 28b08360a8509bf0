"""Goal: the lost-container alert follows from readings that arrive by MQTT: take shock and silence out of them and it is not there.

The ship's process shows that her watch judges what sensors publish; the watch alone shows what it makes of each kind of voyage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cargo.loss.muster import ACCOUNTED, muster
from cargo.loss.reading_rows import Heard
from cargo.loss.watch_outcome import MadeRecord
from cargo.vocabulary.registry_entries import entry_body
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.aboard import ShipProcess, fleet_clock, message, publish_all, ship
from tests.support.process import wait
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, number, told, watch

LOST_AT_MS = SAILS_MS + 2 * HOUR_MS
UNTIL_MS = LOST_AT_MS + HOUR_MS
STACK, BOXES = (0, 1, 2), 24


def voyage(*, blows: bool, silence: bool) -> list[Heard]:
    """From the berth out into a storm, in which one stack falls with a blow and is not heard again; or without one of these, or both.

    Boxes that speak on have fallen less far than they stood above the deck.
    """
    storm = (LOST_AT_MS - 10 * MINUTE_MS, LOST_AT_MS + 10 * MINUTE_MS)
    silent = {box: [(LOST_AT_MS, UNTIL_MS + 1)] for box in STACK} if silence else {}
    sea = Sea(boxes=BOXES, storms=[storm], silent=silent)
    said = [sea.says(box, LOST_AT_MS - 1_000 + box, shock_g=8.0, free_fall_ms=900 if silence else 300) for box in STACK] if blows else []
    return sea.readings(UNTIL_MS, said)


def judged(process: ShipProcess) -> int:
    """How many records the watch has dealt with, durably."""
    last = {row["topic"]: sum(row["body"]["position"].values()) for row in process.rows("consumers")}
    return sum(position for consumer, position in last.items() if consumer.startswith("watch/"))


def test_shock_fall_and_silence_raise_the_alert(tmp_path: Path) -> None:
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        process.start()
        process.wait_ready()
        papers = [Record(topic=one.topic, body=entry_body(one)) for one in Sea(boxes=BOXES).entries()]
        process.hears([Append(f"aboard/{SHIP}", to_batch(papers))])
        readings = voyage(blows=True, silence=True)
        publish_all(process.mqtt_port, [message(heard) for heard in readings], process.tail)
        wait(lambda: judged(process) == len(readings) + len(papers), process.tail)
        overboard = [row for row in process.rows("alerts") if row["body"]["rule"] == "lost_container"]
        assert {row["topic"] for row in overboard} == {number(box) for box in STACK}
        assert {"shock", "silence"} <= evidence([row["body"] for row in overboard])
        position = overboard[0]["body"]["position"]
        assert 36 < position["latitude_deg"] < 36.5  # two hours at 15 kn north of Tokyo's berth
        wait(lambda: set(shown(process)["gone"]) == {number(box) for box in STACK}, process.tail)
        assert shown(process)["instrumented"] - shown(process)["accounted"] == len(STACK)


def test_without_shock_and_silence_there_is_no_alert() -> None:
    alerts, unaccounted = sail(blows=False, silence=False)
    assert (alerts, unaccounted) == ([], set())


def test_without_shock_the_silence_of_a_whole_stack_in_a_roll_is_enough() -> None:
    """Silence opens the case; three boxes of one stack at once, in a roll above 20°, are two more families of evidence."""
    alerts, unaccounted = sail(blows=False, silence=True)
    overboard = told(alerts, rule="lost_container")
    assert {one.topic for one in overboard} == unaccounted == {number(box) for box in STACK}
    found = evidence([one.body for one in overboard])
    assert {"silent_together", "roll"} <= found
    assert found.isdisjoint({"shock", "free_fall", "tilt"})


def test_without_silence_a_shock_is_a_shock_and_no_loss() -> None:
    """Nothing but silence opens a case: a box that was struck and speaks is aboard."""
    alerts, unaccounted = sail(blows=True, silence=False)
    assert {(one.topic, one.body["rule"]) for one in alerts} == {(number(box), "shock") for box in STACK}
    assert not unaccounted


def sail(*, blows: bool, silence: bool) -> tuple[list[MadeRecord], set[str]]:
    """The alerts that the ship's watch makes of the voyage, and the boxes that are not accounted for after it."""
    state, made = watch(Sea(boxes=BOXES), voyage(blows=blows, silence=silence))
    lines = muster(state, state.memory.settled_at_ms)
    assert len(lines) == BOXES
    return made.alerts, {line.container for line in lines if line.reason not in ACCOUNTED}


def evidence(bodies: Iterable[Mapping[str, Any]]) -> set[str]:
    """Every signal that spoke for one of these losses."""
    return {piece["signal"] for body in bodies for piece in body["evidence"]}


def shown(process: ShipProcess) -> dict[str, Any]:
    """The muster that the ship shows: up to a second old."""
    status: dict[str, Any] = (process.status() or {})["muster"]
    return status
