"""Loss reports as ships wrote them, and what the company does with them, for staff; and the notice to each owner, for its owner.

Who saves one of them as a file is noted in the stream `audit`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from starlette.responses import Response

from cargo.report.loss_report import LossReport, To
from cargo.report.loss_text import report_text
from cargo.report.owner_notice import Notice, notice_text
from cargo.report.report_actions import Change
from cargo.report.sighting import is_sighting
from cargo.vocabulary.registry_entries import AT_MS_MAX
from hq.api.access import Right
from hq.api.error_answers import ApiError, not_found
from hq.api.services import Asking, Caller, framed_clock

router = APIRouter()
FileKind = Literal["txt", "pdf", "json"]
MEDIA: dict[FileKind, str] = {"txt": "text/plain", "pdf": "application/pdf", "json": "application/json"}


@router.get("/incidents/{incident_id}/reports")
def reports(ask: Asking, incident_id: str) -> dict[str, Any]:
    """List the loss reports of an incident by number, as the log has them now. Staff only. Each line has its basis."""
    ask.need(Right.SEE_REPORTS)
    with ask.look() as look:
        known = look.sight.incidents().subquery()
        found = ask.services.reports.reports(incident_id)
        if not found and not look.rows(select(known.c.incident_id).where(known.c.incident_id == incident_id)):
            raise not_found("incident_unknown", "incident")
    items = [{**one.to_json(), "text": report_text(one)} for one in found]
    return {**framed_clock(ask.services), "as_of_at_ms": None, "incident_id": incident_id, "items": items}


class Doing(BaseModel):
    """An act of the company, by the account that is logged in. Without a report: `draft`, of facts that the existing reports do not say,
    and `final`. With a `report`: `edit` with `given` (lines and their texts), `approve` with the `digest` that was read, or `sent` or
    `acknowledged`. `sent` has `to`, `means`, and as far as known `name` and `sent_at_ms` (UTC ms; else now). `acknowledged` has `to` and
    `name` of a sending, `who` acknowledged it, and `acknowledged_at_ms`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"do": "draft"}, {"do": "edit", "report": "77aa-1", "given": {"reported_by": "COMPANY"}}]},
    )

    do: Literal["draft", "final", "edit", "approve", "sent", "acknowledged"]
    report: str | None = None
    given: dict[str, str] | None = None
    digest: str | None = None
    to: To | None = None
    means: str | None = None
    name: str | None = None
    sent_at_ms: Annotated[int, Field(ge=0, le=AT_MS_MAX)] | None = None
    who: str | None = None
    acknowledged_at_ms: Annotated[int, Field(ge=0, le=AT_MS_MAX)] | None = None


@router.post("/incidents/{incident_id}/reports")
def report(ask: Asking, incident_id: str, doing: Doing) -> dict[str, Any]:
    """Draft, edit, approve or record the sending of a loss report in the company's name. Operations only. Nothing is sent by itself.

    An approval is recorded with the person's name and login.
    """
    ask.need(Right.REPORT_LOSSES)
    given, viewer = doing.model_dump(exclude_none=True), ask.viewer
    by = f"{viewer.name} ({viewer.username})" if doing.do == "approve" else viewer.name
    try:
        if doing.do in ("draft", "final"):
            if len(given) > 1:
                raise ValueError(f"a {doing.do} is made of what is known, and takes nothing else")
            done = ask.services.reports.draft(incident_id, by, final=doing.do == "final")
        else:
            done = ask.services.reports.change(incident_id, msgspec.convert({**given, "by": by}, Change))
    except ValueError as problem:
        raise ApiError(422, "report_refused", f"Not done: {problem}.", "`GET` the incident's reports shows how they stand now.") from None
    ask.audit("report", incident_id=incident_id, do=doing.do)
    fields = {**done.to_json(), "text": report_text(done)}
    return {**framed_clock(ask.services), "as_of_at_ms": None, "incident_id": incident_id, "report": fields}


@router.get("/sightings")
def sightings(ask: Asking) -> dict[str, Any]:
    """List the reports of containers seen adrift, by sighting and number, as the log has them now. Staff only."""
    ask.need(Right.SEE_REPORTS)
    items = [{**one.to_json(), "text": report_text(one)} for one in ask.services.reports.reports() if is_sighting(one)]
    return {**framed_clock(ask.services), "as_of_at_ms": None, "items": items}


@router.get("/reports/{report_id}/file")
def report_file(ask: Asking, report_id: str, kind: Annotated[FileKind, Query(alias="as")] = "txt") -> Response:
    """Return a loss report, or a report of containers seen adrift, as a file; recorded in `audit`. Staff only."""
    ask.need(Right.SEE_REPORTS)
    found = next((one for one in ask.services.reports.reports() if one.id == report_id), None)
    if found is None:
        raise not_found("report_unknown", "report")
    return _saved(ask, _written(found, kind), kind, report=report_id)


@router.get("/notices")
def notices(ask: Asking) -> dict[str, Any]:
    """List notices to owners about containers in loss reports. A customer sees its own, from when `policy/owners` allows; staff see
    all.
    """
    return {**framed_clock(ask.services), "as_of_at_ms": None, "items": [one.to_json() for one in _notices(ask)]}


@router.get("/notices/{notice_id}/file")
def notice_file(ask: Asking, notice_id: str) -> Response:
    """Return a notice to an owner as a text file; recorded in `audit`. Staff and that owner."""
    found = next((one for one in _notices(ask) if one.notice_id == notice_id), None)
    if found is None:
        raise not_found("notice_unknown", "notice")
    return _saved(ask, notice_text(found).encode(), "txt", notice=notice_id)


def _notices(ask: Caller) -> list[Notice]:
    ask.need(Right.SEE_NOTICES)
    made = ask.services.reports.notices()
    return made if ask.viewer.is_staff else [one for one in made if one.customer == ask.viewer.customer]


def _written(report: LossReport, kind: FileKind) -> bytes:
    if kind == "pdf":
        from cargo.report.loss_pdf import report_pdf  # with its fonts it is much to load, and few ever need it

        return report_pdf(report)
    return (report_text(report) if kind == "txt" else json.dumps(report.to_json(), ensure_ascii=False, indent=1)).encode()


def _saved(ask: Caller, file: bytes, kind: FileKind, **what: str) -> Response:
    """Return the file. It is sent once it is noted who takes it."""
    ask.audit("export", kind=kind, **what)
    return Response(file, media_type=MEDIA[kind], headers={"Content-Disposition": "attachment"})
