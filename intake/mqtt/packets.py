"""MQTT packets from a stream of bytes, and the answers of an endpoint for publishers: sans-I/O, bounded, quick for PUBLISH.

MQTT 3.1.1 and 5.0 (OASIS standards). One PacketReader per connection."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish
from intake.mqtt.packet_properties import LENGTH_BYTES_MAX, Property, PropertySet, check_topic_name, long_length, read_properties
from intake.mqtt.packet_properties import Reason as Reason
from intake.mqtt.packet_properties import Violation as Violation

TOPIC_BYTES_MAX = 1_024
_PACKET_ID_ZERO = b"\0\0"
_OF_PUBLISH = PropertySet(
    "a PUBLISH",
    frozenset(
        {
            Property.PAYLOAD_FORMAT,
            Property.MESSAGE_EXPIRY,
            Property.CONTENT_TYPE,
            Property.RESPONSE_TOPIC,
            Property.CORRELATION,
            Property.USER,
        }
    ),
    {
        Property.TOPIC_ALIAS: (Reason.TOPIC_ALIAS_INVALID, "topic aliases are not offered here"),
        Property.SUBSCRIPTION_IDENTIFIER: (Reason.PROTOCOL_ERROR, "a subscription identifier from a client"),
    },
)


CONTROLS_A_TURN = 1_024
"""Maximum number of packets other than PUBLISH that are read at once: they cost their sender two bytes each."""
PUBLISHES_A_TURN = 256
"""Maximum number of messages that are read at once: the shortest have five bytes, and 50,000 of them at once would delay all other
clients."""
CONNECT_BYTES_MAX = 16_384
"""Maximum size of a packet held for a client that has not logged in, bytes: a name, a password and a will fit."""


class PacketType(IntEnum):
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


class ControlPacket(msgspec.Struct, frozen=True):
    """Any packet except PUBLISH: its first byte and all that follows its length."""

    head: int
    body: bytes

    @property
    def kind(self) -> int:
        """Type of the packet, one of PacketType if the client uses MQTT."""
        return self.head >> 4


class PacketReader:
    """Reader from bytes to whole packets. Holds at most one packet of `packet_bytes_max` bytes at a time.

    A longer PUBLISH is skipped and hashed, and returned as a Publish with `refused` and its payload's beginning only. Held until then are
    its topic, of 64 KiB at most, and its properties if they end within `packet_bytes_max`. Longer properties are skipped like the payload,
    but unchecked, and are no part of it. A PUBLISH on a topic of more than TOPIC_BYTES_MAX is returned with `refused` too, its topic cut to
    that. These are no violations: a client that repeats what was not acknowledged would come back with the same one for ever.

    After the first violation nothing more is read: `violation` has it, and the packets before it are good. Of more than PUBLISHES_A_TURN
    messages, or CONTROLS_A_TURN other packets, the rest waits, and `more` is true, or for the latter `pinged` too: feed it again, with
    nothing or with what comes."""

    def __init__(self, packet_bytes_max: int) -> None:
        self._packet_bytes_max = packet_bytes_max
        self._tail = b""
        self._oversized: _Oversized | None = None
        self.v5, self.more, self.pinged = False, False, False
        self.violation: Violation | None = None

    @property
    def between_packets(self) -> bool:
        """Whether no part of a packet is held, and no violation was seen."""
        return not self._tail and self._oversized is None and self.violation is None

    def feed(self, data: bytes) -> list[Publish | ControlPacket]:
        """Return the packets that `data` completes, in order."""
        packets: list[Publish | ControlPacket] = []
        if self.violation is None:
            try:
                self._read(self._tail + data if self._tail else data, packets)
            except Violation as violation:
                self.violation = violation
                self._tail = b""
        return packets

    def _read(self, buffer: bytes, packets: list[Publish | ControlPacket]) -> None:
        at, end, publishes, controls, self.more, self.pinged = 0, len(buffer), 0, 0, False, False
        if self._oversized is not None:
            at = self._skip(self._oversized, buffer, packets)
        while end - at >= 2:
            length, body = buffer[at + 1], at + 2
            if length & 0x80:
                if body < end and buffer[body] < 0x80:  # as nearly every reading's is
                    length, body = length & 0x7F | buffer[body] << 7, body + 1
                else:
                    length, body = long_length(buffer, at + 1)
                    if not body:
                        break
            stop, head = body + length, buffer[at]
            if length > self._packet_bytes_max:
                self._oversized = self._begin_oversized(head, buffer, body, stop)
                if self._oversized is None:
                    break
                at = self._skip(self._oversized, buffer, packets)
                continue
            if stop > end:
                _check_connect(head, length)
                break
            if head >> 4 == PacketType.PUBLISH:
                if publishes == PUBLISHES_A_TURN:
                    self.more = True
                    break
                packets.append(_publish(head, buffer, body, stop, self.v5))
                publishes += 1
            elif controls == CONTROLS_A_TURN:
                self.more = self.pinged = True
                break
            else:
                packets.append(self._control(head, buffer[body:stop]))
                controls += 1
            at = stop
        self._tail = buffer[at:]

    def _control(self, head: int, body: bytes) -> ControlPacket:
        kind = head >> 4
        if kind == PacketType.CONNECT and len(body) > 6:
            self.v5 = body[6] == 5
        _check_connect(head, len(body))
        if body and (kind == PacketType.PINGREQ or (kind == PacketType.DISCONNECT and not self.v5)):
            raise Violation(Reason.MALFORMED_PACKET, f"{len(body)} bytes in a packet of type {kind}, which has none")
        return ControlPacket(head, body)

    def _begin_oversized(self, head: int, buffer: bytes, body: int, stop: int) -> _Oversized | None:
        """Return the beginning of an oversized PUBLISH; None until the part of it that is read is all there."""
        if head >> 4 != PacketType.PUBLISH:
            raise Violation(Reason.PACKET_TOO_LARGE, f"a control packet of {stop - body} bytes")
        if len(buffer) < body + 2:
            return None
        payload_at = body + 2 + (buffer[body] << 8 | buffer[body + 1]) + (2 if head & 0x06 else 0)
        if len(buffer) < min(stop, payload_at + (LENGTH_BYTES_MAX if self.v5 else 0)):
            return None
        beginning = _publish(head, buffer, body, min(stop, payload_at), v5=False)
        if self.v5:
            length, properties_at = long_length(buffer, payload_at)
            end = properties_at + length
            if not properties_at or end > stop:
                raise Violation(Reason.MALFORMED_PACKET, "properties longer than their packet")
            if end - body <= self._packet_bytes_max:
                if len(buffer) < end:
                    return None
                read_properties(buffer, payload_at, stop, _OF_PUBLISH)
            payload_at = end
        return _Oversized(beginning, payload_at, stop - payload_at)

    def _skip(self, oversized: _Oversized, buffer: bytes, packets: list[Publish | ControlPacket]) -> int:
        begin = min(len(buffer), oversized.at)
        stop = min(len(buffer), oversized.at + oversized.left)
        oversized.at -= begin
        oversized.take(buffer[begin:stop])
        if not oversized.at and not oversized.left:
            packets.append(oversized.publish(self._packet_bytes_max))
            self._oversized = None
        return stop


def _publish(head: int, buffer: bytes, body: int, stop: int, v5: bool) -> Publish:
    if stop - body < 2:
        raise Violation(Reason.MALFORMED_PACKET, "a PUBLISH without a topic")
    topic_end = body + 2 + (buffer[body] << 8 | buffer[body + 1])
    qos = head & 0x06
    payload_at = topic_end + 2 if qos else topic_end
    if payload_at > stop:
        raise Violation(Reason.MALFORMED_PACKET, "a PUBLISH shorter than its own header")
    if qos == 6:
        raise Violation(Reason.MALFORMED_PACKET, "a QoS of 3")
    if qos > 2:
        raise Violation(Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered here")
    packet_id = buffer[topic_end:payload_at]
    if packet_id == _PACKET_ID_ZERO or (head & 0x08 and not qos):
        raise Violation(Reason.MALFORMED_PACKET, "a packet identifier of 0, or a repeat at QoS 0")
    content_type = b""
    if v5:
        if payload_at < stop and buffer[payload_at] == 0:
            payload_at += 1
        else:
            properties, payload_at = read_properties(buffer, payload_at, stop, _OF_PUBLISH)
            content_type = properties.get(Property.CONTENT_TYPE, b"")
    publish = Publish(buffer[body + 2 : topic_end], buffer[payload_at:stop], packet_id)
    if content_type:
        publish.content_type = content_type.decode()
    if head & 0x09:
        publish.again, publish.retained = bool(head & 0x08), bool(head & 0x01)
    if topic_end - body > 2 + TOPIC_BYTES_MAX:
        _refuse_topic(publish)
    return publish


def _refuse_topic(publish: Publish) -> None:
    check_topic_name(publish.topic)
    publish.refused = Outcome.UNKNOWN_TOPIC
    publish.reason = f"a topic of {len(publish.topic)} bytes: none of ours is longer than {TOPIC_BYTES_MAX}"
    publish.topic = publish.topic[:TOPIC_BYTES_MAX].decode(errors="ignore").encode()  # no half character is left at its end


def _check_connect(head: int, length: int) -> None:
    if head >> 4 == PacketType.CONNECT and length > CONNECT_BYTES_MAX:
        raise Violation(Reason.PACKET_TOO_LARGE, f"a CONNECT of {length} bytes")


class _Oversized:
    """A PUBLISH that is being skipped: its payload goes on at `at` of the buffer, or of what follows that; `left` bytes of it are to
    come."""

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

    def publish(self, packet_bytes_max: int) -> Publish:
        begun = self._beginning
        reason = f"a packet of more than {packet_bytes_max} bytes" + (f"; {begun.reason}" if begun.reason else "")
        return Publish(begun.topic, self._kept, begun.packet_id, Outcome.OVERSIZED, reason, self._payload_bytes, self._sha256.hexdigest())


PINGRESP = bytes((PacketType.PINGRESP << 4, 0))


def connack(v5: bool, code: int, properties: bytes = b"", present: bool = False) -> bytes:
    """Return a CONNACK with `code` (a return code of 3.1.1 or a reason code of 5), and whether the client's session goes on."""
    body = bytes((present, code)) + (_with_length(properties) if v5 else b"")
    return packet(PacketType.CONNACK << 4, body)


