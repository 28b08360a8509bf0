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
        self.endpoint: Endpoint | None = None
        self.broker: BrokerIntake | None = None
        self.ready = asyncio.Event()

    async def run(self, sink: Sink, log: LogReader, node: str) -> None:
        """Take sensors in until cancelled. `ready` is set once the window of repeats is rebuilt and the endpoint listens.

        Raises OSError when the endpoint's port is taken.
        """
        settings = self._settings
        pipeline = await asyncio.to_thread(Pipeline, sink, log, node, self._clock, self._metrics, settings.pipeline)
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as working:
            working.create_task(pipeline.run())
            if settings.endpoint is not None:
                self.endpoint = await stack.enter_async_context(Endpoint(settings.endpoint, pipeline, self._clock, self._metrics))
            if settings.broker is not None:
                self.broker = BrokerIntake(settings.broker, pipeline, self._metrics)
                working.create_task(self.broker.run())
            self.ready.set()
