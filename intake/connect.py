"""What a client says of itself in its CONNECT packet (MQTT 3.1.1 and 5, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from intake.packets import Reason, Violation

CLIENT_ID_CHARS_MAX = 256
_V311, _V5 = 4, 5
_TEXTS = frozenset({0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F})
_BINARIES = frozenset({0x09, 0x16})
_FIXED_BYTES = {0x01: 1, 0x02: 4, 0x11: 4, 0x17: 1, 0x18: 4, 0x19: 1, 0x21: 2, 0x22: 2, 0x27: 4}
_SESSION_EXPIRY, _AUTHENTICATION_METHOD, _WILL_DELAY, _PACKET_BYTES_MAX = 0x11, 0x15, 0x18, 0x27
FOREVER_S = 0xFFFFFFFF
PACKET_BYTES_MAX = 268_435_460
"""The longest packet that MQTT can write: what a client takes that says nothing of it."""


class VersionRefused(Exception):
    """The client speaks neither MQTT 3.1.1 nor 5: CONNACK 0x01 (or 0x84), then the end."""


@dataclass(frozen=True, slots=True)
class Will:
    """What is to be published for the client when its connection ends without a DISCONNECT, and does not come back within `delay_s`."""

    topic: bytes
    payload: bytes
    qos: int
    delay_s: int = 0


@dataclass(frozen=True, slots=True)
class Connect:
    """A CONNECT packet. `keep_alive_s` 0: the client does not want to be watched. `packet_bytes_max`: what it takes at most.
    `session_expiry_s`: how long its session is to be kept after it has left."""

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
    """The CONNECT in `body`. Raises VersionRefused for another version, Violation for what does not read."""
    reader = _Reader(body)
    name, level = reader.binary(), reader.byte()
    if (name, level) not in ((b"MQTT", _V311), (b"MQTT", _V5)):
        raise VersionRefused
    v5 = level == _V5
    flags, keep_alive_s = reader.byte(), reader.short()
    has_will, will_qos = bool(flags & 0x04), (flags >> 3) & 3
    if flags & 0x01 or will_qos == 3 or (not has_will and flags & 0x38):
        raise Violation(Reason.MALFORMED_PACKET, f"connect flags 0x{flags:02x}")
    properties = reader.properties() if v5 else {}
    if _AUTHENTICATION_METHOD in properties:
        raise Violation(Reason.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not offered here")
    client_id = reader.text()
    will = None
    if has_will:
        delay_s = int.from_bytes(reader.properties().get(_WILL_DELAY, b""), "big") if v5 else 0
        will = Will(topic=reader.binary(), payload=reader.binary(), qos=will_qos, delay_s=delay_s)
    username = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    reader.finish()
    if len(client_id) > CLIENT_ID_CHARS_MAX or not (client_id == "" or client_id.isprintable()):
        raise Violation(Reason.CLIENT_IDENTIFIER_NOT_VALID, f"a client identifier is at most {CLIENT_ID_CHARS_MAX} printable characters")
    packet_bytes_max = int.from_bytes(properties.get(_PACKET_BYTES_MAX, b""), "big") or PACKET_BYTES_MAX
    clean = bool(flags & 0x02)
    expiry_s = int.from_bytes(properties.get(_SESSION_EXPIRY, b""), "big") if v5 else FOREVER_S * (not clean)
    return Connect(v5, client_id, clean, keep_alive_s, username, password, will, packet_bytes_max, expiry_s)


def read_disconnect(body: bytes) -> tuple[int, int | None]:
    """An MQTT 5 DISCONNECT: its reason, and how long the session is kept if it says so (s). Raises Violation when it does not read."""
    reader = _Reader(body)
    reason = reader.byte() if body else 0
    properties = reader.properties() if len(body) > 1 else {}
    reader.finish()
    expiry = properties.get(_SESSION_EXPIRY)
    return reason, None if expiry is None else int.from_bytes(expiry, "big")


class _Reader:
    """Reads the fields of a packet's body in turn; anything missing is a violation."""

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
        try:
            text = self.binary().decode()
        except UnicodeDecodeError:
            raise Violation(Reason.MALFORMED_PACKET, "a text that is no UTF-8") from None
        if "\0" in text:
            raise Violation(Reason.MALFORMED_PACKET, "a text with a null character")
        return text

    def properties(self) -> dict[int, bytes]:
        """Reads a block of properties: of each that is there its value's bytes, of a user property its name's."""
        length, shift = 0, 0
        while (byte := self.byte()) & 0x80 and shift < 21:
            length |= (byte & 0x7F) << shift
            shift += 7
        inner = _Reader(self.take(length | (byte & 0x7F) << shift))
        found: dict[int, bytes] = {}
        while inner._at < len(inner._body):
            name = inner.byte()
            if name in _FIXED_BYTES:
                value = inner.take(_FIXED_BYTES[name])
            elif name in _TEXTS or name in _BINARIES:
                value = inner.binary()
            elif name == 0x26:
                value, _ = inner.binary(), inner.binary()
            else:
                raise Violation(Reason.MALFORMED_PACKET, f"property 0x{name:02x} in a CONNECT or DISCONNECT")
            found[name] = value
        return found

    def finish(self) -> None:
        if self._at != len(self._body):
            raise Violation(Reason.MALFORMED_PACKET, "a packet longer than what it holds")
