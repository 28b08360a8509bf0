"""Measure how long an honest client waits while a hostile client uses the same endpoint.

`python -m bench.endless [way] [seconds] [side …]` starts a receiving side of `bench.mqtt` (`endpoint`, unless another is named) on one
core, once for each side. A process of its own publishes at QoS 1 as quickly as it is acknowledged, WINDOW at most on their way: readings on
CONTAINERS topics, or each on another; messages on a topic that it may not publish to, or that are no JSON; or the shortest there are at
QoS 0, as quickly as the socket takes them. Or it comes again and again, breaking off within a packet (`half_packets`); or under one and
the same client identifier (`reused_ids`); or over CROWD connections publishes and reads nothing (`no_reads`); or shows wrong passwords of
the login that the honest one has, over two connections from each of ADDRESSES addresses (`wrong_passwords`). Or nobody does. Concurrently,
one client of another address, a gateway with a login, publishes a reading, waits for its PUBACK, rests REST_S, and begins again. The
client connects again every COMES_EVERY readings. Prints one JSON object: how many milliseconds it waited, how much of the node's CPU
time passed meanwhile (`cpu`), which another load on the machine changes least, how long its first login took (`first_login_ms`) and those
after it (`again`), and how many messages a second of the other were taken, or how often it came, or was refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.mqtt import GATEWAY, percentiles, way_in
from bench.mqttload import CHUNK, CONTAINERS, KEEP_ALIVE_S, WINDOW, connect
from bench.proc import cpu_clock_s
from bench.results import Measured, write
from intake.mqtt.packets import packet

HOSTILE = "127.0.0.2"
REST_S = 0.02
STARTS_WITHIN_S = 2.0
TOPICS_MAX = 10_000_000
TEN_DAYS_MS = 10 * 86_400_000
NOBODY = "nobody"
SHORTEST = packet(0x30, b"\0\1a")
CROWD = 200
ADDRESSES = 250
COMES_EVERY = 10


def reading(number: int, topics: int, since_ms: int) -> bytes:
    """The PUBLISH of one reading, on one of so many topics by turns."""
    topic = f"landfall/containers/LFLU{number % topics:07}/reading".encode()
    payload = f'{{"device":"TRK-1","at":{since_ms + number},"return_c":4.{number % 10}}}'.encode()
    return packet(0x32, len(topic).to_bytes(2, "big") + topic + (number % 65_535 + 1).to_bytes(2, "big") + payload)


def refused(number: int, topic: bytes, payload: bytes) -> bytes:
    """A PUBLISH that the node does not take."""
    return packet(0x32, len(topic).to_bytes(2) + topic + (number % 65_535 + 1).to_bytes(2) + payload)


SIDES: dict[str, Callable[[int, int], bytes]] = {
    "few_topics": lambda number, since_ms: reading(number, CONTAINERS, since_ms),
    "endless_topics": lambda number, since_ms: reading(number, TOPICS_MAX, since_ms),
    "foreign": lambda number, _: refused(number, b"elsewhere", b'{"device":"TRK-1","return_c":4.%d}' % number),
    "malformed": lambda number, _: refused(number, b"landfall/containers/LFLU0000000/reading", b"%d is no object" % number),
    "shortest": lambda *_: SHORTEST,
}
"""What the other publishes: its message of this number, readings since then (UTC ms)."""


def flood(port: int, side: str, seconds: float) -> int:
    """Publish for so long; how many were acknowledged, or at QoS 0 sent."""
    since_ms, until, message = time.time_ns() // 1_000_000 - TEN_DAYS_MS, time.perf_counter() + seconds, SIDES[side]
    sent = answered_bytes = 0
    with socket.create_connection(("127.0.0.1", port), source_address=(HOSTILE, 0)) as client:
        connect(client, "flood", KEEP_ALIVE_S)
        while time.perf_counter() < until:
            if side == "shortest":
                client.sendall(SHORTEST * WINDOW)
                answered_bytes += 4 * WINDOW
            elif sent - answered_bytes // 4 + CHUNK <= WINDOW:
                client.sendall(b"".join(message(number, since_ms) for number in range(sent, sent + CHUNK)))
                sent += CHUNK
            else:
                answered_bytes += len(client.recv(65_536))
    return answered_bytes // 4


def half_packets(port: int, seconds: float) -> int:
    """Come, say half of a reading, and leave; for so long. How often."""
    return comes_again(port, seconds, lambda came: f"half-{came}", reading(0, 1, 0)[:-20], kept=0)


def reused_ids(port: int, seconds: float) -> int:
    """Come under an identifier that is in use, and stay until the next has taken its place; for so long. How often."""
    return comes_again(port, seconds, lambda came: "the-same", b"", kept=8)


def comes_again(port: int, seconds: float, name: Callable[[int], str], says: bytes, kept: int) -> int:
    """Connect, log in and say that as often as it goes, the last `kept` connections being left open; how often."""
    came, until, there = 0, time.perf_counter() + seconds, deque[socket.socket]()
    while time.perf_counter() < until:
        there.append(socket.create_connection(("127.0.0.1", port), source_address=(HOSTILE, 0)))
        connect(there[-1], name(came), KEEP_ALIVE_S)
        there[-1].sendall(says)
        came += 1
        while len(there) > kept:
            there.popleft().close()
    return came


def no_reads(port: int, seconds: float) -> int:
    """Publish over CROWD connections as long as their sockets take it, and read no answer; for so long. How many messages went."""
    since_ms, until, sent = time.time_ns() // 1_000_000 - TEN_DAYS_MS, time.perf_counter() + seconds, 0
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(HOSTILE, 0))) for _ in range(CROWD)]
        for number, client in enumerate(crowd):
            connect(client, f"deaf-{number}", KEEP_ALIVE_S)
            client.setblocking(False)
        left = [b""] * CROWD
        while time.perf_counter() < until:
            for number, client in enumerate(crowd):
                if not left[number]:
                    left[number], sent = reading(sent, CONTAINERS, since_ms), sent + 1
                with suppress(BlockingIOError, ConnectionError):
                    left[number] = left[number][client.send(left[number]) :]
    return sent


def wrong_passwords(port: int, seconds: float) -> int:
    """Show wrong passwords of the honest one's login from many addresses, each as soon as the one before is answered; how often refused."""
    refusals = 0

    async def visitor(host: str) -> None:
        nonlocal refusals
        while True:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
                with closing(writer):
                    writer.write(login_packet("hostile", GATEWAY[0], "wrong"))
                    await reader.readexactly(4)
                    refusals += 1

    async def all_of_them() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for number in range(2 * ADDRESSES):
                    group.create_task(visitor(f"127.0.1.{number % ADDRESSES + 1}"))

    asyncio.run(all_of_them())
    return refusals


