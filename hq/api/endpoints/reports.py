"""Loss reports as ships wrote them, for staff; and the notice to each owner, for its owner."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from sqlalchemy import select

from cargo.losstext import report_text
from hq.api.access import Right
from hq.api.errors import not_found
from hq.api.services import Asking, framed_clock

router = APIRouter()


@router.get("/incidents/{incident_id}/reports")
def reports(ask: Asking, incident_id: str) -> dict[str, Any]:
    """An incident's loss reports by number, as the log has them now: each line with its basis, who approved it, to whom it was sent."""
    ask.need(Right.SEE_REPORTS)
    with ask.look() as look:
        known = look.sight.incidents().subquery()
        found = ask.services.reports.reports(incident_id)
        if not found and not look.rows(select(known.c.incident_id).where(known.c.incident_id == incident_id)):
            raise not_found("incident")
    items = [{**one.to_json(), "text": report_text(one)} for one in found]
    return {**framed_clock(ask.services.clock), "as_of_at_ms": None, "incident_id": incident_id, "items": items}


@router.get("/notices")
def notices(ask: Asking) -> dict[str, Any]:
    """What owners are told of their containers in loss reports, from when the carrier's policy says: a customer its own, staff all."""
    ask.need(Right.SEE_NOTICES)
    made = ask.services.reports.notices()
    mine = made if ask.viewer.is_staff else [one for one in made if one.customer == ask.viewer.customer]
    return {**framed_clock(ask.services.clock), "as_of_at_ms": None, "items": [one.to_json() for one in mine]}
