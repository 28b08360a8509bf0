"""Goal: behind a real Mosquitto the subscription comes back by itself, takes what the endpoint takes, loses nothing to a small queue."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from intake.intake_service import Intake
from intake.mqtt.packets import PacketType, packet
from intake.pipeline_batches import MQTT_TOPIC_CHARS_MAX
from intake.settings import BrokerSettings, IntakeSettings, PipelineSettings
from intake.topic_routes import SUBSCRIPTIONS
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from tests.intake.mosquitto import MESSAGE_BYTES_MAX, mosquitto
from tests.intake.stand import DEADLINE_S, TOPIC, Publisher, eventually, payload, stored
from tests.intake.test_endpoint import self_signed
from tests.support.ports import free_port

READINGS = 500
OURS = Path(__file__).resolve().parents[2] / "deploy" / "mosquitto" / "mosquitto.conf"


@asynccontextmanager
async def fed(
    folder: Path, port: int, pipeline: PipelineSettings | None = None, settings: BrokerSettings | None = None
) -> AsyncIterator[tuple[FileLog, Metrics, Intake]]:
    """A log fed by a subscription at the broker on `port`, from its first dialling on."""
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), WallClock())
    committer, metrics = GroupCommitter(log), Metrics("ship")
    settings = settings or BrokerSettings(port=port, client_id="ship-a", reconnect_ms_min=50, reconnect_ms_max=100)
    intake = Intake(IntakeSettings(broker=settings, pipeline=pipeline or PipelineSettings()), WallClock(), metrics)
    running = asyncio.create_task(intake.run(committer, log, "ship-a"))
    try:
        yield log, metrics, intake
    finally:
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        log.close()


@asynccontextmanager
async def subscribed(folder: Path, port: int, pipeline: PipelineSettings | None = None) -> AsyncIterator[tuple[FileLog, Metrics]]:
    """The same, from when the subscription stands on."""
    async with fed(folder, port, pipeline) as (log, metrics, intake):
        await eventually(lambda: intake.broker_connected is True)
        yield log, metrics


def publish(port: int, first: int, end: int) -> None:
    with Publisher(port, client_id="sensor") as publisher:
        for n in range(first, end):
            publisher.publish(TOPIC, payload(n))
        publisher.wait(lambda one: len(one.acknowledged) == end - first)


async def test_what_came_while_nobody_listened_comes_later(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port):
            pass  # the session is known at the broker from now on
        await asyncio.to_thread(publish, broker.port, 0, READINGS)
        async with subscribed(tmp_path, broker.port) as (log, _):
            await eventually(lambda: len(stored(log, "containers")) == READINGS)
            await asyncio.to_thread(publish, broker.port, READINGS, READINGS + 10)
            await eventually(lambda: len(stored(log, "containers")) == READINGS + 10)


async def test_a_broker_that_restarts_is_found_again(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            for turn in range(2):
                await asyncio.to_thread(publish, broker.port, turn * 100, turn * 100 + 100)
                await eventually(lambda turn=turn: len(stored(log, "containers")) == turn * 100 + 100)  # type: ignore[misc]
                await asyncio.to_thread(broker.stop)
                await asyncio.to_thread(broker.start)


async def test_a_small_queue_slows_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    small = PipelineSettings(batch_readings_max=10, pending_readings_max=20)
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port, small) as (log, metrics):
            await asyncio.to_thread(publish, broker.port, 0, READINGS)
            await eventually(lambda: len(stored(log, "containers")) == READINGS)
            await eventually(lambda: metrics.body(0, 0)["counts"]["intake_stale"] == READINGS)


async def test_bad_and_large_messages_land_in_exceptions_and_huge_ones_do_not_come(tmp_path: Path) -> None:
    """How long one may be that comes is the broker's to say."""
    assert f"message_size_limit {MESSAGE_BYTES_MAX}" in OURS.read_text().splitlines()
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            with Publisher(broker.port, client_id="sensor") as publisher:
                for sent in (payload(0), b"{", b"x" * MESSAGE_BYTES_MAX, b"x" * (MESSAGE_BYTES_MAX + 1), payload(1)):
                    publisher.publish(TOPIC, sent)
                await asyncio.to_thread(publisher.wait, lambda one: len(one.acknowledged) == 5)
            await eventually(lambda: len(stored(log, "containers")) == 2)
            await eventually(lambda: len(stored(log, "exceptions")) == 2)
            bodies = [row.record.body or {} for row in stored(log, "exceptions")]
            assert {(body["outcome"], body["payload_bytes"]) for body in bodies} == {("malformed", 1), ("oversized", MESSAGE_BYTES_MAX)}


