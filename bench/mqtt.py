"""Measure MQTT to durable readings, through the node's own endpoint and through a broker, in one run.

The results are compared with those of Mosquitto and NATS alone.

`python -m bench.mqtt [readings]` starts each receiving side as processes of their own on one core (the load comes from another), publishes
14-signal readings at QoS 1 from raw sockets, one and a hundred, and counts until all are decoded, checked and on disk. It compares this
with Mosquitto and a subscriber that only acknowledges, where nothing is on disk or read by anybody. It also compares it with NATS with MQTT
that syncs each message. Then it publishes 10,000 readings a second for PACED_S seconds, and measures how long each waited for its PUBACK.
It measures the endpoint with no idle connections and with IDLE idle connections. It compares two nodes that answer from both disks with one
node alone (`landfall ship`, whole, the second node on the core of the load). Prints one JSON object. `cpu_us` is the receiving side's own
CPU time a reading, which another load on the machine changes least.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.mqttload import PACED_PER_S, PACED_S, connect, messages, paced, publish
from bench.mqttpair import local_and_two_nodes, pinned
from bench.nats import nats_client, nats_server
from bench.proc import cpu_s, memory_mib
from bench.readings import START_AT_MS
from bench.results import Measured, write
from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from intake.intake_service import Intake
from intake.mqtt.packets import packet
from intake.settings import BrokerSettings, EndpointSettings, IntakeSettings
from intake.topic_routes import SUBSCRIPTIONS
from landfall.access.credentials import Credentials
from landfall.storage.file_log import FileLog
from landfall.watch.watch_service import Watching
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.model.clock import FleetClock, FleetTime
from streams.model.metrics import Metrics
from tests.support.credentials import allow_gateway
from tests.support.ports import free_port

PRINT_EVERY_S = 0.02
STARTED_WITHIN_S = 30.0
YEAR_MS = 365 * 86_400_000
SHIP = "9321483"
IDLE, IDLE_KEEP_ALIVE_S = 5_000, 3_600
SLOW = {"broker": 4, "watched": 4, "mosquitto": 2, "nats": 40}
"""These ways get so many times fewer readings, so that each takes seconds."""
GATEWAY = ("gateway", "silver")
"""A login of the endpoint; who has none may publish too."""


class Receiver:
    """`serve`, or another word of this module, in a process of its own on core 0, and how many readings it says it has."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "bench.mqtt", *words], stdout=subprocess.PIPE, text=True)
        self.durable = -1
        threading.Thread(target=self._listen, daemon=True).start()
        self.wait(0)

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            self.durable = int(line)

    def wait(self, readings: int) -> None:
        """Returns once so many readings are durable."""
        while self.durable < readings:
            if self.process.poll() is not None:
                raise ConnectionError("the receiving process has ended")
            time.sleep(0.005)


@contextmanager
def receiver(*words: str) -> Iterator[Receiver]:
    """A receiver that ends with the block."""
    one = Receiver(*words)
    try:
        yield one
    finally:
        one.process.terminate()
        one.process.wait()


def mosquitto_binary() -> str:
    """Where it is. Raises FileNotFoundError."""
    path = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        raise FileNotFoundError("mosquitto is not installed: apt-get install mosquitto")
    return path


@contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[int]:
    """A Mosquitto with its best settings for this, on core 0; its process id."""
    folder.mkdir()
    config = folder / "mosquitto.conf"
    keeps = "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\n"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{keeps}")
    process = subprocess.Popen([mosquitto_binary(), "-c", str(config)], stderr=subprocess.DEVNULL)
    pinned(process.pid, 0)
    deadline = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.01)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def print_report(reason: str, outcome: str, **details: Any) -> None:
    """Print what the watch reports to `exceptions`."""
    print(reason, outcome, details, file=sys.stderr, flush=True)


