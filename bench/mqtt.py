"""MQTT to durable readings: through the node's own endpoint, and through Mosquitto with a paho subscriber, in one run.

`python -m bench.mqtt [readings]` starts each receiving side as processes of their own on one core (the load comes from another), publishes
14-signal readings at QoS 1 from raw sockets, and counts until all are decoded, checked and on disk. Then 10,000 readings a second for
PACED_S seconds, and how long each waited for its PUBACK. Prints one JSON object. `cpu_us` is the receiving side's own CPU time a reading,
which another load on the machine changes least.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.proc import cpu_s
from bench.readings import START_AT_MS, fleet_readings
from cargo.outcome import Place
from cargo.state import WatchSettings
from intake.packets import packet
from intake.serving import Intake
from intake.settings import BrokerSettings, EndpointSettings, IntakeSettings
from intake.watching import Watching
from streams.clock import FleetClock, FleetTime
from streams.codec import BlockCodec
from streams.committing import GroupCommitter
from streams.logs.files import FileLog
from streams.metrics import Metrics

CONTAINERS = 2_000
WINDOW = 4_000
CHUNK = 100
PACED_PER_S, PACED_S, PACE_MS = 10_000, 10, 5
TELL_EVERY_S = 0.02
STARTED_WITHIN_S = 30.0
YEAR_MS = 365 * 86_400_000
SHIP = "9321483"
CONNECT = b"\0\4MQTT\4\2\0\x3c"


def messages(readings: int) -> list[bytes]:
    """That many PUBLISH packets, one reading each, QoS 1."""
    hours = -(-readings // CONTAINERS)
    made = []
    for n, row in enumerate(fleet_readings(CONTAINERS, hours).slice(0, readings).to_pylist()):
        topic = f"landfall/containers/{row.pop('topic')}/reading".encode()
        fields = {"device": row.pop("device"), "at": row.pop("device_at_ms")}
        payload = orjson.dumps(fields | {name: value for name, value in row.items() if value is not None})
        made.append(packet(0x32, len(topic).to_bytes(2, "big") + topic + (n % 65_535 + 1).to_bytes(2, "big") + payload))
    return made


@dataclass
class Sender:
    """One connection that keeps at most `window` messages unacknowledged."""

    port: int
    name: str
    waiting: Sequence[bytes]
    window: int
    sent: int = 0
    acknowledged: int = 0
    out: bytes = b""
    answered: bytes = b""
    socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(packet(0x10, CONNECT + len(self.name).to_bytes(2, "big") + self.name.encode()))
        if (answer := self.socket.recv(4)) != b"\x20\2\0\0":
            raise ConnectionError(f"refused: {answer!r}")
        self.socket.setblocking(False)

    def turn(self) -> None:
        """Send and receive what goes without waiting."""
        try:
            self.answered += self.socket.recv(65_536)
            self.acknowledged += len(self.answered) // 4
            self.answered = self.answered[len(self.answered) // 4 * 4 :]
        except BlockingIOError:
            pass
        if not self.out and self.sent < len(self.waiting) and self.sent - self.acknowledged + CHUNK <= self.window:
            chunk = self.waiting[self.sent : self.sent + CHUNK]
            self.out, self.sent = b"".join(chunk), self.sent + len(chunk)
        if self.out:
            with suppress(BlockingIOError):
                self.out = self.out[self.socket.send(self.out) :]


def publish(port: int, packets: Sequence[bytes], connections: int) -> None:
    """Publish all of it over so many connections; returns once everything is acknowledged."""
    share = -(-len(packets) // connections)
    senders = [
        Sender(port, f"load-{n}", packets[n * share : (n + 1) * share], max(CHUNK, WINDOW // connections)) for n in range(connections)
    ]
    with selectors.DefaultSelector() as selector:
        for sender in senders:
            selector.register(sender.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, sender)
        while any(sender.acknowledged < len(sender.waiting) for sender in senders):
            moved = sum(sender.acknowledged + sender.sent for sender in senders)
            for key, _ in selector.select(0.01):
                key.data.turn()
            if moved == sum(sender.acknowledged + sender.sent for sender in senders):
                time.sleep(0.0005)
    for sender in senders:
        sender.socket.close()


def paced(port: int, packets: Sequence[bytes]) -> list[float]:
    """Publish PACED_PER_S a second; the milliseconds each waited for its acknowledgement, in order."""
    sender = Sender(port, "paced", [], 0)
    step = PACED_PER_S * PACE_MS // 1_000
    due: list[float] = []
    waited: list[float] = []
    began = time.perf_counter()
    at = 0
    while len(waited) < len(packets):
        now = time.perf_counter()
        if at < len(packets) and now >= began + at / PACED_PER_S:
            sender.out += b"".join(packets[at : at + step])
            due += [began + at / PACED_PER_S] * len(packets[at : at + step])
            at += step
        sender.turn()
        now = time.perf_counter()
        waited += [(now - sent) * 1_000 for sent in due[len(waited) : sender.acknowledged]]
        time.sleep(0.0002)
    sender.socket.close()
    return waited


class Receiver:
    """`serve` in a process of its own on core 0, and how many readings it says are durable."""

    def __init__(self, way: str, folder: Path, port: int) -> None:
        command = [sys.executable, "-m", "bench.mqtt", "serve", way, str(folder), str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
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

    def cpu_s(self) -> float:
        """The CPU time it has used."""
        return cpu_s(self.process.pid)


@contextmanager
def receiver(way: str, folder: Path, port: int) -> Iterator[Receiver]:
    """A receiver that ends with the block."""
    one = Receiver(way, folder, port)
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
    os.sched_setaffinity(process.pid, {0})
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


async def serve(way: str, folder: Path, port: int) -> None:
    """The receiving side: pipeline, group commit and file log behind the endpoint or a broker's subscription. Tells what is durable.

    `watched`: behind the endpoint, with the watch of a ship over all of it; then what counts is judged as well.
    """
    clock = FleetClock(FleetTime(0, START_AT_MS + YEAR_MS // 4, 0.0))
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), clock)
    metrics = Metrics("ship")
    endpoint = EndpointSettings(port=port, anonymous_publish=("landfall/#",)) if way != "broker" else None
    broker = BrokerSettings(port=port, client_id="ship-a") if way == "broker" else None
    intake = Intake(IntakeSettings(endpoint=endpoint, broker=broker), clock, metrics)
    committer = GroupCommitter(log)
    async with asyncio.TaskGroup() as running:
        running.create_task(intake.run(committer, log, "ship-a"))
        if way == "watched":
            settings = WatchSettings(Place("ship-a", ship=SHIP))
            running.create_task(Watching(settings, folder, clock, metrics, print).run(log, committer))
        while True:
            if intake.port or intake.broker_connected:
                print(metrics.body(0, 0)["counts"].get("watch_readings" if way == "watched" else "intake_accepted", 0), flush=True)
            await asyncio.sleep(TELL_EVERY_S)


def measured(way: str, folder: Path, packets: Sequence[bytes], connections: int) -> dict[str, float]:
    """Readings a second through one way, all of its processes on one core."""
    port = free_port()
    if way != "broker":
        with receiver(way, folder / f"{way}-{connections}", port) as one:
            return _timed(one, None, port, packets, connections)
    with mosquitto(folder / f"broker-{connections}", port) as pid, receiver(way, folder / f"{way}-log-{connections}", port) as one:
        return _timed(one, pid, port, packets, connections)


def _timed(one: Receiver, broker_pid: int | None, port: int, packets: Sequence[bytes], connections: int) -> dict[str, float]:
    used = one.cpu_s() + (cpu_s(broker_pid) if broker_pid else 0)
    began = time.perf_counter()
    publish(port, packets, connections)
    one.wait(len(packets))
    took = time.perf_counter() - began
    used = one.cpu_s() + (cpu_s(broker_pid) if broker_pid else 0) - used
    return {"readings_s": round(len(packets) / took), "cpu_us": round(used / len(packets) * 1e6, 2)}


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(readings: int = 400_000) -> None:
    """Measures and prints."""
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    packets = messages(readings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results: dict[str, object] = {"readings": readings, "bytes_per_message": round(statistics.mean(map(len, packets)), 1)}
        endpoint = measured("endpoint", folder, packets, 1)
        broker = measured("broker", folder, packets[: readings // 4], 1)
        results |= {"endpoint": endpoint, "mosquitto_and_paho": broker}
        results["endpoint_100_publishers"] = measured("endpoint", folder, packets, 100)
        results["endpoint_every_rule_judged"] = measured("watched", folder, packets[: readings // 4], 1)
        results["ratio"] = round(endpoint["readings_s"] / broker["readings_s"], 2)
        results["ratio_cpu"] = round(broker["cpu_us"] / endpoint["cpu_us"], 2)
        port = free_port()
        with receiver("endpoint", folder / "paced", port):
            waited = sorted(paced(port, packets[: PACED_PER_S * PACED_S]))
        results["acknowledged_at_10000_s"] = {
            "p50_ms": round(waited[len(waited) // 2], 1),
            "p99_ms": round(waited[len(waited) * 99 // 100], 1),
            "max_ms": round(waited[-1], 1),
        }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        os.sched_setaffinity(0, {0})
        Path(sys.argv[3]).mkdir(parents=True)
        asyncio.run(serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
