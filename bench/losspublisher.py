"""Sensors that publish to a server that is struck, and remember what it acknowledged."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from bench.mqttservers import TOPIC, reading
from intake.mqtt.packets import packet

WINDOW, PER_S = 500, 1_500
"""How many readings wait for their PUBACK at once, and how many are sent a second."""
CONNECT = packet(0x10, b"\0\4MQTT\4\0\0\x3c\0\x09publisher")
ANSWERED_WITHIN_S = 120.0
LAST_WORD_S = 1.0
"""So long what was said before a strike is heard."""


class Publisher:
    """Publishes numbered readings at QoS 1 over one connection at a time; what is not acknowledged it brings again on the next."""

    def __init__(self, first: int = 0) -> None:
        self.acknowledged: set[int] = set()
        self._next = first
        self._waiting: deque[int] = deque()

    def publish(self, port: int, count: int, enough: int, per_s: float = PER_S, strike: Callable[[], None] | None = None) -> None:
        """Send what waits and then new ones, `count` in all; returns, in the middle of whatever, once `enough` more are acknowledged.

        With `strike` that is called then, with messages on their way and acknowledgements not read yet, which count. Raises TimeoutError
        when that takes too long.
        """
        to_send = deque([*self._waiting, *range(self._next, self._next + max(0, count - len(self._waiting)))])
        self._next = max(self._next, to_send[-1] + 1)
        self._waiting = deque(to_send)
        wanted = len(self.acknowledged) + enough
        began_s, sent, heard, out = time.monotonic(), 0, b"", b""
        with socket.create_connection(("127.0.0.1", port), ANSWERED_WITHIN_S) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(CONNECT)
            if client.recv(4)[:2] != b"\x20\2":
                raise ConnectionError("the publisher was not let in")
            client.setblocking(False)
            under_way: dict[bytes, int] = {}
            while len(self.acknowledged) < wanted:
                if time.monotonic() - began_s > ANSWERED_WITHIN_S:
                    raise TimeoutError(f"{wanted - len(self.acknowledged)} readings are not acknowledged")
                due = min(int((time.monotonic() - began_s) * per_s) + 1 - sent, WINDOW - len(under_way))
                for number in list(islice(to_send, max(0, due))):
                    packet_id = (number % 65_535 + 1).to_bytes(2)
                    under_way[packet_id] = to_send.popleft()
                    out += _publish_packet(number, packet_id)
                    sent += 1
                with suppress(BlockingIOError):
                    out = out[client.send(out) :] if out else out
                with suppress(BlockingIOError):
                    heard += client.recv(65_536)
                heard = self._hear(heard, under_way)
                time.sleep(0.0005)
            if strike is not None:
                strike()
                client.settimeout(LAST_WORD_S)
                with suppress(OSError):
                    while last := client.recv(65_536):
                        heard += last
                self._hear(heard, under_way)

    def _hear(self, heard: bytes, under_way: dict[bytes, int]) -> bytes:
        """What is left of what was heard, behind the last whole acknowledgement."""
        while len(heard) >= 4:
            self._heard(under_way.pop(heard[2:4]))
            heard = heard[4:]
        return heard

    def _heard(self, number: int) -> None:
        self.acknowledged.add(number)
        self._waiting.remove(number)


def _publish_packet(number: int, packet_id: bytes) -> bytes:
    return packet(0x32, len(TOPIC).to_bytes(2) + TOPIC.encode() + packet_id + reading(number))
