"""The process of a node ashore: log, sync and what ships answered for all. A port takes its quay's sensors in and watches over them;
headquarters sends its ships the registry.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from cargo.alerts.alert_authorization import JUDGES
from intake.intake_service import Intake
from intake.pipeline import STREAMS
from landfall.node.http.request_guard import Need
from landfall.node.node import Node
from landfall.node.peers.catch_up import lacked
from landfall.node.peers.replica_acknowledgements import other_disks
from landfall.node.settings import NodeSettings
from landfall.watch.watch_service import Watching
from shore.customer_terms import CustomersDesk
from shore.query_result_ingester import QueryResultIngester
from shore.settings import PortSettings
from shore.ship_feed import ShipsDesk
from shore.ship_forwarder import Forwarding
from streams.gap_skipping_reader import Patience
from streams.model.clock import Clock


class Status:
    """`GET /port`, of a port's node and of headquarters', which has no sensors."""

    def __init__(self, node: Node, intake: Intake) -> None:
        self._node, self._intake = node, intake
        node.guard.route("GET", "/port", self._port, Need("consume", "metrics"))

    async def _port(self, request: web.Request) -> web.Response:
        settings, links = self._node.settings, self._node.links
        kept = {"dials": sorted(peer.node for peer in settings.peers), "peers": links.status(), "twins": links.twins.status()}
        fields: dict[str, Any] = {
            "node": settings.node,
            "role": settings.role,
            "port": settings.identity,
            "at_ms": self._node.clock.now_ms(),
            "companions": settings.companions(),
            "link": {**kept, "budgets": links.budgets(), "traffic": links.traffic()},
            "kept_here": self._node.originating.kept_here(),
            "intake": self._intake.status(),
            "troubles": [*self._node.metrics.troubles.values()],
        }
        return web.json_response(fields)


class PortNode:
    """A port's or headquarters' node, made of its parts. `start` and `stop` it once, from one event loop; or let `run_port` do both."""

    def __init__(self, settings: PortSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.node = Node(settings.node, clock, process=settings.node.role)
        for stream, judge in JUDGES.items():
            self.node.judge(stream, judge)
        taken, companions = settings.intake, settings.node.companions()
        others = other_disks(self.node, taken.ack, taken.alone_after_s, taken.when_alone)
        self.intake = Intake(taken, self.node.clock, self.node.metrics, others, companions)
        if settings.node.role == "port":
            self._watching = Watching(
                settings.watch_settings(),
                settings.node.folder,
                self.node.clock,
                self.node.metrics,
                self.node.report,
                ("registry",),
                companions=companions,
            )
            self.intake.strangers, self.intake.ships = self._watching.strangers, ()
            self._watching.gives_way = self.intake.is_at_work
            self.intake.credentials = self.node.credentials
            self.intake.sessions_file, self.intake.report = settings.node.folder / "mqtt.sessions", self.node.report
            self._watching.lacked = lambda: lacked(self.node, STREAMS)
            self._watching.patience_s = lambda stream: self.node.definitions.of(stream).patience_s
            self.node.add_background("intake", self._take_in)
            self.node.needs("the quay's endpoint", lambda: self.intake.listens)
            self.node.add_background("watch", self._watch)
        else:
            ships = ShipsDesk([known.peer() for known in settings.node.known])
            self._forwarding = Forwarding(self.node.report, self._patience, _customers_desk(settings.node), ships)
            self.node.add_background("forwarding", self._forward)
        Status(self.node, self.intake)
        self.node.add_background("answers", QueryResultIngester(self.node, self._patience).run)

    async def start(self) -> None:
        """Open the log, the door, the links and the quay. Raises Misuse or RetryLater when it can not."""
        await self.node.start()

    async def stop(self) -> None:
        """Finish what is being committed, close the sessions and the log."""
        await self.node.stop()

    def _patience(self, stream: str) -> Patience:
        node = self.node
        return Patience(lambda: node.definitions.of(stream).patience_s, node.clock, node.metrics.process)

    async def _take_in(self) -> None:
        await self.intake.run(self.node, self.node.log, self.settings.node.node)

    async def _watch(self) -> None:
        await self._watching.run(self.node.log, self.node)

    async def _forward(self) -> None:
        await self._forwarding.run(self.node.log, self.node)


def _customers_desk(settings: NodeSettings) -> CustomersDesk:
    customers = [known.peer() for known in settings.known if known.role == "customer"]
    return CustomersDesk(customers, [settings.node, *(known.node for known in settings.known if known.role == "hq")])


async def run_port(settings: PortSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises Misuse or RetryLater when the node can not start, or what ended a part of it."""
    port = PortNode(settings)
    await port.start()
    await port.node.run_until_stopped()
