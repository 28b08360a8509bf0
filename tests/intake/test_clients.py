"""Goal: stock clients of other makers than paho publish, leave wills, log in over TLS and find their sessions again, in MQTT 3.1.1 and 5.

awscrt is Amazon's, in C; libmosquitto is that of mosquitto_pub and of Mosquitto's bridge, which a gateway with a broker of its own has.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import paho.mqtt.client as mqtt
import pytest
from awscrt import io, mqtt5
from awscrt import mqtt as mqtt311

from intake.settings import EndpointSettings
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import DEADLINE_S, TOPIC, Publisher, eventually, payload, stand
from tests.intake.test_endpoint import self_signed
from tests.support.credentials import allow_gateway

READINGS = 100
LOGIN = ("gw-1", "silver")
CLOSED = EndpointSettings(port=0)


def let_in(folder: Path) -> None:
    """The gateway LOGIN may publish what containers say, at the stand in `folder`."""
    allow_gateway(folder, *LOGIN, "landfall/containers/#")


class Stock(Protocol):
    """A client of some maker, with the session of one identifier."""

    async def connect(self, port: int, trusted: Path | None = None) -> bool:
        """Connect with LOGIN, over TLS if there is a certificate to trust; whether its session was there."""
        ...

    async def publish(self, payloads: Sequence[bytes]) -> None:
        """To TOPIC at QoS 1, all at once; returns when all are acknowledged."""
        ...

    async def leave(self) -> None:
        """With a DISCONNECT."""
        ...


class Awscrt311:
    """awscrt's client for 3.1.1. Unless told not to, it says of itself what it is in the user's name, for Amazon alone."""

    def __init__(self) -> None:
        self._bootstrap = io.ClientBootstrap.get_or_create_static_default()

    async def connect(self, port: int, trusted: Path | None = None) -> bool:
        """See Stock."""
        given = {"client_id": "awscrt-311", "clean_session": False, "username": LOGIN[0], "password": LOGIN[1], "keep_alive_secs": 30}
        client = mqtt311.Client(self._bootstrap, tls_of(trusted))
        self._connection: Any = mqtt311.Connection(client, "localhost", port, disable_metrics=True, **given)
        return bool((await asyncio.wrap_future(self._connection.connect()))["session_present"])

    async def publish(self, payloads: Sequence[bytes]) -> None:
        """See Stock."""
        sent = [self._connection.publish(TOPIC, one, mqtt311.QoS.AT_LEAST_ONCE)[0] for one in payloads]
        await asyncio.gather(*map(asyncio.wrap_future, sent))

    async def leave(self) -> None:
        """See Stock."""
        await asyncio.wrap_future(self._connection.disconnect())


class Awscrt5:
    """awscrt's client for 5."""

    async def connect(self, port: int, trusted: Path | None = None) -> bool:
        """See Stock."""
        loop = asyncio.get_running_loop()
        welcomed: asyncio.Future[bool] = loop.create_future()
        self._left: asyncio.Future[None] = loop.create_future()
        connect = mqtt5.ConnectPacket(
            client_id="awscrt-5", username=LOGIN[0], password=LOGIN[1], keep_alive_interval_sec=30, session_expiry_interval_sec=60
        )
        self._client: Any = mqtt5.Client(
            mqtt5.ClientOptions(
                "localhost",
                port,
                bootstrap=io.ClientBootstrap.get_or_create_static_default(),
                tls_ctx=tls_of(trusted),
                connect_options=connect,
                disable_metrics=True,
                session_behavior=mqtt5.ClientSessionBehaviorType.REJOIN_ALWAYS,
                on_lifecycle_event_connection_success_fn=lambda told: loop.call_soon_threadsafe(
                    welcomed.set_result, told.connack_packet.session_present
                ),
                on_lifecycle_event_stopped_fn=lambda _: loop.call_soon_threadsafe(self._left.set_result, None),
            )
        )
        self._client.start()
        return await welcomed

    async def publish(self, payloads: Sequence[bytes]) -> None:
        """See Stock."""
        packets = [mqtt5.PublishPacket(topic=TOPIC, payload=one, qos=mqtt5.QoS.AT_LEAST_ONCE) for one in payloads]
        told = await asyncio.gather(*[asyncio.wrap_future(self._client.publish(one)) for one in packets])
        assert {one.puback.reason_code for one in told} == {mqtt5.PubackReasonCode.SUCCESS}

    async def leave(self) -> None:
        """See Stock."""
        self._client.stop(mqtt5.DisconnectPacket())
        await self._left


