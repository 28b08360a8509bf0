"""Goal: stock MQTT clients publish to the node itself; what they hear acknowledged is in the log, and each refusal is what the docs say."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import socket
import struct
import subprocess
import time
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from intake.mqtt.packets import Reason, packet
from intake.settings import EndpointSettings, PipelineSettings
from landfall.storage.file_log import FileLogOptions
from landfall.system.private_files import write_private
from streams.model.clock import FleetClock, FleetTime
from tests.intake.stand import AT, BOX, DEADLINE_S, TOPIC, Publisher, connect_properties, eventually, payload, stand
from tests.streams.logkit import FullDisk
from tests.support.credentials import allow_gateway
from tests.support.pahoclients import close

READINGS = 300
CONNECT_311 = packet(0x10, b"\0\4MQTT\4\2\0\x3c\0\2it")


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
async def test_what_paho_hears_acknowledged_is_in_the_log(tmp_path: Path, protocol: MQTTProtocolVersion) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, protocol) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, payload(n)) for n in range(READINGS)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
            rows = one.rows("containers")
            assert set(publisher.acknowledged.values()) == {"Success"}
        assert [(row.record.topic, row.record.device_at_ms) for row in rows] == [(BOX, AT + n * 1_000) for n in range(READINGS)]
        assert rows[3].record.signals == {"return_c": 4.3}
        assert one.counts()["intake_stale"] == READINGS  # the readings are of a past year: kept, and said so
        assert rows[3].record.body == {"flags": ["stale"]}


@pytest.mark.parametrize(("version", "qos"), [("mqttv311", 1), ("mqttv5", 1), ("mqttv311", 0)])
async def test_mosquitto_pub_publishes(tmp_path: Path, version: str, qos: int) -> None:
    async with stand(tmp_path) as one:
        command = ["mosquitto_pub", "-p", str(one.endpoint.port), "-V", version, "-q", str(qos), "-t", TOPIC, "-l"]
        lines = b"\n".join(payload(n) for n in range(20))
        await asyncio.to_thread(subprocess.run, command, input=lines, check=True, timeout=DEADLINE_S, capture_output=True)
        await eventually(lambda: len(one.rows("containers")) == 20)


async def test_the_same_reading_twice_is_stored_once_and_acknowledged_each_time(tmp_path: Path) -> None:
    for _ in range(2):  # the second time after a restart: the window is rebuilt from the log
        async with stand(tmp_path) as one:
            with Publisher(one.endpoint.port) as publisher:
                await publisher.welcomed()
                for n in range(50):
                    publisher.publish(TOPIC, payload(n))
                    publisher.publish(TOPIC, payload(n, gateway="GW-2"))
                    publisher.publish(TOPIC, payload(n, seal="S"))
                await asyncio.to_thread(publisher.wait, lambda p: len(p.acknowledged) == 150)
            assert len(one.rows("containers")) == 100
    assert one.counts()["intake_repeated"] == 150


async def test_a_device_whose_clock_stands_still_is_no_repeat(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, payload(0, return_c=float(n))) for n in range(10)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        assert [row.record.signals["return_c"] for row in one.rows("containers")] == [float(n) for n in range(10)]


async def test_ten_megabytes_are_described_acknowledged_and_the_node_goes_on(tmp_path: Path) -> None:
    big = bytes(range(256)) * 40_000
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, one_payload) for one_payload in (payload(0), big, payload(1), payload(2, pad="x" * 65_000))}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
            assert publisher.disconnects == []
        assert len(one.rows("containers")) == 3
        (row,) = one.rows("exceptions")
        body = row.record.body
        assert body is not None
        assert (body["outcome"], body["payload_bytes"], body["mqtt_topic"]) == ("oversized", len(big), TOPIC)
        assert body["payload_sha256"] == hashlib.sha256(big).hexdigest()
        assert len(body["payload_base64"]) == 4 * -(-4_096 // 3)


@pytest.mark.parametrize(
    ("topic", "sent", "outcome", "v5_reason"),
    [
        (TOPIC, b"{not json", "malformed", "Payload format invalid"),
        (TOPIC, b'{"device": "T", "at": 1, "latitude_deg": 123}', "bad_value", "Payload format invalid"),
        ("landfall/containers/MSKU1234565/readings", b"{}", "unknown_topic", "Topic name invalid"),
        ("elsewhere", b"{}", "foreign", "Not authorized"),
    ],
)
@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
async def test_a_bad_message_lands_in_exceptions_and_costs_its_neighbours_nothing(
    tmp_path: Path, protocol: MQTTProtocolVersion, topic: str, sent: bytes, outcome: str, v5_reason: str
) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, protocol) as publisher:
            await publisher.welcomed()
            good = {publisher.publish(TOPIC, payload(n)) for n in range(3)}
            bad = publisher.publish(topic, sent)
            good |= {publisher.publish(TOPIC, payload(n)) for n in range(3, 6)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= good | {bad})
            assert publisher.acknowledged[bad] == (v5_reason if protocol == mqtt.MQTTv5 else "Success")
            assert {publisher.acknowledged[mid] for mid in good} == {"Success"}
        assert len(one.rows("containers")) == 6
        (row,) = one.rows("exceptions")
        assert row.record.topic == "ship"
        assert row.record.body is not None
        assert row.record.body["outcome"] == outcome
        counts = one.counts()
        assert counts[f"intake_{outcome}"] == 1
        assert counts["intake_received"] == sum(n for name, n in counts.items() if name.startswith("intake_")) - 7 == 7


async def test_a_wrong_check_digit_and_a_future_clock_are_flagged_never_dropped(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {
                publisher.publish("landfall/containers/MSKU1234560/reading", payload(0)),
                publisher.publish("landfall/ships/9321484/location", payload(0, latitude_deg=1.0, longitude_deg=103.0)),
                publisher.publish(TOPIC, payload(0, at=4_000_000_000_000, latitude_deg=123.0)),
            }
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        wrong, future = one.rows("containers")
        (ship,) = one.rows("ships")
        assert (wrong.record.topic, wrong.record.body) == ("MSKU1234560", {"flags": ["check_digit", "stale"]})
        assert (ship.record.topic, ship.record.body) == ("9321484.location", {"flags": ["check_digit", "stale"]})
        assert future.record.body == {"flags": ["refused", "future"], "refused": {"latitude_deg": 123.0}}
        assert future.order_at_ms == future.received_at_ms
        assert one.counts()["intake_future"] == 1


async def test_a_node_that_is_behind_the_fleets_time_asks_before_it_calls_a_device_wrong(tmp_path: Path) -> None:
    """A followed clock may have heard that time stands still while it runs on: hours in a moment, when the story jumps."""
    wall_ms = time.time_ns() // 1_000_000
    asked: list[FleetTime] = []

    def ask() -> FleetTime:
        asked.append(FleetTime(wall_ms, AT + 6 * 3_600_000, 0.0))
        return asked[-1]

    async with stand(tmp_path, clock=FleetClock(FleetTime(wall_ms, AT, 0.0), ask)) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, payload(0))}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
            assert not asked
            mids |= {publisher.publish(TOPIC, payload(1, at=AT + 6 * 3_600_000))}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        assert len(asked) == 1
        first, second = one.rows("containers")
        assert second.record.body is None
        assert (first.order_at_ms, second.order_at_ms) == (AT, AT + 6 * 3_600_000)


async def test_mqtt_5_clients_are_told_the_limits(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, mqtt.MQTTv5, client_id="") as publisher:
            await asyncio.to_thread(publisher.wait, lambda p: bool(p.connects))
            said = vars(publisher.welcome)
        assert (said["MaximumQoS"], said["ReceiveMaximum"], said["SessionExpiryInterval"]) == (1, 4_096, 0)
        assert (said["WildcardSubscriptionAvailable"], said["SharedSubscriptionAvailable"]) == (0, 0)
        assert said["AssignedClientIdentifier"].startswith("landfall-")


async def test_logins_are_checked_and_each_gateway_has_its_topics(tmp_path: Path) -> None:
    allow_gateway(tmp_path, "gw-1", "silver", "landfall/containers/+/reading")
    allow_gateway(tmp_path, "gw-2", "gold", "landfall/ships/#")
    async with stand(tmp_path, EndpointSettings(port=0)) as one:
        for login, wanted in {
            ("gw-1", "silver"): Reason.SUCCESS,
            ("gw-2", "gold"): Reason.SUCCESS,
            ("gw-1", "gold"): Reason.BAD_USER_NAME_OR_PASSWORD,
            ("gw-2", "silver"): Reason.BAD_USER_NAME_OR_PASSWORD,
            ("gw-9", "silver"): Reason.BAD_USER_NAME_OR_PASSWORD,
            (): Reason.BAD_USER_NAME_OR_PASSWORD,
        }.items():
            shown = b"".join(struct.pack(">H", len(word)) + word.encode() for word in login)
            hello = packet(0x10, b"\0\4MQTT\5" + (b"\xc2" if login else b"\2") + b"\0\x3c\0\0\2it" + shown)
            assert (await ask(one.endpoint.port, hello, 4))[3] == wanted, login
        with Publisher(one.endpoint.port, mqtt.MQTTv5, login=("gw-2", "gold")) as publisher:
            mine, foreign = publisher.publish("landfall/ships/9321483/location", payload(0)), publisher.publish(TOPIC, payload(0))
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= {mine, foreign})
            assert (publisher.acknowledged[mine], publisher.acknowledged[foreign]) == ("Success", "Not authorized")
        assert one.rows("containers") == []
        assert one.counts()["intake_foreign"] == 1


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
async def test_a_newer_connection_takes_the_session_over(tmp_path: Path, protocol: MQTTProtocolVersion) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, protocol) as older:
            await asyncio.to_thread(older.wait, lambda p: bool(p.connects))
            older.client.reconnect_delay_set(60, 60)
            with Publisher(one.endpoint.port, protocol) as newer:
                mid = newer.publish(TOPIC, payload(0))
                await asyncio.to_thread(newer.wait, lambda p: mid in p.acknowledged)
                await asyncio.to_thread(older.wait, lambda p: bool(p.disconnects))
                if protocol == mqtt.MQTTv5:
                    assert older.disconnects[0] == "Session taken over"
                assert newer.disconnects == []


async def ask(port: int, sent: bytes, answer_bytes: int | None = None) -> bytes:
    """What a raw socket hears after sending `sent`: up to `answer_bytes`, or until the node closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await (reader.read() if answer_bytes is None else reader.readexactly(answer_bytes))
    finally:
        writer.close()


