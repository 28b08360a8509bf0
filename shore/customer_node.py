"""The process of a customer's own node: it holds its stream, the terms it has it on and what proves it, and nothing of anyone else."""

from __future__ import annotations

import asyncio
import logging

from landfall.node.node import Node
from shore.settings import CustomerSettings
from streams.config.stream_definitions import may_have, stream_of
from streams.model.clock import Clock

LOOKED_EVERY_S = 1.0
OWN_WORDS = ("metrics", "exceptions")
"""The streams in which the node reports its own state."""
logger = logging.getLogger("landfall.node")


class CustomerNode:
    """A customer's node. `start` and `stop` it once, from one event loop; or let `run_customer` do both.

    It takes what headquarters, or a port, sends of its stream and checks what they signed; it brings nothing to them, by their rules and
    by its own. When headquarters takes its stream away, the node reports this to `exceptions` and at /healthz; what it has, it keeps.
    """

    def __init__(self, settings: CustomerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.stream = stream_of(settings.node.identity)
        self.node = Node(settings.node, clock, process=settings.node.role)
        for stream in (self.stream, *OWN_WORDS):
            self.node.definitions.keep(stream, settings.keep.retention())
        self.node.needs(f"headquarters to give it {self.stream} again", self.may_have_it)
        self.node.add_background("terms", self._look_at_terms)

    async def start(self) -> None:
        """Open the log, the door and the links. Raises Misuse or RetryLater when it can not."""
        await self.node.start()

    async def stop(self) -> None:
        """Finish what is being committed, close the sessions and the log."""
        await self.node.stop()

    def may_have_it(self) -> bool:
        """Return whether headquarters gives this node its stream, by the last message it received."""
        return may_have(self.settings.node.me(), self.node.definitions.of(self.stream))

    async def _look_at_terms(self) -> None:
        given = True
        while True:
            if given != self.may_have_it():
                given = not given
                what = f"headquarters gives this node {self.stream} {'again' if given else 'no more'}"
                logger.warning("%s", what)
                outcome = "what comes is taken again" if given else "what is here stays; nothing more comes"
                self.node.report(what, outcome, code="stream_given_again" if given else "stream_withdrawn")
            await asyncio.sleep(LOOKED_EVERY_S)


async def run_customer(settings: CustomerSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises Misuse or RetryLater when the node can not start, or what ended a part of it."""
    customer = CustomerNode(settings)
    await customer.start()
    await customer.node.run_until_stopped()
