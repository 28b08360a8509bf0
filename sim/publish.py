"""Publishing over MQTT 3.1.1 at QoS 1: one connection to each intake, a bounded window, and everything again after a break."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Mapping, Sequence

from cargo.errors import BadEntry
from cargo.rules.storm_mode import REQUEST_TOPIC, Request
from intake.message_types import Publish
from sim.connection import PublisherConnection
from sim.settings import IntakeDoor
from streams.model.clock import Clock

CLOSE_WITHIN_S = 2.0
log = logging.getLogger("sim.publish")


class Publisher:
    """Connections to the intakes at `places`, in that order. Belongs to one thread, which calls `turn` again and again.

    At least once: what was under way when a connection broke is sent again on the next one, so an intake may hear it twice.
    """

    def __init__(
        self,
        places: Sequence[str],
        doors: Mapping[str, IntakeDoor],
        wall: Clock,
        report: Callable[[str], None] = log.warning,
        name: str = "sim",
        listens: bool = False,
    ) -> None:
        """`doors` has one for each place. `report` hears, once, of each break. `name`: the client's at the intakes; of two
        publishers with one name each ends the other's connections. `listens`: hear what each intake asks of devices.
        """
        self._requests: list[tuple[int, Request]] = []
        self._wall, self._report = wall, report
        self._links = [PublisherConnection(doors[place], f"{name}-{place.replace('/', '-')}", wall, report) for place in places]
        self._acknowledged: list[int] = []
        for number, link in enumerate(self._links):
            link.acknowledged = self._acknowledged
            if listens:
                link.listens_to, link.hears = REQUEST_TOPIC, self._ear(number)

    def offer(self, intake: int, topic: str, payload: bytes, ticket: int) -> bool:
        """Send one message to the intake with this index; return False when it is not connected or its window is full: offer it again
        later.

        `ticket` comes out of `taken_acknowledgements` once the intake has acknowledged the message. Keep tickets different."""
        return self._links[intake].offer(topic.encode(), payload, ticket)

    def taken_acknowledgements(self) -> list[int]:
        """Return the tickets acknowledged since the last call."""
        taken = self._acknowledged.copy()
        self._acknowledged.clear()
        return taken

    def taken_requests(self) -> list[tuple[int, Request]]:
        """Return what was asked of devices since the last call: at which intake (an index into the places), and what."""
        taken = self._requests.copy()
        self._requests.clear()
        return taken

    def turn(self, wait_s: float) -> None:
        """Move bytes both ways for at most about `wait_s` seconds, connecting where there is no connection. Blocks CONNECT_WITHIN_S at most
        for an intake that does not answer."""
        for link in self._links:
            link.tend()
        under_way = {link.socket: link for link in self._links if link.socket is not None}
        writers = [socket for socket, link in under_way.items() if link.wants_to_write]
        readable, writable, _ = select.select(list(under_way), writers, [], wait_s)
        for socket in readable:
            under_way[socket].read()
        for socket in writable:
            under_way[socket].write()

    def close(self) -> None:
        """Take leave of every intake. What is not acknowledged stays so."""
        deadline_s = self._wall.monotonic_s() + CLOSE_WITHIN_S
        for link in self._links:
            link.leave()
        while any(link.wants_to_write for link in self._links if link.socket) and self._wall.monotonic_s() < deadline_s:
            for link in self._links:
                link.write()
        for link in self._links:
            link.close()

    def _ear(self, number: int) -> Callable[[Publish], None]:
        def hear(message: Publish) -> None:
            try:
                self._requests.append((number, Request.from_bytes(message.payload)))
            except BadEntry as problem:
                self._report(f"{self._links[number].door.at} asks for what no device understands: {problem}")

        return hear
