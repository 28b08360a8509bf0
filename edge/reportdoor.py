"""What a ship's people do with her loss reports, over her node's HTTP door."""

from __future__ import annotations

import msgspec
from aiohttp import web

from cargo.lossreport import Report
from cargo.lossreporting import Change
from cargo.sighting import Sighted
from edge.reporting import LossReports
from streams.node.node import Node


class Final(msgspec.Struct, tag="final", tag_field="do", forbid_unknown_fields=True):
    """Draft the FINAL of an incident."""

    incident: str


Wish = Change | Final | Sighted


class ReportDoor:
    """`POST /ship/report` with one of the wishes above as JSON (`{"do": "edit", …}`); wants the node's token, answers the whole report.

    Whoever has the token is believed who they say they are: aboard, that is who may enter the bridge.
    """

    def __init__(self, node: Node, reports: LossReports) -> None:
        self._reports = reports
        node.app.router.add_post("/ship/report", self._take)

    async def _take(self, request: web.Request) -> web.Response:
        wish: Wish = msgspec.json.decode(await request.read(), type=Wish)
        return web.json_response((await self._done(wish)).to_json())

    async def _done(self, wish: Wish) -> Report:
        if isinstance(wish, Final):
            return await self._reports.final(wish.incident)
        if isinstance(wish, Sighted):
            return await self._reports.sighted(wish)
        return await self._reports.change(wish.report, wish.made)
