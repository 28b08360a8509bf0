"""Alerts and incidents, and what a person does with alerts: acknowledge them, take that back, close them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from starlette.responses import StreamingResponse

from cargo.alerts.alert_authorization import LOSS_RULES
from cargo.alerts.alert_body import NOTE_CHARS_MAX
from cargo.alerts.alert_log import AlertBook, AlertStanding, acknowledged, closed, unacknowledged
from cargo.loss.watch_outcome import MadeRecord
from hq.api.access import Right
from hq.api.alert_lists import AlertsListed, write_alerts
from hq.api.answer_fields import alert_fields, incident_fields
from hq.api.csv_files import csv_response
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, beyond, read_cursor, write_cursor
from hq.api.error_answers import ApiError, not_found
from hq.api.services import Asking, StoreView

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Act = Literal["acknowledge", "unacknowledge", "close"]
ID_CHARS_MAX = 200


class Chosen(BaseModel):
    """Alerts by id, and a note on what is done with them."""

    model_config = ConfigDict(extra="forbid")
    alert_ids: Annotated[list[Annotated[str, Field(max_length=ID_CHARS_MAX)]], Field(min_length=1, max_length=LIMIT_MAX)]
    note: Annotated[str, Field(max_length=NOTE_CHARS_MAX)] = ""


@router.get("/alerts")
def alerts(
    ask: Asking, listed: AlertsListed, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT, count: bool = False
) -> dict[str, Any]:
    """List the viewer's alerts in the order of `sort`; `worst` is by severity, then reopened alerts, then the first raised.

    `q`: how the container number begins. `box`: a container number. `ship`, `port` and `customer` also find the alerts of the
    containers there. `count=true` adds the number of alerts in each stage, whatever `state` selects, and of `rows` in the whole list. An
    incident is a row, but is not counted in addition to its containers.
    """
    key = listed.key(cursor)
    with ask.look() as look:
        rows = look.rows(listed.rows(look, key).limit(limit + 1))
        shown = rows[:limit]
        more = listed.cursor(shown[-1]) if len(rows) > limit else None
        totals = listed.totals(look) if count else {"counts": None, "rows": None}
        names = look.names(*(row["ship"] for row in shown))
        return look.framed(from_log=look.sight.reads_log, items=[alert_fields(row) for row in shown], next=more, names=names, **totals)


@router.get("/alerts.csv")
def alerts_file(ask: Asking, listed: AlertsListed) -> StreamingResponse:
    """Return all pages of the list as one CSV file; recorded in `audit`. Text that a spreadsheet would read as a formula begins with an
    apostrophe.
    """

    def write(file: IO[bytes]) -> None:
        with ask.look() as look:
            rows = write_alerts(look, listed, file)
        ask.audit("export", kind="csv", alerts=rows, **listed.filters)

    return csv_response(write)


@router.get("/incidents")
def incidents(ask: Asking, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT) -> dict[str, Any]:
    """List incidents (groups of lost containers), the last raised first. Staff and crew."""
    key = read_cursor(cursor, [int, str])
    with ask.look() as look:
        own = look.sight.incidents().subquery()
        order = (own.c.raised_at_ms, own.c.incident_id)
        asked = select(own).where(*beyond(order, key, descending=True)).order_by(*(column.desc() for column in order)).limit(limit + 1)
        rows = look.rows(asked)
        more = write_cursor((rows[limit - 1]["raised_at_ms"], rows[limit - 1]["incident_id"])) if len(rows) > limit else None
        return look.framed(from_log=look.sight.reads_log, items=[incident_fields(row) for row in rows[:limit]], next=more)


@router.post("/alerts/{act}")
def act_on_alerts(ask: Asking, act: Act, chosen: Chosen) -> dict[str, Any]:
    """Acknowledge alerts, take acknowledgements back, or close alerts: all or none. Operations and crew.

    `changed` is the number of records written; a repeated request changes nothing. To close an alert, give a note. Losses can not be
    closed by hand: their final report closes them.
    """
    ask.need(Right.ACKNOWLEDGE)
    note = chosen.note.strip()
    if not note.isprintable():
        raise ApiError(422, "note_unfit", "The note is not one line of text.", "Take line breaks and the like out of it.")
    if act == "close" and not note:
        raise ApiError(422, "note_unfit", "Closing an alert needs a note.", "Write why it is closed.")
    with ask.look() as look:
        now_ms, standing = look.now_at_ms, _standing(look, set(chosen.alert_ids))
    if act == "close" and any(one.body["rule"] in LOSS_RULES for one in standing):
        raise ApiError(422, "alert_of_a_loss", "Losses are not closed by hand.", "Send the FINAL loss report.")
    made = [record for one in standing for record in _ACTS[act](one, ask.viewer.name, now_ms, note)]
    if made:
        ask.services.registrar.record_alerts(made)
        ask.audit(act, alert_ids=sorted(one.id for one in standing))
    return look.framed(from_log=True, alert_ids=sorted(one.id for one in standing), changed=len(made))


def _standing(look: StoreView, ids: set[str]) -> list[AlertStanding]:
    """Return the viewer's alerts of these ids. Raises the one 404 if one of them is not among the viewer's."""
    own = look.sight.alerts().subquery()
    rows = look.rows(select(own.c.alert_id, own.c.more).where(own.c.alert_id.in_(ids)))
    if len(rows) < len(ids):
        raise not_found("alert_unknown", "alert")
    members = {member for row in rows for member in row["more"]["members"]}
    changes = look.rows(look.sight.changes_of(ids, members))
    book = AlertBook((change["topic"], json.loads(change["body"])) for change in changes)
    found = {one.id: one for one in book.standing() if one.id in ids}
    if len(found) < len(ids):
        raise not_found("alert_unknown", "alert")
    return [found[id_] for id_ in sorted(ids)]


def _acknowledged(one: AlertStanding, by: str, now_ms: int, note: str) -> Sequence[MadeRecord]:
    return [acknowledged(one, by, now_ms, note)] if one.stage(now_ms) == "open" else []


def _unacknowledged(one: AlertStanding, by: str, now_ms: int, note: str) -> Sequence[MadeRecord]:
    return [unacknowledged(one, by, now_ms, note)] if one.stage(now_ms) == "acknowledged" else []


_ACTS: dict[Act, Callable[[AlertStanding, str, int, str], Sequence[MadeRecord]]] = {
    "acknowledge": _acknowledged,
    "unacknowledge": _unacknowledged,
    "close": closed,
}
