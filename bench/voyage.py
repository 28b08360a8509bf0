"""The demo as a person meets it: seconds to the first ship on the map, from the ship's alert to ports and map, port to port, CPU.

`python -m bench.voyage [boxes]` starts a fresh demo on free ports, lets it play at its default speed for PLAY_S, jumps to where boxes
fall, waits until Spark and the map have caught up, and follows the loss at real time. `--whole` plays the voyage at the default
speed to its end instead. Prints one JSON object. All seconds are of the wall.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from bench.fleet import Underway, until
from bench.machine import machine
from bench.results import Measured, write
from bench.watching import NODES, Watcher, spread
from landfall.demo.fleet_settings import HQ, QUAYS, SHIP_NODES, PlayedStory
from landfall.storage.file_log import FileLogReader
from streams.model.identifiers import Position

SHIP = next(iter(SHIP_NODES))
PLAY_S = 40.0
AFTER_S = 30.0
MAP_EVERY_S = 0.1
DEADLINE_S = 900.0
VOYAGE_S_MAX, OVERBOARD_S_MAX = 480, 420
"""The story's promises: the whole voyage, and the ducks overboard, at the default speed."""


def first_ship(underway: Underway) -> float:
    """Seconds from the launch until the map shows a ship with a position."""

    def shown() -> bool:
        underway.check()
        seen = underway.map()
        return seen is not None and any(ship["position"] for ship in seen["ships"])

    until("the map shows a ship", shown, DEADLINE_S, every_s=0.05)
    return time.monotonic() - underway.began_s


def story_begun(underway: Underway) -> float:
    """Seconds from the launch until all processes are healthy and the fleet's time begins to run."""

    def begun() -> bool:
        underway.check()
        try:
            return bool(underway.clock()["state"] != "waiting")
        except httpx.TransportError:
            return False

    until("the story begins", begun, DEADLINE_S, every_s=0.05)
    return time.monotonic() - underway.began_s


def to_the_loss(underway: Underway) -> dict[str, float]:
    """Jump to just before the boxes fall, stand still there until all is caught up, run on at real time. Seconds of each."""
    underway.control(action="speed", speed=1.0)
    underway.control(action="jump", chapter="C")
    jumped_s = until("the jump is over", lambda: underway.clock()["state"] not in ("jumping", "waiting"), DEADLINE_S)
    underway.control(action="pause")
    log = underway.log(HQ)
    caught_up_s = until("Spark has caught up", lambda: caught_up(log), DEADLINE_S)
    log.close()
    underway.control(action="resume")
    return {"jump_to_c_s": round(jumped_s, 1), "spark_caught_up_after_s": round(caught_up_s, 1)}


def caught_up(log: FileLogReader) -> bool:
    """Whether Spark has read all of headquarters' log that ships and ports wrote."""
    bodies = [row.record.body or {} for batch in log.latest("metrics", "analytics") for row in batch.rows()]
    reached = {stream: Position.from_json(position) for stream, position in bodies[-1]["positions"].items()} if bodies else {}
    return bool(reached) and all(position.reaches(log.position(stream)) for stream, position in reached.items())


class MapWatch:
    """Asks for the map every MAP_EVERY_S in a thread of its own; `lost`: container → when (monotonic) an answer first showed it lost."""

    def __init__(self, underway: Underway) -> None:
        self.lost: dict[str, float] = {}
        self.answers_s: list[float] = []
        self._underway, self._done = underway, threading.Event()
        self._thread = threading.Thread(target=self._run, name="map")

    def __enter__(self) -> MapWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(MAP_EVERY_S):
            asked_s = time.monotonic()
            seen = self._underway.map()
            answered_s = time.monotonic()
            self.answers_s.append(answered_s - asked_s)
            for box in seen["lost"] if seen else ():
                self.lost.setdefault(box["container"], answered_s)


def follow_the_loss(underway: Underway) -> dict[str, Any]:
    """At real time, until every node and the map have each alert, and AFTER_S more: who had it how long after the ship's log."""
    truly_lost = {cause["container"] for cause in causes(underway) if cause["cause"] == "overboard"}
    watcher, before, began_s = Watcher(underway), underway.cpu_s(), time.monotonic()
    with MapWatch(underway) as on_map:
        places = [*watcher.losses.values(), on_map.lost]
        while not all(truly_lost <= place.keys() for place in (*(watcher.losses[node] for node in (SHIP, *QUAYS, HQ)), on_map.lost)):
            if time.monotonic() - began_s > DEADLINE_S:
                raise TimeoutError(f"after {DEADLINE_S:.0f} s the loss is not known everywhere: {[len(place) for place in places]}")
            watcher.turn()
        watcher.run_for(AFTER_S)
    seconds, raised = time.monotonic() - began_s, watcher.losses[SHIP]
    watcher.close()

    def after(seen: dict[str, float], since: dict[str, float]) -> dict[str, float]:
        return spread([seen[box] - since[box] for box in sorted(truly_lost)])

    return {
        "lost_boxes": len(truly_lost),
        "false_alarms": false_alarms(watcher, truly_lost),
        "alert_to_headquarters_s": after(watcher.losses[HQ], raised),
        **{f"alert_to_{port}_s": after(watcher.losses[port], raised) for port in QUAYS},
        "alert_to_map_s": after(on_map.lost, raised),
        "headquarters_to_map_s": after(on_map.lost, watcher.losses[HQ]),
        "map_answers_s": spread(on_map.answers_s),
        "real_time": measures(underway, watcher, before, seconds),
    }


