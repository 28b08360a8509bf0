"""The node itself as the MQTT server of its sensors and gateways: an endpoint for publishers, not a broker.

MQTT 3.1.1 and 5, QoS 0 and 1. A PUBACK is sent only once the reading, or its record in `exceptions`, is durable. Refusals:
docs/guide/mqtt.md. A session holds a subscription at most: the node detects repeats by content."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from intake.message_types import MessageSender, Publish
from intake.mqtt.client_connection import ClientConnection
from intake.mqtt.client_logins import GatewayLogin, GatewayLogins
from intake.mqtt.client_sessions import Key, Sessions
from intake.mqtt.connect_packet import Connect
from intake.mqtt.endpoint_api import SessionStart
from intake.mqtt.listener import SocketListener, places
from intake.mqtt.packets import Reason
from intake.mqtt.pending_wills import LastWill, Testator, Wills
from intake.mqtt.subscriptions import Subscription
from intake.pipeline import Pipeline
from intake.settings import EndpointSettings
from landfall.access.credentials import Credentials
from landfall.access.wrong_secrets import WrongSecrets
from landfall.system.listen_address import listening
from landfall.transport.certificate_renewal import keep_certificate
from landfall.transport.tls import showing
from streams.model.clock import Clock, WallClock
from streams.model.metrics import Metrics

SWEEP_EVERY_S = 0.5
LEFT_WITHIN_S, SAID_WITHIN_S = 1.0, 5.0
"""Time at the end for connections to close, and for their wills to become durable, seconds."""
_CROWD = "its account's wait"
_log = logging.getLogger(__name__)


class Endpoint:
    """The MQTT endpoint: it listens, and keeps the connections. Everything on one event loop; use it as `async with Endpoint(…):`."""

    def __init__(
        self,
        settings: EndpointSettings,
        pipeline: Pipeline,
        clock: Clock,
        metrics: Metrics,
        report: Callable[..., None],
        credentials: Credentials,
        sessions_file: Path | None = None,
    ) -> None:
        """`report`: writes to `exceptions`, as `Node.report`.

        `sessions_file`: where clients' sessions are kept over a restart; None: nowhere."""
        self.settings, self._report = settings, report
        wrong = WrongSecrets(clock, metrics, report, door="the MQTT endpoint")
        self.logins = GatewayLogins(settings.anonymous_publish, credentials, wrong)
        self._credentials = credentials
        self._unwatch: Callable[[], None] = lambda: None
        self._pipeline, self._clock, self._metrics = pipeline, clock, metrics
        self._connections: set[ClientConnection] = set()
        self._strangers: dict[ClientConnection, None] = {}
        """Connections that have not logged in, the longest first."""
        self._addresses: Counter[str] = Counter()
        self._usernames: Counter[str | None] = Counter()
        self._username_of: dict[ClientConnection, str | None] = {}
        """User names of connections that have logged in, until their socket is closed."""
        self._clients: dict[Key, ClientConnection] = {}
        self._client_of: dict[ClientConnection, Key] = {}
        self._of_account: dict[str, set[ClientConnection]] = {}
        """Connections that have logged in, by account."""
        self._sessions = Sessions(sessions_file, WallClock().now_ms, clock.doubted)
        self._sessions_refused = False
        self._will_of: dict[ClientConnection, LastWill] = {}
        self._wills = Wills()
        self._testators: set[Testator] = set()
        """Senders of wills on their way to the log."""
        self._ended = asyncio.Event()
        """Set whenever a connection is gone, or a will durable."""
        self._places = settings.connections_max
        self._listener: SocketListener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None
        self._asked: bytes | None = None
        pipeline.listen(self._full_changed)
        pipeline.listen_of_accounts(self._account_held)

    @property
    def port(self) -> int:
        """Port on which it listens."""
        if self._listener is None:
            raise AssertionError("the endpoint does not listen yet")
        return self._listener.port

    async def __aenter__(self) -> Endpoint:
        """Listen. Raises Misuse when the address is not available, or the certificate does not load."""
        shown = showing("the MQTT endpoint", self.settings.tls_certificate, self.settings.tls_key)
        self._places = places(self.settings.connections_max)
        host, port = self.settings.host, self.settings.port
        tls, within_s = None if shown is None else shown.context, self.settings.connect_within_ms / 1_000
        listener = SocketListener(self, lambda address: ClientConnection(self, address), tls, within_s)
        with listening("the MQTT endpoint", host, port):
            await listener.open(host, port)
        self._listener = listener
        self._unwatch = self._credentials.on_change(self._end_withdrawn)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        if shown is not None:
            keeping = keep_certificate("the MQTT endpoint", "the MQTT endpoint", shown, self._report)
            self._renewer = asyncio.get_running_loop().create_task(keeping)
        _log.info("MQTT endpoint listens on %s:%d", self.settings.host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections, and make every will durable, those with a delay too, as far as the pipeline takes them within
        SAID_WITHIN_S."""
        if self._listener is None or self._sweeper is None:
            return
        self._listener.close()
        self._sweeper.cancel()
        self._unwatch()
        if self._renewer is not None:
            self._renewer.cancel()
        for connection in list(self._connections):
            connection.end(Reason.SERVER_SHUTTING_DOWN, "the node ends")
        await self._listener.closed()
        await self._until(lambda: not self._connections, LEFT_WITHIN_S)
        for connection in list(self._connections):
            connection.drop("the node ends, and it does not close")
        await self._until(lambda: not self._connections, LEFT_WITHIN_S)
        for will in self._wills.due(math.inf):
            self._publish_will(will)
        if not await self._until(lambda: not self._testators, SAID_WITHIN_S):
            _log.warning("%d wills of MQTT clients are not known to be stored", len(self._testators))
        await self._write_sessions()

    def _end_withdrawn(self) -> None:
        """End the connections of gateways whose credential was withdrawn or changed."""
        for connection in list(self._connections):
            if connection.gateway is not None and not self.logins.holds(connection.gateway):
                connection.end(Reason.NOT_AUTHORIZED, "its credential does not hold any more")

    def ask(self, request: bytes) -> None:
        """Publish the node's request to devices to all subscribers, present and future."""
        self._asked = request
        for connection in self._connections:
            connection.send_request(request)

    def last_request(self) -> bytes | None:
        """Return the node's last request to devices; None: nothing yet."""
        return self._asked

    def now_s(self) -> float:
        """Return the monotonic time, seconds."""
        return self._clock.monotonic_s()

    def register_socket(self, connection: ClientConnection) -> bool:
        """Register an open socket. Return False when there are too many, or too many from its address.

        If there is no room left, the connection that has waited longest without a login is closed."""
        crowded = self._addresses[connection.address] >= self.settings.connections_per_address_max
        if crowded or (len(self._connections) >= self._places and not self.make_room()):
            self._metrics.count("mqtt_connections_refused")
            return False
        self._connections.add(connection)
        self._addresses[connection.address] += 1
        self._strangers[connection] = None
        self._metrics.gauge("mqtt_connections", len(self._connections))
        if self._pipeline.full:
            connection.pause("queue is full")
        return True

    def make_room(self) -> bool:
        """Close the connection that has waited longest without a login, and return whether there was one."""
        oldest = next(iter(self._strangers), None)
        if oldest is not None:
            del self._strangers[oldest]
            oldest.drop("another wants its place, and it has not logged in")
            if self._listener is not None:
                self._listener.give_up(oldest)
        return oldest is not None

    def has_room(self, gateway: GatewayLogin, connect: Connect) -> bool:
        """Return whether this login may have one more connection. One that replaces an older one may, once that older one is gone."""
        if gateway.username is None:
            return True
        takes_over = (gateway.username, connect.client_id) in self._clients
        return self._usernames[gateway.username] < self.settings.connections_per_login_max + takes_over

    def turns_clients_away(self) -> bool:
        """Return whether nothing could be stored for so long that new clients should use another node."""
        return self._pipeline.stuck_s() * 1_000 > self.settings.turns_away_after_ms

    def cancel_will(self, connection: ClientConnection) -> None:
        """Cancel the will of this connection, if it has one."""
        self._will_of.pop(connection, None)

    def register(self, connection: ClientConnection, connect: Connect) -> SessionStart:
        """Register a client that was let in, and return its session.

        An older connection of the same login and identifier ends (MQTT 3.1.4). Its session goes on if wanted."""
        key = (connection.gateway.username if connection.gateway else None, connect.client_id)
        older = self._clients.pop(key, None)
        if older is not None:
            del self._client_of[older]
            if connect.clean_start:
                older.session_expiry_s = 0  # its session ends here, so its will waits no longer
            older.end(Reason.SESSION_TAKEN_OVER, f"{connect.client_id!r} connected again")
        present, subscription = self._sessions.begin(key, clean=connect.clean_start, expiry_s=connection.session_expiry_s)
        if (earlier := self._wills.take(key)) is not None and not present:
            self._publish_will(earlier)
        if connect.will is not None:
            self._will_of[connection] = LastWill(key[0], connection.account, connect.will)
        self._strangers.pop(connection, None)
        self._clients[key] = connection
        self._client_of[connection] = key
        self._usernames[key[0]] += 1
        self._username_of[connection] = key[0]
        self._of_account.setdefault(connection.account, set()).add(connection)
        if self._pipeline.holds(connection.account):
            connection.pause(_CROWD)
        return SessionStart(present, subscription)

    def set_subscription(self, connection: ClientConnection, subscription: Subscription | None) -> None:
        """Store the subscription of this client with its session."""
        self._sessions.subscribed(self._client_of[connection], connection.session_expiry_s, subscription)

    def take_in(self, sender: MessageSender, messages: list[Publish]) -> None:
        """Hand messages to the pipeline."""
        self._pipeline.offer(sender, messages)

    def unregister(self, connection: ClientConnection) -> None:
        """Process a closed socket. The will of a client whose session is kept waits for its delay.

        A will with a delay is dropped when another connection has taken the session over."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]
        self._strangers.pop(connection, None)
        key = self._client_of.pop(connection, None)
        if (of_account := self._of_account.get(connection.account)) is not None:
            of_account.discard(connection)
            if not of_account:
                del self._of_account[connection.account]
        if connection in self._username_of:
            self._usernames[self._username_of.pop(connection)] -= 1
        if key is not None:
            self._clients.pop(key, None)
            self._sessions.leave(key, connection.session_expiry_s, connection.subscription)
        if (will := self._will_of.pop(connection, None)) is not None:
            delay_s = min(will.will.delay_s, connection.session_expiry_s)
            if not delay_s:
                self._publish_will(will)
            elif key is not None:
                self._wills.keep(key, self.now_s() + delay_s, will)
                self._publish_due_wills()
        self._ended.set()
        self._metrics.gauge("mqtt_connections", len(self._connections))

    def _publish_due_wills(self) -> None:
        for will in self._wills.due(self.now_s()):
            self._publish_will(will)

    def _publish_will(self, will: LastWill) -> None:
        message = Publish(will.will.topic, will.will.payload, will=True)
        message = self.logins.named(will.username).checked(message)
        testator = Testator(will.account, self._said, lambda testator: self.take_in(testator, [message]))
        self._testators.add(testator)
        self.take_in(testator, [message])

    def _said(self, testator: Testator) -> None:
        self._testators.discard(testator)
        self._ended.set()

    async def _until(self, true: Callable[[], bool], within_s: float) -> bool:
        """Wait until `true()`, which events that set `_ended` may make true, or for `within_s`, and return whether it is true."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not true():
                    self._ended.clear()
                    await self._ended.wait()
        return true()

    def note_ending(self, connection: ClientConnection, detail: str) -> None:
        """Log and count that the endpoint ends this connection, with the reason."""
        self._metrics.count("mqtt_connections_ended")
        username, client_id = self._client_of.get(connection, (None, None))
        who = "a stranger" if client_id is None else repr(client_id) + ("" if username is None else f" of login {username!r}")
        _log.info("MQTT connection of %s from %s ended: %s", who, connection.address, detail)

    def _full_changed(self, full: bool) -> None:
        for connection in self._connections:
            if full:
                connection.pause("queue is full")
            else:
                connection.resume("queue is full")

    def _account_held(self, account: str, held: bool) -> None:
        for connection in self._of_account.get(account, ()):
            if held:
                connection.pause(_CROWD)
            else:
                connection.resume(_CROWD)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now_s = self.now_s()
            turns_away = self.turns_clients_away()
            for connection in list(self._connections):
                connection.tend(now_s)
                if turns_away:
                    connection.end(Reason.SERVER_BUSY, "nothing can be stored here")
            self._publish_due_wills()
            await self._write_sessions()

    async def _write_sessions(self) -> None:
        if self._sessions.changed:
            try:
                await asyncio.to_thread(self._sessions.write)
            except OSError as problem:
                self._metrics.count("mqtt_sessions_not_written")
                if not self._sessions_refused:
                    _log.warning("sessions of MQTT clients can not be written, and are tried again: %s", problem)
                self._sessions_refused = True
            else:
                self._sessions_refused = False
