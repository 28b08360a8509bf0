"""Goal: devices that subscribe hear what the node asks of them, by the endpoint and by a broker; nobody but the node can say it."""

from __future__ import annotations

import asyncio
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions
from pydantic import SecretStr

from cargo.rules.storm_mode import REQUEST_TOPIC, Request
from intake.intake_service import Intake
from intake.mqtt.packets import packet
from intake.settings import BrokerSettings, IntakeSettings
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import TOPIC, Publisher, eventually, payload, stand
from tests.intake.test_endpoint import ask

TOPIC_BYTES = struct.pack(">H", len(REQUEST_TOPIC)) + REQUEST_TOPIC.encode()
STORM, CALM = Request("9321483", 1_000, 60, 1_800).to_bytes(), Request("9321483", 2_000, None, 0).to_bytes()
CONNECT_311, CONNECT_5 = packet(0x10, b"\0\4MQTT\4\2\0\x3c\0\2it"), packet(0x10, b"\0\4MQTT\5\2\0\x3c\0\0\2it")
SMALL_5 = packet(0x10, b"\0\4MQTT\5\2\0\x3c\5\x27\0\0\0\x28\0\2it")
"""A client that takes no packet of more than 40 bytes."""
BOTH = pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])


class Device(Publisher):
    """A paho client that has subscribed: what it heard, in order, with the RETAIN flag; and what its SUBSCRIBE and UNSUBSCRIBE gave."""

    def __init__(self, port: int, protocol: MQTTProtocolVersion = mqtt.MQTTv311, login: tuple[str, str] | None = None) -> None:
        super().__init__(port, protocol, "device", login)
        self.heard: list[tuple[bytes, bool]] = []
        self.codes: list[list[str]] = []
        self.client.on_message = self._on_message
        self.client.on_subscribe = self._on_codes
        self.client.on_unsubscribe = self._on_codes

    def subscribe(self, *filters: str) -> list[str]:
        """Ask for these at QoS 1; what was said of each."""
        return self._answered(lambda: self.client.subscribe([(one, 1) for one in filters]))

    def unsubscribe(self) -> list[str]:
        """End it; what was said."""
        return self._answered(lambda: self.client.unsubscribe(REQUEST_TOPIC))

    def _answered(self, asked: Any) -> list[str]:
        count = len(self.codes)
        asked()
        self.wait(lambda one: len(self.codes) > count)
        return self.codes[-1]

    def _on_message(self, _: mqtt.Client, __: Any, message: mqtt.MQTTMessage) -> None:
        with self._changed:
            self.heard.append((bytes(message.payload), message.retain))
            self._changed.notify_all()

    def _on_codes(self, _: mqtt.Client, __: Any, ___: int, reasons: list[ReasonCode], ____: Any) -> None:
        with self._changed:
            self.codes.append([str(one) for one in reasons])
            self._changed.notify_all()


@BOTH
async def test_who_has_subscribed_hears_what_is_asked(tmp_path: Path, protocol: MQTTProtocolVersion) -> None:
    """What was asked before it came, flagged as retained; then each request once; nothing after it has unsubscribed."""
    async with stand(tmp_path) as one:
        one.endpoint.ask(CALM)
        with Device(one.endpoint.port, protocol) as device, Publisher(one.endpoint.port, protocol) as other:
            await device.welcomed()
            assert await asyncio.to_thread(device.subscribe, REQUEST_TOPIC) == ["Granted QoS 0"]
            await asyncio.to_thread(device.wait, lambda _: device.heard == [(CALM, True)])
            one.endpoint.ask(STORM)
            await asyncio.to_thread(device.wait, lambda _: device.heard[1:] == [(STORM, False)])
            mids = {device.publish(TOPIC, payload(0)), other.publish(TOPIC, payload(1))}
            await asyncio.to_thread(device.wait, lambda p: bool(p.acknowledged))
            await asyncio.to_thread(device.unsubscribe)
            one.endpoint.ask(CALM)
            device.publish(TOPIC, payload(2))
            await asyncio.to_thread(device.wait, lambda p: len(p.acknowledged) == 2)
            assert len(device.heard) == 2
            assert len(mids) >= 1
            await asyncio.to_thread(device.subscribe, REQUEST_TOPIC)
            await asyncio.to_thread(device.wait, lambda _: device.heard[2:] == [(CALM, True)])


