"""Sensors as load: raw sockets that publish QoS 1 readings as quickly as they are acknowledged, or so many a second."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import orjson

from bench.readings import fleet_readings
from intake.mqtt.packets import packet

CONTAINERS = 2_000
WINDOW = 4_000
CHUNK = 100
PACED_PER_S, PACED_S, PACE_MS = 10_000, 10, 5
CONNECT = b"\0\4MQTT\4\2"
KEEP_ALIVE_S = 60


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
    counted: int = 0
    out: bytes = b""
    answered: bytes = b""
    socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connect(self.socket, self.name, KEEP_ALIVE_S)
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


def paced(port: int, packets: Sequence[bytes], connections: int = 1) -> list[float]:
    """Publish PACED_PER_S a second over so many connections by turns; the milliseconds each waited for its acknowledgement."""
    senders = [Sender(port, f"paced-{n}", [], 0) for n in range(connections)]
    step = PACED_PER_S * PACE_MS // 1_000
    due: list[deque[float]] = [deque() for _ in senders]
    waited: list[float] = []
    at, began = 0, time.perf_counter()
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for n, sender in enumerate(senders):
            stack.callback(sender.socket.close)
            selector.register(sender.socket, selectors.EVENT_READ, n)
        while len(waited) < len(packets):
            sent = began + at / PACED_PER_S
            if at < len(packets) and time.perf_counter() >= sent:
                for place, message in enumerate(packets[at : at + step], at):
                    senders[place % connections].out += message
                    due[place % connections].append(sent)
                at += step
            for sender in [busy for busy in senders if busy.out]:
                sender.turn()
            for key, _ in selector.select(0.0002):
                senders[key.data].turn()
            now = time.perf_counter()
            for sender, times in zip(senders, due, strict=True):
                waited += [(now - times.popleft()) * 1_000 for _ in range(sender.acknowledged - sender.counted)]
                sender.counted = sender.acknowledged
    return waited


def connect(client: socket.socket, name: str, keep_alive_s: int) -> None:
    """Log in as `name`. Raises ConnectionError when refused."""
    client.sendall(packet(0x10, CONNECT + keep_alive_s.to_bytes(2, "big") + len(name).to_bytes(2, "big") + name.encode()))
    if (answer := client.recv(4)) != b"\x20\2\0\0":
        raise ConnectionError(f"refused: {answer!r}")
