"""The crew's console: its page, which holds nothing of the ship's, and what the page shows and does for a person who has logged in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from cargo.alerts.alert_log import AlertStanding, acknowledgement_fields, count_alerts
from cargo.alerts.crew_decisions import Word, may_say, read_said
from cargo.loss.accounted_boxes import RECENT_MS
from cargo.loss.muster import ACCOUNTED, Roll
from cargo.report.loss_form import HINTS, LINES
from cargo.report.loss_report import LossReport
from cargo.report.loss_text import report_text
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import listed_identity, number_kind
from edge.console.crew_alerts import ALERTS, AlertDesk
from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import BacklogReporter
from edge.services.loss_report_service import DECISIONS, REPORTS, LossReports
from landfall.node.http.request_bodies import body_of
from landfall.node.http.request_guard import OPEN, Need, person_of, principal_of
from landfall.node.node import Node
from landfall.system.http_headers import CACHING, POLICY
from landfall.system.text_files import typed_json
from landfall.system.thread_pool import READERS
from landfall.watch.muster_reader import Called, Musters
from landfall.watch.watch_service import Watching
from streams.log import Append
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch

PAGES: Mapping[str, tuple[str, str]] = {
    "/console": ("console.html", "text/html"),
    "/console/console.css": ("console.css", "text/css"),
    "/console/console.js": ("console.js", "text/javascript"),
    "/console/pages.js": ("pages.js", "text/javascript"),
}
STATIC = Path(__file__).with_name("static")
PAGE_HEADERS = {
    POLICY: "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    CACHING: "no-cache",
}
"""Headers of the console's own files, in addition to those of the node's door. The files hold nothing of the ship: a browser may keep
them."""
CLOSED_MAX = 50
"""Maximum closed alerts of no incident that are shown in addition to all others."""
NO_LIST, NO_SLOT = "none", "unknown"
"""The bays of boxes on no list, and of listed boxes whose slot is not known, in an address."""


class Acknowledging(msgspec.Struct, forbid_unknown_fields=True):
    """Acknowledge the alert with this id, or take its acknowledgement back."""

    alert: str
    note: str = ""


class Saying(msgspec.Struct, forbid_unknown_fields=True):
    """A statement of a person aboard about a silent or lost box: `seen`, `collapsed`, `gone` or `ashore`
    (`cargo.alerts.crew_decisions`)."""

    container: str
    said: Word
    note: str = ""


@dataclass(frozen=True, slots=True)
class Crew:
    """Facts about the ship that the console shows: its muster, alerts, loss reports, links, and what is ashore of them."""

    watching: Watching
    musters: Musters
    alerts: AlertDesk
    reports: LossReports
    links: LinkChoice
    backlog: BacklogReporter


class CrewDoor:
    """`GET /console` and its files for anybody; for who has logged in:

    `GET /ship/board`: muster by bay, alerts, reports, links, all as of now; `GET /ship/bays/<BBB>` (or `none`): each box of a bay;
    `POST /ship/acknowledge` and `/ship/unacknowledge` `{"alert", "note"}`;
    `POST /ship/decide` `{"container", "said", "note"}`, which answers once it is kept;
    `GET /ship/reports/<id>.<json|txt|pdf>`.
    """

    def __init__(self, node: Node, crew: Crew) -> None:
        self._node, self._crew = node, crew
        self._texts = {path: (STATIC / name).read_text(encoding="utf-8") for path, (name, _) in PAGES.items()}
        for path in PAGES:
            node.guard.route("GET", path, self._page, OPEN)
        for method, path, handler, need in (
            ("GET", "/ship/board", self._board, Need("consume", ALERTS)),
            ("GET", "/ship/bays/{bay}", self._bay, Need("consume", ALERTS)),
            ("POST", "/ship/acknowledge", self._acknowledge, Need("produce", ALERTS, person=True)),
            ("POST", "/ship/unacknowledge", self._take_back, Need("produce", ALERTS, person=True)),
            ("POST", "/ship/decide", self._decide, Need("produce", DECISIONS, person=True)),
            ("GET", "/ship/reports/{report}.{kind}", self._report, Need("consume", REPORTS)),
        ):
            node.guard.route(method, path, handler, need)

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._texts[request.path], content_type=PAGES[request.path][1], headers=PAGE_HEADERS)

    async def _board(self, request: web.Request) -> web.Response:
        called, alerts, links = await self._crew.musters.last(), await self._crew.alerts.standing(), self._crew.links
        reports, now_ms = await self._crew.reports.standing(), self._node.clock.now_ms()
        board: dict[str, Any] = {
            "you": principal_of(request).title,
            "ship": self._node.settings.identity,
            "name": self._crew.alerts.ship_name,
            "node": self._node.settings.node,
            "now_at_ms": now_ms,
            "position": links.where and msgspec.to_builtins(links.where),
            "port": called.port or links.port,
            "peers": sorted(self._node.links.status()),
            "muster": {
                **called.summary,
                "at_ms": called.at_ms,
                "fresh_ms": RECENT_MS + self._node.clock.early_ms(),
                "bays": bays(called.lines),
            },
            "alerts": [alert_fields(alert, now_ms) for alert in shown(alerts)],
            "open_alerts": count_alerts(alert.body for alert in alerts if alert.stage(now_ms) == "open"),
            "reports": [report_head(report) for report in reports],
            "reports_waiting": self._reports_waiting(),
            "troubles": [*self._node.metrics.troubles.values()],
        }
        return web.json_response(board)

    def _reports_waiting(self) -> int:
        """Return how many records of this node's reports neither a port nor headquarters has, as far as they reported to it."""
        ashore, log = self._crew.backlog.durable().get(REPORTS, {}), self._node.log
        own = [(origin, ledger.held) for origin, ledger in log.ledger(REPORTS).items() if origin.node == log.node]
        return sum(held.without(ashore.get(origin, ())).count() for origin, held in own)

    async def _bay(self, request: web.Request) -> web.Response:
        called, bay = await self._crew.musters.last(), request.match_info["bay"]
        lines = [line for line in called.lines if bay_of(line) == bay]
        if not lines:
            raise Misuse(f"there is no box in bay {bay!r} on the list in force", code="bay_unknown")
        boxes = [box_fields(line, called) for line in lines]
        return web.json_response({"bay": bay, "at_ms": called.at_ms, "now_at_ms": self._node.clock.now_ms(), "boxes": boxes})

    async def _acknowledge(self, request: web.Request) -> web.Response:
        who, wish = person_of(request), typed_json(await body_of(request), Acknowledging)
        standing = await self._crew.alerts.acknowledge(wish.alert, who, wish.note)
        return web.json_response(alert_fields(standing, self._node.clock.now_ms()))

    async def _take_back(self, request: web.Request) -> web.Response:
        who, wish = person_of(request), typed_json(await body_of(request), Acknowledging)
        standing = await self._crew.alerts.take_back(wish.alert, who, wish.note)
        return web.json_response(alert_fields(standing, self._node.clock.now_ms()))

    async def _decide(self, request: web.Request) -> web.Response:
        who, wish = person_of(request), typed_json(await body_of(request), Saying)
        self._node.originating.check(DECISIONS)
        called = await self._crew.watching.call_roll()
        number = wish.container if wish.container in called.states else listed_identity(wish.container)
        can = may_say(called.states.get(number))
        if wish.said not in can:
            about = " or ".join(repr(word) for word in can) or "nothing: it is neither silent nor lost"
            raise Misuse(f"of {number} you can say {about}", code="said_not_possible")
        body = {"container": number, "ship": self._node.settings.identity, "said": wish.said, "by": who, "note": wish.note}
        made = read_said({**body, "at_ms": self._node.clock.now_ms()}).made()
        await self._node.append([Append(DECISIONS, to_batch([Record(made.topic, device_at_ms=made.at_ms, body=made.body)]))])
        return web.json_response(made.body)

    async def _report(self, request: web.Request) -> web.Response:
        which, kind = request.match_info["report"], request.match_info["kind"]
        report = await self._crew.reports.find(which)
        if kind == "txt":
            return web.Response(text=report_text(report))
        if kind == "pdf":
            return web.Response(body=await READERS.run(partial(_pdf, report)), content_type="application/pdf")
        if kind == "json":
            return web.json_response(report.to_json() | {"form": FORM, "text": report_text(report)}, dumps=_dumps)
        raise Misuse(f"a report is given as json, txt or pdf, not as {kind!r}", code="report_kind_unknown")


