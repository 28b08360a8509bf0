"""Goal: what MQTT forbids ends the connection, for the reason its standard gives; what it allows never does, however long or odd it is."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import struct
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from intake.message_types import KEPT_BYTES_MAX, Publish
from intake.mqtt.connect_packet import read_connect, read_disconnect
from intake.mqtt.packets import TOPIC_BYTES_MAX, ControlPacket, PacketReader, Reason, Violation, packet
from intake.mqtt.subscriptions import subscribe, unsubscribe
from intake.settings import EndpointSettings
from tests.intake.stand import TOPIC, Publisher, payload, stand
from tests.intake.test_endpoint import CONNECT_311, ask
from tests.support.credentials import allow_gateway

MALFORMED, PROTOCOL = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR
LIMIT = 16_384
CONNECT_5 = packet(0x10, b"\0\4MQTT\5\2\0\x3c\0\0\2it")
BOTH = pytest.mark.parametrize("v5", [False, True], ids=["3.1.1", "5"])
PROTOCOLS = pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
USER = b"\x26\0\1a\0\1b"
NOT_TEXT = {"no UTF-8": b"\0\1\xff", "a surrogate": b"\0\3\xed\xa0\x80", "null": b"\0\1\0"}


def text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def connect(properties: bytes = b"", will: bytes | None = None) -> bytes:
    """The body of a CONNECT of MQTT 5; with a will that has these properties."""
    flags = 2 if will is None else 6
    said = b"" if will is None else bytes((len(will),)) + will + text(b"t") + text(b"p")
    return b"\0\4MQTT\5" + bytes((flags, 0, 0x3C, len(properties))) + properties + b"\0\2it" + said


def publish(properties: bytes = b"\0", topic: bytes = b"t", sent: bytes = b"p") -> bytes:
    return packet(0x32, text(topic) + b"\0\7" + properties + sent)


def found(data: bytes, v5: bool) -> tuple[list[Publish | ControlPacket], Reason | None]:
    """What a reader makes of it, at once and byte by byte alike."""
    whole, slow = PacketReader(LIMIT), PacketReader(LIMIT)
    whole.v5 = slow.v5 = v5
    packets = whole.feed(data)
    assert [one for at in range(len(data)) for one in slow.feed(data[at : at + 1])] == packets
    reasons = [None if one.violation is None else one.violation.reason for one in (whole, slow)]
    assert reasons[0] == reasons[1]
    return packets, reasons[0]


# of a CONNECT -------------------------------------------------------------------------------------------------------------------------

ONCE_IN_A_CONNECT = (b"\x11\0\0\0\1", b"\x21\0\1", b"\x27\0\0\0\1", b"\x22\0\0", b"\x17\1", b"\x19\1", b"\x17\0", b"\x19\0")
ONCE_IN_A_WILL = (b"\x18\0\0\0\0", b"\1\0", b"\1\1", b"\2\0\0\0\0", b"\3\0\1c", b"\3\0\0", b"\x08\0\1r", b"\x09\0\1\xff")


@pytest.mark.parametrize("said", [b"", USER, USER * 2, USER + b"\x11\0\0\0\1" + USER, b"\x21\0\0", *ONCE_IN_A_CONNECT])
def test_a_connect_may_hold_this(said: bytes) -> None:
    """A Receive Maximum of 0 too, which MQTT forbids: Mosquitto's bridge says it where it is to send without limit."""
    assert read_connect(connect(said)).v5


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *((one * 2, PROTOCOL) for one in ONCE_IN_A_CONNECT),
        (b"\x11\0\0\0\1\x21\0\1\x11\0\0\0\2", PROTOCOL),
        (b"\x27\0\0\0\0", PROTOCOL),
        (b"\x17\2", PROTOCOL),
        (b"\x19\7", PROTOCOL),
        (b"\x16\0\1a", PROTOCOL),  # authentication data, and no method
        (b"\x15\0\1a", Reason.BAD_AUTHENTICATION_METHOD),
        (b"\x16\0\1a\x15\0\1a", Reason.BAD_AUTHENTICATION_METHOD),
        *((one, MALFORMED) for one in ONCE_IN_A_WILL),
        (b"\x0b\1", MALFORMED),  # of a SUBSCRIBE
        (b"\x12\0\1a", MALFORMED),  # of a CONNACK
        (b"\x13\0\1", MALFORMED),
        (b"\x1f\0\1a", MALFORMED),
        (b"\x23\0\1", MALFORMED),  # of a PUBLISH
        (b"\x7e", MALFORMED),  # of none
        *((b"\x26" + bad + b"\0\1b", MALFORMED) for bad in NOT_TEXT.values()),
        *((b"\x26\0\1a" + bad, MALFORMED) for bad in NOT_TEXT.values()),
    ],
)
def test_a_connect_may_not_hold_that(said: bytes, reason: Reason) -> None:
    with pytest.raises(Violation) as refused:
        read_connect(connect(said))
    assert refused.value.reason == reason