def tls_of(trusted: Path | None) -> Any:
    if trusted is None:
        return None
    options = io.TlsContextOptions()
    options.override_default_trust_store_from_path(None, str(trusted))
    return io.ClientTlsContext(options)


def stock(name: str) -> Stock:
    return Awscrt5() if name == "awscrt-5" else Awscrt311()


EACH = pytest.mark.parametrize("maker", ["awscrt-311", "awscrt-5"])


@EACH
async def test_it_publishes_and_finds_its_session_again(tmp_path: Path, maker: str) -> None:
    """Over TLS with a login; at once, after it left, and after the node was started anew."""
    certificate, key = self_signed(tmp_path)
    let_in(tmp_path)
    settings = CLOSED.model_copy(update={"tls_certificate": certificate, "tls_key": key})
    async with asyncio.timeout(DEADLINE_S):
        async with stand(tmp_path, settings) as one:
            client = stock(maker)
            assert not await client.connect(one.endpoint.port, certificate)
            await client.publish([payload(n) for n in range(READINGS)])
            assert len(one.rows("containers")) == READINGS
            await client.leave()
            client = stock(maker)
            assert await client.connect(one.endpoint.port, certificate)
            await client.leave()
        async with stand(tmp_path, settings) as one:
            client = stock(maker)
            assert await client.connect(one.endpoint.port, certificate), "a restart of the node ends no session"
            await client.publish([payload(n) for n in range(READINGS + 1)])
            await client.leave()
            assert one.counts()["intake_repeated"] == READINGS


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
async def test_mosquittos_bridge_brings_what_its_broker_hears(tmp_path: Path, protocol: Any) -> None:
    """A gateway that is a broker itself: its bridge logs in, keeps its session, and goes on where it was when the node is back."""
    version = "mqttv50" if protocol == mqtt.MQTTv5 else "mqttv311"
    settings = CLOSED
    let_in(tmp_path)
    async with stand(tmp_path, settings) as one:
        port = one.endpoint.port
        bridge = (
            f"connection ship\naddress 127.0.0.1:{port}\nbridge_protocol_version {version}\nremote_username {LOGIN[0]}\n"
            f"remote_password {LOGIN[1]}\ncleansession false\nnotifications false\nrestart_timeout 1\ntopic landfall/# out 1\n"
        )
        with mosquitto(tmp_path, bridge) as broker:
            await asyncio.to_thread(publish, broker.port, 0)
            await eventually(lambda: len(one.rows("containers")) == READINGS)
            await one.endpoint.__aexit__()
            await asyncio.to_thread(publish, broker.port, READINGS)
            one.endpoint.settings = settings.model_copy(update={"port": port})
            await one.endpoint.__aenter__()
            await eventually(lambda: len(one.rows("containers")) == 2 * READINGS)


def publish(port: int, first: int) -> None:
    with Publisher(port, client_id="sensor") as sensor:
        for n in range(first, first + READINGS):
            sensor.publish(TOPIC, payload(n))
        sensor.wait(lambda p: len(p.acknowledged) == READINGS)


async def test_mosquitto_pub_hears_why_it_may_not(tmp_path: Path) -> None:
    """No login, a wrong password, and a topic that is not this gateway's."""
    let_in(tmp_path)
    async with stand(tmp_path, CLOSED) as one:
        given = ["-V", "mqttv5", "-p", str(one.endpoint.port), "-q", "1", "-t", "landfall/ships/9321483/location", "-m", "{}"]

        async def told(*login: str) -> str:
            command = ["mosquitto_pub", *given, *login]
            done = await asyncio.to_thread(subprocess.run, command, timeout=DEADLINE_S, capture_output=True, text=True, check=False)
            return str(done.stderr).lower()

        assert "bad user name or password" in await told()
        assert "bad user name or password" in await told("-u", LOGIN[0], "-P", "gold")
        assert "not authorized" in await told("-u", LOGIN[0], "-P", LOGIN[1])
        assert one.counts()["intake_foreign"] == 1