FORM = [{**asdict(line), "hint": HINTS.get(line.holds, "")} for line in LINES]
"""The lines of a loss report, for who fills them in."""


def bays(lines: Sequence[Roll]) -> list[dict[str, Any]]:
    """Return each bay from the bow on: its boxes by reason, how many carry a tracker, and how many of these are accounted for. Last come
    the boxes on no list, as bay `none`, and the listed boxes whose slot is not known, as bay `unknown`."""
    found: dict[str, Counter[str]] = {}
    for line in lines:
        found.setdefault(bay_of(line), Counter())[line.reason] += 1
    return [
        {
            "bay": bay,
            "reasons": dict(counts),
            "instrumented": counts.total() - counts["not_instrumented"],
            "accounted": sum(counts[reason] for reason in ACCOUNTED),
        }
        for bay, counts in sorted(found.items())
    ]


def bay_of(line: Roll) -> str:
    """Return the bay of a line of the muster, as addresses have it."""
    if line.slot is None:
        return NO_LIST
    return line.slot[:3] or NO_SLOT


def box_fields(line: Roll, called: Called) -> dict[str, Any]:
    """Return one box of a bay. It has its place (row, tier and whether on deck; None outside every slot), how it is accounted for, and when
    and by whom it was received."""
    slot = Slot.parse(line.slot) if line.slot else None
    return {
        "container": line.container,
        "number_kind": number_kind(line.container),
        "slot": line.slot,
        "row": slot and slot.row,
        "tier": slot and slot.tier,
        "on_deck": slot and slot.on_deck,
        "reason": line.reason,
        "state": called.states.get(line.container),
        "may_say": may_say(called.states.get(line.container)),
        "last_heard_at_ms": line.last_heard_at_ms or None,
        "gateway": line.gateway or None,
    }