async def test_no_other_topic_is_given_and_why(tmp_path: Path) -> None:
    filters = (REQUEST_TOPIC, TOPIC, "landfall/#", "+/devices/interval", "$share/all/landfall/devices/interval")
    async with stand(tmp_path) as one:
        with Device(one.endpoint.port, mqtt.MQTTv5) as device:
            await device.welcomed()
            assert await asyncio.to_thread(device.subscribe, *filters) == [
                "Granted QoS 0",
                "Not authorized",
                "Wildcard subscription not supported",
                "Wildcard subscription not supported",
                "Shared subscription not supported",
            ]
            assert device.disconnects == []
        with Device(one.endpoint.port) as device:
            await device.welcomed()
            assert await asyncio.to_thread(device.subscribe, *filters) == ["Granted QoS 0"] + ["Unspecified error"] * 4


async def test_how_an_mqtt_5_client_wants_what_is_retained(tmp_path: Path) -> None:
    """Retain handling 0: at every SUBSCRIBE; 1: at a new one only; 2: never. Retain as published: later ones are flagged too."""
    async with stand(tmp_path) as one:
        one.endpoint.ask(CALM)
        with Device(one.endpoint.port, mqtt.MQTTv5) as device:
            await device.welcomed()

            async def heard(handling: int, keeps: bool = False) -> list[tuple[bytes, bool]]:
                device.heard.clear()
                options = SubscribeOptions(qos=1, retainAsPublished=keeps, retainHandling=handling)
                await asyncio.to_thread(device._answered, lambda: device.client.subscribe(REQUEST_TOPIC, options=options))
                one.endpoint.ask(STORM)
                await asyncio.to_thread(device.wait, lambda _: bool(device.heard) and device.heard[-1][0] == STORM)
                one.endpoint._asked = CALM
                return device.heard.copy()

            assert await heard(2) == [(STORM, False)]
            assert await heard(1) == [(STORM, False)], "it had subscribed before"
            assert await heard(0) == [(CALM, True), (STORM, False)]
            assert await heard(0, keeps=True) == [(CALM, True), (STORM, True)]
            await asyncio.to_thread(device.unsubscribe)
            assert await heard(1) == [(CALM, True), (STORM, False)]


@BOTH
async def test_nobody_but_the_node_publishes_there(tmp_path: Path, protocol: MQTTProtocolVersion) -> None:
    """Not with a login for all topics either: it is refused as foreign, and no device hears it."""
    async with stand(tmp_path) as one:
        with Device(one.endpoint.port, protocol) as device, Publisher(one.endpoint.port, protocol, "mischief") as mischief:
            await device.welcomed()
            await mischief.welcomed()
            await asyncio.to_thread(device.subscribe, REQUEST_TOPIC)
            mid = mischief.publish(REQUEST_TOPIC, STORM)
            await asyncio.to_thread(mischief.wait, lambda p: mid in p.acknowledged)
            assert mischief.acknowledged[mid] == ("Not authorized" if protocol == mqtt.MQTTv5 else "Success")
            one.endpoint.ask(CALM)
            await asyncio.to_thread(device.wait, lambda _: bool(device.heard))
            assert device.heard == [(CALM, False)]
        assert one.counts()["intake_foreign"] == 1