def welcome_properties(receive_max: int, packet_bytes_max: int, session_expiry_s: int, assigned_client_id: str | None) -> bytes:
    """Return the properties of a v5 CONNACK: QoS 1 at most, limits, how long a session is kept, no wildcard, shared or numbered
    subscriptions."""
    said = struct.pack(">BIBHBBBI", 0x11, session_expiry_s, 0x21, receive_max, 0x24, 1, 0x27, packet_bytes_max) + bytes(
        (0x28, 0, 0x29, 0, 0x2A, 0)
    )
    if assigned_client_id is not None:
        name = assigned_client_id.encode()
        said += struct.pack(">BH", 0x12, len(name)) + name
    return said


def pubacks(packet_ids: Iterable[bytes]) -> bytes:
    """Return PUBACKs of success: one form for both versions."""
    return b"".join([b"\x40\x02" + packet_id for packet_id in packet_ids])


def puback_with_reason(packet_id: bytes, reason: Reason) -> bytes:
    """Return an MQTT 5 PUBACK with the reason why the message was refused as a reading."""
    return b"\x40\x03" + packet_id + bytes((reason,))


def disconnect(reason: Reason) -> bytes:
    """Return an MQTT 5 DISCONNECT. (3.1.1 has none from a server: there the connection just ends.)"""
    return packet(PacketType.DISCONNECT << 4, bytes((reason, 0)))


def packet(head: int, body: bytes) -> bytes:
    """Return `body` behind its first byte and length."""
    return bytes((head,)) + _with_length(body)


def _with_length(body: bytes) -> bytes:
    length, left = b"", len(body)
    while True:
        left, seven = left >> 7, left & 0x7F
        length += bytes((seven | 0x80 if left else seven,))
        if not left:
            return length + body
