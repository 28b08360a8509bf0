"""The node itself as the MQTT server its sensors and gateways publish to: a door for publishers, not a broker.

MQTT 3.1.1 and 5, QoS 0 and 1. A PUBACK goes out only once the reading, or its record in `exceptions`, is durable. What is refused, and how:

| what | MQTT 5 | MQTT 3.1.1 |
|---|---|---|
| QoS 2 | CONNACK says Maximum QoS 1; a PUBLISH: DISCONNECT 0x9B; a will: CONNACK 0x9B | connection closed; a will: CONNACK 1 |
| SUBSCRIBE to anything but `landfall/devices/interval` | SUBACK 0x87; with wildcards 0xA2, shared 0x9E | SUBACK 0x80 |
| subscription identifier | DISCONNECT 0xA1 | – |
| payload longer than `packet_bytes_max` | read past, in `exceptions` (4 KiB, length, SHA-256), then PUBACK 0x97 | the same, PUBACK |
| topic this gateway may not publish to | in `exceptions`, PUBACK 0x87 | the same, PUBACK |
| topic that is none of ours; no JSON object; nothing possible in it | in `exceptions`, PUBACK 0x90; 0x99; 0x99 | the same, PUBACK |
| wrong login, unknown version | CONNACK 0x86, 0x84 | CONNACK 4, 1 |
| topic alias | never offered; used: DISCONNECT 0x94 | – |

An oversized message is acknowledged instead of the connection being closed on it: a client that repeats what was not acknowledged would
come back with the same message for ever and bring nothing else. No session is kept: it would hold nothing, as repeats are told by content.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from itertools import count

from intake.arrivals import Publish, Sender
from intake.connection import Connection
from intake.logins import Logins
from intake.packets import Reason
from intake.pipeline import Pipeline
from intake.settings import EndpointSettings
from streams.clock import Clock
from streams.listening import listening
from streams.metrics import Metrics

SWEEP_EVERY_S = 0.5
_log = logging.getLogger(__name__)


class Endpoint:
    """Listens, and keeps the connections. Everything on one event loop; use it as `async with Endpoint(…):`."""

    def __init__(self, settings: EndpointSettings, pipeline: Pipeline, clock: Clock, metrics: Metrics) -> None:
        self.settings = settings
        self.logins = Logins(settings)
        self._pipeline, self._clock, self._metrics = pipeline, clock, metrics
        self._connections: set[Connection] = set()
        self._clients: dict[tuple[str | None, str], Connection] = {}
        self._client_of: dict[Connection, tuple[str | None, str]] = {}
        self._given_ids = count(1)
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._asked: bytes | None = None
        pipeline.listen(self._full_changed)

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._server is None:
            raise AssertionError("the endpoint does not listen yet")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Endpoint:
        """Listen. Raises Misuse when the address can not be had."""
        loop = asyncio.get_running_loop()
        tls = None
        if self.settings.tls_certificate is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.settings.tls_certificate, self.settings.tls_key)
        host, port = self.settings.host, self.settings.port
        with listening("the MQTT endpoint", host, port):
            self._server = await loop.create_server(lambda: Connection(self), host, port, ssl=tls, backlog=1_024)
        self._sweeper = loop.create_task(self._sweep())
        _log.info("MQTT endpoint listens on %s:%d", self.settings.host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is None or self._sweeper is None:
            return
        self._server.close()
        self._sweeper.cancel()
        for connection in list(self._connections):
            connection.end(Reason.SERVER_SHUTTING_DOWN, "the node ends")
        await self._server.wait_closed()

    def ask(self, request: bytes) -> None:
        """Say to all who have subscribed what the node asks of devices, and to whoever subscribes from now on."""
        self._asked = request
        for connection in self._connections:
            connection.tell(request)

    def asked(self) -> bytes | None:
        """What the node asked of devices last; None: nothing yet."""
        return self._asked

    def now_s(self) -> float:
        """Monotone seconds."""
        return self._clock.monotonic_s()

    def opened(self, connection: Connection) -> bool:
        """A socket is open; False when there are too many."""
        if len(self._connections) >= self.settings.connections_max:
            self._metrics.count("mqtt_connections_refused")
            return False
        self._connections.add(connection)
        self._metrics.gauge("mqtt_connections", len(self._connections))
        if self._pipeline.full:
            connection.pause("queue is full")
        return True

    def joined(self, connection: Connection, client_id: str) -> str:
        """A client was let in: an older connection of the same login and identifier ends (MQTT 3.1.4)."""
        client_id = client_id or f"landfall-{next(self._given_ids)}"
        key = (connection.gateway.username if connection.gateway else None, client_id)
        older = self._clients.pop(key, None)
        if older is not None:
            del self._client_of[older]
            older.end(Reason.SESSION_TAKEN_OVER, f"{client_id!r} connected again")
        self._clients[key] = connection
        self._client_of[connection] = key
        return client_id

    def published(self, sender: Sender, messages: list[Publish]) -> None:
        """Messages for the pipeline."""
        self._pipeline.offer(sender, messages)

    def left(self, connection: Connection) -> None:
        """The socket is closed."""
        self._connections.discard(connection)
        if (key := self._client_of.pop(connection, None)) is not None:
            self._clients.pop(key, None)
        self._metrics.gauge("mqtt_connections", len(self._connections))

    def ending(self, connection: Connection, detail: str) -> None:
        """The door ends this connection, and why: said in the log and counted."""
        self._metrics.count("mqtt_connections_ended")
        _log.info("MQTT connection of %s ended: %s", self._client_of.get(connection, "a stranger"), detail)

    def _full_changed(self, full: bool) -> None:
        for connection in self._connections:
            if full:
                connection.pause("queue is full")
            else:
                connection.resume("queue is full")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now_s = self.now_s()
            for connection in list(self._connections):
                connection.end_if_silent(now_s)
