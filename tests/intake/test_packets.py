"""Goal: packets come out the same however the bytes are cut; hostile bytes end in a violation, in bounded memory, and nothing else."""

from __future__ import annotations

import hashlib
import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish
from intake.mqtt.connect_packet import VersionRefused, Will, read_connect
from intake.mqtt.packets import TOPIC_BYTES_MAX, ControlPacket, PacketReader, PacketType, Reason, Violation, packet
from intake.mqtt.subscriptions import subscribe, unsubscribe

LIMIT = 16_384


def publish(topic: bytes = b"t", payload: bytes = b"p", packet_id: int = 7, head: int = 0x32, properties: bytes | None = None) -> bytes:
    middle = struct.pack(">H", packet_id) if head & 0x06 else b""
    return packet(head, struct.pack(">H", len(topic)) + topic + middle + (properties or b"") + payload)


def read_all(data: bytes, cuts: list[int], v5: bool = False) -> tuple[list[Publish | ControlPacket], Violation | None]:
    reader = PacketReader(LIMIT)
    reader.v5 = v5
    packets: list[Publish | ControlPacket] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for first, end in itertools.pairwise(edges):
        packets += reader.feed(data[first:end])
    return packets, reader.violation


@settings(derandomize=True)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.binary(max_size=300), st.booleans()), max_size=8),
    st.lists(st.integers(0, 1 << 20), max_size=12),
)
def test_packets_are_the_same_however_the_bytes_are_cut(messages: list[tuple[bytes, bytes, bool]], cuts: list[int]) -> None:
    data = b"".join(publish(topic, payload, head=0x32 if sure else 0x30) + b"\xc0\0" for topic, payload, sure in messages)
    packets, violation = read_all(data, cuts)
    assert violation is None
    wanted = [(topic, payload, b"\0\7" if sure else b"") for topic, payload, sure in messages]
    assert [(one.topic, one.payload, one.packet_id) for one in packets if isinstance(one, Publish)] == wanted
    assert [one.kind for one in packets if isinstance(one, ControlPacket)] == [PacketType.PINGREQ] * len(messages)


@settings(derandomize=True)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6), st.booleans())
def test_hostile_bytes_never_raise(data: bytes, cuts: list[int], v5: bool) -> None:
    read_all(data, cuts, v5)
    for read in (
        read_connect,
        lambda body: subscribe(v5, ControlPacket(0x82, body), None),
        lambda body: unsubscribe(v5, ControlPacket(0xA2, body), None),
    ):
        try:
            read(data)
        except (Violation, VersionRefused):
            continue


@pytest.mark.parametrize("cuts", [[], [1], [3, 9, 4_000], list(range(0, 200_000, 1_000))])
def test_an_oversized_message_is_read_past_and_described(cuts: list[int]) -> None:
    payload = bytes(range(256)) * 400
    packets, violation = read_all(publish(payload=payload) + publish(payload=b"after"), cuts)
    assert violation is None
    big, after = packets
    assert isinstance(big, Publish)
    assert isinstance(after, Publish)
    assert (big.refused, big.topic, big.packet_id) == (Outcome.OVERSIZED, b"t", b"\0\7")
    assert (big.payload, big.payload_bytes) == (payload[:KEPT_BYTES_MAX], len(payload))
    assert big.payload_sha256 == hashlib.sha256(payload).hexdigest()
    assert after.payload == b"after"


