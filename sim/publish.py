"""Publishing over MQTT 3.1.1 at QoS 1 with paho: one connection to each intake, a bounded window, and everything again after a break."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from cargo.errors import Unreadable
from cargo.stormmode import REQUEST_TOPIC, Request
from sim.settings import IntakeDoor
from streams.clock import Clock
from streams.errors import Misuse

WINDOW_MAX = 2_000
"""Messages on their way to one intake that it has not acknowledged."""
KEEP_ALIVE_S = 15
CONNECT_WITHIN_S = 2.0
RETRY_S_MIN, RETRY_S_MAX = 0.2, 2.0
MISC_EVERY_S = 1.0
CLOSE_WITHIN_S = 2.0
log = logging.getLogger("sim.publish")


class Publisher:
    """Connections to the intakes at `places`, in that order. Belongs to one thread, which calls `turn` again and again.

    At least once: what was under way when a connection broke is sent again on the next one (paho keeps it), so an intake may hear it twice.
    """

    def __init__(
        self,
        places: Sequence[str],
        doors: Mapping[str, IntakeDoor],
        wall: Clock,
        report: Callable[[str], None] = log.warning,
        name: str = "sim",
        listens: bool = False,
    ) -> None:
        """`doors` has one for each place. `report` hears, once, of each break. `name`: the client's at the intakes; of two
        publishers with one name each ends the other's connections. `listens`: hear what each intake asks of devices.
        """
        self._requests: list[tuple[int, Request]] = []
        self._wall = wall
        self._links = [_Link(doors[place], f"{name}-{place.replace('/', '-')}", wall, report) for place in places]
        self._acknowledged: list[int] = []
        for number, link in enumerate(self._links):
            link.acknowledged = self._acknowledged
            if listens:
                link.listen(number, self._requests)

    def offer(self, intake: int, topic: str, payload: bytes, ticket: int) -> bool:
        """Send one message to the intake with this index; False when it is not connected or its window is full: offer it again later.

        `ticket` comes out of `taken_acknowledgements` once the intake has acknowledged the message. Keep tickets different.
        """
        return self._links[intake].offer(topic, payload, ticket)

    def taken_acknowledgements(self) -> list[int]:
        """The tickets acknowledged since the last call."""
        taken = self._acknowledged.copy()
        self._acknowledged.clear()
        return taken

    def taken_requests(self) -> list[tuple[int, Request]]:
        """What was asked of devices since the last call: at which intake (an index into the places), and what."""
        taken = self._requests.copy()
        self._requests.clear()
        return taken

    def turn(self, wait_s: float) -> None:
        """Move bytes both ways for at most about `wait_s` seconds, connecting where there is no connection. Blocks CONNECT_WITHIN_S at most
        for an intake that does not answer."""
        for link in self._links:
            link.tend()
        readers: dict[Any, Client] = {link.client.socket(): link.client for link in self._links if link.client.socket() is not None}
        writers = [socket for socket, client in readers.items() if client.want_write()]
        readable, writable, _ = select.select(list(readers), writers, [], wait_s)
        for socket in readable:
            readers[socket].loop_read()
        for socket in writable:
            if readers[socket].socket() is socket:
                readers[socket].loop_write()

    def close(self) -> None:
        """Take leave of every intake. What is not acknowledged stays so."""
        deadline_s = self._wall.monotonic_s() + CLOSE_WITHIN_S
        for link in self._links:
            link.client.disconnect()
        while any(link.client.want_write() for link in self._links) and self._wall.monotonic_s() < deadline_s:
            for link in self._links:
                link.client.loop_write()


class _Link:
    """One connection: it retries with a growing pause, and starts over at once when it was up before."""

    def __init__(self, door: IntakeDoor, client_id: str, wall: Clock, report: Callable[[str], None]) -> None:
        self.door = door
        self._report = report
        self.acknowledged: list[int] = []
        self._wall = wall
        self._tickets: dict[int, int] = {}
        self._retry_s = RETRY_S_MIN
        self._next_try_s = self._next_misc_s = 0.0
        self._told = self._listens = False
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTv311)
        self.client.max_inflight_messages_set(0)
        self.client.connect_timeout = CONNECT_WITHIN_S
        if door.username:
            self.client.username_pw_set(door.username, door.password.get_secret_value())
        if door.tls_ca is not None:
            self.client.tls_set(str(door.tls_ca))
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_publish = self._published

    def listen(self, number: int, requests: list[tuple[int, Request]]) -> None:
        """From the next connection on what this intake asks goes to `requests`, with `number`."""

        def heard(_client: Client, _userdata: Any, message: MQTTMessage) -> None:
            try:
                requests.append((number, Request.from_bytes(bytes(message.payload))))
            except Unreadable as problem:
                self._report(f"{self.door.at} asks for what no device understands: {problem}")

        self._listens = True
        self.client.on_message = heard

    def offer(self, topic: str, payload: bytes, ticket: int) -> bool:
        if len(self._tickets) >= WINDOW_MAX or not self.client.is_connected():
            return False
        sent = self.client.publish(topic, payload, qos=1)
        if sent.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise Misuse(f"message {sent.mid} to {self.door.at} is under way twice", hint="this is a fault of the simulator")
        self._tickets[sent.mid] = ticket
        return True

    def tend(self) -> None:
        """Connect when there is no connection and it is time to try; look after a silent one."""
        now_s = self._wall.monotonic_s()
        if self.client.socket() is None:
            if now_s >= self._next_try_s:
                self._connect(now_s)
        elif now_s >= self._next_misc_s:
            self._next_misc_s = now_s + MISC_EVERY_S
            self.client.loop_misc()

    def _connect(self, now_s: float) -> None:
        self._next_try_s = now_s + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)
        try:
            self.client.connect(self.door.host, self.door.port, keepalive=KEEP_ALIVE_S)
        except OSError as problem:
            self._tell(f"{self.door.at} at {self.door.host}:{self.door.port} does not answer ({problem}); trying again")

    def _connected(self, _client: Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._tell(f"{self.door.at} refuses the login of {self.door.username or 'nobody'} ({reason}); trying again")
            return
        self._retry_s, self._told = RETRY_S_MIN, False
        if self._listens:
            self.client.subscribe(REQUEST_TOPIC, qos=1)
        again = f", sending {len(self._tickets)} messages again" if self._tickets else ""
        log.info("connected to %s at %s:%d%s", self.door.at, self.door.host, self.door.port, again)

    def _disconnected(self, _client: Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._tell(f"the connection to {self.door.at} broke ({reason}) with {len(self._tickets)} messages not acknowledged")

    def _published(self, _client: Client, _userdata: Any, mid: int, _reason: Any, _properties: Any) -> None:
        self.acknowledged.append(self._tickets.pop(mid))

    def _tell(self, what: str) -> None:
        """Once per break, not once per try."""
        if not self._told:
            self._told = True
            self._report(what)
