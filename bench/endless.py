"""An honest client beside a hostile one of the same endpoint, whose every message is on a topic of its own: how long it waits.

`python -m bench.endless [way] [seconds]` starts a receiving side of `bench.mqtt` (`endpoint`, unless another is named) on one core, three
times. A process of its own publishes readings at QoS 1 as quickly as they are acknowledged, WINDOW at most on their way: on CONTAINERS
topics, or each on another; or nobody does. Beside it one client of another address publishes a reading, waits for its PUBACK, rests
REST_S, and begins anew. Prints one JSON object: how many milliseconds it waited, how many of the node's processor time went by meanwhile
(`cpu`), which another load on the machine changes least, and how many readings a second of the other were acknowledged.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import machine
from bench.mqtt import percentiles, way_in
from bench.mqttload import CHUNK, CONTAINERS, KEEP_ALIVE_S, WINDOW, connect
from bench.proc import cpu_clock_s
from intake.packets import packet

HOSTILE = "127.0.0.2"
REST_S = 0.02
STARTS_WITHIN_S = 2.0
TOPICS_MAX = 10_000_000
TEN_DAYS_MS = 10 * 86_400_000
SIDES = {"nobody": 0, "few_topics": CONTAINERS, "endless_topics": TOPICS_MAX}


def reading(number: int, topics: int, since_ms: int) -> bytes:
    """The PUBLISH of one reading, on one of so many topics by turns."""
    topic = f"landfall/containers/LFLU{number % topics:07}/reading".encode()
    payload = f'{{"device":"TRK-1","at":{since_ms + number},"return_c":4.{number % 10}}}'.encode()
    return packet(0x32, len(topic).to_bytes(2, "big") + topic + (number % 65_535 + 1).to_bytes(2, "big") + payload)


def flood(port: int, topics: int, seconds: float) -> int:
    """Publish for so long; how many were acknowledged."""
    since_ms, until = time.time_ns() // 1_000_000 - TEN_DAYS_MS, time.perf_counter() + seconds
    sent = answered_bytes = 0
    with socket.create_connection(("127.0.0.1", port), source_address=(HOSTILE, 0)) as client:
        connect(client, "flood", KEEP_ALIVE_S)
        while time.perf_counter() < until:
            if sent - answered_bytes // 4 + CHUNK <= WINDOW:
                client.sendall(b"".join(reading(number, topics, since_ms) for number in range(sent, sent + CHUNK)))
                sent += CHUNK
            else:
                answered_bytes += len(client.recv(65_536))
    return answered_bytes // 4


def honest(port: int, process: int, seconds: float) -> tuple[list[float], list[float]]:
    """The milliseconds that each of its readings waited for its acknowledgement, and those of the node's processor time meanwhile."""
    waited: list[float] = []
    worked: list[float] = []
    since_ms = time.time_ns() // 1_000_000 - TEN_DAYS_MS
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connect(client, "honest", KEEP_ALIVE_S)
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            before_s = cpu_clock_s(process)
            client.sendall(reading(len(waited), 1, since_ms))
            client.recv(4)
            worked.append((cpu_clock_s(process) - before_s) * 1_000)
            waited.append((time.perf_counter() - began) * 1_000)
            time.sleep(REST_S)
    return waited, worked


def beside(way: str, folder: Path, topics: int, seconds: float) -> dict[str, object]:
    """What the honest one waits, beside a flood on so many topics; 0: beside nobody."""
    with way_in(way, folder / "node") as one:
        words = [sys.executable, "-m", "bench.endless", "flood", str(one.port), str(topics), str(seconds + STARTS_WITHIN_S)]
        with subprocess.Popen(words if topics else ["echo", "0"], stdout=subprocess.PIPE, text=True) as other:
            time.sleep(STARTS_WITHIN_S)
            waited, worked = honest(one.port, one.processes[0], seconds)
            others = int(other.communicate()[0])
    figures: dict[str, object] = {**percentiles(waited), **{f"cpu_{name}": value for name, value in percentiles(worked).items()}}
    return figures | {"asked": len(waited), "others_s": round(others / (seconds + STARTS_WITHIN_S))}


def main(way: str = "endpoint", seconds: str = "20") -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    results: dict[str, object] = {"bench": "endless", "way": way, **machine()}
    for side, topics in SIDES.items():
        with tempfile.TemporaryDirectory() as name:
            results[side] = beside(way, Path(name), topics, float(seconds))
    print(json.dumps({**results, "load_at_end": machine()["load_1_min"]}, indent=1))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["flood", port, topics, seconds]:
            print(flood(int(port), int(topics), float(seconds)))
        case arguments:
            main(*arguments)
