"""What a ship's people do with its loss reports, over its node's HTTP door."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from cargo.errors import CargoError
from cargo.report.loss_report import LossReport
from cargo.report.report_actions import Change
from cargo.report.sighting import Sighted
from edge.services.loss_report_service import REPORTS, LossReports
from landfall.node.http.request_bodies import body_of
from landfall.node.http.request_guard import Need, person_of, principal_of
from landfall.node.node import Node
from landfall.system.text_files import typed_json
from streams.model.errors import Misuse


class Final(msgspec.Struct, tag="final", tag_field="do", forbid_unknown_fields=True):
    """Draft the FINAL of an incident."""

    incident: str


Wish = Change | Final | Sighted


class ReportDoor:
    """`POST /ship/report` with one of the wishes above as JSON (`{"do": "edit", …}`), without `by`; answers the whole report.

    Who has logged in is recorded, of an approval with the login's name besides the person's.
    """

    def __init__(self, node: Node, reports: LossReports) -> None:
        self._reports = reports
        node.guard.route("POST", "/ship/report", self._take, Need("produce", REPORTS, person=True))

    async def _take(self, request: web.Request) -> web.Response:
        who, wish = person_of(request), typed_json(await body_of(request), dict[str, Any])
        if "by" in wish:
            raise Misuse("who does it is who has logged in", hint="leave out by", code="by_given")
        if wish.get("do") == "approve":
            who = f"{who} ({principal_of(request).name.removeprefix('user:')})"
        given = wish if wish.get("do") == "final" else {**wish, "by": who}
        try:
            done = await self._done(msgspec.convert(given, type=Wish))
        except CargoError as problem:
            raise Misuse(str(problem), code=problem.code) from None
        return web.json_response(done.to_json())

    async def _done(self, wish: Wish) -> LossReport:
        if isinstance(wish, Final):
            return await self._reports.final(wish.incident)
        if isinstance(wish, Sighted):
            return await self._reports.sighted(wish)
        return await self._reports.change(wish.report, wish.made)
