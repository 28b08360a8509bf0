"""Goal: of the nodes of one ship, or of one port, one is killed with SIGKILL while sensors speak: the others watch on, one has the link,
and they say what a watch says that was never broken off; what a sensor was told is received is there; and what all say is one.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cargo.loss.reading_rows import Heard
from cargo.vocabulary.registry_entries import Entry
from landfall.node.services.signing_job import public_key
from tests.shore.pair import INTERVAL_MS, OF_PORT, OF_SHIP, OF_THREE, Kind, Paired, Stage, never_broken_off, publish_to, stage, write
from tests.support.aboard import NODE, Gateway, message, ship
from tests.support.process import NodeProcess, wait
from tests.support.sea import MINUTE_MS, SHIP, START_MS, TOKYO, Sea, entry
from tests.support.two_nodes import Sensors

FALLS_MS, UNTIL_MS = START_MS + 30 * MINUTE_MS, START_MS + 60 * MINUTE_MS
STEP_MS = 2 * MINUTE_MS
LOST = range(3)


@dataclass(frozen=True, slots=True)
class Hour:
    """What the sensors say of this pair in an hour, in order; what headquarters tells it before; and of what in `stream` there is to be how
    much at headquarters."""

    kind: Kind
    papers: list[Entry]
    said: list[Heard]
    stream: str
    made: dict[str, int]

    def ends(self) -> list[int]:
        """How much was said by the end of each STEP_MS."""
        steps = range(START_MS + STEP_MS, UNTIL_MS + STEP_MS + 1, STEP_MS)
        return [sum(one.order_at_ms < end for one in self.said) for end in steps]


def at_sea(kind: Kind = OF_SHIP) -> Hour:
    """Three boxes fall in a storm."""
    storm, silent = (FALLS_MS - 10 * MINUTE_MS, FALLS_MS + 15 * MINUTE_MS), {box: [(FALLS_MS, UNTIL_MS + 1)] for box in LOST}
    sea = Sea(boxes=12, interval_ms=INTERVAL_MS, sails_ms=START_MS + 5 * MINUTE_MS, storms=[storm], silent=silent)
    blows = [sea.says(box, FALLS_MS - 500 + box, shock_g=9.0, free_fall_ms=800) for box in LOST]
    alerts = {"lost_container": len(LOST), "shock": len(LOST), "incident": 1}
    return Hour(kind, sea.entries(), sea.readings(UNTIL_MS, blows), "alerts", alerts)


def on_the_quay() -> Hour:
    """Boxes stand there, and each is struck."""
    sea = Sea(boxes=12, interval_ms=MINUTE_MS)
    blows = [sea.says(box, FALLS_MS - 3 * MINUTE_MS + box * STEP_MS // 4 + 1, shock_g=9.0) for box in range(12)]
    said = [one for one in sea.readings(UNTIL_MS, blows) if "." not in one.topic]
    return Hour(OF_PORT, [entry("port", "JPTYO", TOKYO)], said, "events", {"X_SHOCK": 12, "GTIN": 12})


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("hour", "struck"),
    [(at_sea(), 0), (at_sea(), 1), (on_the_quay(), 0), (at_sea(OF_THREE), 0), (at_sea(OF_THREE), 2)],
    ids=["ship's first", "ship's second", "port's first", "of three the first", "of three the third"],
)
def test_kill_one_the_muster_and_the_alerts_go_on_and_an_alert_that_all_raise_is_one(tmp_path: Path, hour: Hour, struck: int) -> None:
    """Killed in the two minutes of the blows, some of them answered and some on their way: nothing is raised before it is dead."""
    kind, chance, numbered = hour.kind, random.Random(struck), [message(one) for one in hour.said]
    with stage(tmp_path, kind, UNTIL_MS, hour.papers) as all_:
        killed, left = all_.nodes[struck], [one for at, one in enumerate(all_.nodes) if at != struck]
        keepers = {kind.names[0]} if kind.role == "ship" else set(kind.names)
        wait(lambda: all_.linked() == keepers, all_.tails)
        with Sensors([one.mqtt_port for one in all_.nodes], numbered.__getitem__, limit=0) as sensors:
            before = [end for end in hour.ends() if end <= sum(one.order_at_ms < FALLS_MS - STEP_MS for one in hour.said)]
            rest = hour.ends()[len(before) :]
            publish_to(sensors, before, all_.tails)
            sensors.limit = rest[0]
            wanted = before[-1] + chance.randrange(rest[0] - before[-1])
            wait(lambda: len(sensors.acknowledged) >= wanted, all_.tails)
            killed.kill()
            publish_to(sensors, rest, all_.tails)
            never = never_broken_off(kind, hour.papers, hour.said)
            wait(lambda: all(one.told() == never for one in left), all_.tails)
            wait(lambda: all_.linked() == {left[0].node}, all_.tails)
            wait(lambda: musters(hour, left), all_.tails)
            wait(lambda: all(all_.hq.read.position(hour.stream).reaches(one.read.position(hour.stream)) for one in left), all_.tails)
            check(hour, all_, left)
            killed.start()
            killed.wait_ready()
            wait(lambda: alike(("containers", "ships"), *all_.nodes) and all(one.has_judged() for one in all_.nodes), all_.tails)
            wait(lambda: all_.linked() == keepers and alike((hour.stream,), *all_.nodes, all_.hq), all_.tails)
            wait(lambda: musters(hour, all_.nodes), lambda: f"{[one.muster() for one in all_.nodes]}\n{all_.tails()}")
            check(hour, all_, all_.nodes)


@pytest.mark.timeout(600)
def test_killed_the_ships_in_port_go_on_through_the_other(tmp_path: Path) -> None:
    """What she says comes ashore, and what she is to be told aboard."""
    sea = Sea(boxes=12, interval_ms=INTERVAL_MS, sails_ms=UNTIL_MS)
    said = [message(one) for one in sea.readings(UNTIL_MS)]
    guest = f'[[node.known]]\nnode = "{NODE}"\nrole = "ship"\nidentity = "{SHIP}"\ntoken = "of-the-guest"\n'
    guest += f'keys = ["{public_key(tmp_path / "ship")}"]\n'  # who has no link of her own to headquarters never meets it
    with stage(tmp_path, OF_PORT, UNTIL_MS, [entry("port", "JPTYO", TOKYO)], guest) as all_:
        place = f"latitude_deg = {TOKYO.latitude_deg}\nlongitude_deg = {TOKYO.longitude_deg}\n"
        calls = "".join(
            f'[[node.known]]\nnode = "{one.node}"\nrole = "port"\nidentity = "JPTYO"\n'
            f'[[ports]]\nnode = "{one.node}"\nurl = "{one.url}"\ntoken = "of-the-guest"\nlocode = "JPTYO"\nname = "Tokyo"\n{place}'
            for one in all_.nodes
        )
        known = f'[[node.known]]\nnode = "hq"\nrole = "hq"\nkeys = ["{public_key(tmp_path / "hq")}"]\n{calls}'
        with ship(tmp_path, known, all_.clock) as she, Gateway(she.mqtt_port) as gateway:
            she.start()
            gateway.publish(said[: len(said) // 2])
            wait(lambda: ashore(all_.hq) >= len(said) // 4, all_.tails)
            all_.nodes[0].kill()
            gateway.publish(said[len(said) // 2 :])
            wait(lambda: gateway.done() and ashore(all_.hq) == len(said), lambda: she.tail() + all_.tails())
            write(all_.hq, sea.entries())
            wait(lambda: sum(she.read.position(f"aboard/{SHIP}").values()) == len(sea.entries()), lambda: she.tail() + all_.tails())
            rows = all_.hq.rows("containers") + all_.hq.rows("ships")
            told = [(row["topic"], row["device_at_ms"], row["device"]) for row in rows]
            assert len(set(told)) == len(told) == len(said)


def ashore(hq: NodeProcess) -> int:
    """How many of the ship's readings headquarters has."""
    return sum(sum(hq.read.position(stream).values()) for stream in ("containers", "ships"))


