"""paho's client for who subscribes to much: it reads what has come at once, and answers all of it with one write.

paho asks its socket for one byte, another, and the rest of each packet, makes an object of each message, and sends each acknowledgement by
itself: more than half of what a reading cost the node. Here packets are found as at the endpoint (`intake.mqtt.packets`): a PUBLISH goes
past paho, all else (connecting, subscribing, being pinged, losing the connection) is paho's, through `_sock_recv`, its one way to its
socket.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from intake.message_types import Publish
from intake.mqtt.packets import TOPIC_BYTES_MAX, Kind, PacketReader, packet, pubacks

READ_BYTES = 1 << 18
_HEADER_BYTES_MAX = 16
"""Of a PUBLISH, beside topic and payload."""


class Subscriber(mqtt.Client):
    """Speaks MQTT 3.1.1 with a persistent session, acknowledging by hand; driven from outside with `begin`, `read` and paho's own
    `loop_write` and `loop_misc`."""

    def __init__(self, client_id: str, payload_bytes_max: int) -> None:
        """Of a message with a payload of more than `payload_bytes_max` bytes, or little more, only the beginning is held."""
        super().__init__(
            CallbackAPIVersion.VERSION2, client_id, clean_session=False, protocol=mqtt.MQTTv311, manual_ack=True, reconnect_on_failure=False
        )
        self._packet_bytes_max = payload_bytes_max + TOPIC_BYTES_MAX + _HEADER_BYTES_MAX
        self._packets = PacketReader(self._packet_bytes_max)
        self._ahead = b""
        """What paho is given to read."""
        self._end: OSError | None = None

    def begin(self) -> None:
        """A connection has begun: nothing is left of the one before."""
        self._packets, self._ahead, self._end = PacketReader(self._packet_bytes_max), b"", None

    @property
    def more(self) -> bool:
        """Whether `read` gives more at once, though nothing more comes."""
        return self._packets.more

    def read(self) -> list[Publish]:
        """The messages that have come, as many as are read at once; of all else the callbacks hear. When the connection has ended, or can
        not be read, they hear of that, after what came before."""
        data = b"" if self._packets.more else self._received()
        brought: list[Publish] = []
        for one in self._packets.feed(data) if data is not None else ():
            if isinstance(one, Publish):
                brought.append(one)
            elif self.socket() is not None:
                self._ahead = packet(one.head, one.body)
                self.loop_read()
        if self._packets.violation is not None:
            self._end = ConnectionError(str(self._packets.violation))
        if self._end is not None and self.socket() is not None:
            self.loop_read()
        return brought

    def acknowledge(self, packet_ids: Sequence[bytes]) -> None:
        """The broker hears, soon, that these need not come again."""
        if packet_ids:
            self._packet_queue(Kind.PUBACK << 4, pubacks(packet_ids), 0, 1)

    def _received(self) -> bytes | None:
        """None when nothing has come."""
        sock = self.socket()
        if not isinstance(sock, socket.socket):
            return None
        try:
            data = sock.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as problem:
            self._end = problem
            return None
        if not data:
            self._end = ConnectionError("the broker has ended it")
        while isinstance(sock, ssl.SSLSocket) and 0 < len(data) < READ_BYTES and (more := self._another_record(sock)):
            data += more
        return data

    def _another_record(self, sock: ssl.SSLSocket) -> bytes:
        """What TLS gives next: a record at most, where the socket has many. Empty when there is none; what came before it is taken, though
        the connection ends here."""
        try:
            return sock.recv(READ_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        except OSError as problem:
            self._end = problem
            return b""

    def _sock_recv(self, bufsize: int) -> bytes:
        """What `read` has for paho; its end after that."""
        if not self._ahead:
            raise self._end or BlockingIOError()
        given, self._ahead = self._ahead[:bufsize], self._ahead[bufsize:]
        return given
