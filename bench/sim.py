"""How fast the simulator is: readings made as columns, written as payloads, and published until a real Mosquitto has acknowledged them.

`python -m bench.sim [boxes|demo|bench|stress]` makes the story's voyage with so many boxes, or a fleet of
docs/guide/simulator.md; at most the first 600,000 readings. Prints one JSON object.
`made` rates are readings per second of one core's processor time, so that what else runs
does not count, `world_s` is that of the world before them; `published_per_s` is by the wall, and `publisher_cpu_us` the processor time of
it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.results import Measured, write
from sim.fleets import PRESETS, PresetName, build_fleet
from sim.publish import Publisher
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES, IntakeDoor
from sim.tape import Tape, piece_ms
from sim.truth import Truth
from sim.world import build_world
from streams.model.clock import WallClock
from tests.support.ports import free_port

STARTED_WITHIN_S = 10.0
MADE_READINGS = 600_000
PUBLISHED_READINGS = 200_000


def made(sensors: Sensors) -> dict[str, float]:
    """The voyage made piece by piece until it ends or so many are made: as columns, and as columns and payloads."""
    times, step_ms = sensors.world.timeline, piece_ms(len(sensors.world.boxes))
    readings = payload_bytes = 0
    columns_s = written_s = 0.0
    for since in range(times.begins_at_ms, times.ends_at_ms, step_ms):
        began_s = time.process_time()
        piece = sensors.heard(since, since + step_ms)
        made_s = time.process_time()
        payload_bytes += sum(map(len, sensors.payloads(piece)))
        columns_s += made_s - began_s
        written_s += time.process_time() - began_s
        readings += len(piece)
        if readings >= MADE_READINGS:
            break
    return {
        "readings": readings,
        "made_per_s": round(readings / columns_s),
        "made_and_written_per_s": round(readings / written_s),
        "payload_bytes": round(payload_bytes / readings, 1),
    }


def published(sensors: Sensors, folder: Path, port: int) -> dict[str, float]:
    """The tape played flat out, truth included, until so many readings are acknowledged, or all of the voyage."""
    places = sensors.world.places.names
    publisher = Publisher(places, {place: IntakeDoor(at=place, port=port) for place in places}, WallClock())
    tape = Tape(sensors, Truth(folder, sensors), publisher, BEGINS_AT_MS)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    ends_at_ms = sensors.world.timeline.ends_at_ms
    while tape.acknowledged < PUBLISHED_READINGS:
        publisher.turn(0.02)
        played = tape.play(ends_at_ms)
        if tape.acknowledged_before_ms(ends_at_ms) > ends_at_ms and played:
            break  # the voyage is over
    seconds, cpu = time.perf_counter() - began_s, time.process_time() - cpu_s
    publisher.close()
    return {"published_per_s": round(tape.acknowledged / seconds), "publisher_cpu_us": round(cpu / tape.acknowledged * 1e6, 1)}


def answered(port: int) -> None:
    """Returns once something listens on `port`."""
    deadline_s = time.monotonic() + STARTED_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


def main() -> None:
    """Measure and print."""
    named = sys.argv[1] if len(sys.argv) > 1 else "2000"
    began_s = time.process_time()
    if named.isdigit():
        sensors = Sensors(build_world(1, int(named), BEGINS_AT_MS), CADENCES["demo"])
    else:
        preset = PRESETS[msgspec.convert(named, PresetName)]
        sensors = Sensors(build_fleet(1, preset, BEGINS_AT_MS), CADENCES[preset.cadence])
    world_s = round(time.process_time() - began_s, 2)
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\n"
        )
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin") or "mosquitto"
        with subprocess.Popen([program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
            try:
                answered(port)
                figures = {"boxes": len(sensors.world.boxes), "world_s": world_s, **made(sensors), **published(sensors, folder, port)}
            finally:
                broker.kill()
    print(
        json.dumps({"machine": f"{platform.machine()}, {os.cpu_count()} cores", "load": round(os.getloadavg()[0], 1), **figures}, indent=1)
    )
    quick = figures["made_per_s"] >= 500_000 and figures["published_per_s"] >= 50_000
    figure = f"{figures['made_per_s']:,}; {figures['published_per_s']:,}/s"
    write("sim", dict.fromkeys(("story", "stress"), Measured(figure, quick, f"{figures['publisher_cpu_us']} µs of CPU a message")))


if __name__ == "__main__":
    main()
