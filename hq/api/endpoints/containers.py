"""Containers: find them, see how one stands, follow its timeline; and help with a number that was misread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import func, or_, select

from cargo.identifiers import check_container, compact_container
from cargo.registry import AT_MS_MAX
from hq.api.access import Rows
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, Key, beginning, beyond, read_cursor, write_cursor
from hq.api.errors import ApiError, unknown_container
from hq.api.services import Asking, Look, framed_clock
from hq.api.wording import CLOSED_STATES, Fields, alert_told, booking_told, container_told, record_told
from streams.errors import LandfallError
from streams.proof.until import Until
from streams.words import Origin

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
AtMs = Annotated[int | None, Query(ge=0, le=AT_MS_MAX)]
_KEY = ("order_at_ms", "stream", "origin", "offset")


@router.get("/containers")
def containers(
    ask: Asking, q: str = "", booking: str = "", place: str = "", cursor: str | None = None, limit: Limit = LIMIT_DEFAULT
) -> dict[str, Any]:
    """The viewer's containers by number. `q`: how a number begins; `booking`: the reference of one that had, has or will have them, with
    its span in `found_by`; `place`: `ship/<imo>` or `quay/<locode>`.
    """
    key = read_cursor(cursor, [str])
    with ask.look() as look:
        own = (look.sight.booked(booking) if booking.strip() else look.sight.containers()).subquery()
        asked = select(own).where(*beyond([own.c.number], key)).order_by(own.c.number).limit(limit + 1)
        if begins := compact_container(q):
            number, written = func.upper(own.c.number), q.strip().encode().upper().decode()  # A to Z alone, as in both databases
            asked = asked.where(or_(beginning(number, written), beginning(number, begins)))
        if place:
            kind, _, identity = place.partition("/")
            asked = asked.where(own.c.place_kind == kind, own.c.place_id == identity)
        rows = look.rows(asked)
        told = [container_told(row, look.now_at_ms) for row in rows[:limit]]
        more = write_cursor((rows[limit - 1]["number"],)) if len(rows) > limit else None
        return look.framed(items=told, next=more, names=look.names(*(row["place_id"] for row in rows[:limit])))


@router.get("/containers/{number}")
def container(ask: Asking, number: str) -> dict[str, Any]:
    """How one container stands: place, last signals, booking, custody, open alerts."""
    with ask.look() as look:
        row = _own(look, number)
        bookings = look.sight.bookings().subquery()
        booked = look.rows(select(bookings).where(bookings.c.id == row["booking"])) if row["booking"] else []
        alerts = look.sight.alerts().subquery()
        of = select(alerts).where(alerts.c.topic == row["number"]).order_by(alerts.c.raised_at_ms.desc(), alerts.c.alert_id)
        custody = look.rows(look.sight.custody(row["number"]))
        booking = booking_told(booked[0], look.now_at_ms) if booked else None
        if booking:
            booking["containers"] = [box for box in booking["containers"] if box["container"] == row["number"]]
        ends, consignees = ((booking["from"], booking["to"]), [booking["consignee"]]) if booking else ((), [])
        return look.framed(
            container=container_told(row, look.now_at_ms),
            booking=booking,
            custody=custody[0]["value"] if custody else None,
            alerts=[alert_told(alert) for alert in look.rows(of.where(alerts.c.state.not_in(CLOSED_STATES)))],
            names=look.names(row["place_id"], *ends, consignees=consignees),
        )


@router.get("/containers/{number}/timeline")
def timeline(
    ask: Asking,
    number: str,
    since_at_ms: AtMs = None,
    until_at_ms: AtMs = None,
    cursor: str | None = None,
    limit: Limit = LIMIT_DEFAULT,
) -> dict[str, Any]:
    """One container's readings, events and alerts in one order (order time, coordinates), from `since` on and before `until` (UTC ms).

    `taken_in_by`: the node that recorded it. `proven`: whether that node has signed it (null: not known now); if not, `signed_at_ms` says
    when it signed last.
    """
    key = read_cursor(cursor, [int, str, str, int])
    with ask.look() as look:
        known = _own(look, number)["number"]
        rows = [
            row
            for of in (look.sight.readings, look.sight.events, look.sight.alert_changes)
            for row in _part(look, of, known, (since_at_ms, until_at_ms), key, limit + 1)
        ]
        rows.sort(key=lambda row: tuple(row[name] for name in _KEY))
        last = rows[limit - 1] if len(rows) > limit else None
        more = write_cursor(tuple(last[name] for name in _KEY)) if last else None
        signed = _signed(look, rows[:limit])
        told = [record_told(row, signed[row["stream"], row["origin"]]) for row in rows[:limit]]
        names = look.names(*(one["body"].get(at) for one in told if one["kind"] == "event" and one["body"] for at in ("ship", "place")))
        return look.framed(number=known, items=told, next=more, names=names)


@router.get("/containers/{number}/hours")
def hours(
    ask: Asking,
    number: str,
    since_at_ms: AtMs = None,
    until_at_ms: AtMs = None,
    cursor: str | None = None,
    limit: Limit = LIMIT_DEFAULT,
) -> dict[str, Any]:
    """Hourly counts, minima, means and maxima of one container's temperatures, as Spark has them."""
    key = read_cursor(cursor, [int])
    with ask.look() as look:
        asked = look.sight.hours(_own(look, number)["number"])
        at = asked.selected_columns.hour_at_ms
        rows = look.rows(asked.where(*_between(at, since_at_ms, until_at_ms), *beyond([at], key)).order_by(at).limit(limit + 1))
        more = write_cursor((rows[limit - 1]["hour_at_ms"],)) if len(rows) > limit else None
        return look.framed(items=[{**row["body"], "hour_at_ms": row["hour_at_ms"]} for row in rows[:limit]], next=more)