def publish_packet(n: int, head: int = 0x32, v5: bool = False) -> bytes:
    topic = TOPIC.encode()
    middle = struct.pack(">H", n + 1) if head & 6 else b""
    return packet(head, struct.pack(">H", len(topic)) + topic + middle + (b"\0" if v5 else b"") + payload(n))


async def test_refusals_on_the_wire(tmp_path: Path) -> None:
    connect_5 = packet(0x10, b"\0\4MQTT\5\2\0\x3c\0\0\2it")
    accepted = b"\x20\2\0\0"
    async with stand(tmp_path) as one:
        port = one.endpoint.port
        assert await ask(port, CONNECT_311 + publish_packet(0, 0x34)) == accepted  # QoS 2: closed
        assert (await ask(port, connect_5 + publish_packet(0, 0x34, v5=True)))[-4:] == b"\xe0\2\x9b\0"  # QoS 2: DISCONNECT 0x9B
        assert await ask(port, CONNECT_311 + packet(0x82, b"\0\7\0\1#\1\0\1a\0"), 10) == accepted + b"\x90\4\0\7\x80\x80"
        suback = await ask(port, connect_5 + packet(0x82, b"\0\7\0\0\1#\1") + b"\xc0\0" + b"\xe0\0")
        assert suback[-8:] == b"\x90\4\0\7\0\xa2" + b"\xd0\0"
        assert await ask(port, packet(0x10, b"\0\6MQIsdp\3\2\0\x3c\0\2it")) == b"\x20\2\0\1"
        assert await ask(port, packet(0x10, b"\0\4MQTT\6\2\0\x3c\0\0\2it")) == b"\x20\2\0\1"
        assert await ask(port, packet(0x10, b"\0\4MQTT\4\0\0\x3c\0\0")) == b"\x20\2\0\2"  # no identifier, but a session wanted
        assert await ask(port, b"\xc0\0") == b""  # anything before CONNECT
        assert await ask(port, CONNECT_311 + CONNECT_311) == accepted
        assert await ask(port, b"GET / HTTP/1.1\r\n\r\n") == b""
        assert await ask(port, CONNECT_311 + packet(0x30, b"\0\1#x")) == accepted  # a wildcard in a topic name
        assert one.rows("containers") == []
        assert (await ask(port, CONNECT_311 + publish_packet(0) + publish_packet(1, 0x34)))[:4] == accepted
        await eventually(lambda: len(one.rows("containers")) == 1)  # what came before the violation counts


