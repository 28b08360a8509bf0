"""One client's connection to the endpoint: CONNECT, publishes, acknowledgements, keep-alive, will, the end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace

from intake.message_types import Outcome, Publish
from intake.mqtt.client_logins import GatewayLogin, account_of
from intake.mqtt.client_sessions import SESSION_S_MAX
from intake.mqtt.connect_packet import PACKET_BYTES_MAX, Connect, VersionRefused, read_connect, read_disconnect
from intake.mqtt.endpoint_api import EndpointApi
from intake.mqtt.packets import (
    PINGRESP,
    ControlPacket,
    PacketReader,
    PacketType,
    Reason,
    Violation,
    connack,
    disconnect,
    puback_with_reason,
    pubacks,
    welcome_properties,
)
from intake.mqtt.subscriptions import Subscription, request_packet, subscribe, unsubscribe
from landfall.access.password_checks import Crowded

KEEP_ALIVE_PATIENCE = 1.5
"""Multiple of its keep-alive after which a silent client is gone (MQTT 3.1.2.10)."""
_VERSION_REFUSED_311, _IDENTIFIER_REFUSED_311, _UNAVAILABLE_311, _LOGIN_REFUSED_311 = 1, 2, 3, 4
_LEAVES, _DISCONNECT_WITH_WILL = 0x00, 0x04
_TLS_HANDSHAKE = 0x16
"""First byte of TLS. As the first byte of a CONNECT, it would have flags that MQTT forbids."""
_DEAF, _TURN = "client does not read", "what others bring comes in between"
DEAF_S_MAX = 60.0
"""Maximum time for which a client without a keep-alive may exceed its limit of unread bytes, seconds."""
RESTS = 4
"""Pause before a client that publishes nothing is read further, times the duration of its turn: it uses a fifth of a core at most."""
CLOSE_WITHIN_S = 5.0
"""Maximum time to flush the last write before the connection is aborted, seconds."""


_NOT_TAKEN = {
    Outcome.MALFORMED: Reason.PAYLOAD_FORMAT_INVALID,
    Outcome.BAD_VALUE: Reason.PAYLOAD_FORMAT_INVALID,
    Outcome.UNKNOWN_TOPIC: Reason.TOPIC_NAME_INVALID,
    Outcome.OVERSIZED: Reason.QUOTA_EXCEEDED,
    Outcome.FOREIGN: Reason.NOT_AUTHORIZED,
}
"""Reason in the PUBACK to an MQTT 5 client. The message is in `exceptions`: it need not, and should not, be sent again."""


def acknowledgements(v5: bool, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> bytes:
    """Return a PUBACK for each of `messages` that wants one, in order; for MQTT 5 with the reason of each refusal."""
    if not v5 or _NOT_TAKEN.keys().isdisjoint(outcomes):
        return pubacks([message.packet_id for message in messages if message.packet_id])
    return b"".join(
        puback_with_reason(message.packet_id, _NOT_TAKEN[outcome]) if outcome in _NOT_TAKEN else pubacks((message.packet_id,))
        for message, outcome in zip(messages, outcomes, strict=True)
        if message.packet_id
    )


class ClientConnection(asyncio.Protocol):
    """Protocol of one socket. Everything happens on the event loop; a violation ends this connection and costs the others nothing."""

    def __init__(self, endpoint: EndpointApi, address: str = "") -> None:
        """`address`: the address of the client, as `intake.mqtt.listener.address_of`."""
        self._endpoint = endpoint
        self.address = address
        self._reader = PacketReader(endpoint.settings.packet_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._early: list[Publish | ControlPacket] = []
        self._answers = bytearray()
        self._login: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._begun = False
        self._reasons_not_to_read: set[str] = set()
        self._keep_alive_s = 0
        self._heard_at_s = endpoint.now_s()
        self._packet_bytes_max = PACKET_BYTES_MAX
        self.subscription: Subscription | None = None
        self.session_expiry_s = 0
        self.gateway: GatewayLogin | None = None
        self._deaf_since_s: float | None = None
        self._closed_at_s: float | None = None
        self._rests: asyncio.TimerHandle | None = None
        """Timer until the next read of data that came and was not read in its turn."""

    @property
    def account(self) -> str:
        """Account of its login; without one, that of its address."""
        return account_of(None if self.gateway is None else self.gateway.username, self.address)

    def hold(self, held: bool) -> None:
        """Stop reading while its messages wait (True), or go on (False)."""
        if held:
            self.pause("its own wait")
        else:
            self.resume("its own wait")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, because the socket is open, and TLS's handshake done."""
        if not isinstance(transport, asyncio.Transport):
            raise AssertionError(f"a stream's transport, not {transport!r}")
        self._transport = transport
        transport.set_write_buffer_limits(high=self._endpoint.settings.unread_bytes_max)
        self._heard_at_s = self._endpoint.now_s()
        if self._reasons_not_to_read:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Process received bytes: good packets are accepted even when a violation follows them."""
        if self.gateway is not None:
            self._heard_at_s = self._endpoint.now_s()
        elif not self._begun and data[0] == _TLS_HANDSHAKE:
            self.end(Reason.PROTOCOL_ERROR, "it speaks TLS, and this endpoint has no tls_certificate")
            return
        elif not self._begun and data[0] >> 4 != PacketType.CONNECT:
            self.end(Reason.PROTOCOL_ERROR, "it does not begin with a CONNECT")
            return
        self._begun = True
        self._read(data)

    def _read(self, data: bytes) -> None:
        began_s = self._endpoint.now_s()
        packets = self._reader.feed(data)
        if self._login is not None:
            self._early += packets
            self.pause("login")
        else:
            self._take(packets)
        if self._reader.more:
            self.pause(_TURN)
            rests_s = RESTS * (self._endpoint.now_s() - began_s) if self._reader.pinged else 0.0
            self._rests = asyncio.get_running_loop().call_later(rests_s, self._read_on)

    def _read_on(self) -> None:
        """Read further once nothing else prevents it: `resume` calls it then."""
        self._rests = None
        if self._transport is None or self._transport.is_closing() or len(self._reasons_not_to_read) > 1:
            return
        self._read(b"")
        if not self._reader.more:
            self.resume(_TURN)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, because the socket is gone.

        Messages that are not acknowledged yet stay on their way to the log; the endpoint has the will now."""
        if self._login is not None:
            self._login.cancel()
        self._transport = None
        self._endpoint.unregister(self)

    def pause_writing(self) -> None:
        """Stop reading, because the client does not read its acknowledgements."""
        self._deaf_since_s = self._endpoint.now_s()
        self.pause(_DEAF)

    def resume_writing(self) -> None:
        """Go on reading, because the client reads again."""
        self._deaf_since_s = None
        self.resume(_DEAF)

    def pause(self, reason: str) -> None:
        """Read nothing more from this client until every reason for it is gone."""
        if not self._reasons_not_to_read and self._transport is not None:
            self._transport.pause_reading()
        self._reasons_not_to_read.add(reason)

    def resume(self, reason: str) -> None:
        """Remove `reason`, and read again when no other is left."""
        if reason in self._reasons_not_to_read:
            self._reasons_not_to_read.remove(reason)
            if not self._reasons_not_to_read and self._transport is not None and not self._transport.is_closing():
                self._heard_at_s = self._endpoint.now_s()
                self._transport.resume_reading()
            elif self._reasons_not_to_read == {_TURN} and self._rests is None:
                self._rests = asyncio.get_running_loop().call_later(0, self._read_on)

    def tend(self, now_s: float) -> None:
        """End this connection when its client has been silent, or has not read, for too long.

        Abort it at once when it was ended before and is still there. A client that is not read from does not count as silent."""
        if self._closed_at_s is not None:
            if now_s - self._closed_at_s > CLOSE_WITHIN_S and self._transport is not None:
                self._transport.abort()
            return
        if self._deaf_since_s is not None and now_s - self._deaf_since_s > (self._keep_alive_s * KEEP_ALIVE_PATIENCE or DEAF_S_MAX):
            self.drop(f"{_DEAF}: {now_s - self._deaf_since_s:.0f} s")
        silent_s = now_s - self._heard_at_s
        if self._reasons_not_to_read or self._login is not None:
            return
        if self.gateway is None and silent_s > self._endpoint.settings.connect_within_ms / 1000:
            self.end(Reason.KEEP_ALIVE_TIMEOUT, "no CONNECT came")
        elif self._keep_alive_s and silent_s > self._keep_alive_s * KEEP_ALIVE_PATIENCE:
            self.end(Reason.KEEP_ALIVE_TIMEOUT, f"nothing heard for {silent_s:.0f} s")

    def end(self, reason: Reason, detail: str) -> None:
        """Close this connection and send an MQTT 5 client the reason; its will is published."""
        if self._transport is None or self._transport.is_closing():
            return
        self._endpoint.note_ending(self, detail)
        if self._reader.v5 and self.gateway is not None:
            self._transport.write(disconnect(reason))
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._closed_at_s = self._endpoint.now_s()
            self._transport.close()

    def drop(self, detail: str) -> None:
        """End this connection at once, without a message to its client."""
        if self._transport is not None:
            self._endpoint.note_ending(self, detail)
            self._transport.abort()

    def send_request(self, request: bytes, retained: bool = False) -> None:
        """Send the node's request to devices, or its last one (`retained`), if this client has subscribed to it.

        A client that does not read, or accepts no packet of this length, does not get it."""
        if self.subscription is None or self._transport is None or self._transport.is_closing() or _DEAF in self._reasons_not_to_read:
            return
        sent = request_packet(self._reader.v5, request, flagged=retained or self.subscription.keeps_flag)
        if len(sent) <= self._packet_bytes_max:
            self._transport.write(sent)

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """Acknowledge the messages, because the pipeline reports that what `outcomes` report is durable."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(acknowledgements(self._reader.v5, messages, outcomes))
        self._in_flight -= sum([1 for message in messages if message.packet_id])
        if self._in_flight < self._endpoint.settings.receive_max:
            self.resume("too many in flight")

    def let_go(self) -> None:
        """End this connection, so that the client sends again, here or elsewhere, what was not acknowledged."""
        self.end(Reason.SERVER_BUSY, "this disk lost what it brought, and no other has it")

    def _take(self, packets: list[Publish | ControlPacket]) -> None:
        publishes: list[Publish] = []
        violation = self._reader.violation
        try:
            for number, packet in enumerate(packets):
                if type(packet) is Publish:
                    publishes.append(self._checked(packet))
                elif type(packet) is ControlPacket and not self._control(packet):
                    self._early = packets[number + 1 :]
                    if self._early:
                        self.pause("login")
                    break
        except Violation as found:
            violation = found
        self._answer()
        if publishes:
            self._publish(publishes)
        if violation is not None and self._login is None:
            if self._reader.v5 and self.gateway is None:
                self._refuse(_UNAVAILABLE_311, violation.reason, str(violation))
            else:
                self.end(violation.reason, str(violation))

    def _checked(self, publish: Publish) -> Publish:
        """Return the message as its gateway may publish it.

        RETAIN is the publisher's own wish here, and shows nothing about the message's age."""
        if self.gateway is None:
            raise Violation(Reason.PROTOCOL_ERROR, "a PUBLISH before the CONNECT")
        publish.retained = False
        return self.gateway.checked(publish)

    def _publish(self, publishes: list[Publish]) -> None:
        self._in_flight += sum([1 for publish in publishes if publish.packet_id])
        self._endpoint.take_in(self, publishes)
        if self._in_flight > self._endpoint.settings.receive_max:
            if self._reader.v5:
                self.end(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"{self._in_flight} messages in flight")
            else:
                self.pause("too many in flight")

    def _control(self, packet: ControlPacket) -> bool:
        """Process one packet; return False when what follows it must wait or is not to be read."""
        if packet.head & 0x0F and packet.kind not in (PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE):
            raise Violation(Reason.MALFORMED_PACKET, f"flags 0x{packet.head & 0x0F:x} in packet type {packet.kind}")
        if self._transport is None or (self.gateway is None) != (packet.kind == PacketType.CONNECT):
            raise Violation(Reason.PROTOCOL_ERROR, f"packet type {packet.kind} at the wrong time")
        v5 = self._reader.v5
        if packet.kind == PacketType.CONNECT:
            self._begin_login(packet.body)
            return False
        if packet.kind == PacketType.PINGREQ:
            self._answers += PINGRESP
        elif packet.kind == PacketType.SUBSCRIBE:
            self._subscribe(packet)
        elif packet.kind == PacketType.UNSUBSCRIBE:
            answer, ends = unsubscribe(v5, packet, self.subscription)
            if ends and self.subscription is not None:
                self.subscription = None
                self._endpoint.set_subscription(self, None)
            self._answers += answer
        elif packet.kind == PacketType.DISCONNECT:
            reason, expiry_s = read_disconnect(packet.body) if v5 else (_LEAVES, None)
            if expiry_s and not self.session_expiry_s:
                raise Violation(Reason.PROTOCOL_ERROR, "a DISCONNECT that wants a session kept which was to end")
            if expiry_s is not None:
                self.session_expiry_s = min(expiry_s, self.session_expiry_s)
            if reason != _DISCONNECT_WITH_WILL:
                self._endpoint.cancel_will(self)
            self._answer()
            self._close()
            return False
        else:
            raise Violation(Reason.PROTOCOL_ERROR, f"packet type {packet.kind}, which a publisher at QoS 0 and 1 never sends")
        return True

    def _subscribe(self, packet: ControlPacket) -> None:
        subscribed = subscribe(self._reader.v5, packet, self.subscription)
        self._answers += subscribed.answer
        if subscribed.granted is not None:
            if self.subscription != subscribed.granted:
                self._endpoint.set_subscription(self, subscribed.granted)
            self.subscription = subscribed.granted
            if subscribed.say_now and (request := self._endpoint.last_request()) is not None:
                self._answer()
                self.send_request(request, retained=True)

    def _answer(self) -> None:
        """Send the answers to packets that were read together in one write: a write each costs ten times as much."""
        if self._answers and self._transport is not None and not self._transport.is_closing():
            self._transport.write(bytes(self._answers))
        self._answers.clear()

    def _begin_login(self, body: bytes) -> None:
        """Check a CONNECT and begin the login.

        Until it ends, data is read only until more comes: the login of a client that leaves is cancelled."""
        try:
            connect = read_connect(body)
        except VersionRefused:
            self._refuse(_VERSION_REFUSED_311, Reason.UNSUPPORTED_PROTOCOL_VERSION, "neither MQTT 3.1.1 nor 5")
            return
        if self._endpoint.turns_clients_away():
            self._refuse(_UNAVAILABLE_311, Reason.SERVER_UNAVAILABLE, "nothing can be stored here")
        elif connect.will is not None and connect.will.qos > 1:
            self._refuse(_VERSION_REFUSED_311, Reason.QOS_NOT_SUPPORTED, "a will at QoS 2")
        elif not connect.client_id and not connect.clean_start and not connect.v5:
            self._refuse(_IDENTIFIER_REFUSED_311, Reason.CLIENT_IDENTIFIER_NOT_VALID, "no client identifier")
        else:
            self._login = asyncio.get_running_loop().create_task(self._log_in(connect))

    async def _log_in(self, connect: Connect) -> None:
        crowded, gateway, given = False, None, None
        if not connect.client_id:
            given = f"landfall-{secrets.token_hex(8)}"
            connect = replace(connect, client_id=given)
        try:
            gateway = await self._endpoint.logins.gateway(self.address, connect.username, connect.password)
        except Crowded:
            crowded = True
        self._login = None
        if self._transport is None or self._transport.is_closing():
            return
        if crowded or (gateway is not None and not self._endpoint.has_room(gateway, connect)):
            what = "passwords wait for" if crowded else "connections of"
            self._refuse(_UNAVAILABLE_311, Reason.QUOTA_EXCEEDED, f"too many {what} {connect.username!r}")
        elif gateway is None:
            self._refuse(_LOGIN_REFUSED_311, Reason.BAD_USER_NAME_OR_PASSWORD, f"wrong login of {connect.username!r}")
        else:
            self._let_in(gateway, connect, given)

    def _let_in(self, gateway: GatewayLogin, connect: Connect, given: str | None) -> None:
        self.gateway, self._keep_alive_s, self._heard_at_s = gateway, connect.keep_alive_s, self._endpoint.now_s()
        self._packet_bytes_max = connect.packet_bytes_max
        self.session_expiry_s = min(connect.session_expiry_s, SESSION_S_MAX)
        session = self._endpoint.register(self, connect)
        self.subscription, settings = session.subscription, self._endpoint.settings
        welcome = welcome_properties(settings.receive_max, settings.packet_bytes_max, self.session_expiry_s, given)
        if self._transport is not None:
            self._transport.write(connack(connect.v5, Reason.SUCCESS, welcome, session.present))
        self.resume("login")
        early, self._early = self._early, []
        self._take(early)

    def _refuse(self, code_311: int, reason: Reason, detail: str) -> None:
        if self._transport is not None:
            self._endpoint.note_ending(self, detail)
            self._transport.write(connack(self._reader.v5, reason if self._reader.v5 else code_311))
            self._close()