def login_packet(client_id: str, username: str, password: str) -> bytes:
    """A CONNECT of MQTT 3.1.1 with a login, and a clean session."""
    texts = b"".join(len(text).to_bytes(2) + text.encode() for text in (client_id, username, password))
    return packet(0x10, b"\0\4MQTT\4\xc2" + KEEP_ALIVE_S.to_bytes(2) + texts)


VISITORS: dict[str, Callable[[int, float], int]] = {
    "half_packets": half_packets,
    "reused_ids": reused_ids,
    "no_reads": no_reads,
    "wrong_passwords": wrong_passwords,
}


@dataclass
class Honest:
    """What one client waited, in milliseconds: at each login; for each reading's acknowledgement, and of the node's processor time
    meanwhile."""

    logins: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def come(self, port: int) -> socket.socket:
        """Log in, as often as it takes."""
        began = time.perf_counter()
        while True:
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(login_packet("honest", *GATEWAY))
            if client.recv(4) == b"\x20\2\0\0":
                self.logins.append((time.perf_counter() - began) * 1_000)
                return client
            client.close()

    def publish(self, port: int, process: int, seconds: float) -> None:
        """For so long."""
        until, since_ms = time.perf_counter() + seconds, time.time_ns() // 1_000_000 - TEN_DAYS_MS
        while time.perf_counter() < until:
            with self.come(port) as client:
                for _ in range(COMES_EVERY):
                    before_s, began = cpu_clock_s(process), time.perf_counter()
                    client.sendall(reading(len(self.waited), 1, since_ms))
                    client.recv(4)
                    self.worked.append((cpu_clock_s(process) - before_s) * 1_000)
                    self.waited.append((time.perf_counter() - began) * 1_000)
                    time.sleep(REST_S)

    def figures(self) -> dict[str, object]:
        """All of it."""
        again = {f"again_{name}": value for name, value in percentiles(self.logins[1:]).items()}
        cpu = {f"cpu_{name}": value for name, value in percentiles(self.worked).items()}
        return {**percentiles(self.waited), **cpu, "asked": len(self.waited), "first_login_ms": round(self.logins[0], 1), **again}


def measure_waits(way: str, folder: Path, side: str, seconds: float) -> dict[str, object]:
    """Return what the honest client waits, concurrently with such a flood or with nobody."""
    with way_in(way, folder / "node") as server:
        words = [sys.executable, "-m", "bench.endless", "flood", str(server.port), side, str(seconds + STARTS_WITHIN_S)]
        with subprocess.Popen(words if side != NOBODY else ["echo", "0"], stdout=subprocess.PIPE, text=True) as flooding:
            time.sleep(STARTS_WITHIN_S)
            client = Honest()
            client.publish(server.port, server.processes[0], seconds)
            others = int(flooding.communicate()[0])
    return client.figures() | {"others_s": round(others / (seconds + STARTS_WITHIN_S))}


def main(way: str = "endpoint", seconds: str = "20", *sides: str) -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    results: dict[str, Any] = {"bench": "endless", "way": way, **machine()}
    asked = sides or (NOBODY, *SIDES, *VISITORS)
    for side in asked:
        with tempfile.TemporaryDirectory() as name:
            results[side] = measure_waits(way, Path(name), side, float(seconds))
    print(json.dumps({**results, "load_at_end": machine()["load_1_min"]}, indent=1))
    p99_ms = {side: results[side]["p99_ms"] for side in asked}
    figure = "; ".join(f"{side.replace('_', ' ')} {waited}" for side, waited in p99_ms.items()) + " ms"
    write("endless", {"waits": Measured(figure, max(p99_ms.values()) <= 100)})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["flood", port, side, seconds] if side in VISITORS:
            print(VISITORS[side](int(port), float(seconds)))
        case ["flood", port, side, seconds]:
            print(flood(int(port), side, float(seconds)))
        case arguments:
            main(*arguments)
