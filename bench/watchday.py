"""Measure a ship's watch over a day of readings.

It measures how many readings per second every rule judges on one core, how soon the state of the watch is rebuilt from the log, and what
memory the ship's node takes.

`python -m bench.watchday [boxes] [hours] [rests_s]`: the readings lie in the log of a ship's node, as its endpoint left them, hourly from
each box; then a watch that knows nothing takes the load list and reads that log from its beginning. Then `landfall ship`, whole, starts on
that log, and its own watch judges all of it; killed, it is started once more, and then without its watch's snapshot. Its memory at rest is
that after `rests_s`. It prints one JSON object, with seconds of CPU next to those of the wall.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.machine import machine
from bench.proc import cpu_s, memory_mib, peak_mib
from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from bench.results import Measured, write
from cargo.loss.reading_rows import Heard, rows
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, LoadList, Stowed, entry_body
from landfall.storage.file_log import FileLog, FileLogReader
from sim.steady import ship_readings
from sim.trial import SHIP
from streams.codec import BlockCodec
from streams.log import Append, LogReader
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.records import DEVICE_AT, Record, to_batch
from tests.support.aboard import NODE, ShipProcess
from tests.support.credentials import allow_all
from tests.support.process import wait

BATCH = 2_000
TIERS, ROWS, GATEWAYS = 8, 20, 24
SETTINGS = WatchSettings(WatchPlace(NODE, ship=SHIP))
JUDGED_WITHIN_S, RESTS_S = 900.0, 90.0
"""Maximum time until all is judged, and time at rest, seconds. The log's upkeep rests while the watch judges. Its last and largest merge
comes up to a minute later, and takes memory next to all that the watch then knows."""


def written(log: FileLog, clock: StillClock, boxes: int, hours: int) -> list[str]:
    """A day's readings in the log, received as the clock moves on with them, in commits of BATCH; whose they are, sorted."""
    # From hour to hour the boxes' positions stand still; the ship's positions do not.
    readings = fleet_readings(boxes, hours).drop_columns(["latitude_deg", "longitude_deg"])
    numbers = sorted(set(readings.column("topic").to_pylist()))
    of_box = {number: f"GW-{at * GATEWAYS // len(numbers)}" for at, number in enumerate(numbers)}
    readings = readings.append_column("gateway", pa.array([of_box[number] for number in readings.column("topic").to_pylist()]))
    own = ship_readings(SHIP, START_AT_MS, hours * 6, INTERVAL_MS // 6)
    for first in range(0, readings.num_rows, BATCH):
        part = readings.slice(first, BATCH)
        clock.at_ms = part.column(DEVICE_AT)[-1].as_py()
        upto = int(np.searchsorted(own.column(DEVICE_AT).to_numpy(), clock.at_ms))
        ships = [Append("ships", own.slice(0, upto))] if upto else []
        log.append([*ships, Append("containers", part)])
        own = own.slice(upto)
    return numbers


def load_list(numbers: list[str]) -> Entry:
    """All of them on deck, as reefers: they are expected every hour."""
    stowed = []
    for at, number in enumerate(numbers):
        stack, tier = divmod(at, TIERS)
        bay, row = divmod(stack, ROWS)
        stowed.append(Stowed(number, f"{2 + 4 * bay:03}{row + 1:02}{82 + 2 * tier}", "45R1", "JPTYO", "SGSIN"))
    listed = LoadList(SHIP, "JPTYO", 1, tuple(stowed), (), (), START_AT_MS)
    return Entry("load_list", listed.id, 1, START_AT_MS, "clerk", listed)


def rebuilt(log: LogReader, listed: Entry) -> tuple[WatchState, WatchOutcome, int]:
    """Return a watch that has read all of the log, what it reported, and the number of readings.

    The ship's own readings go before those of its boxes.
    """
    state = WatchState(SETTINGS)
    made, count = learn(state, [listed]), 0
    own = [row for batch in log.read("ships", Position()) for row in rows(batch.records)]
    for batch in log.read("containers", Position()):
        heard = list(rows(batch.records))
        upto = next((at for at, row in enumerate(own) if row.order_at_ms > heard[-1].order_at_ms), len(own))
        more = step(state, in_turn(own[:upto], heard))
        own, count = own[upto:], count + len(heard) + upto
        made.events += more.events
        made.alerts += more.alerts
    return state, made, count


def in_turn(ship: list[Heard], boxes: list[Heard]) -> list[Heard]:
    """As they came."""
    return sorted([*ship, *boxes], key=lambda row: row.order_at_ms)


def judged(log: FileLogReader, node: ShipProcess) -> bool:
    """Whether the node's watch has judged all readings of this log."""
    at = next(iter(node.read.latest("consumers", "watch/containers")), None)
    return at is not None and Position.from_json(at["body"]["position"]) == log.position("containers")


def of_node(folder: Path, rests_s: float, name: str = "node") -> dict[str, object]:
    """Measure the memory and the CPU time of `landfall ship` in `folder`, started as an operator does; then kill it.

    The memory is measured when its watch has judged all that lies there and its snapshot is written, and as the most it ever was.
    The time from the start until the watch reported its first muster is measured too, with the CPU time until then.
    """
    node = ShipProcess(folder)
    allow_all(folder / "ship", node.token)
    command = [sys.executable, "-m", "landfall", "ship", "-c", str(node.config)]
    began_s = time.perf_counter()
    with (folder / "ship.log").open("ab") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            wait(node.ready, node.tail, JUDGED_WITHIN_S)
            mustered_s = round(time.perf_counter() - began_s, 1)
            mustered: dict[str, object] = {f"{name}_mustered_s": mustered_s, f"{name}_mustered_cpu_s": round(cpu_s(process.pid), 1)}
            log = FileLogReader(folder / "ship" / "log", BlockCodec())
            wait(lambda: judged(log, node), node.tail, JUDGED_WITHIN_S)
            log.close()
            time.sleep(rests_s)
            return mustered | {
                f"{name}_mib": memory_mib(process.pid),
                f"{name}_peak_mib": peak_mib(process.pid),
                f"{name}_cpu_s": round(cpu_s(process.pid), 1),
            }
        finally:
            process.kill()


def main() -> None:
    """Measure and print."""
    boxes = int(sys.argv[1]) if len(sys.argv) > 1 else 24_000
    hours = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    rests_s = float(sys.argv[3]) if len(sys.argv) > 3 else RESTS_S
    with tempfile.TemporaryDirectory() as name:
        clock = StillClock(START_AT_MS)
        home = Path(name) / "ship"
        home.mkdir()
        log = FileLog(home / "log", home / "marker", NODE, BlockCodec(), clock)
        listed = load_list(written(log, clock, boxes, hours))
        log.append([Append(f"aboard/{SHIP}", to_batch([Record(listed.topic, body=entry_body(listed))]))])
        began_s, cpu_s = time.perf_counter(), time.process_time()
        state, made, count = rebuilt(log, listed)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        log.close()
        began_s = time.process_time()
        kept = list(snapshot_of(state))
        written_s = time.process_time() - began_s
        began_s = time.process_time()
        from_snapshot(kept, SETTINGS)
        read_s = time.process_time() - began_s
        del state
        node = of_node(Path(name), rests_s) | of_node(Path(name), rests_s, "node_again")
        (home / "watch.snapshot").unlink()
        node |= of_node(Path(name), rests_s, "node_anew")
    figures: dict[str, Any] = {
        "boxes": boxes,
        "hours": hours,
        "readings": count,
        "rebuilt_cpu_s": round(cpu_s, 1),
        "rebuilt_s": round(wall_s, 1),
        "judged_per_cpu_s": round(count / cpu_s),
        "told": len(made.events) + len(made.alerts),
        "snapshot_mib": round(sum(map(len, kept)) / 2**20, 1),
        "snapshot_written_cpu_s": round(written_s, 2),
        "snapshot_read_cpu_s": round(read_s, 2),
    }
    figures |= node
    print(json.dumps({**figures, "machine": machine()}))
    write("watchday", goals(figures))


def goals(figures: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the table of goals."""
    memory_mib = [(figures[f"{name}_mib"], figures[f"{name}_peak_mib"]) for name in ("node", "node_again", "node_anew")]
    fresh_s, judged_per_s = figures["node_anew_mustered_s"], figures["judged_per_cpu_s"]
    return {
        "judged": Measured(f"{judged_per_s:,}/s", judged_per_s >= 20_000),
        "rebuilt": Measured(f"{figures['rebuilt_cpu_s']}; {figures['rebuilt_s']} s", figures["rebuilt_s"] <= 30),
        "restarted": Measured(
            f"{fresh_s}; {figures['node_anew_mustered_cpu_s']} s",
            fresh_s <= 30,
            f"with its snapshot {figures['node_again_mustered_cpu_s']} s of CPU",
        ),
        "memory": Measured("; ".join(f"{rest}, {peak}" for rest, peak in memory_mib), max(peak for _, peak in memory_mib) <= 300),
    }


if __name__ == "__main__":
    main()