async def test_a_will_speaks_when_its_client_breaks_off_and_not_when_it_leaves(tmp_path: Path) -> None:
    topic = TOPIC.encode()
    will = struct.pack(">H", len(topic)) + topic + struct.pack(">H", len(payload(0))) + payload(0)
    connect = packet(0x10, b"\0\4MQTT\4\x06\0\x3c\0\2it" + will)
    async with stand(tmp_path) as one:
        assert await ask(one.endpoint.port, connect + b"\xe0\0") == b"\x20\2\0\0"
        await eventually(lambda: one.metrics.body(0, 0)["gauges"]["mqtt_connections"] == 0)
        assert one.rows("containers") == []
        await ask(one.endpoint.port, connect, 4)
        await eventually(lambda: len(one.rows("containers")) == 1)


async def test_half_packets_and_a_client_that_does_not_read_cost_the_others_nothing(tmp_path: Path) -> None:
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), unread_bytes_max=1_024)
    async with stand(tmp_path, settings) as one:
        half = socket.create_connection(("127.0.0.1", one.endpoint.port))
        half.sendall(CONNECT_311 + publish_packet(0)[:40])
        deaf = socket.create_connection(("127.0.0.1", one.endpoint.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
        deaf.settimeout(0.5)
        with pytest.raises(TimeoutError):  # the node stops reading from it: its own buffers fill
            await asyncio.to_thread(deaf.sendall, CONNECT_311.replace(b"it", b"de") + b"\xc0\0" * 4_000_000)
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, payload(n)) for n in range(READINGS)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        half.sendall(publish_packet(0)[40:])
        await eventually(lambda: one.counts().get("intake_received", 0) == READINGS + 1)
        half.close()
        deaf.close()


async def test_more_in_flight_than_allowed_ends_a_v5_client_and_slows_a_311_one(tmp_path: Path) -> None:
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), receive_max=10)
    async with stand(tmp_path, settings, PipelineSettings(pending_readings_max=20, batch_readings_max=5)) as one:
        connect_5 = packet(0x10, b"\0\4MQTT\5\2\0\x3c\0\0\2it")
        heard = await ask(one.endpoint.port, connect_5 + b"".join(publish_packet(n, v5=True) for n in range(50)))
        assert heard[-4:] == b"\xe0\2\x93\0"
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, payload(n)) for n in range(READINGS)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
            assert publisher.disconnects == []
        assert len(one.rows("containers")) == READINGS