async def test_of_a_huge_message_the_beginning_is_kept(tmp_path: Path) -> None:
    """Where the broker sets no limit it comes, and is reported like any that is too long; what comes after it is taken."""
    huge, length = tmp_path / "huge", 48 << 20
    huge.write_bytes(b"x" * length)
    with mosquitto(tmp_path, "message_size_limit 0\n") as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            command = ["mosquitto_pub", "-p", str(broker.port), "-q", "1", "-t", TOPIC, "-f", str(huge)]
            sending = await asyncio.create_subprocess_exec(*command)
            assert await sending.wait() == 0
            await asyncio.to_thread(publish, broker.port, 0, 1)
            await eventually(lambda: len(stored(log, "exceptions")) == len(stored(log, "containers")) == 1)
            [body] = [row.record.body or {} for row in stored(log, "exceptions")]
            assert (body["outcome"], body["payload_bytes"]) == ("oversized", length)
            assert body["payload_sha256"] == hashlib.sha256(b"x" * length).hexdigest()


async def test_a_very_long_topic_is_unknown(tmp_path: Path) -> None:
    topic = TOPIC.encode() + b"x" * 60_000
    async with passing(brought(topic, b"\0\5", payload(0))) as (broker, port), subscribed(tmp_path, port) as (log, _):
        await eventually(lambda: broker.acknowledged == [b"\0\5"])
        [refused] = [row.record for row in stored(log, "exceptions")]
        assert (refused.body or {})["outcome"] == "unknown_topic"
        assert (refused.body or {})["mqtt_topic"] == topic[:MQTT_TOPIC_CHARS_MAX].decode()


async def test_over_tls(tmp_path: Path) -> None:
    """What TLS has read ahead of us comes too, though the socket says nothing more."""
    certificate, key = self_signed(tmp_path)
    port = free_port()
    with mosquitto(tmp_path, f"listener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}\n") as broker:
        settings = BrokerSettings(host="localhost", port=port, client_id="ship-a", tls_ca=certificate)
        async with fed(tmp_path, port, settings=settings) as (log, _, intake):
            await eventually(lambda: intake.broker_connected is True)
            await asyncio.to_thread(publish, broker.port, 0, READINGS)
            await eventually(lambda: len(stored(log, "containers")) == READINGS)