async def test_subscribing_on_the_wire(tmp_path: Path) -> None:
    wanted = b"\0\7" + TOPIC_BYTES
    said_311, said_5 = packet(0x31, TOPIC_BYTES + STORM), packet(0x31, TOPIC_BYTES + b"\0" + STORM)
    async with stand(tmp_path) as one:
        one.endpoint.ask(STORM)
        port = one.endpoint.port
        leave = b"\xe0\0"
        assert await ask(port, CONNECT_311 + packet(0x82, wanted + b"\1") + leave) == b"\x20\2\0\0" + b"\x90\3\0\7\0" + said_311
        v5 = await ask(port, CONNECT_5 + packet(0x82, b"\0\7\0" + TOPIC_BYTES + b"\1") + leave)
        assert v5.endswith(b"\x90\4\0\7\0\0" + said_5)
        small = await ask(port, SMALL_5 + packet(0x82, b"\0\7\0" + TOPIC_BYTES + b"\1") + leave)
        assert small.endswith(b"\x90\4\0\7\0\0"), "a client is sent no packet longer than it takes"
        ended = packet(0xA2, b"\0\x08\0" + TOPIC_BYTES)
        unsubscribed = await ask(port, CONNECT_5 + packet(0x82, b"\0\7\0" + TOPIC_BYTES + b"\x20") + ended + ended + leave)
        assert unsubscribed.endswith(b"\xb0\4\0\x08\0\0" + b"\xb0\4\0\x08\0\x11")
        for bad, reason in {
            packet(0x80, b"\0\7\0" + TOPIC_BYTES + b"\1"): 0x81,  # flags
            packet(0x82, b"\0\7\0" + TOPIC_BYTES + b"\3"): 0x82,  # QoS 3
            packet(0x82, b"\0\7\0" + TOPIC_BYTES + b"\x31"): 0x82,  # retain handling 3
            packet(0x82, b"\0\0\0" + TOPIC_BYTES + b"\1"): 0x82,  # packet identifier 0
            packet(0x82, b"\0\7\0"): 0x82,  # no filter
            packet(0x82, b"\0\7\2\x0b\1" + TOPIC_BYTES + b"\1"): 0xA1,  # a subscription identifier
            packet(0x82, b"\0\7\x7f" + TOPIC_BYTES + b"\1"): 0x81,
            packet(0x82, b"\0\7\0\0\1\xff\1"): 0x81,  # no UTF-8
        }.items():
            assert (await ask(port, CONNECT_5 + bad))[-4:] == bytes((0xE0, 2, reason, 0)), bad
        assert await ask(port, CONNECT_311 + packet(0x82, wanted + b"\x11")) == b"\x20\2\0\0", "3.1.1 knows no options but QoS"


ACL = f"""user node
topic write {REQUEST_TOPIC}
topic read landfall/#
user device
topic read {REQUEST_TOPIC}
topic write landfall/containers/#
"""


@contextmanager
def guarded_broker(folder: Path) -> Iterator[int]:
    """A Mosquitto where the node alone may publish requests, as docs/reference/storm-mode.md sets it up; its port."""
    passwords, acl = folder / "passwords", folder / "acl"
    passwords.touch(mode=0o600)
    mosquitto_passwords(passwords)
    acl.write_text(ACL)
    acl.chmod(0o600)
    with mosquitto(folder, f"password_file {passwords}\nacl_file {acl}\n", anonymous=False) as broker:
        yield broker.port


def mosquitto_passwords(file: Path) -> None:
    for name in ("node", "device"):
        subprocess.run(["mosquitto_passwd", "-b", str(file), name, "secret"], check=True, capture_output=True)


@asynccontextmanager
async def node_at(folder: Path, port: int) -> AsyncIterator[Intake]:
    """A node's intake by this broker, subscribed."""
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), WallClock())
    committer = GroupCommitter(log)
    broker = BrokerSettings(
        port=port,
        client_id="ship-a",
        username="node",
        password=SecretStr("secret"),
        asks_devices=True,
        reconnect_ms_min=50,
        reconnect_ms_max=100,
    )
    intake = Intake(IntakeSettings(broker=broker), WallClock(), Metrics("ship"))
    running = asyncio.create_task(intake.run(committer, log, "ship-a"))
    try:
        await eventually(lambda: intake.broker_connected is True or running.done())
        yield intake
    finally:
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        log.close()


async def test_at_a_broker_devices_hear_it_whenever_they_come_and_only_from_the_node(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as port:
        async with node_at(tmp_path, port) as intake:
            with Device(port, login=("device", "secret")) as early:
                await early.welcomed()
                await asyncio.to_thread(early.subscribe, REQUEST_TOPIC)
                with Publisher(port, client_id="mischief", login=("device", "secret")) as mischief:
                    await mischief.welcomed()
                    mischief.publish(REQUEST_TOPIC, CALM)
                    await asyncio.to_thread(mischief.wait, lambda p: bool(p.acknowledged or p.disconnects))
                intake.ask(STORM)
                await asyncio.to_thread(early.wait, lambda _: bool(early.heard))
                assert early.heard == [(STORM, False)]
            with Device(port, login=("device", "secret")) as late:
                await late.welcomed()
                await asyncio.to_thread(late.subscribe, REQUEST_TOPIC)
                await asyncio.to_thread(late.wait, lambda _: late.heard == [(STORM, True)])
        async with node_at(tmp_path / "again", port) as intake:
            intake.ask(CALM)
            with Device(port, login=("device", "secret")) as late:
                await late.welcomed()
                await asyncio.to_thread(late.subscribe, REQUEST_TOPIC)
                await asyncio.to_thread(late.wait, lambda _: bool(late.heard) and late.heard[-1][0] == CALM)
