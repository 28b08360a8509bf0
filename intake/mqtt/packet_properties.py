"""Fields of MQTT packets: lengths, texts and the properties of MQTT 5; and the reasons for refusing them.

MQTT 5.0 (OASIS standard), 1.5, 2.2.2 and 2.4. Whole packets: intake/mqtt/packets.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

LENGTH_BYTES_MAX = 4
_WILDCARDS = re.compile(rb"[+#]")


class Reason(IntEnum):
    """Reason codes of MQTT 5 (2.4) that this endpoint sends."""

    SUCCESS = 0x00
    NO_SUBSCRIPTION_EXISTED = 0x11
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
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
    """Error for a client that broke the protocol: the connection ends, after a DISCONNECT with `reason` for MQTT 5."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{detail} (0x{reason:02x})")
        self.reason = reason


def long_length(buffer: bytes, at: int) -> tuple[int, int]:
    """Return a variable byte integer (1.5.5) at `at`, and where it ends; (0, 0) when its end has not come yet.

    Raises Violation when it is longer than LENGTH_BYTES_MAX."""
    value = 0
    for place in range(LENGTH_BYTES_MAX):
        if at + place >= len(buffer):
            return 0, 0
        byte = buffer[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at + place + 1
    raise Violation(Reason.MALFORMED_PACKET, "a length of more than four bytes")


class Property(IntEnum):
    """Properties that a client may send (2.2.2.2)."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY = 0x11
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE = 0x19
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAX = 0x21
    TOPIC_ALIAS_MAX = 0x22
    TOPIC_ALIAS = 0x23
    USER = 0x26
    PACKET_BYTES_MAX = 0x27


_USER = int(Property.USER)
_FIXED_BYTES: dict[int, int] = {
    Property.PAYLOAD_FORMAT: 1,
    Property.MESSAGE_EXPIRY: 4,
    Property.SESSION_EXPIRY: 4,
    Property.REQUEST_PROBLEM: 1,
    Property.WILL_DELAY: 4,
    Property.REQUEST_RESPONSE: 1,
    Property.RECEIVE_MAX: 2,
    Property.TOPIC_ALIAS_MAX: 2,
    Property.PACKET_BYTES_MAX: 4,
}
"""Length of properties with a fixed length, bytes. All others begin with two bytes of length."""


@dataclass(frozen=True, slots=True)
class PropertySet:
    """Properties that are allowed `where`, and the answer to those that MQTT has there and this endpoint `refused`, whatever they hold."""

    where: str
    allowed: frozenset[Property]
    refused: Mapping[int, tuple[Reason, str]] = field(default_factory=dict)


def read_properties(packet: bytes, at: int, stop: int, known: PropertySet) -> tuple[dict[int, bytes], int]:
    """Return the properties that begin at `at` of a packet that ends at `stop`: the value of each except user properties; and where they
    end.

    Raises Violation for what MQTT does not allow there (2.2.2, 3.1.2.11, 3.3.2.3), and for what this endpoint refuses."""
    length, at = long_length(packet, at)
    end = at + length
    if not at or end > stop:
        raise Violation(Reason.MALFORMED_PACKET, "properties longer than their packet")
    found: dict[int, bytes] = {}
    while at < end:
        name = packet[at]
        if name in known.refused:
            raise Violation(*known.refused[name])
        if name not in known.allowed:
            raise Violation(Reason.MALFORMED_PACKET, f"property 0x{name:02x} in {known.where}")
        value, at = _value(packet, at + 1, end, _FIXED_BYTES.get(name))
        if name in _CHECKS:
            _CHECKS[name](value)
        if name == _USER:
            value, at = _value(packet, at, end)
            text_of(value)
        elif name in found:
            raise Violation(Reason.PROTOCOL_ERROR, f"property 0x{name:02x} twice in {known.where}")
        else:
            found[name] = value
    return found, end


def _value(packet: bytes, at: int, end: int, length: int | None = None) -> tuple[bytes, int]:
    if length is None:
        length = int.from_bytes(packet[at : at + 2], "big")
        at += 2
    if at + length > end:
        raise Violation(Reason.MALFORMED_PACKET, "a property longer than its packet")
    return packet[at : at + length], at + length


def text_of(value: bytes) -> str:
    """Return `value` as MQTT's text (1.5.4). Raises Violation when it is no UTF-8 or holds a null character."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Violation(Reason.MALFORMED_PACKET, "a text that is no UTF-8") from None
    if "\0" in text:
        raise Violation(Reason.MALFORMED_PACKET, "a text with a null character")
    return text


def check_topic_name(topic: bytes) -> None:
    """Raise Violation when MQTT allows no message on `topic` (4.7): no text, empty, or with wildcards."""
    text_of(topic)
    if not topic or _WILDCARDS.search(topic):
        raise Violation(Reason.PROTOCOL_ERROR, "a topic name that is empty or has wildcards")


def _check_switch(value: bytes) -> None:
    if value > b"\1":
        raise Violation(Reason.PROTOCOL_ERROR, "a property that is neither 0 nor 1")


def _check_packet_bytes_max(value: bytes) -> None:
    if not any(value):
        raise Violation(Reason.PROTOCOL_ERROR, "a Maximum Packet Size of 0")


_CHECKS: dict[int, Callable[[bytes], object]] = {
    Property.PAYLOAD_FORMAT: _check_switch,
    Property.CONTENT_TYPE: text_of,
    Property.RESPONSE_TOPIC: check_topic_name,
    Property.REQUEST_PROBLEM: _check_switch,
    Property.REQUEST_RESPONSE: _check_switch,
    Property.SERVER_REFERENCE: text_of,
    Property.REASON_STRING: text_of,
    Property.USER: text_of,
    Property.PACKET_BYTES_MAX: _check_packet_bytes_max,
}
"""Checks that raise Violation for a value that MQTT does not allow; for a user property, of its name.

A Receive Maximum of 0 is accepted, though MQTT forbids it (3.1.2.11.3): Mosquitto's bridge sends it where `max_inflight_messages` is 0, and
could never connect otherwise. It limits nothing here, where clients are sent QoS 0 alone."""