@pytest.mark.parametrize("said", [b"", USER, USER * 2, *ONCE_IN_A_WILL])
def test_a_will_may_hold_this(said: bytes) -> None:
    will = read_connect(connect(will=said)).will
    assert will is not None
    assert (will.topic, will.payload) == (b"t", b"p")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *((one * 2, PROTOCOL) for one in ONCE_IN_A_WILL),
        (b"\1\2", PROTOCOL),
        (b"\x08\0\3a/#", PROTOCOL),
        (b"\x08\0\0", PROTOCOL),
        *((one, MALFORMED) for one in ONCE_IN_A_CONNECT),
        (b"\x23\0\1", MALFORMED),
        *((bytes((name,)) + bad, MALFORMED) for bad in NOT_TEXT.values() for name in (3, 8)),
        *((b"\x26\0\1a" + bad, MALFORMED) for bad in NOT_TEXT.values()),
    ],
)
def test_a_will_may_not_hold_that(said: bytes, reason: Reason) -> None:
    with pytest.raises(Violation) as refused:
        read_connect(connect(will=said))
    assert refused.value.reason == reason


NO_TOPIC_NAMES = [(b"landfall/#", PROTOCOL), (b"a/+/b", PROTOCOL), (b"", PROTOCOL), (b"a\xff", MALFORMED), (b"a\0", MALFORMED)]
"""A wildcard, or nothing at all, in a topic that reads is a protocol error (3.3.2.1, 3.3.2.3.5); what is no text is malformed (1.5.4)."""


@pytest.mark.parametrize(("topic", "reason"), NO_TOPIC_NAMES)
async def test_no_message_and_no_will_is_on_what_is_no_topic_name(tmp_path: Path, topic: bytes, reason: Reason) -> None:
    """0x90 is for a name that is well formed, and not taken."""
    async with stand(tmp_path) as one:
        port, will = one.endpoint.port, b"\0" + text(topic) + text(b"p")
        assert (await ask(port, CONNECT_5 + publish(topic=topic)))[-4:] == b"\xe0\2" + bytes((reason, 0))
        assert await ask(port, packet(0x10, b"\0\4MQTT\5\6\0\x3c\0\0\2it" + will)) == b"\x20\3\0" + bytes((reason, 0))
        assert await ask(port, CONNECT_311 + publish(b"", topic)) == b"\x20\2\0\0"
        assert await ask(port, packet(0x10, b"\0\4MQTT\4\6\0\x3c\0\2it" + will[1:])) == b""
        assert one.counts() == {"mqtt_connections_ended": 4}


@BOTH
def test_only_mqtt_5_knows_a_password_of_nobody(v5: bool) -> None:
    name = b"\0\4MQTT" + (b"\5" if v5 else b"\4")
    ours = (b"\0" if v5 else b"") + b"\0\2it"
    assert read_connect(name + b"\xc2\0\x3c" + ours + b"\0\1u\0\1p").password == b"p"
    assert read_connect(name + b"\x82\0\x3c" + ours + b"\0\1u").username == "u"
    alone = name + b"\x42\0\x3c" + ours + b"\0\1p"
    if v5:
        assert read_connect(alone).password == b"p"
    else:
        with pytest.raises(Violation):
            read_connect(alone)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (USER * 2 + b"\x11\0\0\0\1\x1f\0\1a", None),
        (b"\x11\0\0\0\1" * 2, PROTOCOL),
        (b"\x21\0\1", MALFORMED),
        (b"\x1f\0\1\xff", MALFORMED),
    ],
)
def test_properties_of_a_disconnect(said: bytes, reason: Reason | None) -> None:
    body = b"\0" + bytes((len(said),)) + said
    if reason is None:
        assert read_disconnect(body) == (0, 1)
    else:
        with pytest.raises(Violation) as refused:
            read_disconnect(body)
        assert refused.value.reason == reason


