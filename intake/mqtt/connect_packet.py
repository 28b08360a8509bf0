"""The CONNECT packet of a client (MQTT 3.1.1 and 5, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from intake.mqtt.packet_properties import Property, PropertySet, Reason, Violation, check_topic_name, read_properties, text_of

CLIENT_ID_CHARS_MAX = 256
_V311, _V5 = 4, 5
_OF_CONNECT = PropertySet(
    "a CONNECT",
    frozenset(
        {
            Property.SESSION_EXPIRY,
            Property.AUTHENTICATION_DATA,
            Property.REQUEST_PROBLEM,
            Property.REQUEST_RESPONSE,
            Property.RECEIVE_MAX,
            Property.TOPIC_ALIAS_MAX,
            Property.USER,
            Property.PACKET_BYTES_MAX,
        }
    ),
    {Property.AUTHENTICATION_METHOD: (Reason.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not offered here")},
)
_OF_WILL = PropertySet(
    "a will",
    frozenset(
        {
            Property.WILL_DELAY,
            Property.PAYLOAD_FORMAT,
            Property.MESSAGE_EXPIRY,
            Property.CONTENT_TYPE,
            Property.RESPONSE_TOPIC,
            Property.CORRELATION,
            Property.USER,
        }
    ),
)
_OF_DISCONNECT = PropertySet(
    "a DISCONNECT", frozenset({Property.SESSION_EXPIRY, Property.SERVER_REFERENCE, Property.REASON_STRING, Property.USER})
)
FOREVER_S = 0xFFFFFFFF
PACKET_BYTES_MAX = 268_435_460
"""Length of the longest packet that MQTT can write, bytes: the limit of a client that gives none."""


class VersionRefused(Exception):
    """Error for a client with neither MQTT 3.1.1 nor 5: CONNACK 0x01 (or 0x84), then the end."""


@dataclass(frozen=True, slots=True)
class Will:
    """Message to publish for the client when its connection ends without a DISCONNECT, and does not come back within `delay_s`."""

    topic: bytes
    payload: bytes
    qos: int
    delay_s: int = 0


@dataclass(frozen=True, slots=True)
class Connect:
    """A CONNECT packet. `keep_alive_s` 0: the client does not want to be watched.

    `packet_bytes_max`: the longest packet it accepts. `session_expiry_s`: how long its session is to be kept after it has left."""

    v5: bool
    client_id: str
    clean_start: bool
    keep_alive_s: int
    username: str | None
    password: bytes | None
    will: Will | None
    packet_bytes_max: int = PACKET_BYTES_MAX
    session_expiry_s: int = 0


def read_connect(body: bytes) -> Connect:
    """Return the CONNECT in `body`. Raises VersionRefused for another version, Violation for a packet that can not be read."""
    reader = _Reader(body)
    name, level = reader.binary(), reader.byte()
    if (name, level) not in ((b"MQTT", _V311), (b"MQTT", _V5)):
        raise VersionRefused
    v5 = level == _V5
    flags, keep_alive_s = reader.byte(), reader.short()
    has_will, will_qos = bool(flags & 0x04), (flags >> 3) & 3
    if flags & 0x01 or will_qos == 3 or (not has_will and flags & 0x38) or (not v5 and flags & 0xC0 == 0x40):
        raise Violation(Reason.MALFORMED_PACKET, f"connect flags 0x{flags:02x}")
    properties = reader.properties(_OF_CONNECT) if v5 else {}
    if Property.AUTHENTICATION_DATA in properties:
        raise Violation(Reason.PROTOCOL_ERROR, "authentication data without a method")
    client_id = reader.text()
    will = None
    if has_will:
        delay_s = int.from_bytes(reader.properties(_OF_WILL).get(Property.WILL_DELAY, b""), "big") if v5 else 0
        will = Will(topic=reader.topic(), payload=reader.binary(), qos=will_qos, delay_s=delay_s)
    username = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    reader.finish()
    if len(client_id) > CLIENT_ID_CHARS_MAX or not (client_id == "" or client_id.isprintable()):
        raise Violation(Reason.CLIENT_IDENTIFIER_NOT_VALID, f"a client identifier is at most {CLIENT_ID_CHARS_MAX} printable characters")
    packet_bytes_max = int.from_bytes(properties.get(Property.PACKET_BYTES_MAX, b""), "big") or PACKET_BYTES_MAX
    clean = bool(flags & 0x02)
    expiry_s = int.from_bytes(properties.get(Property.SESSION_EXPIRY, b""), "big") if v5 else FOREVER_S * (not clean)
    return Connect(v5, client_id, clean, keep_alive_s, username, password, will, packet_bytes_max, expiry_s)


def read_disconnect(body: bytes) -> tuple[int, int | None]:
    """Return the reason of an MQTT 5 DISCONNECT, and how long the session is kept if it has a value (s).

    Raises Violation if it can not be read."""
    reader = _Reader(body)
    reason = reader.byte() if body else 0
    properties = reader.properties(_OF_DISCONNECT) if len(body) > 1 else {}
    reader.finish()
    expiry = properties.get(Property.SESSION_EXPIRY)
    return reason, None if expiry is None else int.from_bytes(expiry, "big")


class _Reader:
    """Reader of the fields of a packet's body in turn; anything missing is a violation."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._body[self._at : self._at + count]
        if len(taken) < count:
            raise Violation(Reason.MALFORMED_PACKET, "a packet shorter than what it announces")
        self._at += count
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def binary(self) -> bytes:
        return self.take(self.short())

    def text(self) -> str:
        return text_of(self.binary())

    def topic(self) -> bytes:
        topic = self.binary()
        check_topic_name(topic)
        return topic

    def properties(self, known: PropertySet) -> dict[int, bytes]:
        found, self._at = read_properties(self._body, self._at, len(self._body), known)
        return found

    def finish(self) -> None:
        if self._at != len(self._body):
            raise Violation(Reason.MALFORMED_PACKET, "a packet longer than what it holds")
