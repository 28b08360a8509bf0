"""Goal: a client that comes back finds its session as MQTT says, wills wait for it, and no client can make the node keep without end."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

import intake.mqtt.client_logins
import intake.mqtt.client_sessions
import intake.mqtt.pending_wills
import intake.topic_routes
from cargo.rules.storm_mode import REQUEST_TOPIC
from intake.message_types import Publish
from intake.mqtt.client_connection import ClientConnection
from intake.mqtt.client_logins import GatewayLogin
from intake.mqtt.client_sessions import SESSION_S_MAX, Sessions
from intake.mqtt.packets import packet
from intake.mqtt.pending_wills import OVERHEAD_BYTES
from intake.mqtt.subscriptions import Subscription
from intake.settings import PipelineSettings
from intake.topic_routes import Routes
from landfall.access.principals import GATEWAY, Principal
from tests.intake.stand import TOPIC, Publisher, Stand, eventually, payload, stand
from tests.intake.test_endpoint import CONNECT_311, ask, publish_packet

LEAVE = b"\xe0\0"
ME = b"\0\2me"
HOUR_S = 3_600
KEPT_311 = packet(0x10, b"\0\4MQTT\4\0\0\x3c" + ME)
SUBSCRIBE_311 = packet(0x82, b"\0\7" + struct.pack(">H", len(REQUEST_TOPIC)) + REQUEST_TOPIC.encode() + b"\1")


def connect_5(expiry_s: int | None = None, clean: bool = False, will_delay_s: int | None = None, will_topic: str = TOPIC) -> bytes:
    """A CONNECT; with a will if there is a delay for it."""
    said = b"" if expiry_s is None else b"\x11" + struct.pack(">I", expiry_s)
    will = b""
    if will_delay_s is not None:
        will = b"\5\x18" + struct.pack(">I", will_delay_s)
        will += b"".join(struct.pack(">H", len(one)) + one for one in (will_topic.encode(), payload(7)))
    flags = clean * 2 | bool(will) * 4
    return packet(0x10, b"\0\4MQTT\5" + bytes((flags, 0, 0x3C, len(said))) + said + ME + will)


async def breaks_off(one: Stand, connect: bytes) -> None:
    """Connect, be let in, and go without a word; returns once nobody is connected."""
    with socket.create_connection(("127.0.0.1", one.endpoint.port)) as client:
        await asyncio.to_thread(client.sendall, connect)
        await asyncio.to_thread(client.recv, 1)
    await eventually(lambda: one.metrics.body(0, 0)["gauges"]["mqtt_connections"] == 0)


async def present(port: int, connect: bytes, leave: bytes = LEAVE) -> bool:
    """Connect and leave: whether the session was there."""
    heard = await ask(port, connect + leave)
    assert heard[0] == 0x20
    return bool(heard[2])


async def test_a_session_is_there_as_long_as_its_client_wants(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        port = one.endpoint.port
        assert [await present(port, KEPT_311) for _ in range(2)] == [False, True]
        assert not await present(port, CONNECT_311.replace(b"it", b"me")), "a clean one begins anew"
        assert not await present(port, KEPT_311), "and leaves nothing"
        assert await present(port, connect_5(60))
        assert await present(port, connect_5(), packet(0xE0, b"\0"))
        assert not await present(port, connect_5(60)), "without an expiry it ended"
        assert await present(port, connect_5(60), packet(0xE0, b"\0\5\x11\0\0\0\0"))
        assert not await present(port, connect_5(60)), "a DISCONNECT ended it"
        assert not await present(port, connect_5(60, clean=True))
        assert await present(port, connect_5(60))
        assert (await ask(port, connect_5() + packet(0xE0, b"\0\5\x11\0\0\0\1")))[-4:] == b"\xe0\2\x82\0", (
            "what was to end is not kept after all"
        )
        limited = await ask(port, connect_5(0xFFFFFFFF) + LEAVE)
        assert b"\x11" + struct.pack(">I", SESSION_S_MAX) in limited, "it hears how long its session is kept"
    async with stand(tmp_path) as one:
        assert await present(one.endpoint.port, connect_5(60)), "a restart ends none"


async def test_its_subscription_goes_on(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        assert (await ask(one.endpoint.port, KEPT_311 + SUBSCRIBE_311 + LEAVE))[-5:] == b"\x90\3\0\7\0"
    async with stand(tmp_path) as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.endpoint.port)
        writer.write(KEPT_311)
        assert await reader.readexactly(4) == b"\x20\2\1\0"
        one.endpoint.ask(b"{}")
        said = packet(0x30, SUBSCRIBE_311[4:-1] + b"{}")
        assert await reader.readexactly(len(said)) == said
        writer.close()


async def test_a_will_waits_for_who_may_come_back(tmp_path: Path) -> None:
    """Within its delay: never said. Anew: said at once. No session to come back to: at once, whatever the delay."""
    async with stand(tmp_path) as one:
        port = one.endpoint.port

        await breaks_off(one, connect_5(60, will_delay_s=60))
        assert await present(port, connect_5(60))
        await breaks_off(one, connect_5(60, will_delay_s=60))
        assert not one.rows("containers")
        assert not await present(port, connect_5(clean=True))
        await eventually(lambda: one.counts().get("intake_stale", 0) == 1)
        await breaks_off(one, connect_5(None, will_delay_s=60))
        await eventually(lambda: one.counts().get("intake_repeated", 0) == 1)
        await breaks_off(one, connect_5(60, will_delay_s=1))
        await eventually(lambda: one.counts().get("intake_repeated", 0) == 2)


async def test_endless_identifiers_that_leave_wills_to_wait_make_the_node_keep_only_so_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the many that wait an hour for their clients those that were left first are said at once: none is forgotten, the last wait."""
    monkeypatch.setattr(intake.mqtt.pending_wills, "WILLS_BYTES_MAX", 5 * (OVERHEAD_BYTES + len(TOPIC) + len(payload(7))))
    async with stand(tmp_path) as one:
        for n in range(20):
            await breaks_off(one, connect_5(HOUR_S, will_delay_s=HOUR_S).replace(ME, struct.pack(">H2s", 2, b"%02d" % n)))
        await eventually(lambda: one.counts().get("intake_received", 0) == 15)
        assert await present(one.endpoint.port, connect_5(HOUR_S).replace(ME, b"\0\x0219"))
        assert one.counts()["intake_received"] == 15