# of a PUBLISH and a PINGREQ -------------------------------------------------------------------------------------------------------------

ONCE_IN_A_PUBLISH = (b"\1\0", b"\1\1", b"\2\0\0\0\0", b"\3\0\1c", b"\3\0\0", b"\x08\0\3r/s", b"\x09\0\1\xff")


@pytest.mark.parametrize("said", [b"", USER, USER * 30, USER + b"\1\1" + USER, b"".join(ONCE_IN_A_PUBLISH[1:4]), *ONCE_IN_A_PUBLISH])
@pytest.mark.parametrize("sent", [b"p", b"p" * LIMIT], ids=["", "oversized"])
def test_a_publish_may_hold_this(said: bytes, sent: bytes) -> None:
    length = bytes((len(said),)) if len(said) < 128 else bytes((len(said) & 0x7F | 0x80, len(said) >> 7))
    (read,), violation = found(publish(length + said, sent=sent), v5=True)
    assert violation is None
    assert isinstance(read, Publish)
    assert (read.payload, read.payload_bytes or len(read.payload)) == (sent[:KEPT_BYTES_MAX], len(sent))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *((one * 2, PROTOCOL) for one in ONCE_IN_A_PUBLISH),
        (b"\1\2", PROTOCOL),
        (b"\x08\0\1#", PROTOCOL),
        (b"\x08\0\3a/+", PROTOCOL),
        (b"\x08\0\0", PROTOCOL),
        (b"\x0b\1", PROTOCOL),
        (b"\x23\0\1", Reason.TOPIC_ALIAS_INVALID),
        (b"\x11\0\0\0\1", MALFORMED),
        (b"\x18\0\0\0\1", MALFORMED),
        (b"\x7e", MALFORMED),
        *((bytes((name,)) + bad, MALFORMED) for bad in NOT_TEXT.values() for name in (3, 8)),
        *((b"\x26" + bad + b"\0\1b", MALFORMED) for bad in NOT_TEXT.values()),
        *((b"\x26\0\1a" + bad, MALFORMED) for bad in NOT_TEXT.values()),
        (b"\x26\0\1a", MALFORMED),  # half of it is missing
        (b"\2\0\0\0", MALFORMED),
    ],
)
@pytest.mark.parametrize("sent", [b"p", b"p" * LIMIT], ids=["", "oversized"])
def test_a_publish_may_not_hold_that(said: bytes, reason: Reason, sent: bytes) -> None:
    """An oversized one neither: it ends the connection before it is read past."""
    assert found(publish(bytes((len(said),)) + said, sent=sent), v5=True) == ([], reason)
    (read,), _ = found(publish(bytes((len(said),)) + said), v5=False)
    assert isinstance(read, Publish), "to MQTT 3.1.1 it is payload"


@BOTH
@pytest.mark.parametrize(("head", "reason"), [(0x34, Reason.QOS_NOT_SUPPORTED), (0x36, MALFORMED)])
def test_qos_2_is_not_offered_and_3_is_none(head: int, reason: Reason, v5: bool) -> None:
    assert found(packet(head, text(b"t") + b"\0\7\0p"), v5) == ([], reason)


@BOTH
def test_what_has_no_body_has_none(v5: bool) -> None:
    assert found(b"\xc0\0", v5) == ([ControlPacket(0xC0, b"")], None)
    assert found(b"\xc0\1a", v5) == ([], MALFORMED)
    assert found(b"\xe0\0", v5) == ([ControlPacket(0xE0, b"")], None)
    assert found(b"\xe0\1\0", v5) == (([ControlPacket(0xE0, b"\0")], None) if v5 else ([], MALFORMED))