@router.get("/check/{number}")
def check(ask: Asking, number: str) -> dict[str, Any]:
    """What is wrong with a container number as it was written, and what may have been meant; knows nothing of which containers exist."""
    found = check_container(number[:40])
    told = {"number": found.number, "valid": found.valid, "problem": found.problem, "candidates": list(found.candidates)}
    return {**framed_clock(ask.services.clock), "as_of_at_ms": None, **told}


def _own(look: Look, number: str) -> dict[str, Any]:
    """The viewer's container of this number, as it is written, else compacted. Raises the one 404."""
    own = look.sight.containers().subquery()
    rows = look.rows(select(own).where(own.c.number.in_({number, compact_container(number)})))
    if not rows:
        raise unknown_container()
    return next((row for row in rows if row["number"] == number), rows[0])


def _signed(look: Look, rows: Iterable[Fields]) -> dict[tuple[str, str], Until | None]:
    """Up to where each origin of these rows has signed their stream; None where the log can not be asked now."""
    found: dict[tuple[str, str], Until | None] = {}
    for stream, origin in {(row["stream"], row["origin"]) for row in rows}:
        try:
            found[stream, origin] = look.services.signed.of(look.sight.stream_of(stream), Origin.parse(origin))
        except LandfallError:
            found[stream, origin] = None
    return found


def _part(
    look: Look, of: Callable[[str], Rows], number: str, span: tuple[int | None, int | None], key: Key | None, limit: int
) -> list[dict[str, Any]]:
    asked = of(number)
    columns = [asked.selected_columns[name] for name in _KEY]
    asked = asked.where(*_between(columns[0], *span), *beyond(columns, key)).order_by(*columns).limit(limit)
    return look.rows(asked)


def _between(column: Any, since_at_ms: int | None, until_at_ms: int | None) -> list[Any]:
    if since_at_ms is not None and until_at_ms is not None and since_at_ms > until_at_ms:
        raise ApiError(400, "The time begins after it ends.", "Exchange since_at_ms and until_at_ms.")
    conditions = [] if since_at_ms is None else [column >= since_at_ms]
    return conditions if until_at_ms is None else [*conditions, column < until_at_ms]
