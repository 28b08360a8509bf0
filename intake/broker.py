"""A subscription at a real MQTT broker: the other input, for ships that have a broker already.

MQTT 3.1.1, persistent session, QoS 1, manual acknowledgement: the broker gets a PUBACK once the reading is durable. So a kill of this node
loses nothing and causes repeats, which are dropped by content. Messages that the broker itself acknowledges to a sensor and then loses are
outside our control (Mosquitto stores after it acknowledges). At Mosquitto set `max_queued_messages 0`, `max_inflight_messages 0` and
`autosave_interval 1`. A filter removed from the settings stays subscribed in the broker's session until it is removed there."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from cargo.rules.storm_mode import REQUEST_TOPIC
from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish
from intake.pipeline import Pipeline
from intake.settings import BrokerSettings
from landfall.system.hung_calls import apart
from landfall.system.listen_address import address
from streams.model.errors import Misuse
from streams.model.metrics import Metrics

CONNECT_TIMEOUT_S = 5.0
MISC_EVERY_S = 1.0
READ_REST_S = 0.02
"""Pause after a complete read, seconds: a broker writes each message by itself, and a commit costs about the same for few as for many."""
MESSAGES_A_TURN = 256
"""Maximum number of messages that are read before the event loop does other work."""
PRESENCE, HERE, AWAY, STILL_HERE = "landfall/nodes/", b"here", b"away", b"still here"
_PRESENCE = PRESENCE.encode()
"""Beginning of the topics on which nodes that replace each other report, retained, whether they are at the broker.

The will of a node that breaks off reports it as away. A killed broker loses its wills, but not its retained messages: so a node that sees
another one come answers it."""
STANDS_IN_AFTER_S, ANSWERS_WITHIN_S = 1.0, 10.0
"""Time after which the session of an absent node is taken over, and time within which a node reported present must answer, seconds.

