"""What a node ashore tells over its HTTP door of itself: its quay's sensors, its standby, its links."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from intake.intake_service import Intake
from landfall.node.http.request_guard import Need
from landfall.node.node import Node


class Status:
    """`GET /port`, of a port's node and of headquarters', which has no sensors."""

    def __init__(self, node: Node, intake: Intake) -> None:
        self._node, self._intake = node, intake
        node.guard.route("GET", "/port", self._port, Need("consume", "metrics"))

    async def _port(self, request: web.Request) -> web.Response:
        settings, links = self._node.settings, self._node.links
        kept = {"dials": sorted(peer.node for peer in settings.peers), "peers": links.status(), "twins": links.twins.status()}
        told: dict[str, Any] = {
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
        return web.json_response(told)