async def test_an_mqtt_5_client_may_ask_for_the_will_when_it_leaves(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, mqtt.MQTTv5) as publisher:
            await asyncio.to_thread(publisher.wait, lambda p: bool(p.connects))
        client = Publisher(one.endpoint.port, mqtt.MQTTv5).client
        client.will_set(TOPIC, payload(7), 1)
        client.connect("127.0.0.1", one.endpoint.port, properties=connect_properties(SessionExpiryInterval=60))
        client.loop_start()
        await eventually(client.is_connected)
        client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
        await eventually(lambda: len(one.rows("containers")) == 1)
        close(client)


async def test_over_a_full_disk_nothing_is_acknowledged_and_nothing_forgotten(tmp_path: Path) -> None:
    disk = FullDisk()
    small = PipelineSettings(pending_readings_max=50, batch_readings_max=20, retry_ms=10)
    async with stand(tmp_path, pipeline_settings=small, options=FileLogOptions(disk=disk)) as one:
        disk.writes_left = 0
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            for n in range(READINGS):
                publisher.publish(TOPIC, payload(n))
            await eventually(lambda: one.counts().get("intake_append_retries", 0) >= 3)
            assert publisher.acknowledged == {}
            disk.writes_left = None
            await asyncio.to_thread(publisher.wait, lambda p: len(p.acknowledged) == READINGS)
        stored = [row.record.device_at_ms or 0 for row in one.rows("containers")]
        assert sorted(stored) == [AT + n * 1_000 for n in range(READINGS)], "paho may overtake itself while it connects; none is twice"


async def test_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), tls_certificate=certificate, tls_key=key)
    async with stand(tmp_path, settings) as one:
        command = [
            "mosquitto_pub",
            "-h",
            "localhost",
            "-p",
            str(one.endpoint.port),
            "--cafile",
            str(certificate),
            "-q",
            "1",
            "-t",
            TOPIC,
            "-l",
        ]
        await asyncio.to_thread(subprocess.run, command, input=payload(0), check=True, timeout=DEADLINE_S, capture_output=True)
        assert len(one.rows("containers")) == 1


def self_signed(folder: Path, days: int = 1) -> tuple[Path, Path]:
    """A certificate for localhost, valid for `days` from now, and its key, as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_private(files[1], key.private_bytes(encoding, form, serialization.NoEncryption()))
    return files