# of a SUBSCRIBE and an UNSUBSCRIBE ------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["#", "+", "a/#", "a/+", "+/a", "+/+", "a/+/b/#", "/", "/#", "+/", "a//b", "$share/a/b", "å/#"])
def test_a_filter_may_be_this(name: str, v5: bool) -> None:
    body = b"\0\7" + (b"\0" if v5 else b"") + text(name.encode())
    assert subscribe(v5, ControlPacket(0x82, body + b"\0"), None).granted is None
    assert unsubscribe(v5, ControlPacket(0xA2, body), None)[1] is False


@BOTH
@pytest.mark.parametrize("name", [b"", b"a#b", b"a+b", b"a#", b"#/", b"#/a", b"a/#/b", b"a/#b", b"a+", b"+a/b", b"++", b"\xff", b"a\0"])
def test_a_filter_may_not_be_that(name: bytes, v5: bool) -> None:
    body = b"\0\7" + (b"\0" if v5 else b"") + text(name)
    with pytest.raises(Violation) as refused:
        subscribe(v5, ControlPacket(0x82, body + b"\0"), None)
    assert refused.value.reason == MALFORMED
    with pytest.raises(Violation) as refused:
        unsubscribe(v5, ControlPacket(0xA2, body), None)
    assert refused.value.reason == MALFORMED


@pytest.mark.parametrize(
    ("said", "reason", "unsubscribing"),
    [
        (USER * 2, None, None),
        (b"\x0b\1", Reason.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED, MALFORMED),
        (b"\x11\0\0\0\1", MALFORMED, MALFORMED),
        (b"\x26\0\1a\0\1\xff", MALFORMED, MALFORMED),
        (b"\x26\0\1a", MALFORMED, MALFORMED),
    ],
)
def test_properties_of_a_subscribe(said: bytes, reason: Reason | None, unsubscribing: Reason | None) -> None:
    body = b"\0\7" + bytes((len(said),)) + said + text(b"t")
    if reason is None:
        assert subscribe(True, ControlPacket(0x82, body + b"\0"), None).granted is None
        assert unsubscribe(True, ControlPacket(0xA2, body), None)[1] is False
        return
    with pytest.raises(Violation) as refused:
        subscribe(True, ControlPacket(0x82, body + b"\0"), None)
    assert refused.value.reason == reason
    with pytest.raises(Violation) as refused:
        unsubscribe(True, ControlPacket(0xA2, body), None)
    assert refused.value.reason == unsubscribing


# at the endpoint ------------------------------------------------------------------------------------------------------------------------


async def test_the_endpoint_says_why_it_ends(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        port = one.endpoint.port
        for bad, reason in {
            publish(b"\2\1\2"): PROTOCOL,
            publish(b"\4\3\0\1\xff"): MALFORMED,
            b"\xc0\1a": MALFORMED,
            packet(0x82, b"\0\7\0\0\3a#b\0"): MALFORMED,
        }.items():
            assert (await ask(port, CONNECT_5 + bad))[-4:] == bytes((0xE0, 2, reason, 0)), bad
        assert await ask(port, CONNECT_311 + b"\xc0\1a") == b"\x20\2\0\0"
        assert await ask(port, CONNECT_311 + packet(0x82, b"\0\7\0\3a#b\0")) == b"\x20\2\0\0"
        assert one.counts().get("intake_received", 0) == 0


LONG_TOPICS = {
    "a byte more": f"landfall/{'x' * (TOPIC_BYTES_MAX - 8)}",
    "a character on the edge": f"landfall/{'x' * (TOPIC_BYTES_MAX - 10)}é",
    "the longest": f"landfall/{'x' * (65_535 - 9)}",
}


def many_properties() -> Properties:
    """10 KB of them."""
    made: Properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    made.UserProperty = [("k" * 500, "v" * 500)] * 10
    return made


@PROTOCOLS
@pytest.mark.parametrize("topic", LONG_TOPICS.values(), ids=LONG_TOPICS)
@pytest.mark.parametrize("packet_bytes_max", [EndpointSettings().packet_bytes_max, 8_192])
async def test_a_message_on_too_long_a_topic_is_acknowledged_and_does_not_come_again(
    tmp_path: Path, protocol: MQTTProtocolVersion, topic: str, packet_bytes_max: int
) -> None:
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), packet_bytes_max=packet_bytes_max)
    oversized = len(topic) > packet_bytes_max
    async with stand(tmp_path, settings) as one:
        with Publisher(one.endpoint.port, protocol) as publisher:
            await publisher.welcomed()
            poison, good = publisher.publish(topic, b"{}"), publisher.publish(TOPIC, payload(0))
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= {poison, good})
            told = "Quota exceeded" if oversized else "Topic name invalid"
            assert publisher.acknowledged == {poison: told if protocol == mqtt.MQTTv5 else "Success", good: "Success"}
            assert (publisher.connects, publisher.disconnects) == (["Success"], [])
        (row,) = one.rows("exceptions")
        body = row.record.body or {}
        assert body["outcome"] == ("oversized" if oversized else "unknown_topic")
        assert f"a topic of {len(topic.encode())} bytes" in body["reason"]
        assert topic.startswith(body["mqtt_topic"])
        assert (body["payload_bytes"], base64.b64decode(body["payload_base64"])) == (2, b"{}")
        assert len(one.rows("containers")) == 1
        assert one.counts()[f"intake_{body['outcome']}"] == 1