async def serve(way: str, folder: Path, port: int) -> None:
    """The receiving side: pipeline, group commit and file log behind the endpoint or a broker's subscription.

    It reports how many readings are durable.

    `watched`: behind the endpoint, with the watch of a ship over all of it; then what counts is judged as well.
    """
    clock = FleetClock(FleetTime(0, START_AT_MS + YEAR_MS // 4, 0.0))
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), clock)
    metrics = Metrics("ship")
    allow_gateway(folder, *GATEWAY, *SUBSCRIPTIONS)
    credentials = Credentials(folder)
    credentials.look()
    here = EndpointSettings(port=port, anonymous_publish=("landfall/#",), connections_per_address_max=2 * IDLE)
    endpoint = here if way != "broker" else None
    broker = BrokerSettings(port=port, client_id="ship-a") if way == "broker" else None
    intake = Intake(IntakeSettings(endpoint=endpoint, broker=broker), clock, metrics)
    intake.credentials = credentials
    committer = GroupCommitter(log)
    async with asyncio.TaskGroup() as running:
        running.create_task(intake.run(committer, log, "ship-a"))
        if way == "watched":
            settings = WatchSettings(WatchPlace("ship-a", ship=SHIP))
            watching = Watching(settings, folder, clock, metrics, print_report)
            watching.gives_way = intake.is_at_work
            running.create_task(watching.run(log, committer))
        while True:
            if intake.port or intake.broker_connected:
                print(metrics.body(0, 0)["counts"].get("watch_readings" if way == "watched" else "intake_accepted", 0), flush=True)
            await asyncio.sleep(PRINT_EVERY_S)


def subscribe(port: int) -> None:
    """Run the quickest subscriber at a broker: it acknowledges each message, looks at none, and reports how many messages came."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        connect(client, "quickest", IDLE_KEEP_ALIVE_S)
        client.sendall(packet(0x82, b"\0\1\0\x0alandfall/#\1"))
        heard, count, printed_s, subscribed = b"", 0, 0.0, False
        while data := client.recv(1 << 18):
            heard += data
            at, answers = 0, bytearray()
            while (end := packet_end(heard, at)) is not None:
                kind, body, until = heard[at], *end
                if kind >> 4 == 3:
                    id_at = body + 2 + int.from_bytes(heard[body : body + 2])
                    answers += b"\x40\2" + heard[id_at : id_at + 2]
                    count += 1
                subscribed, at = True, until
            heard = heard[at:]
            client.sendall(answers)
            if subscribed and (time.monotonic() - printed_s > PRINT_EVERY_S or not heard):
                print(count, flush=True)
                printed_s = time.monotonic()


def packet_end(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the body of the MQTT packet at `at` begins and ends; None when it is not all here."""
    length = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        length |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return (place + 1, place + 1 + length) if place + 1 + length <= len(data) else None
    return None


@dataclass(frozen=True, slots=True)
class Way:
    """A receiving side at `port`: its processes, and a call that returns once it has so many readings."""

    port: int
    processes: list[int]
    wait: Callable[[int], None]