def alike(streams: Sequence[str], *nodes: NodeProcess) -> bool:
    """Whether they have the same of each of `streams`."""
    positions = [[node.read.position(stream) for stream in streams] for node in nodes]
    return all(one == positions[0] for one in positions)


def musters(hour: Hour, nodes: Sequence[Paired]) -> bool:
    """Whether each node of a ship has her boxes in its muster, those that fell as gone; of a quay none is asked."""
    if hour.kind.role != "ship":
        return True
    lost = {one.topic for one in hour.said if one.order_at_ms >= FALLS_MS - 500 and one.order_at_ms < FALLS_MS - 500 + len(LOST)}
    shown = [node.muster() for node in nodes]
    return all(set(one["gone"]) == lost and one["instrumented"] - one["accounted"] == len(LOST) for one in shown)


def check(hour: Hour, all_: Stage, nodes: Sequence[Paired]) -> None:
    """All that was said is at each of `nodes`, and headquarters is told of each thing once, whoever says it."""
    said = {(one.topic, one.device_at_ms, one.device) for one in hour.said}
    for node in nodes:
        rows = node.rows("containers") + node.rows("ships")
        assert {(row["topic"], row["device_at_ms"], row["device"]) for row in rows} == said
        by_origin = [(row["origin"], row["topic"], row["device_at_ms"], row["device"]) for row in rows]
        assert len(set(by_origin)) == len(by_origin)
    told = all_.hq.rows(hour.stream)
    bodies = [(row["origin"], json.dumps(row["body"], sort_keys=True)) for row in told]
    assert len(set(bodies)) == len(bodies)
    assert "retracted" not in {row["body"].get("state") for row in told}
    by_id = {row["body"].get("alert_id") or row["body"]["event_id"]: row["body"].get("rule") or row["body"]["event"] for row in told}
    assert Counter(by_id.values()) == hour.made