def alert_fields(alert: AlertStanding, now_ms: int) -> dict[str, Any]:
    """Return one alert as it stands at `now_ms` (UTC ms): its body, its state, and who acknowledged it."""
    return {
        **alert.body,
        "alert_id": alert.id,
        "topic": alert.topic,
        "state": alert.state(now_ms),
        "stage": alert.stage(now_ms),
        "reopened": alert.reopened(now_ms),
        "change": alert.change,
        "clock_doubted": alert.clock_doubted,
        "raised_at_ms": alert.raised_at_ms,
        "count": alert.count,
        "first_at_ms": alert.first_at_ms,
        "last_at_ms": alert.last_at_ms,
        "acknowledgement": acknowledgement_fields(alert.acknowledgement),
    }


def report_head(report: LossReport) -> dict[str, Any]:
    """Return which report it is and how far it has come, without its contents."""
    fields = report.to_json()
    boxes = {name: len(fields[name]) for name in ("lost", "at_risk", "found")}
    return {name: value for name, value in fields.items() if name != "lines"} | boxes


def shown(alerts: Sequence[AlertStanding]) -> list[AlertStanding]:
    """Return those of `alerts` that the console shows: all that are not closed, all of incidents, and of the others the CLOSED_MAX that
    were raised last. The reports of incidents are read and written on when they are closed, too."""
    over = sorted((one for one in alerts if one.closed), key=lambda one: -one.raised_at_ms)
    of_losses, others = ([one for one in over if bool(one.body["incident_id"]) == lost] for lost in (True, False))
    return [*(one for one in alerts if not one.closed), *of_losses, *others[:CLOSED_MAX]]


def _pdf(report: LossReport) -> bytes:
    from cargo.report.loss_pdf import report_pdf  # with its fonts it is much to load, and few ever need it

    return report_pdf(report)


def _dumps(body: object) -> str:
    return json.dumps(body, ensure_ascii=False)
