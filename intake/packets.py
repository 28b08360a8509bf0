"""MQTT packets out of a stream of bytes, and the few a door for publishers answers with: sans-I/O, bounded, quick for PUBLISH.

MQTT 3.1.1 and 5.0 (OASIS standards). One PacketReader per connection.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from intake.arrivals import KEPT_BYTES_MAX, Outcome, Publish

TOPIC_BYTES_MAX = 1_024
_PUBLISH_HEAD_BYTES_MAX = 2 + TOPIC_BYTES_MAX + 2 + 4 + 2_048
_LENGTH_BYTES_MAX = 4
_PACKET_ID_ZERO = b"\0\0"


class Kind(IntEnum):
    """Control packet types (MQTT 2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Reason(IntEnum):
    """Reason codes of MQTT 5 (2.4) that this door gives."""

    SUCCESS = 0x00
    NO_SUBSCRIPTION_EXISTED = 0x11
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_NAME_INVALID = 0x90
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT_INVALID = 0x99
    QOS_NOT_SUPPORTED = 0x9B
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class Violation(Exception):
    """The client broke the protocol: the connection ends, after a DISCONNECT with `reason` for MQTT 5."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{detail} (0x{reason:02x})")
        self.reason = reason


class Control(msgspec.Struct, frozen=True):
    """Any packet but PUBLISH: its first byte and all that follows its length."""

    head: int
    body: bytes

    @property
    def kind(self) -> int:
        """The packet's type, one of Kind if the client speaks MQTT."""
        return self.head >> 4


class PacketReader:
    """Takes bytes as they arrive and gives whole packets. Holds at most one packet of `packet_bytes_max` at a time.

    A PUBLISH beyond that is read past, hashed and given as a Publish with `refused` and its payload's beginning only. After the first
    violation nothing more is read: `violation` says what it was, the packets before it are good.
    """

    def __init__(self, packet_bytes_max: int) -> None:
        self._packet_bytes_max = max(packet_bytes_max, _PUBLISH_HEAD_BYTES_MAX)
        self._tail = b""
        self._oversized: _Oversized | None = None
        self.v5 = False
        self.violation: Violation | None = None

    def feed(self, data: bytes) -> list[Publish | Control]:
        """The packets that `data` completes, in order."""
        packets: list[Publish | Control] = []
        if self.violation is None:
            try:
                self._read(self._tail + data if self._tail else data, packets)
            except Violation as violation:
                self.violation = violation
                self._tail = b""
        return packets

    def _read(self, buffer: bytes, packets: list[Publish | Control]) -> None:
        at, end = 0, len(buffer)
        if self._oversized is not None:
            at = self._skip(self._oversized, buffer, packets)
        while end - at >= 2:
            length, body = buffer[at + 1], at + 2
            if length & 0x80:
                length, body = _long_length(buffer, at + 1)
                if not body:
                    break
            stop, head = body + length, buffer[at]
            if length > self._packet_bytes_max:
                if end - body < _PUBLISH_HEAD_BYTES_MAX and head >> 4 == Kind.PUBLISH:
                    break
                at = self._skip(self._begin_oversized(head, buffer, body, stop), buffer, packets)
                continue
            if stop > end:
                break
            if head >> 4 == Kind.PUBLISH:
                packets.append(self._publish(head, buffer, body, stop))
            else:
                packets.append(self._control(head, buffer[body:stop]))
            at = stop
        self._tail = buffer[at:]

    def _control(self, head: int, body: bytes) -> Control:
        if head >> 4 == Kind.CONNECT and len(body) > 6:
            self.v5 = body[6] == 5
        return Control(head, body)

    def _publish(self, head: int, buffer: bytes, body: int, stop: int) -> Publish:
        if stop - body < 2:
            raise Violation(Reason.MALFORMED_PACKET, "a PUBLISH without a topic")
        topic_end = body + 2 + (buffer[body] << 8 | buffer[body + 1])
        qos = head & 0x06
        payload_at = topic_end + 2 if qos else topic_end
        if payload_at > stop:
            raise Violation(Reason.MALFORMED_PACKET, "a PUBLISH shorter than its own header")
        if qos > 2:
            raise Violation(Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered here")
        packet_id = buffer[topic_end:payload_at]
        if packet_id == _PACKET_ID_ZERO or (head & 0x08 and not qos):
            raise Violation(Reason.MALFORMED_PACKET, "a packet identifier of 0, or a repeat at QoS 0")
        if topic_end - body > 2 + TOPIC_BYTES_MAX:
            raise Violation(Reason.TOPIC_NAME_INVALID, f"a topic name longer than {TOPIC_BYTES_MAX} bytes")
        if self.v5:
            payload_at = _past_publish_properties(buffer, payload_at, stop)
        return Publish(buffer[body + 2 : topic_end], buffer[payload_at:stop], packet_id)

    def _begin_oversized(self, head: int, buffer: bytes, body: int, stop: int) -> _Oversized:
        if head >> 4 != Kind.PUBLISH:
            raise Violation(Reason.PACKET_TOO_LARGE, f"a control packet of {stop - body} bytes")
        beginning = self._publish(head, buffer, body, body + _PUBLISH_HEAD_BYTES_MAX)
        payload_at = body + _PUBLISH_HEAD_BYTES_MAX - len(beginning.payload)
        self._oversized = _Oversized(beginning, payload_at, stop - payload_at)
        return self._oversized

    def _skip(self, oversized: _Oversized, buffer: bytes, packets: list[Publish | Control]) -> int:
        stop = min(len(buffer), oversized.at + oversized.left)
        oversized.take(buffer[oversized.at : stop])
        if not oversized.left:
            packets.append(oversized.publish(self._packet_bytes_max))
            self._oversized = None
        return stop


class _Oversized:
    """A PUBLISH being read past: its payload goes on at `at` of the buffer, `left` bytes of it are still to come."""

    def __init__(self, beginning: Publish, payload_at: int, payload_bytes: int) -> None:
        self.at = payload_at
        self.left = self._payload_bytes = payload_bytes
        self._beginning = beginning
        self._sha256 = hashlib.sha256()
        self._kept = b""

    def take(self, data: bytes) -> None:
        self._sha256.update(data)
        self._kept += data[: KEPT_BYTES_MAX - len(self._kept)]
        self.left -= len(data)
        self.at = 0

    def publish(self, packet_bytes_max: int) -> Publish:
        begun = self._beginning
        reason = f"a packet of more than {packet_bytes_max} bytes"
        return Publish(begun.topic, self._kept, begun.packet_id, Outcome.OVERSIZED, reason, self._payload_bytes, self._sha256.hexdigest())


def _long_length(buffer: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer at `at` and where it ends; (0, 0) when its end has not come yet."""
    value = 0
    for place in range(_LENGTH_BYTES_MAX):
        if at + place >= len(buffer):
            return 0, 0
        byte = buffer[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at + place + 1
    raise Violation(Reason.MALFORMED_PACKET, "a length of more than four bytes")


_FIXED_PROPERTY_BYTES = {0x01: 1, 0x02: 4, 0x23: 2}
_TEXT_PROPERTIES = frozenset({0x03, 0x08, 0x09})


def _past_publish_properties(buffer: bytes, at: int, stop: int) -> int:
    """Where the payload of an MQTT 5 PUBLISH begins; its properties change nothing here. A topic alias was never offered."""
    if at < stop and buffer[at] == 0:
        return at + 1
    length, place = _long_length(buffer, at)
    end = place + length
    if not place or end > stop:
        raise Violation(Reason.MALFORMED_PACKET, "properties longer than their packet")
    while place < end:
        name = buffer[place]
        place += 1
        if name == 0x23:
            raise Violation(Reason.TOPIC_ALIAS_INVALID, "topic aliases are not offered here")
        if name in _FIXED_PROPERTY_BYTES:
            place += _FIXED_PROPERTY_BYTES[name]
        elif name in _TEXT_PROPERTIES or name == 0x26:
            for _ in range(2 if name == 0x26 else 1):
                if place + 2 > end:
                    raise Violation(Reason.MALFORMED_PACKET, "a property longer than its packet")
                place += 2 + (buffer[place] << 8 | buffer[place + 1])
        else:
            raise Violation(Reason.PROTOCOL_ERROR, f"property 0x{name:02x} in a PUBLISH")
    if place != end:
        raise Violation(Reason.MALFORMED_PACKET, "a property longer than its packet")
    return end


PINGRESP = bytes((Kind.PINGRESP << 4, 0))


def connack(v5: bool, code: int, properties: bytes = b"", present: bool = False) -> bytes:
    """A CONNACK with `code` (a return code of 3.1.1 or a reason code of 5), and whether the client's session goes on."""
    body = bytes((present, code)) + (_with_length(properties) if v5 else b"")
    return packet(Kind.CONNACK << 4, body)


def welcome_properties(receive_max: int, packet_bytes_max: int, session_expiry_s: int, assigned_client_id: str | None) -> bytes:
    """What a v5 CONNACK says of this door: QoS 1 at most, its limits, how long a session is kept, no wildcard, shared or numbered
    subscriptions."""
    said = struct.pack(">BIBHBBBI", 0x11, session_expiry_s, 0x21, receive_max, 0x24, 1, 0x27, packet_bytes_max) + bytes(
        (0x28, 0, 0x29, 0, 0x2A, 0)
    )
    if assigned_client_id is not None:
        name = assigned_client_id.encode()
        said += struct.pack(">BH", 0x12, len(name)) + name
    return said


def pubacks(packet_ids: Iterable[bytes]) -> bytes:
    """PUBACKs of success: one form for both versions."""
    return b"".join([b"\x40\x02" + packet_id for packet_id in packet_ids])


def puback_with_reason(packet_id: bytes, reason: Reason) -> bytes:
    """An MQTT 5 PUBACK that says why the message was not taken as a reading."""
    return b"\x40\x03" + packet_id + bytes((reason,))


def disconnect(reason: Reason) -> bytes:
    """An MQTT 5 DISCONNECT. (3.1.1 knows none from a server: there the connection just ends.)"""
    return packet(Kind.DISCONNECT << 4, bytes((reason, 0)))


def packet(head: int, body: bytes) -> bytes:
    """`body` behind its first byte and length."""
    return bytes((head,)) + _with_length(body)


def _with_length(body: bytes) -> bytes:
    length, left = b"", len(body)
    while True:
        left, seven = left >> 7, left & 0x7F
        length += bytes((seven | 0x80 if left else seven,))
        if not left:
            return length + body