async def test_a_will_that_may_not_be_said_is_refused_or_counted(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        port = one.endpoint.port
        refused = await ask(port, connect_5(will_delay_s=0, will_topic="landfall/#"))
        assert refused == b"\x20\3\0\x82\0"
        await ask(port, connect_5(will_delay_s=0, will_topic="elsewhere") + b"\xc1\0")  # flags that no PINGREQ has
        await eventually(lambda: one.counts().get("intake_foreign", 0) == 1)
        assert one.metrics.body(0, 0)["gauges"]["mqtt_connections"] == 0, "and nobody stays behind"


async def test_clients_that_share_an_identifier_cost_the_others_nothing(tmp_path: Path) -> None:
    """They end each other's connections again and again; what each was told is received is there, once."""
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, client_id="sound") as sound:
            for n in range(40):
                heard = await ask(one.endpoint.port, KEPT_311 + publish_packet(n), 8)
                assert heard[4:6] == b"\x40\2"
            mids = {sound.publish(TOPIC, payload(n)) for n in range(60)}
            await asyncio.to_thread(sound.wait, lambda p: p.acknowledged.keys() >= mids)
            assert sound.disconnects == []
        assert len(one.rows("containers")) == 60


async def test_topics_count_for_what_may_wait(tmp_path: Path) -> None:
    async with stand(tmp_path, pipeline_settings=PipelineSettings(pending_bytes_max=1 << 20)) as one:
        one.pipeline.offer(ClientConnection(one.endpoint), [Publish(b"landfall/" + b"x" * 60_000, b"") for _ in range(20)])
        assert one.pipeline.full
        assert one.counts()["intake_received"] == one.waiting() == 20
        await eventually(lambda: not one.waiting())
        assert not one.pipeline.full


