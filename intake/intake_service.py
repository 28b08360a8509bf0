"""A node's intake as a whole: the pipeline, and before it the endpoint, the broker's subscription, or both."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from intake.broker import BrokerIntake
from intake.endpoint import Endpoint
from intake.pipeline import STREAMS, Elsewhere, Pipeline, Sink, Strangers
from intake.pipeline_batches import EXCEPTIONS
from intake.settings import IntakeSettings
from landfall.access.credentials import Credentials
from streams.log import Log
from streams.model.clock import Clock
from streams.model.metrics import Metrics

SWITCH_S = 0.001
"""Maximum time that a thread of the process keeps the others waiting, seconds.

For example, the watch delays the threads that decode and commit readings: each takes its turn a dozen times a commit. With Python's own 5
ms, a hundred publishers' longest waits were half as long again."""


class ReplicaWait(Elsewhere, Protocol):
    """Disks of other nodes of the same ship or port."""

    def watch_over(self, streams: Sequence[str], newest: int) -> None:
        """Set the streams, and the `newest` records of each origin to watch: no sender brings older records again."""
        ...

    def alone_outcome(self) -> str | None:
        """Return what happens to sensors while no other disk stores their readings; None while one does."""
        ...


class Intake:
    """The intake that a ship's or a quay's node runs concurrently with its sync: `node.add_background("intake", …)`."""

    def __init__(
        self, settings: IntakeSettings, clock: Clock, metrics: Metrics, others: ReplicaWait | None = None, companions: Sequence[str] = ()
    ) -> None:
        """`others`: disks of which one has a reading before its sensor gets an acknowledgement.

        `companions`: the other nodes of this ship or port. Set these before `run`. `strangers`: returns those of container numbers that
        this node does not know; their readings are accepted, and counted as such. `ships`: IMO numbers for which sensors may publish here
        (None: any).

        `credentials`, where there is an endpoint: the node's; its gateways may log in. `sessions_file`: where sessions of the endpoint's
        clients are kept over a restart. `report`: writes to `exceptions`, see `Node.report`."""
        self.strangers: Strangers | None = None
        self.ships: Collection[str] | None = None
        self.credentials: Credentials | None = None
        self.sessions_file: Path | None = None
        self.report: Callable[..., None] = lambda reason, outcome, **details: None
        self._others, self._companions = others, companions
        self._settings, self._clock, self._metrics = settings, clock, metrics
        self._pipeline: Pipeline | None = None
        self._endpoint: Endpoint | None = None
        self._broker: BrokerIntake | None = None
        self._asked: bytes | None = None

    @property
    def port(self) -> int | None:
        """Port of the endpoint once it listens; None while it does not."""
        return None if self._endpoint is None else self._endpoint.port

    @property
    def listens(self) -> bool:
        """Whether sensors find the endpoint, where there is to be one."""
        return self._settings.endpoint is None or self._endpoint is not None

    @property
    def broker_connected(self) -> bool | None:
        """Whether the broker's subscription stands; None without one."""
        return None if self._broker is None else self._broker.connected

    def troubles(self) -> list[str]:
        """Return a sentence for each trouble: sensors without answers, a broker that brings nothing, or a weaker guarantee than the
        settings want."""
        found = []
        if self._broker is not None and self._broker.trouble is not None:
            found.append(f"{self._broker.called} {self._broker.trouble}")
        if self._pipeline is not None and (stuck_s := self._pipeline.stuck_s()):
            found.append(f"nothing could be stored for {stuck_s:.0f} s: no sensor is answered")
        if self._others is not None and (outcome := self._others.alone_outcome()) is not None:
            found.append(f"no other node takes what is taken in here: {outcome}")
        return found

    def status(self) -> dict[str, Any]:
        """Return the state of intake.

        The endpoint's port and the number of its clients (each None without one), `broker_connected`, `troubles`. And the counts since the
        start: `received`, each outcome, `waiting`, and every other count named `intake_…`."""
        body = self._metrics.body(0, 0)
        values = {**body["counts"], **body["gauges"]}
        counts = {name.removeprefix("intake_"): int(count) for name, count in values.items() if name.startswith("intake_")}
        clients = None if self.port is None else int(values.get("mqtt_connections", 0))
        ways = {"mqtt_port": self.port, "mqtt_clients": clients, "broker_connected": self.broker_connected}
        return {**ways, "troubles": self.troubles(), **counts}

    def is_at_work(self) -> bool:
        """Return whether sensors wait for their readings to be stored. Any thread."""
        return self._pipeline is not None and self._pipeline.is_at_work()

    def ask(self, request: bytes) -> None:
        """Send this request (`cargo.rules.storm_mode.Request`) to devices that listen, over every connection, now and to each that connects
        later."""
        self._asked = request
        for way in (self._endpoint, self._broker):
            if way is not None:
                way.ask(request)

    async def run(self, sink: Sink, log: Log, node: str) -> None:
        """Process sensors until cancelled; the endpoint listens once the window of repeats is rebuilt from the log.

        Raises Misuse when the endpoint's address is not available, or a certificate does not load."""
        settings = self._settings
        if self._others is not None:
            self._others.watch_over((*STREAMS, EXCEPTIONS), settings.pipeline.repeats_readings_max)
        pipeline = self._pipeline = await asyncio.to_thread(self._make_pipeline, sink, log, node)
        async with AsyncExitStack() as stack:
            if settings.endpoint is not None:
                assert self.credentials is not None, "the endpoint asks them who may log in"
                endpoint = Endpoint(
                    settings.endpoint, pipeline, self._clock, self._metrics, self.report, self.credentials, self.sessions_file
                )
                self._endpoint = await stack.enter_async_context(endpoint)
                if self._asked is not None:
                    endpoint.ask(self._asked)
            async with asyncio.TaskGroup() as working:
                taking = working.create_task(pipeline.run())
                if settings.broker is not None:
                    self._broker = BrokerIntake(settings.broker, pipeline, self._metrics, self.report)
                    if self._asked is not None:
                        self._broker.ask(self._asked)
                    working.create_task(self._broker.run())
                async with stack.pop_all():  # the endpoint ends before the pipeline, which takes what it brings last
                    await asyncio.wait([taking])

    def _make_pipeline(self, sink: Sink, log: Log, node: str) -> Pipeline:
        pa.array([], pa.int64())  # the first list given to pyarrow makes it look for pandas, half a second long: not while a sensor waits
        given = self._settings.pipeline
        clock, companions = self._clock, self._companions
        pipeline = Pipeline(sink, log, node, clock, self._metrics, given, self._others, companions, self.strangers, self.ships)
        gc.collect()
        gc.freeze()  # what is here will stay: to look through all of it again and again would hold sensors up, 0.1 s each time
        sys.setswitchinterval(SWITCH_S)
        return pipeline
