"""Goal: the lost-container alert follows from readings that arrive by MQTT: take shock and silence out of them and it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cargo.heard import Heard
from cargo.registry import entry_body
from streams.log import Append
from streams.records import Record, to_batch
from tests.cargo.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, number
from tests.edge.aboard import ShipProcess, fleet_clock, message, publish_all, ship
from tests.node.process import wait

LOST_AT_MS = SAILS_MS + 2 * HOUR_MS
UNTIL_MS = LOST_AT_MS + 2 * HOUR_MS
STACK = (0, 1, 2)


def voyage(*, blows: bool, silence: bool) -> list[Heard]:
    """From the berth out into a storm, in which one stack falls with a blow and is not heard again; or without one of these, or both.

    Boxes that speak on have fallen less far than they stood above the deck.
    """
    storm = (LOST_AT_MS - 20 * MINUTE_MS, LOST_AT_MS + 20 * MINUTE_MS)
    silent = {box: [(LOST_AT_MS, UNTIL_MS + 1)] for box in STACK} if silence else {}
    sea = Sea(storms=[storm], silent=silent)
    said = [sea.says(box, LOST_AT_MS - 1_000 + box, shock_g=8.0, free_fall_ms=900 if silence else 300) for box in STACK] if blows else []
    return sea.readings(UNTIL_MS, said)


def sail(process: ShipProcess, *, blows: bool, silence: bool) -> list[dict[str, Any]]:
    """The ship's alerts after the voyage."""
    process.start()
    process.wait_ready()
    told = [Record(topic=one.topic, body=entry_body(one)) for one in Sea().entries()]
    process.hears([Append(f"aboard/{SHIP}", to_batch(told))])
    readings = voyage(blows=blows, silence=silence)
    publish_all(process.mqtt_port, [message(heard) for heard in readings], process.tail)
    wait(lambda: judged(process) == len(readings) + len(told), process.tail)
    return process.rows("alerts")


def judged(process: ShipProcess) -> int:
    """How many records the watch has dealt with, durably."""
    last = {row["topic"]: sum(row["body"]["position"].values()) for row in process.rows("consumers")}
    return sum(position for consumer, position in last.items() if consumer.startswith("watch/"))


def test_shock_fall_and_silence_raise_the_alert(tmp_path: Path) -> None:
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        overboard = losses(sail(process, blows=True, silence=True))
        assert {row["topic"] for row in overboard} == {number(box) for box in STACK}
        assert {"shock", "silence"} <= evidence(overboard)
        position = overboard[0]["body"]["position"]
        assert 36 < position["latitude_deg"] < 36.5  # two hours at 15 kn north of Tokyo's berth
        wait(lambda: set(muster(process)["gone"]) == {number(box) for box in STACK}, process.tail)
        assert muster(process)["instrumented"] - muster(process)["accounted"] == len(STACK)


def test_without_shock_and_silence_there_is_no_alert(tmp_path: Path) -> None:
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        assert sail(process, blows=False, silence=False) == []
        wait(lambda: all_aboard(process), process.tail)


def test_without_shock_the_silence_of_a_whole_stack_in_a_roll_is_enough(tmp_path: Path) -> None:
    """Silence opens the case; three boxes of one stack at once, in a roll above 20°, are two more families of evidence."""
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        overboard = losses(sail(process, blows=False, silence=True))
        assert {row["topic"] for row in overboard} == {number(box) for box in STACK}
        assert {"silent_together", "roll"} <= evidence(overboard)
        assert evidence(overboard).isdisjoint({"shock", "free_fall", "tilt"})


def test_without_silence_a_shock_is_a_shock_and_no_loss(tmp_path: Path) -> None:
    """Nothing but silence opens a case: a box that was struck and speaks is aboard."""
    with fleet_clock(UNTIL_MS) as clock, ship(tmp_path, clock=clock) as process:
        alerts = sail(process, blows=True, silence=False)
        assert {(row["topic"], row["body"]["rule"]) for row in alerts} == {(number(box), "shock") for box in STACK}
        wait(lambda: all_aboard(process), process.tail)


def losses(alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of single boxes that are lost."""
    return [row for row in alerts if row["body"]["rule"] == "lost_container"]


def evidence(alerts: list[dict[str, Any]]) -> set[str]:
    """Every signal that spoke for one of them."""
    return {piece["signal"] for row in alerts for piece in row["body"]["evidence"]}


def muster(process: ShipProcess) -> dict[str, Any]:
    """What the ship shows of her muster: up to a second old."""
    shown: dict[str, Any] = (process.status() or {})["muster"]
    return shown


def all_aboard(process: ShipProcess) -> bool:
    """Whether the ship's muster has every box."""
    shown = muster(process)
    return (shown["total"], shown["accounted"], shown["gone"]) == (60, 60, [])
