"""A real log, group commit, pipeline and endpoint in this process, and clients that publish to it: what the tests of intake stand on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from intake.endpoint import Endpoint
from intake.pipeline import Pipeline, Strangers
from intake.settings import EndpointSettings, PipelineSettings
from landfall.access.credentials import Credentials
from landfall.storage.file_log import FileLog, FileLogOptions
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.log import Log
from streams.model.clock import Clock, WallClock
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import StoredRecord
from tests.support.pahoclients import close

DEADLINE_S = 60.0
AT = 1_777_593_600_000
BOX = "MSKU1234565"
OPEN = EndpointSettings(port=0, anonymous_publish=("landfall/#",))
USUAL = PipelineSettings()
ORDINARY = FileLogOptions()
TOPIC = f"landfall/containers/{BOX}/reading"


@dataclass(slots=True)
class Stand:
    """What a test can look at."""

    log: Log
    pipeline: Pipeline
    metrics: Metrics
    endpoint: Endpoint
    reports: list[str]
    """What the endpoint had to tell `exceptions`."""
    credentials: Credentials

    def rows(self, stream: str) -> list[StoredRecord]:
        """Everything in `stream`."""
        return stored(self.log, stream)

    def counts(self) -> dict[str, int]:
        """The counted outcomes."""
        counts: dict[str, int] = self.metrics.body(0, 0)["counts"]
        return counts

    def waiting(self) -> float:
        """Messages that have no outcome yet."""
        gauges: dict[str, float] = self.metrics.body(0, 0)["gauges"]
        return gauges.get("intake_waiting", 0.0)


def stored(log: Log, stream: str) -> list[StoredRecord]:
    """Every row of `stream`, in order."""
    return [row for batch in log.read(stream, Position()) for row in batch.rows()]


@asynccontextmanager
async def stand(
    folder: Path,
    settings: EndpointSettings = OPEN,
    pipeline_settings: PipelineSettings = USUAL,
    clock: Clock | None = None,
    options: FileLogOptions = ORDINARY,
    strangers: Strangers | None = None,
) -> AsyncIterator[Stand]:
    """An endpoint over a log in `folder`, for the gateways that have credentials there; both end with the block."""
    clock = clock or WallClock()
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), clock, options)
    metrics = Metrics("ship")
    reports: list[str] = []

    def report(reason: str, outcome: str, **details: Any) -> None:
        reports.append(reason)

    committer = GroupCommitter(log)
    credentials = Credentials(folder)
    credentials.look()
    pipeline = Pipeline(committer, log, "ship-a", clock, metrics, pipeline_settings, strangers=strangers)
    running = asyncio.create_task(pipeline.run())
    try:
        async with Endpoint(settings, pipeline, clock, metrics, report, credentials, folder / "mqtt.sessions") as endpoint:
            yield Stand(log, pipeline, metrics, endpoint, reports, credentials)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        credentials.close()
        log.close()


def payload(n: int = 0, **fields: Any) -> bytes:
    """The n-th reading of one device, a second after the one before."""
    return json.dumps({"device": "TRK-1", "at": AT + n * 1_000, "return_c": 4.0 + n % 10 / 10} | fields).encode()


class Publisher:
    """A paho client in its own thread, as sensors' gateways use it."""

    def __init__(
        self,
        port: int,
        protocol: MQTTProtocolVersion = mqtt.MQTTv311,
        client_id: str = "gateway",
        login: tuple[str, str] | None = None,
        keep_alive_s: int = 60,
    ) -> None:
        v5 = protocol == mqtt.MQTTv5
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=None if v5 else True, protocol=protocol)
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_publish = self._on_publish
        self.acknowledged: dict[int, str] = {}
        self.connects: list[str] = []
        self.disconnects: list[str] = []
        self.welcome: Properties | None = None
        self._changed = threading.Condition()
        if login:
            self.client.username_pw_set(*login)
        self.client.max_inflight_messages_set(1_000)
        self.client.reconnect_delay_set(1, 1)
        self.client.connect_async("127.0.0.1", port, keep_alive_s)

    def __enter__(self) -> Self:
        self.client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        close(self.client)

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> int:
        """Publish; the packet identifier."""
        return self.client.publish(topic, payload, qos).mid

    async def welcomed(self) -> None:
        """Returns once the endpoint has answered: what paho is given before and while it connects it sends in an order of its own."""
        await asyncio.to_thread(self.wait, lambda p: bool(p.connects))

    def wait(self, done: Callable[[Publisher], bool]) -> None:
        """Returns once `done(self)`; fails after the deadline."""
        with self._changed:
            assert self._changed.wait_for(lambda: done(self), DEADLINE_S), (self.connects, self.disconnects, len(self.acknowledged))

    def _on_connect(self, _: mqtt.Client, __: Any, ___: Any, reason: ReasonCode, properties: Properties | None) -> None:
        with self._changed:
            self.connects.append(str(reason))
            self.welcome = properties
            self._changed.notify_all()

    def _on_disconnect(self, _: mqtt.Client, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        with self._changed:
            self.disconnects.append(str(reason))
            self._changed.notify_all()

    def _on_publish(self, _: mqtt.Client, __: Any, mid: int, reason: ReasonCode, ___: Any) -> None:
        with self._changed:
            self.acknowledged[mid] = str(reason)
            self._changed.notify_all()


async def eventually(true: Callable[[], bool | Awaitable[bool]], deadline_s: float = DEADLINE_S) -> None:
    """Returns once `true()`; fails after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        outcome = true()
        if outcome if isinstance(outcome, bool) else await outcome:
            return
        assert time.monotonic() < end, f"not within {deadline_s} s"
        await asyncio.sleep(0.01)


def connect_properties(**properties: Any) -> Properties:
    """MQTT 5 properties of a CONNECT."""
    made: Properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    for name, value in properties.items():
        setattr(made, name, value)
    return made
