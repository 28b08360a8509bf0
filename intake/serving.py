"""A node's intake as a whole: the pipeline, and in front of it the endpoint, the broker's subscription, or both."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from intake.broker import BrokerIntake
from intake.endpoint import Endpoint
from intake.pipeline import Pipeline, Sink
from intake.settings import IntakeSettings
from streams.clock import Clock
from streams.log import LogReader
from streams.metrics import Metrics


class Intake:
    """What a ship's or a quay's node runs beside its sync: `node.add_background("intake", …)`."""

    def __init__(self, settings: IntakeSettings, clock: Clock, metrics: Metrics) -> None:
        self._settings, self._clock, self._metrics = settings, clock, metrics
        self._endpoint: Endpoint | None = None
        self._broker: BrokerIntake | None = None

    @property
    def port(self) -> int | None:
        """The port of the endpoint once it listens; None while it does not."""
        return None if self._endpoint is None else self._endpoint.port

    @property
    def listens(self) -> bool:
        """Whether sensors find the endpoint, where there is to be one."""
        return self._settings.endpoint is None or self._endpoint is not None

    @property
    def broker_connected(self) -> bool | None:
        """Whether the broker's subscription stands; None without one."""
        return None if self._broker is None else self._broker.connected

    async def run(self, sink: Sink, log: LogReader, node: str) -> None:
        """Take sensors in until cancelled; the endpoint listens once the window of repeats is rebuilt from the log.

        Raises Misuse when the endpoint's port is taken.
        """
        settings = self._settings
        pipeline = await asyncio.to_thread(Pipeline, sink, log, node, self._clock, self._metrics, settings.pipeline)
        async with AsyncExitStack() as stack:
            if settings.endpoint is not None:
                endpoint = Endpoint(settings.endpoint, pipeline, self._clock, self._metrics)
                self._endpoint = await stack.enter_async_context(endpoint)
            async with asyncio.TaskGroup() as working:
                working.create_task(pipeline.run())
                if settings.broker is not None:
                    self._broker = BrokerIntake(settings.broker, pipeline, self._metrics)
                    working.create_task(self._broker.run())