def false_alarms(watcher: Watcher, truly_lost: set[str]) -> list[str]:
    """Boxes some node calls lost that are not."""
    return sorted(set().union(*(watcher.losses[node] for node in NODES)) - truly_lost)


def measures(underway: Underway, watcher: Watcher, before: dict[str, float], seconds: float) -> dict[str, Any]:
    """Port-to-port lag and each process's share of one core over so many seconds."""
    used = {name: round((now - before.get(name, 0.0)) / seconds, 3) for name, now in sorted(underway.cpu_s().items())}
    return {
        "seconds": round(seconds),
        "port_to_port_s": spread(watcher.lags_s),
        "looked_every_s": spread(watcher.turns_s),
        "share_of_a_core": {**used, "all": round(sum(used.values()), 2)},
    }


def causes(underway: Underway) -> list[dict[str, Any]]:
    """What the simulator knows went wrong."""
    return [json.loads(line) for line in (underway.fleet.folder / "sim" / "truth" / "causes.jsonl").read_text().splitlines()]


def played(underway: Underway, seconds: float) -> dict[str, Any]:
    """So many seconds at the speed that is set: lag and CPU."""
    watcher, before, began = Watcher(underway), underway.cpu_s(), underway.clock()["fleet_at_ms"]
    began_s = time.monotonic()
    watcher.run_for(seconds)
    took_s = time.monotonic() - began_s
    speed = (underway.clock()["fleet_at_ms"] - began) / 1_000 / took_s
    watcher.close()
    return {"speed_reached": round(speed), **measures(underway, watcher, before, took_s)}


def whole(underway: Underway, begun_s: float) -> dict[str, Any]:
    """The voyage at its default speed to the end: seconds until boxes fall, the map shows them, the story ends; all from the launch.

    The story's bounds count from its beginning, `begun_s` after the launch.
    """
    falls_at_ms = underway.clock()["chapters"]["C"]
    truly_lost = {cause["container"] for cause in causes(underway) if cause["cause"] == "overboard"}
    before, began_s = underway.cpu_s(), time.monotonic()
    until("boxes fall", lambda: underway.clock()["fleet_at_ms"] >= falls_at_ms, DEADLINE_S)
    fell_s = time.monotonic() - underway.began_s
    until(
        "the map shows the lost", lambda: truly_lost <= {box["container"] for box in (underway.map() or {"lost": ()})["lost"]}, DEADLINE_S
    )
    shown_s = time.monotonic() - underway.began_s
    until("the story is over", lambda: underway.clock()["state"] == "ended", DEADLINE_S)
    ended_s = time.monotonic() - underway.began_s
    log = underway.log(HQ)
    behind_s = until("Spark has caught up", lambda: caught_up(log), DEADLINE_S)
    records = sum(sum(log.position(stream).values()) for stream in ("containers", "ships"))
    log.close()
    watcher = Watcher(underway)
    watcher.turn()
    watcher.close()
    seconds = time.monotonic() - began_s
    return {
        "overboard_after_s": round(fell_s),
        "overboard_of_its_bound": round((fell_s - begun_s) / OVERBOARD_S_MAX, 2),
        "lost_on_the_map_after_s": round(shown_s),
        "voyage_s": round(ended_s),
        "voyage_of_its_bound": round((ended_s - begun_s) / VOYAGE_S_MAX, 2),
        "spark_caught_up_after_s": round(behind_s, 1),
        "readings_at_headquarters": records,
        "lost_boxes": len(truly_lost),
        "false_alarms": false_alarms(watcher, truly_lost),
        "share_of_a_core": {name: round((now - before.get(name, 0.0)) / seconds, 2) for name, now in sorted(underway.cpu_s().items())},
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.voyage", description=__doc__)
    parser.add_argument("boxes", nargs="?", type=int, default=2_000)
    parser.add_argument("--whole", action="store_true", help="the voyage at the default speed to its end, instead of the loss at real time")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the fleet ends too
    figures = {"bench": "voyage", **machine(), "boxes": asked.boxes}
    with tempfile.TemporaryDirectory(prefix="bench-voyage-") as name:
        underway = Underway(Path(name) / "fleet", PlayedStory(boxes=asked.boxes))
        try:
            begun_s = story_begun(underway)
            figures["launch_to_story_s"] = round(begun_s, 1)
            figures["launch_to_first_ship_on_map_s"] = round(first_ship(underway), 1)
            if asked.whole:
                figures |= whole(underway, begun_s)
            else:
                figures["default_speed"] = played(underway, PLAY_S)
                figures |= to_the_loss(underway)
                figures |= follow_the_loss(underway)
        finally:
            underway.stop()
    figures["load_1_min_at_the_end"] = machine()["load_1_min"]
    print(json.dumps(figures, indent=1))
    write("voyage", whole_goal(figures) if asked.whole else real_time_goals(figures))


def whole_goal(figures: dict[str, Any]) -> dict[str, Measured]:
    """Return the row of the whole voyage."""
    figure = f"{figures['overboard_after_s']} s after the launch; the story from {figures['launch_to_story_s']} to {figures['voyage_s']} s"
    return {"whole": Measured(figure, max(figures["overboard_of_its_bound"], figures["voyage_of_its_bound"]) <= 1)}


def real_time_goals(figures: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the loss at real time."""
    map_s, lag_s = figures["headquarters_to_map_s"]["max"], figures["real_time"]["port_to_port_s"]["p99"]
    return {"map": Measured(f"{map_s} s", map_s <= 2), "port_to_port": Measured(f"{lag_s} s", lag_s <= 1)}


if __name__ == "__main__":
    main()