@pytest.mark.parametrize("topic", [TOPIC, LONG_TOPICS["the longest"]], ids=["", "the longest topic"])
@pytest.mark.parametrize("packet_bytes_max", [EndpointSettings().packet_bytes_max, 8_192])
async def test_an_oversized_message_with_many_properties_is_acknowledged_and_does_not_come_again(
    tmp_path: Path, topic: str, packet_bytes_max: int
) -> None:
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), packet_bytes_max=packet_bytes_max)
    big = bytes(range(256)) * 400
    async with stand(tmp_path, settings) as one:
        with Publisher(one.endpoint.port, mqtt.MQTTv5) as publisher:
            await publisher.welcomed()
            poison = publisher.client.publish(topic, big, 1, properties=many_properties()).mid
            good = publisher.publish(TOPIC, payload(0))
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= {poison, good})
            assert publisher.acknowledged == {poison: "Quota exceeded", good: "Success"}
            assert (publisher.connects, publisher.disconnects) == (["Success"], [])
        (row,) = one.rows("exceptions")
        body = row.record.body or {}
        assert (body["outcome"], body["payload_bytes"]) == ("oversized", len(big))
        assert body["payload_sha256"] == hashlib.sha256(big).hexdigest()
        assert base64.b64decode(body["payload_base64"]) == big[:KEPT_BYTES_MAX]
        assert len(one.rows("containers")) == 1


async def test_the_log_says_who_is_sent_away_from_where_and_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A gateway that was given the wrong password, or is to speak TLS where there is none, is found by it."""
    caplog.set_level(logging.INFO, "intake.endpoint")
    allow_gateway(tmp_path, "gw-3", "right", "landfall/#")
    async with stand(tmp_path, EndpointSettings(port=0)) as one:
        for sent in (
            b"\x16\x03\x01\0\xf4\x01\0\0\xf0\x03\x03",
            packet(0x10, b"\0\4MQTT\4\xc2\0\x3c" + text(b"it") + text(b"gw-3") + text(b"wrong")),
            packet(0x10, b"\0\4MQTT\4\xc2\0\x3c" + text(b"it") + text(b"gw-3") + text(b"right")) + publish(b"", b"a/#"),
        ):
            await ask(one.endpoint.port, sent)
    assert [record.getMessage() for record in caplog.records if " ended: " in record.getMessage()] == [
        "MQTT connection of a stranger from 127.0.0.1/32 ended: it speaks TLS, and this endpoint has no tls_certificate",
        "MQTT connection of a stranger from 127.0.0.1/32 ended: wrong login of 'gw-3'",
        "MQTT connection of 'it' of login 'gw-3' from 127.0.0.1/32 ended: a topic name that is empty or has wildcards (0x82)",
    ]
