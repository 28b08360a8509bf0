"""What the ship's node shows its crew over its HTTP door: muster, link and backlog, and a wish for the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiohttp import web

from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import BacklogReporter
from edge.services.digest_service import Digesting
from edge.services.loss_report_service import DECISIONS
from edge.services.storm_requests import StormMode
from intake.intake_service import Intake
from landfall.node.http.request_bodies import body_of
from landfall.node.http.request_guard import Need
from landfall.node.node import Node
from landfall.system.text_files import typed_json
from landfall.system.thread_pool import READERS
from landfall.watch.muster_reader import Musters
from streams.model.errors import Misuse


@dataclass(frozen=True, slots=True)
class ConsoleStatus:
    """Sources of the console's status: of the records that wait on board, of the digests that went ashore of them, and of the requests to
    devices."""

    backlog: BacklogReporter
    digesting: Digesting
    storm: StormMode


class Console:
    """`GET /ship`, and `POST /ship/link` with `{"link": "auto|none|satellite|lan|<LOCODE>"}`."""

    def __init__(self, node: Node, intake: Intake, musters: Musters, links: LinkChoice, aboard: ConsoleStatus) -> None:
        self._node, self._intake, self._musters, self._links, self._aboard = node, intake, musters, links, aboard
        node.guard.route("GET", "/ship", self._ship, Need("consume", "metrics"))
        node.guard.route("POST", "/ship/link", self._link, Need("produce", DECISIONS))

    async def _ship(self, request: web.Request) -> web.Response:
        links, where, kept = self._links, self._links.where, self._node.links
        called = await self._musters.last()
        position = where and {"latitude_deg": where.latitude_deg, "longitude_deg": where.longitude_deg, "at_ms": where.at_ms}
        fields: dict[str, Any] = {
            "ship": self._node.settings.identity,
            "node": self._node.settings.node,
            "at_ms": self._node.clock.now_ms(),
            "position": position,
            "port": called.port or links.port,
            "companions": self._node.settings.companions(),
            "link": {
                "wish": links.wish,
                "peers": kept.status(),
                "twins": kept.twins.status(),
                "budgets": kept.budgets(),
                "traffic": kept.traffic(),
            },
            "waiting": await self._aboard.backlog.now(),
            "kept_here": self._node.originating.kept_here(),
            "digests": self._aboard.digesting.status(),
            "streams": await READERS.run(self._held),
            "intake": self._intake.status(),
            "storm": self._aboard.storm.status(),
            "muster": called.summary,
            "troubles": [*self._node.metrics.troubles.values()],
        }
        return web.json_response(fields)

    async def _link(self, request: web.Request) -> web.Response:
        wish = typed_json(await body_of(request), dict[str, Any])
        if not isinstance(wish.get("link"), str):
            raise Misuse('the body is {"link": "auto|none|satellite|lan|<LOCODE>"}', code="link_unknown")
        self._links.choose(wish["link"])
        return web.json_response({"wish": self._links.wish})

    def _held(self) -> dict[str, int]:
        log = self._node.log
        return {stream: sum(one.held.count() for one in log.ledger(stream).values()) for stream in log.streams()}
