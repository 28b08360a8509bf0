"""What a ship's people do with her loss reports, over her node's HTTP door."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from aiohttp import web

from cargo.lossreport import Report, Sending, To, approve, edit, mark_sent
from cargo.outcome import Made
from edge.reporting import LossReports
from streams.node.node import Node

DIGEST_CHARS_MIN = 8


class Editing(msgspec.Struct, tag="edit", tag_field="do", forbid_unknown_fields=True):
    """Fill in lines of a report: their names and texts."""

    report: str
    by: str
    given: dict[str, str]


class Approving(msgspec.Struct, tag="approve", tag_field="do", forbid_unknown_fields=True):
    """Approve a report as it stands: `digest` is that of what was read, or its first 8 letters or more, so that nobody approves what
    somebody else has just changed."""

    report: str
    by: str
    digest: str


class Sent(msgspec.Struct, tag="sent", tag_field="do", forbid_unknown_fields=True):
    """An approved report went out, `to` whom, who that is by `name`, by which `means`, at `sent_at_ms` (UTC ms; None: now)."""

    report: str
    by: str
    to: To
    means: str
    name: str = ""
    sent_at_ms: int | None = None


class Final(msgspec.Struct, tag="final", tag_field="do", forbid_unknown_fields=True):
    """Draft the FINAL of an incident."""

    incident: str


Wish = Editing | Approving | Sent | Final


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
        made: dict[type, Callable[..., Made]] = {Editing: _edited, Approving: _approved, Sent: _sent}
        return await self._reports.change(wish.report, partial(made[type(wish)], wish))


def _edited(wish: Editing, report: Report, at_ms: int) -> Made:
    return edit(report, wish.given, wish.by, at_ms)


def _approved(wish: Approving, report: Report, at_ms: int) -> Made:
    if len(wish.digest) < DIGEST_CHARS_MIN or not report.digest.startswith(wish.digest):
        raise ValueError(f"report {report.id} has changed since it was read: read it again, then approve it")
    return approve(report, wish.by, at_ms)


def _sent(wish: Sent, report: Report, at_ms: int) -> Made:
    sent_at_ms = at_ms if wish.sent_at_ms is None else wish.sent_at_ms
    return mark_sent(report, Sending(sent_at_ms, wish.to, wish.name, wish.means, wish.by), at_ms)
