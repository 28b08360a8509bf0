"""From a box over the side to the alert at headquarters, past a backlog on a slow link: real processes the whole way.

`python -m bench.lossashore [losses]`: `landfall ship` with its watch dials `landfall port` of headquarters through a proxy at 128 kbit/s
and 600 ms of round trip. 96 boxes and the ship's own sensors publish by MQTT, at the wall's time, in calm water: each box once an hour, the
ship each ten minutes. While a backlog goes ashore boxes fall, three at a time, and are not heard again. Prints one JSON object: seconds
from the first message of a box's fall until its loss stands in the ship's log, and until a reader at headquarters has it, and what of the
backlog was left then.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.duel.nodes import IMO, Dial, StationNode
from bench.duel.side import wait_until
from bench.machine import machine
from bench.results import Measured, write
from bench.watching import spread
from cargo.loss.reading_rows import Heard
from cargo.vocabulary.registry_entries import entry_body
from streams.model.records import Record, to_batch
from tests.support.aboard import Gateway, message
from tests.support.proxy import LoopThread, Proxy, Shape
from tests.support.sea import HOUR_MS, SAILS_MS, SECOND_MS, Sea, fall, number

RATE_BIT_S, ROUND_TRIP_S = 128_000, 0.6
ASHORE_S_MAX = 120.0
BOXES, EACH = 96, 3
APART_S = 75
READY_S, FIRST_S = 60, 20
"""So long after the start the voyage is at its beginning, and the first box falls."""
AT_SEA_MS = 3 * HOUR_MS
KEPT_BYTES, KEPT_RECORDS_S = 3_000, 6.0
"""A record of the backlog, of bytes that do not pack, and how many are aboard for each second: more than the link takes."""
SETTLED_S_MAX = 600.0


class Ship(StationNode):
    """The ship, whose sensors need no login."""

    def settings(self) -> dict[str, Any]:
        """Its settings file."""
        fields = super().settings()
        fields["intake"]["endpoint"]["anonymous_publish"] = ["landfall/#"]
        return fields


@dataclass
class Listener:
    """Hangs at a node's door for alerts; `lost`: container → when (monotonic) its loss was read there, `held`: of readings then."""

    node: StationNode
    lost: dict[str, float] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    over: bool = False

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for row in self.node.follow("alerts", lambda: self.over):
            if row["body"].get("rule") == "lost_container" and row["topic"] not in self.lost:
                self.lost[row["topic"]], self.held[row["topic"]] = time.monotonic(), self.node.held()


def voyage(losses: int, begins_ms: int) -> tuple[Sea, list[Heard], dict[int, int]]:
    """Three hours at sea before `begins_ms` (UTC ms) and what is said after it; which box falls when."""
    falls = {of * 9 + one: begins_ms + (FIRST_S + of * APART_S + one) * SECOND_MS for of in range(losses) for one in range(EACH)}
    moved_ms = begins_ms - SAILS_MS - AT_SEA_MS
    sea = Sea(boxes=BOXES, silent={box: [(at_ms - moved_ms, 1 << 62)] for box, at_ms in falls.items()})
    blows = [said for box, at_ms in falls.items() for said in fall(sea, box, at_ms - moved_ms)]
    said = sea.readings(SAILS_MS + AT_SEA_MS + (FIRST_S + losses * APART_S) * SECOND_MS, blows)
    return sea, [replace(one, device_at_ms=one.order_at_ms + moved_ms, order_at_ms=one.order_at_ms + moved_ms) for one in said], falls


def backlog(seconds: float) -> list[Record]:
    """Return the readings that wait to go ashore for so long.

    They carry much data in addition to their signals, and their time is the moment of their append.
    """
    chance = random.Random(1)
    count = int(seconds * KEPT_RECORDS_S)
    bodies = ({"kept": base64.b64encode(chance.randbytes(KEPT_BYTES)).decode()} for _ in range(count))
    return [Record(number(at % BOXES), "CAM", None, {}, body) for at, body in enumerate(bodies)]


def publish(gateway: Gateway, said: Sequence[Heard]) -> None:
    """Each at its time."""
    for one in said:
        time.sleep(max(0.0, one.order_at_ms / 1000 - time.time()))
        gateway.publish([message(one)])