@settings(derandomize=True)
@given(
    st.sampled_from([1, TOPIC_BYTES_MAX, TOPIC_BYTES_MAX + 1, LIMIT, 65_535]),
    st.sampled_from([None, 0, 100, LIMIT - 1_100, LIMIT, 3 * LIMIT]),
    st.sampled_from([0, 1, KEPT_BYTES_MAX + 1, LIMIT, 5 * LIMIT]),
    st.lists(st.integers(0, 1 << 20), max_size=12),
    st.booleans(),
)
def test_no_length_is_a_violation_and_little_is_held(
    topic_bytes: int, property_bytes: int | None, payload_bytes: int, cuts: list[int], sure: bool
) -> None:
    """Of the topic, the properties (None: MQTT 3.1.1) and the payload: each may be longer than a packet that is taken."""
    payload, topic = bytes(range(256)) * (payload_bytes // 256) + bytes(payload_bytes % 256), b"t" * topic_bytes
    properties = b"" if property_bytes is None else user_properties(property_bytes)
    whole = publish(topic, payload, head=0x32 if sure else 0x30, properties=properties)
    data = whole + publish(payload=b"after", properties=b"" if property_bytes is None else b"\0")
    reader, packets, held = PacketReader(LIMIT), [], 0
    reader.v5 = property_bytes is not None
    edges = sorted({*range(0, len(data), 10_000), *(cut % len(data) for cut in cuts), len(data)})
    for first, end in itertools.pairwise(edges):
        packets += reader.feed(data[first:end])
        held = max(held, len(reader._tail))
    assert reader.violation is None
    read, after = packets
    assert isinstance(read, Publish)
    assert isinstance(after, Publish)
    oversized = len(whole) - 4 > LIMIT
    assert read.refused == (Outcome.OVERSIZED if oversized else Outcome.UNKNOWN_TOPIC if topic_bytes > TOPIC_BYTES_MAX else None)
    assert (f"a topic of {topic_bytes} bytes" in read.reason) == (topic_bytes > TOPIC_BYTES_MAX)
    assert (read.topic, read.packet_id) == (topic[:TOPIC_BYTES_MAX], b"\0\7" if sure else b"")
    assert read.payload == (payload[:KEPT_BYTES_MAX] if oversized else payload)
    if oversized:
        assert (read.payload_bytes, read.payload_sha256) == (payload_bytes, hashlib.sha256(payload).hexdigest())
    assert after.payload == b"after"
    assert held < max(LIMIT, topic_bytes) + 16


def user_properties(bytes_: int) -> bytes:
    """A block of about so many bytes, with its length."""
    block = b"".join(b"\x26" + struct.pack(">H", 1) + b"k" + struct.pack(">H", 94) + b"v" * 94 for _ in range(bytes_ // 100))
    return packet(0, block)[1:]


@pytest.mark.parametrize("cut", [5, 20_000])
def test_a_connect_is_no_longer_than_it_need_be(cut: int) -> None:
    """Whole, or as soon as its length is known."""
    for length, refused in ((16_000, False), (17_000, True)):
        reader = PacketReader(65_536)
        reader.feed(packet(0x10, b"\0\4MQTT\4\2\0\x3c" + (length).to_bytes(2, "big") + b"x" * length)[:cut])
        assert (reader.violation is not None) is refused


def test_half_a_character_is_not_kept() -> None:
    """Of a topic that is cut: what is left of it must be a topic name still."""
    topic = b"t" * (TOPIC_BYTES_MAX - 2) + "€".encode()
    (read,), violation = read_all(publish(topic), [])
    assert violation is None
    assert isinstance(read, Publish)
    assert (read.refused, read.topic) == (Outcome.UNKNOWN_TOPIC, b"t" * (TOPIC_BYTES_MAX - 2))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (publish(head=0x34), Reason.QOS_NOT_SUPPORTED),
        (publish(head=0x36), Reason.MALFORMED_PACKET),
        (publish(packet_id=0), Reason.MALFORMED_PACKET),
        (publish(head=0x38), Reason.MALFORMED_PACKET),
        (b"\x32\x01\0", Reason.MALFORMED_PACKET),
        (b"\x32\x04\0\x09ab", Reason.MALFORMED_PACKET),
        (b"\x32\xff\xff\xff\xff\x01", Reason.MALFORMED_PACKET),
        (publish(topic=b"t" * TOPIC_BYTES_MAX + b"#"), Reason.PROTOCOL_ERROR),
        (publish(topic=b"t" * TOPIC_BYTES_MAX + b"\xff"), Reason.MALFORMED_PACKET),
        (publish(topic=b"t" * 30_000 + b"\0"), Reason.MALFORMED_PACKET),
        (publish(head=0x34, payload=bytes(LIMIT)), Reason.QOS_NOT_SUPPORTED),
        (publish(packet_id=0, payload=bytes(LIMIT)), Reason.MALFORMED_PACKET),
        (packet(0x32, b"\xff\xff" + bytes(LIMIT)), Reason.MALFORMED_PACKET),
        (packet(0x10, bytes(LIMIT + 1)), Reason.PACKET_TOO_LARGE),
    ],
)
def test_a_violation_keeps_the_packets_before_it(data: bytes, reason: Reason) -> None:
    packets, violation = read_all(publish(payload=b"before") + data, [])
    assert [one.payload for one in packets if isinstance(one, Publish)] == [b"before"]
    assert violation is not None
    assert violation.reason == reason


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (b"\0", None),
        (b"\x02\x01\x01", None),
        (b"\x0b\x26\0\x01a\0\x01b\x03\0\x01c", None),
        (b"\x03\x23\0\x01", Reason.TOPIC_ALIAS_INVALID),
        (b"\x02\x0b\x01", Reason.PROTOCOL_ERROR),
        (b"\x7f\x01\x01", Reason.MALFORMED_PACKET),
        (b"\x03\x03\x09\x09", Reason.MALFORMED_PACKET),
    ],
)
def test_properties_of_a_publish_are_read_past(properties: bytes, reason: Reason | None) -> None:
    packets, violation = read_all(publish(properties=properties), [], v5=True)
    if reason is None:
        assert [one.payload for one in packets if isinstance(one, Publish)] == [b"p"]
    else:
        assert violation is not None
        assert violation.reason == reason


def test_a_connect_says_who_comes() -> None:
    body = b"\0\4MQTT\4\xee\0\x1e" + b"\0\2id" + b"\0\1w\0\2by" + b"\0\4user" + b"\0\2pw"
    connect = read_connect(body)
    assert (connect.client_id, connect.username, connect.password, connect.keep_alive_s) == ("id", "user", b"pw", 30)
    assert connect.will == Will(b"w", b"by", 1)
    assert connect.clean_start
    assert not connect.v5
    with pytest.raises(VersionRefused):
        read_connect(b"\0\6MQIsdp\3" + body[7:])
    for cut in range(len(body)):
        with pytest.raises((Violation, VersionRefused)):
            read_connect(body[:cut])
