"""Containers: find them, see how one stands, follow its timeline; and help with a number that was misread."""

from __future__ import annotations

from typing import IO, Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Query
from sqlalchemy import select
from starlette.responses import StreamingResponse

from cargo.vocabulary.registry_entries import AT_MS_MAX
from cargo.vocabulary.trade_codes import check_container, compact_container
from hq.api.alert_states import in_stage
from hq.api.answer_fields import alert_fields, booking_fields, record_fields
from hq.api.container_lists import Listed, container_items, write_containers
from hq.api.container_rows import Rows
from hq.api.csv_files import csv_response
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, Key, beyond, read_cursor, write_cursor
from hq.api.error_answers import ApiError, unknown_container
from hq.api.history_chart import chart_of, signed_until
from hq.api.services import Asking, StoreView, framed_clock

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
AtMs = Annotated[int | None, Query(ge=0, le=AT_MS_MAX)]
Pixels = Annotated[int, Query(ge=10, le=4_000)]
PIXELS_DEFAULT = 800
Kind = Literal["reading", "event", "alert"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Span = tuple[int | None, int | None]
_KEY = ("order_at_ms", "stream", "origin", "offset")


def asked_span(since_at_ms: AtMs = None, until_at_ms: AtMs = None) -> Span:
    """Return the requested start (included) and end (excluded), UTC ms; None: as far as there is anything. Raises ApiError 400 for a span
    that ends before it begins."""
    if since_at_ms is not None and until_at_ms is not None and since_at_ms > until_at_ms:
        raise ApiError(400, "span_reversed", "The time begins after it ends.", "Exchange since_at_ms and until_at_ms.")
    return since_at_ms, until_at_ms


Asked = Annotated[Span, Depends(asked_span)]


@router.get("/containers")
def containers(ask: Asking, listed: Listed, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT, count: bool = False) -> dict[str, Any]:
    """List the viewer's containers in the order of `sort`.

    `q`: how the number begins. `booking`: a reference; lists every container that it had, has or will have, each with its span in
    `found_by`. `place`: `ship/<imo>` or `quay/<locode>`. `count=true` adds the number of containers on all pages.
    """
    key = listed.key(cursor)
    with ask.look() as look:
        rows = look.rows(listed.rows(look, key).limit(limit + 1))
        items = container_items(look, rows[:limit])
        more = listed.cursor(rows[limit - 1]) if len(rows) > limit else None
        counted = look.count(listed.rows(look).order_by(None)) if count else None
        return look.framed(items=items, next=more, count=counted, names=look.names(*(row["place_id"] for row in rows[:limit])))


@router.get("/containers.csv")
def containers_file(ask: Asking, listed: Listed) -> StreamingResponse:
    """Return all pages of the list as one CSV file; recorded in `audit`. Text that a spreadsheet would read as a formula begins with an
    apostrophe.
    """

    def write(file: IO[bytes]) -> None:
        with ask.look() as look:
            rows = write_containers(look, listed, file)
        ask.audit("export", kind="csv", containers=rows, **listed.filters)

    return csv_response(write)


@router.get("/containers/{number}")
def container(ask: Asking, number: str) -> dict[str, Any]:
    """Return one container: place, last signals, booking, custody, and its alerts that are not closed."""
    with ask.look() as look:
        row = _own(look, number)
        bookings = look.sight.bookings().subquery()
        booked = look.rows(select(bookings).where(bookings.c.id == row["booking"])) if row["booking"] else []
        alerts = look.sight.alerts().subquery()
        of = select(alerts).where(alerts.c.topic == row["number"], in_stage(alerts.c, "open", "acknowledged"))
        of = of.order_by(alerts.c.state == "acknowledged", alerts.c.rank, alerts.c.raised_at_ms, alerts.c.alert_id)
        custody = look.rows(look.sight.custody(row["number"]))
        booking = booking_fields(booked[0], look.now_at_ms, {row["number"]: row}) if booked else None
        if booking:
            booking["containers"] = [box for box in booking["containers"] if box["container"] == row["number"]]
        ends, consignees = ((booking["from"], booking["to"]), [booking["consignee"]]) if booking else ((), [])
        return look.framed(
            container=container_items(look, [row])[0],
            booking=booking,
            custody=custody[0]["value"] if custody else None,
            alerts=[alert_fields(alert) for alert in look.rows(of)],
            names=look.names(row["place_id"], *ends, consignees=consignees),
        )


@router.get("/containers/{number}/timeline")
def timeline(
    ask: Asking,
    number: str,
    span: Asked,
    kind: Annotated[list[Kind] | None, Query()] = None,
    order: Literal["oldest", "newest"] = "oldest",
    count: bool = False,
    cursor: str | None = None,
    limit: Limit = LIMIT_DEFAULT,
) -> dict[str, Any]:
    """List one container's readings, events and alerts by time, those with `since_at_ms` <= time < `until_at_ms` (UTC ms).

    `kind` may be repeated and selects kinds. `count=true` adds the number on all pages. `taken_in_by`: the node that recorded it.
    `proven`: whether that node has signed it; null: not known now. If it is not proven, `signed_at_ms` is the time of the node's last
    signature.
    """
    key = read_cursor(cursor, [int, str, str, int])
    newest = order == "newest"
    with ask.look() as look:
        own_number = _own(look, number)["number"]
        of = {"reading": look.sight.readings, "event": look.sight.events, "alert": look.sight.alert_changes}
        parts = [_within(of[name](own_number), span) for name in KINDS if kind is None or name in kind]
        rows = [row for part in parts for row in look.rows(_next(part, key, limit + 1, newest=newest))]
        rows.sort(key=lambda row: tuple(row[name] for name in _KEY), reverse=newest)
        last = rows[limit - 1] if len(rows) > limit else None
        more = write_cursor(tuple(last[name] for name in _KEY)) if last else None
        signed = signed_until(look, ((row["stream"], row["origin"]) for row in rows[:limit]))
        items = [record_fields(row, signed[row["stream"], row["origin"]]) for row in rows[:limit]]
        names = look.names(
            *(item["body"].get(at) for item in items if item["kind"] == "event" and item["body"] for at in ("ship", "place"))
        )
        counted = sum(map(look.count, parts)) if count else None
        return look.framed(number=own_number, items=items, next=more, count=counted, names=names)


@router.get("/containers/{number}/chart")
def chart(ask: Asking, number: str, span: Asked, pixels: Pixels = PIXELS_DEFAULT) -> dict[str, Any]:
    """Return one container's readings of a span (UTC ms), reduced to `pixels` columns.

    `lines`: for each temperature, the least and the greatest value of each column, with null where the line breaks; `measured` is the
    number of values. `shocks`: 2 g and more. `track`: the container's own positions. `bands`: begin and end of each.
    """
    with ask.look() as look:
        known = _own(look, number)["number"]
        return look.framed(number=known, **chart_of(look, known, *span, pixels))


@router.get("/containers/{number}/hours")
def hours(ask: Asking, number: str, span: Asked, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT) -> dict[str, Any]:
    """List hourly counts, minima, means and maxima of one container's temperatures. Staff only: for others the list is empty."""
    key = read_cursor(cursor, [int])
    with ask.look() as look:
        asked = look.sight.hours(_own(look, number)["number"])
        at = asked.selected_columns.hour_at_ms
        rows = look.rows(asked.where(*_between(at, *span), *beyond([at], key)).order_by(at).limit(limit + 1))
        more = write_cursor((rows[limit - 1]["hour_at_ms"],)) if len(rows) > limit else None
        return look.framed(items=[{**row["body"], "hour_at_ms": row["hour_at_ms"]} for row in rows[:limit]], next=more)


@router.get("/check/{number}")
def check(ask: Asking, number: str) -> dict[str, Any]:
    """Check a container number: its problem, and what may have been meant. Arithmetic only: it does not say whether the container
    exists.
    """
    result = check_container(number[:40])
    fields = {"number": result.number, "valid": result.valid, "problem": result.problem, "candidates": list(result.candidates)}
    return {**framed_clock(ask.services), "as_of_at_ms": None, **fields}


def _own(look: StoreView, number: str) -> dict[str, Any]:
    """Return the viewer's container of this number, as it is written, else compacted. Raises the one 404."""
    own = look.sight.containers().subquery()
    rows = look.rows(select(own).where(own.c.number.in_({number, compact_container(number)})))
    if not rows:
        raise unknown_container()
    return next((row for row in rows if row["number"] == number), rows[0])


def _within(records: Rows, span: Span) -> Rows:
    return records.where(*_between(records.selected_columns["order_at_ms"], *span))


def _next(records: Rows, key: Key | None, limit: int, *, newest: bool) -> Rows:
    columns = [records.selected_columns[name] for name in _KEY]
    order = [column.desc() for column in columns] if newest else columns
    return records.where(*beyond(columns, key, descending=newest)).order_by(*order).limit(limit)


def _between(column: Any, since_at_ms: int | None, until_at_ms: int | None) -> list[Any]:
    conditions = [] if since_at_ms is None else [column >= since_at_ms]
    return conditions if until_at_ms is None else [*conditions, column < until_at_ms]