def measured(losses: int, folder: Path) -> dict[str, Any]:
    """All of it once."""
    thread = LoopThread("proxy")
    hq = StationNode("hq", folder, links={"satellite": {"streams": ["*"]}})
    proxy = Proxy(hq.port)
    proxy.reshape(Shape(RATE_BIT_S, ROUND_TRIP_S / 2))
    thread.wait(proxy.reserve())
    links = {"satellite": {"streams": ["*"], "rate_bit_s": RATE_BIT_S - 1_000}}
    ship = Ship("ship", folder, [Dial("hq", proxy.port, "satellite")], links)
    listeners: list[Listener] = []
    try:
        hq.start()
        ship.start()
        begins_ms = int(time.time() * 1000) + READY_S * SECOND_MS
        sea, said, falls = voyage(losses, begins_ms)
        thread.wait(proxy.start())
        hq.append(f"aboard/{IMO}", to_batch([Record(one.topic, body=entry_body(one)) for one in _papers(sea, begins_ms)]))
        wait_until(lambda: ship.held(f"aboard/{IMO}") == len(sea.entries()), "she knows what she carries", SETTLED_S_MAX)
        waits = backlog(READY_S + FIRST_S + losses * APART_S)
        with Gateway(ship.mqtt_port) as gateway:
            now_ms = int(time.time() * 1000)
            gateway.publish([message(one) for one in said if one.order_at_ms < now_ms])
            wait_until(gateway.done, "what was said before is aboard", SETTLED_S_MAX)
            ship.append("containers", to_batch(waits))
            listeners = [Listener(ship), Listener(hq)]
            publish(gateway, [one for one in said if one.order_at_ms >= now_ms])
        names = {number(box): at_ms for box, at_ms in falls.items()}
        wait_until(lambda: names.keys() <= listeners[1].lost.keys(), "headquarters has every loss", ASHORE_S_MAX)
        return _figures(names, listeners, ship)
    finally:
        for one in listeners:
            one.over = True
        ship.stop()
        hq.stop()
        thread.wait(proxy.stop())
        thread.close()


def _papers(sea: Sea, begins_ms: int) -> list[Any]:
    """Return the entries that headquarters sends to the ship about the voyage that begins now."""
    papers = []
    for one in sea.entries():
        value = replace(one.value, departs_at_ms=begins_ms - AT_SEA_MS) if one.type == "load_list" else one.value
        papers.append(dataclasses.replace(one, value=value) if one.type == "load_list" else one)
    return papers


def _figures(names: dict[str, int], listeners: Sequence[Listener], ship: StationNode) -> dict[str, Any]:
    now_s, now_ms = time.monotonic(), time.time() * 1000
    fell_s = {name: now_s - (now_ms - at_ms) / 1000 for name, at_ms in names.items()}
    bridge, ashore = listeners
    aboard = ship.held()
    return {
        "boxes_lost": len(names),
        "bridge_s": spread([bridge.lost[name] - at_s for name, at_s in fell_s.items()], 1),
        "ashore_s": spread([ashore.lost[name] - at_s for name, at_s in fell_s.items()], 1),
        "from_the_bridge_s": spread([ashore.lost[name] - bridge.lost[name] for name in names], 2),
        "told_wrongly": sorted(ashore.lost.keys() - names.keys()),
        "readings_left_aboard_then": sorted(aboard - ashore.held[name] for name in names),
        "asked_s": ASHORE_S_MAX,
    }


def main() -> None:
    """Measure and print."""
    losses = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    before = machine()
    with tempfile.TemporaryDirectory(prefix="bench-lossashore-") as folder:
        figures = measured(losses, Path(folder))
    print(json.dumps({"bench": "lossashore", **before, **figures, "load_at_end": machine()["load_1_min"]}))
    bridge_s, ashore_s = figures["bridge_s"]["max"], figures["ashore_s"]["max"]
    write("lossashore", {"told": Measured(f"at most {bridge_s} s; {ashore_s} s", bridge_s <= 60 and ashore_s <= ASHORE_S_MAX)})


if __name__ == "__main__":
    main()
