"""Selections of containers for `hq.api.access`, which alone may use them: it says who may see which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, BigInteger, ColumnElement, Select, String, and_, case, cast, func, null, or_, select, true
from sqlalchemy.types import TypeEngine

from hq.serving import models as m

Rows = Select[*tuple[Any, ...]]
Which = Callable[[Any], ColumnElement[bool]]
"""Condition that selects containers by a column: so that a few are looked up, and not picked from all."""
LOST, DELIVERED, UNREPORTED = "lost", "delivered", "unreported"
"""Place (`standing`) of a container that is neither on a `ship` nor on a `quay`."""
_KIND_CHARS = len("ship")
"""Custody says `ship/<imo>` or `quay/<locode>`."""


def fleet_containers(which: Which, now_at_ms: int, is_lost: Which, ship: str | None) -> Rows:
    """Return the fleet's containers with the columns of `Sight.containers`.

    `ship`: of a crew, whose containers are those aboard, without owners.
    """
    s, b, d, c = m.ContainerState, m.BookingContainer, m.Digest, m.CustodyRow
    stated, *listed = (select(number).where(which(number)) for number in (s.container, b.container, c.id))
    known = stated.union(*listed).subquery()
    current = and_(b.from_at_ms <= now_at_ms, or_(b.until_at_ms.is_(None), b.until_at_ms > now_at_ms))
    booked = one_span(and_(current, which(b.container)), now_at_ms)
    crew = ship is not None
    papers = _Papers(s.place_kind, s.place_id, s.at_ms, d.at_ms, now_at_ms, true())
    rows = of(
        *(known.c.container.label("number"), s.latitude_deg, s.longitude_deg, s.at_ms),
        s.body["signals"].label("signals"),
        whether(not crew).label("owner_told"),
        *(null_of(String).label("booking"), null_of(String).label("customer")) if crew else (booked.c.booking, booked.c.customer),
        null_of(BigInteger).label("until_at_ms"),
        *(d.at_ms.label("digest_at_ms"), d.body.label("digest")),
        *papers.columns(is_lost(known.c.container), whether(False)),
    )
    rows = rows.select_from(known).outerjoin(s, s.container == known.c.container).outerjoin(c, c.id == known.c.container)
    rows = rows.outerjoin(d, and_(d.container == known.c.container, d.at_ms > func.coalesce(s.at_ms, 0)))
    if not crew:
        return rows.outerjoin(booked, booked.c.container == known.c.container)
    fleet = rows.subquery()
    return of(*fleet.c).where(fleet.c.place_kind == "ship", fleet.c.place_id == ship, fleet.c.standing != DELIVERED)


def own_containers(which: Which, now_at_ms: int, is_lost: Which, customer: str | None) -> Rows:
    """Return a customer's containers with the columns of `Sight.containers`.

    A custody record counts where the span of the booking covers it; so does the time of a ship's digest, and nothing else of the digest.
    """
    b, c, custody, digest = m.BookingContainer, m.CustomerContainer, m.CustodyRow, m.Digest
    span = one_span(and_(b.customer == customer, b.from_at_ms <= now_at_ms, which(b.container)), now_at_ms)
    since_at_ms = custody.value["since_at_ms"].as_float()
    papers = _Papers(c.place_kind, c.place_id, c.heard_at_ms, digest.at_ms, now_at_ms, _covers(span.c, since_at_ms))
    rows = of(
        span.c.container.label("number"),
        *(c.signals[name]["value"].as_float().label(name) for name in ("latitude_deg", "longitude_deg")),
        *(c.heard_at_ms.label("at_ms"), c.signals, whether(True).label("owner_told")),
        *(span.c.booking, span.c.customer, span.c.until_at_ms),
        *(digest.at_ms.label("digest_at_ms"), null_of(JSON).label("digest")),
        *papers.columns(is_lost(span.c.container), span.c.until_at_ms <= now_at_ms),
    )
    rows = rows.select_from(span).outerjoin(c, and_(c.customer == span.c.customer, c.container == span.c.container))
    is_newer = and_(digest.at_ms > func.coalesce(c.heard_at_ms, 0), _covers(span.c, digest.at_ms))
    rows = rows.outerjoin(digest, and_(digest.container == span.c.container, is_newer))
    return rows.outerjoin(custody, custody.id == span.c.container)


def _covers(span: Any, at_ms: Any) -> ColumnElement[bool]:
    return and_(at_ms >= span.from_at_ms, or_(span.until_at_ms.is_(None), at_ms < span.until_at_ms))


@dataclass(frozen=True, slots=True)
class _Papers:
    """A container's place by its sensors (`kind`, `id_`, newest reading at `heard_at_ms`) and its custody record, where that `counts`.
    `digest_at_ms`: null unless the digest is newer than the newest reading."""

    kind: Any
    id_: Any
    heard_at_ms: Any
    digest_at_ms: Any
    now_at_ms: int
    counts: ColumnElement[bool]

    def columns(self, lost: ColumnElement[bool], ended: ColumnElement[bool]) -> list[ColumnElement[Any]]:
        """Return `place_kind, place_id, by_papers, standing`. What custody says that is newer than the newest reading wins, and so does a
        ship's custody while the ship has readings that are newer: its quay may have received the container last as it was lifted aboard. A
        delivered container may be received by a quay on the road, and is back when a ship receives it."""
        c = m.CustodyRow
        since_at_ms = c.value["since_at_ms"].as_float()
        begun = and_(self.counts, since_at_ms <= self.now_at_ms)
        is_newer = since_at_ms > func.coalesce(self.heard_at_ms, 0)
        is_heard_aboard = and_(c.at.startswith("ship/"), self.digest_at_ms.is_not(None))
        moved = and_(begun, c.at != DELIVERED, or_(is_newer, is_heard_aboard))
        aboard = func.coalesce(self.kind, "") == "ship"
        delivered = or_(ended, and_(begun, c.at == DELIVERED, or_(is_newer, ~aboard)))
        kind = case((moved, func.substr(c.at, 1, _KIND_CHARS)), else_=self.kind)
        return [
            kind.label("place_kind"),
            case((moved, func.substr(c.at, _KIND_CHARS + 2)), else_=self.id_).label("place_id"),
            case((moved, 1), else_=0).label("by_papers"),
            case((lost, LOST), (delivered, DELIVERED), else_=func.coalesce(kind, UNREPORTED)).label("standing"),
        ]


def one_span(which: ColumnElement[bool], now_at_ms: int) -> Any:
    """Return the columns of one span per container, out of the spans that fulfil `which`: the last begun, else the next."""
    b = m.BookingContainer
    nearest = (b.from_at_ms > now_at_ms, func.abs(b.from_at_ms - now_at_ms), b.booking)
    rank = func.row_number().over(partition_by=b.container, order_by=nearest).label("rank")
    ranked = select(*b.__table__.c, rank).where(which).subquery()
    return of(*(ranked.c[one.key] for one in b.__table__.c)).where(ranked.c.rank == 1).subquery()


def of(*columns: Any) -> Rows:
    """Return a selection of columns."""
    return select(*columns)


def null_of(kind: type[TypeEngine[Any]]) -> ColumnElement[Any]:
    """Return a null of this type."""
    return cast(null(), kind)


def whether(right: bool) -> ColumnElement[bool]:
    """Return a constant condition."""
    return true() if right else ~true()
