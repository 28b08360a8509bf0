"""One MQTT 3.1.1 connection of the simulator to an intake: QoS 1 out of a bounded window, requests in, everything again after a break.

Our own, because a client of many sensors has to send and tick off tens of thousands of messages a second, which paho takes a core for
several times over (docs/performance.md). What it speaks is held to by Mosquitto and by the node's endpoint (tests/sim).
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable

from intake.message_types import Publish
from intake.mqtt.packets import ControlPacket, PacketReader, PacketType, Violation, packet, pubacks
from landfall.system.listen_address import address
from sim.settings import IntakeDoor
from streams.model.clock import Clock

WINDOW_MAX = 2_000
"""Messages on their way to one intake that it has not acknowledged."""
KEEP_ALIVE_S = 15
CONNECT_WITHIN_S = 2.0
RETRY_S_MIN, RETRY_S_MAX = 0.2, 2.0
PACKET_BYTES_MAX = 64 << 10
READ_BYTES, WRITE_BYTES = 64 << 10, 256 << 10
PACKET_IDS = 65_535
REFUSALS = {
    1: "unacceptable protocol version",
    2: "client identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}
"""Return codes of a CONNACK (MQTT 3.1.1, 3.2.2.3)."""
PUBLISH_QOS_1, PUBLISH_AGAIN = b"\x32", b"\x3a"
PUBACK = packet(PacketType.PUBACK << 4, b"\0\0")
log = logging.getLogger("sim.publish")


class Broken(Exception):
    """The connection is of no use any more; the text says why."""


class PublisherConnection:
    """Belongs to one thread. It retries with a growing pause, and starts over at once when it was up before.

    At least once: what was under way when it broke is sent again, in its order and flagged so, on the next one.
    """

    def __init__(self, door: IntakeDoor, client_id: str, wall: Clock, report: Callable[[str], None]) -> None:
        """`report` hears once of each break."""
        self.door = door
        self.acknowledged: list[int] = []
        """Tickets, as they are acknowledged."""
        self.hears: Callable[[Publish], None] | None = None
        self.listens_to: str | None = None
        """The topic whose messages go to `hears`."""
        self.socket: socket.socket | None = None
        self._client_id, self._wall, self._report = client_id, wall, report
        self._under_way: dict[bytes, tuple[int, bytes]] = {}  # packet identifier → ticket, all of the packet after its first byte
        self._packet_id = 0
        self._out: list[bytes] = []
        self._left = b""
        self._reader = PacketReader(PACKET_BYTES_MAX)
        self._up = self._reported = False
        self._retry_s = RETRY_S_MIN
        self._next_try_s = self._wrote_s = self._heard_s = 0.0

    def offer(self, topic: bytes, payload: bytes, ticket: int) -> bool:
        """Send one message; return False while there is no connection or the window is full. `ticket` comes out of `acknowledged`."""
        if not self._up or len(self._under_way) >= WINDOW_MAX:
            return False
        packet_id = self._free_packet_id()
        body = len(topic).to_bytes(2, "big") + topic + packet_id + payload
        message = packet(PUBLISH_QOS_1[0], body)[1:]
        self._under_way[packet_id] = ticket, message
        self._out += PUBLISH_QOS_1, message
        return True

    @property
    def wants_to_write(self) -> bool:
        """Whether there are bytes to send."""
        return bool(self._left or self._out)

    def tend(self) -> None:
        """Connect when there is no connection and it is time to try; look after a silent one."""
        now_s = self._wall.monotonic_s()
        if self.socket is None:
            if now_s >= self._next_try_s:
                self._connect(now_s)
        elif self._silent(now_s):
            self.read()  # it may have spoken while nobody listened: a long piece was being made
            if self._silent(now_s):
                self._break("it is silent")
        elif self._up and now_s - min(self._wrote_s, self._heard_s) > KEEP_ALIVE_S / 2:
            self._wrote_s = now_s
            self._out.append(packet(PacketType.PINGREQ << 4, b""))

    def read(self) -> None:
        """Take what has come: acknowledgements, requests, a farewell."""
        try:
            while self.socket is not None:
                data = self.socket.recv(READ_BYTES)
                if not data:
                    raise Broken("closed by the intake")
                self._heard_s = self._wall.monotonic_s()
                if self._reader.between_packets and (acknowledged := puback_ids(data)):
                    self._tick_off(acknowledged)
                else:
                    for came in self._reader.feed(data):
                        self._take(came)
                if self._reader.violation is not None:
                    raise Broken(f"no MQTT: {self._reader.violation}")
                if len(data) < READ_BYTES and not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
                    return
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except (OSError, Broken, Violation) as problem:
            self._break(str(problem))

    def write(self) -> None:
        """Send as much as goes without waiting."""
        while self.socket is not None and (self._left or self._out):
            if not self._left:
                self._left, self._out = b"".join(self._out), []
            try:
                sent = self.socket.send(self._left[:WRITE_BYTES])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as problem:
                return self._break(str(problem))
            self._left = self._left[sent:]
            self._wrote_s = self._wall.monotonic_s()

    def leave(self) -> None:
        """Say farewell: `write` sends it."""
        if self._up:
            self._out.append(packet(PacketType.DISCONNECT << 4, b""))

    def close(self) -> None:
        """Drop the connection. What is not acknowledged stays so."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self._up = None, False

    def _silent(self, now_s: float) -> bool:
        return now_s - self._heard_s > (1.5 * KEEP_ALIVE_S if self._up else CONNECT_WITHIN_S)

    def _free_packet_id(self) -> bytes:
        while True:  # the window is smaller than there are identifiers
            self._packet_id = self._packet_id % PACKET_IDS + 1
            packet_id = self._packet_id.to_bytes(2, "big")
            if packet_id not in self._under_way:
                return packet_id

    def _connect(self, now_s: float) -> None:
        self._next_try_s = now_s + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)
        door, where = self.door, f"{self.door.at} at {address(self.door.host, self.door.port)}"
        try:
            connected = socket.create_connection((door.host, door.port), timeout=CONNECT_WITHIN_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if door.tls_ca is not None:  # which closes it where there is no understanding
                connected = ssl.create_default_context(cafile=str(door.tls_ca)).wrap_socket(connected, server_hostname=door.host)
            connected.setblocking(False)
        except ssl.SSLCertVerificationError as problem:
            return self._report_once(f"{where} shows a certificate that tls_ca does not vouch for ({problem}); trying again")
        except OSError as problem:
            return self._report_once(f"{where} does not answer ({problem}); trying again")
        self.socket, self._reader = connected, PacketReader(PACKET_BYTES_MAX)
        self._out, self._left = [_connect_packet(door, self._client_id)], b""
        self._heard_s = self._wrote_s = self._wall.monotonic_s()

    def _take(self, came: Publish | ControlPacket) -> None:
        if isinstance(came, Publish):
            if came.packet_id:
                self._out.append(pubacks([came.packet_id]))
            if self.hears is not None:
                self.hears(came)
        elif came.kind == PacketType.PUBACK:
            self._tick_off([came.body[:2]])
        elif came.kind == PacketType.CONNACK:
            self._welcome(came.body[-1] if len(came.body) == 2 else -1)

    def _tick_off(self, packet_ids: list[bytes]) -> None:
        for packet_id in packet_ids:
            known = self._under_way.pop(packet_id, None)
            if known is not None:
                self.acknowledged.append(known[0])

    def _welcome(self, code: int) -> None:
        door = self.door
        if code:
            refusal = REFUSALS.get(code, f"code {code}")
            self._report_once(f"{door.at} refuses the login of {door.username or 'nobody'} ({refusal}); trying again")
            return self.close()
        self._up, self._reported, self._retry_s = True, False, RETRY_S_MIN
        if self.listens_to is not None:
            topic = self.listens_to.encode()
            self._out.append(packet(PacketType.SUBSCRIBE << 4 | 2, b"\0\1" + len(topic).to_bytes(2, "big") + topic + b"\1"))
        for _, message in self._under_way.values():
            self._out += PUBLISH_AGAIN, message
        again = f", sending {len(self._under_way)} messages again" if self._under_way else ""
        log.info("connected to %s at %s:%d%s", door.at, door.host, door.port, again)

    def _break(self, why: str) -> None:
        was_up = self._up
        self.close()
        if was_up:
            self._report_once(f"the connection to {self.door.at} broke ({why}) with {len(self._under_way)} messages not acknowledged")
        else:
            self._report_once(
                f"{self.door.at} at {address(self.door.host, self.door.port)} does not answer as MQTT does ({why}); trying again"
            )

    def _report_once(self, what: str) -> None:
        """Report once per break, not once per try."""
        if not self._reported:
            self._reported = True
            self._report(what)


def puback_ids(data: bytes) -> list[bytes]:
    """Return the packet identifiers of PUBACK packets as MQTT 3.1.1 has them, 4 bytes each; none if there is anything else in `data`."""
    count, rest = divmod(len(data), len(PUBACK))
    if rest or data[::4] + data[1::4] != PUBACK[:1] * count + PUBACK[1:2] * count:
        return []
    return [data[at : at + 2] for at in range(2, len(data), len(PUBACK))]


def _connect_packet(door: IntakeDoor, client_id: str) -> bytes:
    """Return a CONNECT with a clean session."""
    flags, texts = 0x02, [client_id]
    if door.username:
        flags |= 0xC0
        texts += [door.username, door.password.get_secret_value()]
    said = b"".join(len(text.encode()).to_bytes(2, "big") + text.encode() for text in texts)
    return packet(PacketType.CONNECT << 4, b"\0\4MQTT\4" + bytes((flags,)) + KEEP_ALIVE_S.to_bytes(2, "big") + said)
