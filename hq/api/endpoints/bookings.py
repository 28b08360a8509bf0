"""Bookings: what was ordered, and when its customer may see which box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import select

from hq.api.answer_fields import booking_fields
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, beginning, beyond, read_cursor, write_cursor
from hq.api.error_answers import not_found
from hq.api.services import Asking, StoreView
from streams.model.identifiers import composed, folded

router = APIRouter()


@router.get("/bookings")
def bookings(
    ask: Asking, q: str = "", cursor: str | None = None, limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT
) -> dict[str, Any]:
    """List the viewer's bookings by reference. `q`: how the reference begins, in any case."""
    key = read_cursor(cursor, [str])
    with ask.look() as look:
        own = look.sight.bookings().subquery()
        asked = select(own).where(*beyond([own.c.id], key)).order_by(own.c.id).limit(limit + 1)
        if q:
            asked = asked.where(beginning(own.c.folded, folded(q)))
        rows = look.rows(asked)
        more = write_cursor((rows[limit - 1]["id"],)) if len(rows) > limit else None
        names = _names(look, rows[:limit])
        boxes = boxes_of(look, rows[:limit])
        items = [booking_fields(row, look.now_at_ms, boxes) for row in rows[:limit]]
        return look.framed(from_log=True, items=items, next=more, names=names)


@router.get("/bookings/{reference:path}")
def booking(ask: Asking, reference: str) -> dict[str, Any]:
    """Return one booking of the viewer."""
    with ask.look() as look:
        own = look.sight.bookings().subquery()
        rows = look.rows(select(own).where(own.c.id == composed(reference)))
        if not rows:
            raise not_found("booking_unknown", "booking")
        fields = booking_fields(rows[0], look.now_at_ms, boxes_of(look, rows))
        return look.framed(from_log=True, booking=fields, names=_names(look, rows))


def boxes_of(look: StoreView, bookings: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the viewer's containers of these bookings, by number."""
    return {row["number"]: row for row in look.rows(look.sight.of_bookings([booking["id"] for booking in bookings]))}


def _names(look: StoreView, bookings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    ends = (row["value"].get(end) for row in bookings for end in ("from", "to"))
    return look.names(*ends, consignees=[row["value"].get("consignee") for row in bookings])