async def test_a_broker_that_is_not_there_is_waited_for_and_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, however often it is tried; and that it is there again."""
    monkeypatch.setattr("intake.broker.AWAY_REPORTED_AFTER_S", 0.2)
    told: list[tuple[str, Any]] = []
    with mosquitto(tmp_path) as broker:
        broker.stop()
        settings = BrokerSettings(port=broker.port, client_id="ship-a", reconnect_ms_min=20, reconnect_ms_max=50)
        async with fed(tmp_path, broker.port, settings=settings) as (_, metrics, intake):
            intake.report = lambda reason, outcome, **details: told.append((reason, details.get("why")))
            await eventually(lambda: bool(told))
            lost = metrics.body(0, 0)["counts"]["broker_connections_lost"]
            await eventually(lambda: metrics.body(0, 0)["counts"]["broker_connections_lost"] >= lost + 3)
            called = f"the broker 127.0.0.1:{broker.port}"
            [(reason, why)] = told
            assert reason.startswith(called)
            assert intake.troubles() == [f"{called} {why}"]
            broker.start()
            await eventually(lambda: intake.broker_connected is True, DEADLINE_S)
            assert told[1:] == [(f"{called} is there again", None)]
            assert intake.troubles() == []


async def test_a_broker_that_does_not_take_its_login_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intake.broker.AWAY_REPORTED_AFTER_S", 0.2)
    told: list[tuple[str, Any]] = []
    with mosquitto(tmp_path, anonymous=False) as broker:
        async with fed(tmp_path, broker.port) as (_, __, intake):
            intake.report = lambda reason, outcome, **details: told.append((reason, details.get("why")))
            await eventually(lambda: bool(told))
            [(reason, why)] = told
            [trouble] = intake.troubles()
            assert f"127.0.0.1:{broker.port} " in reason
            assert f"127.0.0.1:{broker.port} " in trouble
            assert "Not authorized" in why


class PassesAnything:
    """A broker that subscribes whoever comes, looks at no topic, and brings `packets` to each connection."""

    def __init__(self, packets: bytes, raw: bytes = b"") -> None:
        """`raw`: what comes behind them past TLS."""
        self._packets, self._raw = packets, raw
        self.acknowledged: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client ends the connection, in order or not."""
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            async for kind, body in self._said(reader):
                if kind == PacketType.CONNECT:
                    writer.write(packet(PacketType.CONNACK << 4, b"\0\0"))
                elif kind == PacketType.SUBSCRIBE:
                    writer.write(packet(PacketType.SUBACK << 4, body[:2] + bytes([1] * len(SUBSCRIPTIONS))) + self._packets)
                    os.write(writer.get_extra_info("socket").fileno(), self._raw)
                elif kind == PacketType.PUBACK:
                    self.acknowledged.append(body)

    async def _said(self, reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
        while head := await reader.read(2):
            yield head[0] >> 4, await reader.readexactly(await self._length(reader, head[1]))

    async def _length(self, reader: asyncio.StreamReader, first: int) -> int:
        return first if first < 128 else (first & 127) + 128 * (await reader.readexactly(1))[0]


def brought(topic: bytes, packet_id: bytes, payload: bytes) -> bytes:
    """A PUBLISH of QoS 1."""
    return packet(PacketType.PUBLISH << 4 | 2, len(topic).to_bytes(2, "big") + topic + packet_id + payload)


@asynccontextmanager
async def passing(packets: bytes) -> AsyncIterator[tuple[PassesAnything, int]]:
    """Such a broker, and its port."""
    broker = PassesAnything(packets)
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
        yield broker, server.sockets[0].getsockname()[1]


async def test_a_topic_that_is_no_utf_8_is_malformed_and_what_comes_with_it_is_taken(tmp_path: Path) -> None:
    """Mosquitto lets none pass; others do."""
    packets = [(TOPIC.encode(), b"\0\5", payload(0)), (b"landfall/\xff\xfe", b"\0\6", payload(1)), (TOPIC.encode(), b"\0\7", payload(2))]
    async with passing(b"".join(brought(*one) for one in packets)) as (broker, port), subscribed(tmp_path, port) as (log, metrics):
        await eventually(lambda: broker.acknowledged == [b"\0\5", b"\0\6", b"\0\7"])
        assert len(stored(log, "containers")) == 2
        [refused] = [row.record.body or {} for row in stored(log, "exceptions")]
        assert (refused["outcome"], "UTF-8" in refused["reason"]) == ("malformed", True)
        assert base64.b64decode(refused["payload_base64"]) == payload(1)
        counts = metrics.body(0, 0)["counts"]
        assert (counts["intake_received"], counts["intake_malformed"]) == (3, 1)
        assert "broker_connections_lost" not in counts


async def test_what_came_before_a_packet_that_can_not_be_read_is_taken(tmp_path: Path) -> None:
    """The connection ends with it, in the same turn that has brought what came before."""
    cut = packet(PacketType.PUBLISH << 4 | 2, b"\0")
    async with passing(brought(TOPIC.encode(), b"\0\5", payload(0)) + cut) as (_, port), fed(tmp_path, port) as (log, _, _):
        await eventually(lambda: len(stored(log, "containers")) == 1)


async def test_what_came_before_a_record_that_is_no_tls_is_taken(tmp_path: Path) -> None:
    """The connection fails in the same turn that has brought what came before."""
    certificate, key = self_signed(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    broker = PassesAnything(brought(TOPIC.encode(), b"\0\5", payload(0)), raw=b"this is no record of TLS")
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=tls) as server:
        settings = BrokerSettings(host="localhost", port=server.sockets[0].getsockname()[1], client_id="ship-a", tls_ca=certificate)
        async with fed(tmp_path, settings.port, settings=settings) as (log, _, _):
            await eventually(lambda: len(stored(log, "containers")) == 1)