A node that only reconnects is back sooner."""
AWAY_REPORTED_AFTER_S = 60.0
"""Time after which a broker that is absent or refuses this node is reported to `exceptions`, once, seconds."""
_RESTS = "more comes soon"
_log = logging.getLogger(__name__)


def presence(client_id: str) -> str:
    """Return the MQTT topic on which this node reports whether it is there."""
    return PRESENCE + client_id


class BrokerIntake:
    """A subscription that is kept alive, with its messages for the pipeline. Runs on the event loop; only connecting uses a thread."""

    def __init__(self, settings: BrokerSettings, pipeline: Pipeline, metrics: Metrics, report: Callable[..., None]) -> None:
        """`report`: writes to `exceptions`, as `Node.report`. Raises Misuse when `tls_ca` does not load."""
        self._settings, self._pipeline, self._metrics, self._report = settings, pipeline, metrics, report
        self._loop = asyncio.get_running_loop()
        self._lost = asyncio.Event()
        self._acknowledger: _Acknowledger | None = None
        self._brought: list[Publish] = []
        self._waits: set[str] = set()
        self._problem = ""
        self.connected = False
        self.trouble: str | None = "is not connected yet"
        """Reason why the broker brings nothing, as the end of a sentence that begins with the broker; None: there is none."""
        self._away_since_s: float | None = None
        self._away_reported = False
        self._asked: bytes | None = None
        self._standing_in: dict[str, asyncio.Task[None]] = {}
        self._stood_in: set[str] = set()
        self._client = self._make_client()

    async def run(self) -> None:
        """Connect, receive, connect again after a growing pause; until cancelled."""
        pause_ms = self._settings.reconnect_ms_min
        unlisten = self._pipeline.listen(self._full_changed)
        try:
            while True:
                if self._gives_way():
                    await asyncio.sleep(MISC_EVERY_S)
                    continue
                self._lost.clear()
                self._problem = ""
                try:
                    await apart("broker", self._client.reconnect)
                except OSError as problem:
                    self._problem = f"can not be reached: {problem}"
                else:
                    self._begin_reading()
                    await self._until_lost()
                was_connected, self.connected = self.connected, False
                pause_ms = self._settings.reconnect_ms_min if was_connected else min(pause_ms * 2, self._settings.reconnect_ms_max)
                self._metrics.count("broker_connections_lost")
                _log.info("%s %s; again in %d ms", self.called, self._problem, pause_ms)
                self._is_away()
                await asyncio.sleep(pause_ms / 1000)
        finally:
            unlisten()
            self._leave()
            await asyncio.gather(*self._standing_in.values(), return_exceptions=True)

    @property
    def called(self) -> str:
        """Name of the broker, in sentences."""
        return f"the broker {address(self._settings.host, self._settings.port)}"

    def _is_away(self) -> None:
        self.trouble, now_s = self._problem, self._loop.time()
        self._away_since_s = now_s if self._away_since_s is None else self._away_since_s
        if not self._away_reported and now_s - self._away_since_s >= AWAY_REPORTED_AFTER_S:
            self._away_reported = True
            outcome = "it is tried again, as often as `reconnect_ms_max` says"
            self._report(f"{self.called} brings nothing", outcome, code="broker_away", why=self._problem)

    def _is_there(self) -> None:
        if self._away_reported:
            self._report(f"{self.called} is there again", "what it kept for this node comes in", code="broker_there")
        self.trouble, self._away_since_s, self._away_reported = None, None, False

    def ask(self, request: bytes) -> None:
        """Publish the node's request to devices, retained, if the settings allow it; the last request also at every new connection."""
        self._asked = request
        if self.connected:
            self._say_asked()

    def _say_asked(self) -> None:
        if self._settings.asks_devices and self._asked is not None:
            self._client.publish(REQUEST_TOPIC, self._asked, qos=0, retain=True)
            self._want_write()

    def _make_client(self) -> mqtt.Client:
        settings = self._settings
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            settings.client_id,
            clean_session=False,
            protocol=mqtt.MQTTv311,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        client.connect_timeout = CONNECT_TIMEOUT_S
        if settings.username is not None:
            client.username_pw_set(settings.username, settings.password.get_secret_value() if settings.password else None)
        if settings.tls_ca is not None:
            _trust(client, settings.tls_ca)
        if settings.stands_in_for:
            client.will_set(presence(settings.client_id), AWAY, qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        client.on_socket_close = self._on_socket_close
        client.on_socket_register_write = self._on_socket_register_write
        client.connect_async(settings.host, settings.port, settings.keep_alive_s)
        return client

    def _gives_way(self) -> bool:
        """Return whether other nodes must take over the broker's messages, because nothing can be stored here."""
        return bool(self._settings.stands_in_for) and self._pipeline.stuck_s() * 1_000 > self._settings.gives_way_after_ms

    def _leave(self) -> None:
        """Disconnect properly, so that other nodes receive that this one is away. The sessions it took over are left too."""
        for task in self._standing_in.values():
            task.cancel()
        if self.connected and self._settings.stands_in_for:
            self._client.publish(presence(self._settings.client_id), AWAY, qos=0, retain=True)
        self._client.disconnect()
        self._client.loop_write()

    async def _until_lost(self) -> None:
        while not self._lost.is_set():
            if self._gives_way():
                _log.warning("nothing can be stored here: what the broker brings is left to %s", " and ".join(self._settings.stands_in_for))
                self._metrics.count("broker_gave_way")
                self._leave()
            try:
                async with asyncio.timeout(MISC_EVERY_S):
                    await self._lost.wait()
            except TimeoutError:
                if not self._waits - {_RESTS}:  # while nothing is read, no answer to a ping is either
                    self._client.loop_misc()

    def _begin_reading(self) -> None:
        sock = self._client.socket()
        if isinstance(sock, socket.socket):  # an ssl.SSLSocket is one
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._acknowledger = _Acknowledger(self._client, self._held)
            self._waits = {"queue is full"} if self._pipeline.full else set()
            if not self._waits:
                self._loop.add_reader(sock, self._read)

    def _read(self) -> None:
        """Read and queue all messages, including those that came before the end of a connection."""
        acknowledger, received = self._acknowledger, 0
        while received < MESSAGES_A_TURN:
            self._client.loop_read()
            if len(self._brought) == received:
                break
            received = len(self._brought)
        brought, self._brought = self._brought, []
        presences = [publish for publish in brought if publish.topic.startswith(_PRESENCE)]
        if presences:
            brought = [publish for publish in brought if not publish.topic.startswith(_PRESENCE)]
            self._hear_of_others(presences)
        if brought and acknowledger is not None:
            self._pipeline.offer(acknowledger, brought)
        if received < MESSAGES_A_TURN:
            self._wait(_RESTS, True)
            self._loop.call_later(READ_REST_S, self._wait, _RESTS, False)
        else:
            self._read_on()

    def _read_on(self) -> None:
        """Read what TLS has decrypted: the socket does not become readable because of it."""
        if self._has_decrypted():
            self._loop.call_soon(self._read_decrypted)

    def _read_decrypted(self) -> None:
        if self._has_decrypted():
            self._read()

    def _has_decrypted(self) -> bool:
        sock = self._client.socket()
        return isinstance(sock, ssl.SSLSocket) and self._acknowledger is not None and not self._waits and sock.pending() > 0

    def _want_write(self) -> None:
        if (sock := self._client.socket()) is not None:
            self._loop.add_writer(sock, self._write)

    def _write(self) -> None:
        self._client.loop_write()
        if not self._client.want_write() and (sock := self._client.socket()) is not None:
            self._loop.remove_writer(sock)

    def _full_changed(self, full: bool) -> None:
        self._wait("queue is full", full)

    def _held(self, held: bool) -> None:
        self._wait("its own wait", held)

    def _wait(self, reason: str, waits: bool) -> None:
        """Read nothing more from the broker until every reason for it is gone."""
        if waits:
            self._waits.add(reason)
        else:
            self._waits.discard(reason)
        if (sock := self._client.socket()) is not None and self._acknowledger is not None:
            if self._waits:
                self._loop.remove_reader(sock)
            else:
                self._loop.add_reader(sock, self._read)
                self._read_on()

    def _on_connect(self, client: mqtt.Client, _: Any, flags: mqtt.ConnectFlags, reason: ReasonCode, __: Any) -> None:
        if reason.is_failure:
            self._problem = f"refuses this client: {reason}"
            return
        others = [presence(one) for one in self._settings.stands_in_for]
        client.subscribe([(one, 1) for one in (*self._settings.filters, *others)])
        _log.info("connected to the broker %s:%d, session present: %s", self._settings.host, self._settings.port, flags.session_present)

    def _on_subscribe(self, client: mqtt.Client, _: Any, __: int, reasons: list[ReasonCode], ___: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._problem = f"refuses a subscription: {[str(reason) for reason in reasons]}"
            client.disconnect()
        else:
            self.connected = True
            self._is_there()
            if self._settings.stands_in_for:
                client.publish(presence(self._settings.client_id), HERE, qos=1, retain=True)
                self._want_write()
            self._say_asked()

    def _on_message(self, _: mqtt.Client, __: Any, message: mqtt.MQTTMessage) -> None:
        packet_id = message.mid.to_bytes(2) if message.qos else b""
        publish = Publish(b"", bytes(message.payload), packet_id, again=message.dup, retained=message.retain)
        try:
            publish.topic = message.topic.encode()
        except UnicodeDecodeError:
            publish.refused, publish.reason = Outcome.MALFORMED, "its MQTT topic is no UTF-8"
        payload, most = publish.payload, self._settings.payload_bytes_max
        if len(payload) > most and publish.refused is None:
            publish.refused, publish.reason = Outcome.OVERSIZED, f"a payload of more than {most} bytes"
            publish.payload_bytes, publish.payload_sha256 = len(payload), hashlib.sha256(payload).hexdigest()
            publish.payload = payload[:KEPT_BYTES_MAX]
        self._brought.append(publish)

    def _hear_of_others(self, presences: Sequence[Publish]) -> None:
        for publish in presences:
            self._hear_of(publish.topic.decode().removeprefix(PRESENCE), publish)
        _acknowledge(self._client, presences)

    def _hear_of(self, node: str, publish: Publish) -> None:
        """Process the presence of another node of this ship or port that shares a subscription; if it is away, take over its session."""
        if node not in self._settings.stands_in_for:
            return
        if publish.payload == AWAY:
            self._expect(node, STANDS_IN_AFTER_S)
        elif publish.retained:  # it may have died with the broker since
            self._expect(node, ANSWERS_WITHIN_S)
        else:
            if (task := self._standing_in.get(node)) is not None:
                task.cancel()
                self._stood_in.discard(node)  # it may go away again before the task has ended
            if publish.payload == HERE:
                self._client.publish(presence(self._settings.client_id), STILL_HERE, qos=1)
                self._want_write()

    def _expect(self, other: str, within_s: float) -> None:
        """Schedule the takeover of its session after this time without a sign of it, seconds."""
        if other not in self._stood_in:
            if (task := self._standing_in.get(other)) is not None:
                task.cancel()
            self._standing_in[other] = self._loop.create_task(self._stand_in(other, within_s))

    async def _stand_in(self, other: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        _log.warning("%s is away from the broker: its session there is taken on", other)
        self._metrics.count("broker_stood_in")
        its = self._settings.model_copy(update={"client_id": other, "stands_in_for": (), "asks_devices": False})
        self._stood_in.add(other)
        try:
            await BrokerIntake(its, self._pipeline, self._metrics, self._report).run()
        finally:
            self._stood_in.discard(other)

    def _on_disconnect(self, _: mqtt.Client, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        self._problem = self._problem or f"left: {reason}"
        self._lost.set()

    def _on_socket_register_write(self, _: mqtt.Client, __: Any, ___: Any) -> None:
        self._loop.call_soon_threadsafe(self._want_write)

    def _on_socket_close(self, _: mqtt.Client, __: Any, sock: Any) -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)
        if self._acknowledger is not None:
            self._acknowledger.over = True
            self._acknowledger = None


def _acknowledge(client: mqtt.Client, messages: Sequence[Publish]) -> None:
    for message in messages:
        if message.packet_id:
            client.ack(int.from_bytes(message.packet_id), qos=1)


def _trust(client: mqtt.Client, authority: Path) -> None:
    try:
        client.tls_set(str(authority))
    except OSError as problem:
        raise Misuse(
            f"the broker's tls_ca {authority} does not load: {problem.strerror or problem}",
            hint="name a PEM file with the certificate of who signed the broker's; for a public authority the system's own bundle",
            code="authority_not_loaded",
        ) from problem


class _Acknowledger:
    """Acknowledgement of one connection's messages. After it an identifier means another message, and the broker brings these again."""

    account = "the broker"
    """Account of all messages of the broker."""

    def __init__(self, client: mqtt.Client, held: Callable[[bool], None]) -> None:
        self._client, self._held = client, held
        self.over = False

    def hold(self, held: bool) -> None:
        """Stop reading from the broker while its messages wait (True), or go on (False)."""
        if not self.over:
            self._held(held)

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """Acknowledge the messages, because the pipeline reports that these are durable."""
        if not self.over:
            _acknowledge(self._client, messages)

    def let_go(self) -> None:
        """Disconnect. The session goes on with a new connection, in which the broker brings again what was not acknowledged."""
        if not self.over:
            self.over = True
            self._client.disconnect()