def test_endless_topics_identifiers_and_logins_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (intake.mqtt.client_logins, "PERMITS_MAX"),
        (intake.topic_routes, "ROUTES_MAX"),
        (intake.mqtt.client_sessions, "SESSIONS_MAX"),
    ):
        monkeypatch.setattr(module, name, 50)
    gateway = GatewayLogin(None, Principal(GATEWAY, {"produce": ("landfall/#",)}))
    routes, sessions = Routes(), Sessions(None, lambda: 1_000)
    for n in range(500):
        topic = f"landfall/containers/A{n}/reading".encode()
        assert gateway.may_publish(topic)
        assert routes.route(topic) is not None
        sessions.begin((None, str(n)), clean=False, expiry_s=60)
        sessions.leave((None, str(n)), 60, None)
    assert max(len(gateway._permits), len(routes._known), sessions._count) <= 50
    before = dict(gateway._permits), dict(routes._known)
    for n in range(10):
        topic = b"landfall/" + str(n).encode() * 60_000
        assert gateway.may_publish(topic)
        assert routes.route(topic) is None
    assert (gateway._permits, routes._known) == before, "of long topics none is kept"
    assert sessions.begin((None, "499"), clean=False, expiry_s=60)[0], "the last are kept"


def test_who_makes_sessions_without_end_forgets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.mqtt.client_sessions, "LOGIN_SESSIONS_MAX", 50)
    monkeypatch.setattr(intake.mqtt.client_sessions, "SESSIONS_MAX", 120)
    sessions = Sessions(None, lambda: 1_000)
    for key in (("gw-1", "mine"), (None, "device")):
        sessions.begin(key, clean=False, expiry_s=60)
        sessions.leave(key, 60, None)
    for login in ("greedy", "greedy too", None):
        for n in range(500):
            sessions.begin((login, str(n)), clean=False, expiry_s=60)
            sessions.leave((login, str(n)), 60, None)
        assert sessions._count <= 120
        assert sessions.begin((login, "499"), clean=False, expiry_s=60)[0], "the last are kept"
    assert sessions.begin(("gw-1", "mine"), clean=False, expiry_s=60)[0]
    assert not sessions.begin((None, "device"), clean=False, expiry_s=60)[0], "who has no login shares with all others"


def test_a_session_outlives_a_kill_and_not_its_time(tmp_path: Path) -> None:
    now_ms = [1_000_000]
    file = tmp_path / "sessions"

    def reopened() -> Sessions:
        return Sessions(file, lambda: now_ms[0])

    one, heard = reopened(), Subscription(keeps_flag=True)
    one.begin((None, "a"), clean=False, expiry_s=10)
    one.subscribed((None, "a"), 10, heard)
    one.begin(("gw", "b"), clean=False, expiry_s=100)
    one.leave(("gw", "b"), 100, None)
    assert one.changed
    one.write()
    now_ms[0] += 50_000
    assert reopened().begin((None, "a"), clean=False, expiry_s=10) == (True, heard), "connected when it was killed: its time begins now"
    assert reopened().begin(("gw", "b"), clean=False, expiry_s=100) == (True, None)
    now_ms[0] += 51_000
    assert reopened().begin(("gw", "b"), clean=False, expiry_s=100) == (False, None)
    file.write_bytes(b"damaged")
    assert reopened().begin((None, "a"), clean=False, expiry_s=10) == (False, None)


def test_no_session_expires_while_the_clock_is_doubted() -> None:
    now_ms, doubted = [1_000_000], [False]
    sessions = Sessions(None, lambda: now_ms[0], lambda: doubted[0])
    sessions.begin((None, "a"), clean=False, expiry_s=10)
    sessions.leave((None, "a"), 10, None)
    now_ms[0] += 1_000_000
    doubted[0] = True
    assert sessions.begin((None, "a"), clean=False, expiry_s=10) == (True, None)
    sessions.leave((None, "a"), 10, None)
    now_ms[0] += 1_000_000
    doubted[0] = False
    assert sessions.begin((None, "a"), clean=False, expiry_s=10) == (False, None)


def test_a_session_that_ended_while_the_clock_was_years_ahead_is_not_kept_for_years() -> None:
    now_ms = [1_000_000_000_000]
    sessions = Sessions(None, lambda: now_ms[0], lambda: False)
    sessions.begin((None, "a"), clean=False, expiry_s=10)
    sessions.leave((None, "a"), 10, None)
    now_ms[0] -= 9_000
    assert sessions.begin((None, "a"), clean=False, expiry_s=10) == (True, None)
    sessions.leave((None, "a"), 10, None)
    now_ms[0] -= 100_000
    assert sessions.begin((None, "a"), clean=False, expiry_s=10) == (False, None)


async def test_a_5_client_that_asks_for_none_is_told_so(tmp_path: Path) -> None:
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port, mqtt.MQTTv5) as publisher:
            await publisher.welcomed()
            assert vars(publisher.welcome)["SessionExpiryInterval"] == 0