@contextmanager
def way_in(way: str, folder: Path) -> Iterator[Way]:
    """One of `endpoint`, `watched`, `broker`, `mosquitto`, `nats`, in `folder`, all of it on one core; ends with the block."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        port, processes = free_port(), list[int]()
        if way == "nats":
            door, jetstream = free_port(), f'jetstream {{ store_dir: "{folder}", sync_interval: always }}'
            settings = f'listen: "127.0.0.1:{door}"\nserver_name: intake\n{jetstream}\nmqtt {{ listen: "127.0.0.1:{port}" }}\n'
            server = stack.enter_context(nats_server(folder, settings))
            nats_client(door).close()
            pinned(server.pid, 0)
            yield Way(port, [server.pid], lambda readings: None)
            return
        if way in ("broker", "mosquitto"):
            processes.append(stack.enter_context(mosquitto(folder / "broker", port)))
        words = ("subscribe", str(port)) if way == "mosquitto" else ("serve", way, str(folder / "node"), str(port))
        one = stack.enter_context(receiver(*words))
        yield Way(port, [*processes, one.process.pid], one.wait)


def measured(way: str, folder: Path, packets: Sequence[bytes]) -> dict[str, object]:
    """Readings a second through one way, from one publisher and from a hundred, and how long they wait at PACED_PER_S a second."""
    found: dict[str, object] = {}
    some = packets[: len(packets) // SLOW.get(way, 1)]
    for publishers in (1, 100):
        with way_in(way, folder / f"{way}-{publishers}") as one:
            used, began = sum(map(cpu_s, one.processes)), time.perf_counter()
            publish(one.port, some, publishers)
            one.wait(len(some))
            took, used = time.perf_counter() - began, sum(map(cpu_s, one.processes)) - used
        rate = {"readings_s": round(len(some) / took), "cpu_us": round(used / len(some) * 1e6, 2)}
        with way_in(way, folder / f"{way}-paced-{publishers}") as one:
            rate |= percentiles(paced(one.port, packets[: min(len(some), PACED_PER_S * PACED_S)], publishers))
        found[f"{publishers}_publishers"] = rate
    return found


def percentiles(waited: Sequence[float]) -> dict[str, float]:
    """Of how many milliseconds each waited; nothing where none was answered."""
    ordered = sorted(waited)
    if not ordered:
        return {}
    picked = {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100], "max": ordered[-1]}
    return {f"{name}_ms": round(value, 1) for name, value in picked.items()}


def measure_with_idle(folder: Path, packets: Sequence[bytes], idle: int) -> dict[str, object]:
    """Measure what so many connections that send nothing take at the endpoint, and what they change."""
    with way_in("endpoint", folder / f"idle-{idle}") as server, ExitStack() as stack:
        before = memory_mib(server.processes[0])
        for number in range(idle):
            connect(stack.enter_context(socket.create_connection(("127.0.0.1", server.port))), f"idle-{number}", IDLE_KEEP_ALIVE_S)
        memory = memory_mib(server.processes[0]) - before
        used, began = cpu_s(server.processes[0]), time.perf_counter()
        publish(server.port, packets, 1)
        server.wait(len(packets))
        took, used = time.perf_counter() - began, cpu_s(server.processes[0]) - used
        waits = percentiles(paced(server.port, packets[: PACED_PER_S * PACED_S]))
    return {"memory_mib": memory, "readings_s": round(len(packets) / took), "cpu_us": round(used / len(packets) * 1e6, 2), **waits}


def main(readings: int = 400_000) -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    packets = messages(readings)
    results: dict[str, Any] = {"readings": readings, "bytes_per_message": round(statistics.mean(map(len, packets)), 1)}
    with tempfile.TemporaryDirectory() as name:
        for way in ("endpoint", "broker", "mosquitto", "nats", "watched"):
            results[way] = measured(way, Path(name), packets)
            print(way, results[way], file=sys.stderr, flush=True)
        for idle in (0, IDLE):
            results[f"endpoint_beside_{idle}_idle"] = measure_with_idle(Path(name), packets, idle)
        results["nodes"] = local_and_two_nodes(Path(name), packets[: readings // 4])
    print(json.dumps(results, indent=1))
    write("mqtt", goals(results))


def goals(results: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the table of goals."""

    def of(way: str, figure: str) -> list[float]:
        return [results[way][f"{publishers}_publishers"][figure] for publishers in (1, 100)]

    def rates(way: str, least: int, peer: str | None = None) -> Measured:
        found = of(way, "readings_s")
        return Measured("; ".join(f"{one:,}" for one in found) + "/s", min(found) >= least, peer)

    def waits(way: str) -> Measured:
        found = of(way, "p99_ms")
        return Measured("; ".join(map(str, found)) + " ms", max(found) <= 100)

    quiet, idle = results["endpoint_beside_0_idle"], results[f"endpoint_beside_{IDLE}_idle"]
    more = round(idle["cpu_us"] / quiet["cpu_us"] * 100 - 100)
    quickest = "a subscriber that only acknowledges {:,}; {:,}/s".format(*of("mosquitto", "readings_s"))
    return {
        "endpoint": rates("endpoint", 50_000, f"Mosquitto and {quickest}"),
        "endpoint_waits": waits("endpoint"),
        "watched_waits": waits("watched"),
        "watched": rates("watched", 20_000),
        "broker": rates("broker", 50_000, f"Mosquitto with {quickest}"),
        "two_nodes": Measured(str(results["nodes"]["ratio"]), results["nodes"]["ratio"] >= 0.5),
        "idle": Measured(f"{idle['memory_mib']} MiB; {more} % more", more <= 0),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", way, folder, port]:
            os.sched_setaffinity(0, {0})
            Path(folder).mkdir(parents=True)
            asyncio.run(serve(way, Path(folder), int(port)))
        case ["subscribe", port]:
            os.sched_setaffinity(0, {0})
            subscribe(int(port))
        case arguments:
            main(*map(int, arguments))
