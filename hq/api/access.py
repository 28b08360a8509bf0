"""Who may see and do what: the one place that decides, and with `hq.api.container_rows` the only one of the API that knows the serving
store's tables.

Every question the API asks of the store begins with a selection made here for one viewer at one fleet time, so a row that is not the
viewer's can be in no answer, no count and no bound. Default deny: a role nobody thought of sees nothing.

* operations, clerk: the whole fleet.
* customer: what `customers/<id>` says and its own bookings; of a container, only what lies in the spans of its bookings as they stand now
  (`_mine`), and so as it stood at the end of the last; whatever that stream was given when they were longer. States and alerts, of many
  records each, the projector folds from those that the same spans cover. Of ships only those its boxes are on now; of ports those where
  its bookings begin and end, and where its boxes stand, or stood when its right ended.
* crew: its ship, and the boxes on board now, by sensors or by custody; no customer's name, no booking.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import JSON, BigInteger, ColumnElement, String, and_, false, func, literal, or_, select, true, union_all

from cargo.loss.loss_classifier import GONE_STATES
from cargo.loss.reading_rows import SHIP_LOG
from hq.api.accounts import Role
from hq.api.alert_states import as_they_stand
from hq.api.container_rows import LOST, Rows, Which, fleet_containers, null_of, of, one_span, own_containers, whether
from hq.serving import models as m
from streams.model.identifiers import folded

LOST_STATUSES = tuple(sorted(GONE_STATES))
_STAFF: frozenset[Role] = frozenset({"operations", "clerk"})
SIGHTS_MAX = 64
"""Maximum number of viewers, each at one fleet time, whose selections are kept: one answer uses each several times, and building it takes
longer than the store needs to answer it."""


class Right(StrEnum):
    """Something a viewer may do beyond looking; the words complete "Your account may not …"."""

    MOVE_CLOCK = "move the fleet's clock"
    WRITE_REGISTRY = "write the registry"
    ACKNOWLEDGE = "acknowledge alerts"
    SEE_PORTS = "see what a port expects"
    SEE_PROCESSES = "see how the processes fare"
    SEE_STREAMS = "see how streams are managed"
    SEE_SEARCH_AREAS = "see where to search for lost boxes"
    SEE_REPORTS = "see loss reports"
    REPORT_LOSSES = "report losses in the company's name"
    SEE_NOTICES = "see the notices of losses to owners"
    ASK_SHIPS = "ask ships for what they have on board"


_REPORTS = (Right.SEE_REPORTS, Right.SEE_NOTICES)
_RIGHTS: dict[Role, frozenset[Right]] = {
    "operations": frozenset(Right),
    "clerk": frozenset({Right.WRITE_REGISTRY, Right.SEE_PORTS, Right.SEE_PROCESSES, Right.SEE_STREAMS, Right.SEE_SEARCH_AREAS, *_REPORTS}),
    "crew": frozenset({Right.ACKNOWLEDGE}),
    "customer": frozenset({Right.SEE_NOTICES}),
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """The account that sends a request: its username, role, name, and its customer or ship."""

    username: str
    role: Role
    name: str
    customer: str | None = None
    ship: str | None = None

    def may(self, right: Right) -> bool:
        """Return whether the viewer's role has the right."""
        return right in _RIGHTS.get(self.role, frozenset())

    @property
    def is_staff(self) -> bool:
        """Whether the viewer sees the whole fleet."""
        return self.role in _STAFF


@dataclass(frozen=True, slots=True)
class Sight:
    """Selections of the rows that `viewer` may see at fleet time `now_at_ms`. Callers filter, order and join them further; they never widen
    them."""

    viewer: Viewer
    now_at_ms: int

    @property
    def is_staff(self) -> bool:
        """Whether the viewer sees the whole fleet."""
        return self.viewer.is_staff

    @property
    def reads_log(self) -> bool:
        """Whether alerts and records come to the viewer from headquarters' log itself; a customer's come through Spark."""
        return self.viewer.role != "customer"

    def containers(self) -> Rows:
        """Return `number, place_kind, place_id, latitude_deg, longitude_deg, at_ms, signals, owner_told, booking, customer, until_at_ms`,
        `digest_at_ms, digest, by_papers, standing`.

        One row a container. `signals`: `{name: {"value", "at_ms"}}`; `owner_told`: whether the viewer may know whose it is, so that no
        booking means that there is none; `until_at_ms`: end of the customer's right, when there is one. `digest`: the ship's summary of its
        readings that wait on board, where the last of them, of `digest_at_ms`, is newer than any that is here. A customer gets its time
        alone, where the customer's right covers it. `standing`: `ship`, `quay`, `lost`, `delivered` (by custody, or as the customer's right
        has ended) or `unreported`."""
        return _containers_of(self)

    def booked(self, reference: str) -> Rows:
        """Return rows as `containers`, of boxes that bookings of this reference had, have or will have.

        They have also `found_booking, found_from_at_ms, found_until_at_ms`: of several spans of a box the last begun, else the next.

        Letters may be small or capital, and outer blanks do not count. A customer sees its own bookings alone; a crew sees none.
        """
        b = m.BookingContainer
        mine = b.customer == self.viewer.customer if self.viewer.role == "customer" else whether(self.is_staff)
        span = one_span(and_(b.folded == folded(reference), mine), self.now_at_ms)
        spans = of(span).cte("found")
        own = self._containers(lambda number: number.in_(of(spans.c.container))).subquery()
        columns = (spans.c[name].label(f"found_{name}") for name in ("booking", "from_at_ms", "until_at_ms"))
        return of(own, *columns).join(spans, spans.c.container == own.c.number)

    def of_bookings(self, ids: Collection[str]) -> Rows:
        """Return `number, booking, standing` of the viewer's containers that these bookings, of `bookings`, name."""
        b = m.BookingContainer
        named = of(b.container).where(b.booking.in_(ids))
        own = self._containers(lambda number: number.in_(named)).subquery()
        return of(own.c.number, own.c.booking, own.c.standing)

    def unlisted(self) -> Rows:
        """Return `number, place_kind, place_id` of the viewer's containers that only sensors have named (no booking, no custody) and that
        are not lost."""
        s, own = m.ContainerState, self.containers().subquery()
        listed = select(m.BookingContainer.container).union(select(m.CustodyRow.id))
        named = of(s.container.label("number"), s.place_kind, s.place_id).where(
            s.container.in_(select(own.c.number).where(own.c.standing != LOST))
        )
        return named.where(s.container.not_in(listed))

    def readings(self, number: str) -> Rows:
        """Return `order_at_ms, stream, origin, offset, kind, device, device_at_ms, received_at_ms, signals, body` of one container's
        readings."""
        if self.viewer.role == "customer":
            return self._own_records(number, "reading")
        r = m.Reading
        rows = of(
            *(r.order_at_ms, r.stream, r.origin, r.offset, literal("reading").label("kind")),
            *(r.device, r.device_at_ms, r.received_at_ms, r.signals, r.body),
        )
        return rows.where(r.topic == number, self._may_follow(number))

    def events(self, number: str) -> Rows:
        """Return the container's events, with the columns of `readings`."""
        return self._own_records(number, "event") if self.viewer.role == "customer" else self._records(m.EventRow, number, "event")

    def alert_changes(self, number: str) -> Rows:
        """Return the changes of the container's alerts, with the columns of `readings`."""
        return self._own_records(number, "alert") if self.viewer.role == "customer" else self._records(m.AlertChange, number, "alert")

    def stream_of(self, stream: str) -> str:
        """Return the stream of headquarters' log that holds the records whose column `stream`, in the three selections above, has this
        value."""
        return f"customers/{self.viewer.customer}" if self.viewer.role == "customer" else stream

    def alerts(self) -> Rows:
        """Return all columns of `alert` as it stands now, one row per alert. A customer's alert is unconfirmed exactly when it is for
        staff."""
        return _alerts_of(self)

    def changes_of(self, alerts: Collection[str], members: Collection[str]) -> Rows:
        """Return `topic, body` of the changes of `members`, for those who may acknowledge `alerts`."""
        mine = self.alerts().subquery()
        seen = select(func.count()).select_from(mine).where(mine.c.alert_id.in_(alerts)).scalar_subquery()
        rows = of(m.AlertChange.topic, m.AlertChange.body).where(m.AlertChange.alert_id.in_(members))
        return rows.where(whether(self.viewer.may(Right.ACKNOWLEDGE)), seen == len(alerts))

    def incidents(self) -> Rows:
        """Return all columns of `incident`: those of the fleet, or of the crew's ship."""
        table = m.IncidentRow.__table__
        mine = table.c.ship == self.viewer.ship if self.viewer.role == "crew" else whether(self.is_staff)
        return of(table).where(mine)

    def bookings(self) -> Rows:
        """Return `id, folded, version, at_ms, customer, value` of bookings."""
        b = m.BookingRow
        mine = b.customer == self.viewer.customer if self.viewer.role == "customer" else whether(self.is_staff)
        return of(b.id, b.folded, b.version, b.at_ms, b.customer, b.value).where(mine)

    def customers(self) -> Rows:
        """Return `id, value` of customers: all, or the viewer's own."""
        c = m.CustomerRow
        mine = c.id == self.viewer.customer if self.viewer.role == "customer" else whether(self.is_staff)
        return of(c.id, c.value).where(mine)

    def ships(self) -> Rows:
        """Return `ship, value, at_ms, latitude_deg, longitude_deg, body` of ships; the last four are null before Spark's first report of
        one."""
        known = select(m.ShipRow.id.label("ship")).union(select(m.ShipState.ship)).subquery()
        s = m.ShipState
        rows = of(known.c.ship, m.ShipRow.value, s.at_ms, s.latitude_deg, s.longitude_deg, s.body)
        rows = rows.select_from(known).outerjoin(m.ShipRow, m.ShipRow.id == known.c.ship).outerjoin(s, s.ship == known.c.ship)
        if self.is_staff:
            return rows
        if self.viewer.role == "crew":
            return rows.where(known.c.ship == self.viewer.ship)
        return rows.where(known.c.ship.in_(self._own_places("ship")))

    def track(self, ship: str) -> Rows:
        """Return `order_at_ms, signals` of a ship's positions, for a ship among `ships`."""
        r = m.Reading
        visible = self.ships().subquery()
        rows = of(r.order_at_ms, r.signals).where(r.topic == f"{ship}.location", r.stream == "ships")
        return rows.where(select(visible.c.ship).where(visible.c.ship == ship).exists())

    def weather(self, ship: str) -> Rows:
        """Return `order_at_ms, signals` of a ship's reports of air and sea, for those who may see where to search."""
        r = m.Reading
        rows = of(r.order_at_ms, r.signals).where(r.topic == f"{ship}.environment", r.stream == "ships")
        return rows.where(whether(self.viewer.may(Right.SEE_SEARCH_AREAS)))

    def ports(self) -> Rows:
        """Return `id, value` of ports: all, or those where the customer's boxes stand or its bookings begin or end."""
        p = m.PortRow
        rows = of(p.id, p.value)
        if self.is_staff or self.viewer.role == "crew":
            return rows
        own = self.bookings().subquery()
        ends = [of(own.c.value[end].as_string()) for end in ("from", "to")]
        return rows.where(or_(p.id.in_(self._own_places("quay")), *(p.id.in_(end) for end in ends)))

    def names(self, places: Collection[str], customers: Collection[str]) -> Rows:
        """Return `key, name` of ships and ports among `places`, whose key is their id, and of `customers`, whose key is `customer/<id>`: a
        customer's id may be a port's code. All ids must come from rows the viewer was given."""
        asked = ((m.ShipRow, "", places), (m.PortRow, "", places), (m.CustomerRow, "customer/", customers))
        named = [
            of((literal(kind) + t.id).label("key"), t.value["name"].as_string().label("name")).where(t.id.in_(ids))
            for t, kind, ids in asked
        ]
        every = union_all(*named).subquery()
        return of(every.c.key, every.c.name)

    def load_lists(self) -> Rows:
        """Return `id, ship, port, call, departs_at_ms, value` of load lists, for those who may see ports."""
        table = m.LoadListRow
        rows = of(table.id, table.ship, table.port, table.call, table.departs_at_ms, table.value)
        return rows.where(whether(self.viewer.may(Right.SEE_PORTS)))

    def list_heads(self) -> Rows:
        """Return `id, ship, version, call, departs_at_ms` of the load lists by which boxes are judged (`hq.api.stowage_cache`); of no box
        but the viewer's own is an answer made of them."""
        table = m.LoadListRow
        return of(table.id, table.ship, table.version, table.call, table.departs_at_ms).where(self._of_ship(table.ship))

    def list_values(self, ids: Collection[str]) -> Rows:
        """Return `id, version, value` of these load lists, of `list_heads`."""
        table = m.LoadListRow
        return of(table.id, table.version, table.value).where(table.id.in_(ids), self._of_ship(table.ship))

    def musters(self) -> Rows:
        """Return `ship, at_ms, counts`: the ships' last statements of their musters.

        A customer gets the time without the counts, which include others' boxes."""
        table = m.ShipMuster
        counts = null_of(JSON).label("counts") if self.viewer.role == "customer" else table.counts
        return of(table.ship, table.at_ms, counts).where(self._of_ship(table.ship))

    def voyages(self, ships: Collection[str]) -> Rows:
        """Return `ship, event, event_at_ms, place` of these ships' arrivals and departures, for those who may see ports."""
        e = m.EventRow
        rows = of(e.ship, e.event, e.event_at_ms, e.place).where(e.topic.in_([f"{ship}{SHIP_LOG}" for ship in ships]))
        return rows.where(e.event.in_(("ARRI", "DEPA")), whether(self.viewer.may(Right.SEE_PORTS)))

    def port_events(self, ship: str, port: str) -> Rows:
        """Return `topic, event, event_at_ms, place, origin, offset, body` of the events of a ship's boxes at a port, and of its musters."""
        e = m.EventRow
        rows = of(e.topic, e.event, e.event_at_ms, e.place, e.origin, e.offset, e.body)
        there = and_(e.ship == ship, or_(e.place == port, e.event == "X_MUSTER"))
        return rows.where(there, whether(self.viewer.may(Right.SEE_PORTS)))

    def custody(self, number: str) -> Rows:
        """Return `value` of a container's custody: for staff; a customer reads progress from its own stream."""
        return of(m.CustodyRow.value).where(m.CustodyRow.id == number, whether(self.is_staff))

    def hours(self, number: str) -> Rows:
        """Return `hour_at_ms, body` of a container's hours: for staff."""
        return of(m.Hour.hour_at_ms, m.Hour.body).where(m.Hour.container == number, whether(self.is_staff))

    def stories(self) -> Rows:
        """Return `id, value` of the story's chapters, which speak of everyone's boxes: for staff."""
        return of(m.StoryRow.id, m.StoryRow.value).where(whether(self.is_staff))

    def processes(self) -> Rows:
        """Return `node, process, at_ms, wall_at_ms, body`: the last report of each process, for those who may see the state of the
        processes."""
        p = m.ProcessStatus
        return of(p.node, p.process, p.at_ms, p.wall_at_ms, p.body).where(whether(self.viewer.may(Right.SEE_PROCESSES)))

    def waiting(self) -> Rows:
        """Return `node, at_ms, wall_at_ms, body`: each ship's last report of what waits on board, for those who may see the state of the
        processes."""
        w = m.ShipBacklogRow
        return of(w.node, w.at_ms, w.wall_at_ms, w.body).where(whether(self.viewer.may(Right.SEE_PROCESSES)))

    def stream_ages(self) -> Rows:
        """Return `stream, records, received_at_ms` of every projected stream, for those who may see the state of the processes."""
        a = m.StreamAge
        return of(a.stream, a.records, a.received_at_ms).where(whether(self.viewer.may(Right.SEE_PROCESSES)))

    def readings_received(self) -> Rows:
        """Return `readings`: the number of readings of boxes and ships, each once whichever nodes took it in; for those who may see the
        state of the processes."""
        return of(m.Projection.readings).where(whether(self.viewer.may(Right.SEE_PROCESSES)))

    def _containers(self, which: Which) -> Rows:
        if self.viewer.role == "customer":
            return own_containers(which, self.now_at_ms, self._is_lost, self.viewer.customer)
        crew = self.viewer.role == "crew"
        rows = fleet_containers(which, self.now_at_ms, self._is_lost, self.viewer.ship or "" if crew else None)
        return rows if crew or self.is_staff else rows.where(false())

    def _of_ship(self, ship: Any) -> ColumnElement[bool]:
        """Return whether boxes of the viewer may be aboard."""
        if self.viewer.role == "crew":
            mine: ColumnElement[bool] = ship == self.viewer.ship
            return mine
        return whether(self.is_staff or self.viewer.role == "customer")

    def _is_lost(self, number: Any) -> ColumnElement[bool]:
        """Return whether the container is overboard. An unconfirmed loss leaves its container at the place that reports it."""
        alerts = self.alerts().subquery()
        lost = of(alerts.c.topic).where(alerts.c.status.in_(LOST_STATUSES), alerts.c.state != "retracted", ~alerts.c.unconfirmed)
        return number.in_(lost) if self.viewer.role == "customer" else lost.where(alerts.c.topic == number).exists()

    def _own_numbers(self) -> Rows:
        b = m.BookingContainer
        return of(b.container).where(b.customer == self.viewer.customer, b.from_at_ms <= self.now_at_ms)

    def _own_records(self, number: str, kind: str) -> Rows:
        r = m.CustomerRecord
        rows = of(
            *(r.order_at_ms, r.kind.label("stream"), r.origin, r.offset, r.kind),
            *(r.device, r.device_at_ms, r.received_at_ms, r.signals, r.body),
        )
        return rows.where(r.customer == self.viewer.customer, r.topic == number, self._mine(r.topic, r.order_at_ms), r.kind == kind)

    def _mine(self, container: Any, at_ms: Any) -> ColumnElement[bool]:
        """Return whether the customer may see the records of `container` at `at_ms`: whether a span of its bookings, as they stand, covers
        the time."""
        b = m.BookingContainer
        covers = and_(b.from_at_ms <= at_ms, or_(b.until_at_ms.is_(None), at_ms < b.until_at_ms))
        own = and_(b.customer == self.viewer.customer, b.container == container, b.from_at_ms <= self.now_at_ms)
        return of(b.booking).where(own, covers).exists()

    def _own_places(self, kind: str) -> Rows:
        """Return the ships or quays that hold boxes of the customer to which it still has a right."""
        own = self.containers().subquery()
        current = or_(own.c.until_at_ms.is_(None), own.c.until_at_ms > self.now_at_ms)
        stands = own.c.place_kind == kind
        return of(own.c.place_id).where(stands, current if kind == "ship" else true())

    def _records(self, model: type[m.EventRow] | type[m.AlertChange], number: str, kind: str) -> Rows:
        rows = of(
            *(model.order_at_ms, model.stream, model.origin, model.offset, literal(kind).label("kind")),
            *(
                null_of(String).label("device"),
                null_of(BigInteger).label("device_at_ms"),
                model.received_at_ms,
                null_of(JSON).label("signals"),
                model.body,
            ),
        )
        return rows.where(model.topic == number, self._may_follow(number))

    def _may_follow(self, number: str) -> ColumnElement[bool]:
        """Return whether the viewer, of staff or crew, may see the container's history."""
        if self.viewer.role == "crew":
            own = self._containers(lambda column: column == number).subquery()
            return of(own.c.number).exists()
        return whether(self.is_staff)


@lru_cache(maxsize=SIGHTS_MAX)
def _containers_of(sight: Sight) -> Rows:
    return sight._containers(lambda _: true())


@lru_cache(maxsize=SIGHTS_MAX)
def _alerts_of(sight: Sight) -> Rows:
    own = m.CustomerAlert.__table__ if sight.viewer.role == "customer" else m.AlertRow.__table__
    rows = of(*as_they_stand(own, sight.now_at_ms))
    if sight.viewer.role == "customer":
        known = m.AlertRow
        rows = rows.add_columns(func.coalesce(known.unconfirmed, false()).label("unconfirmed"))
        rows = rows.select_from(own).outerjoin(known, known.alert_id == own.c.alert_id)
        return rows.where(own.c.customer == sight.viewer.customer, own.c.topic.in_(sight._own_numbers()))
    return rows.where(own.c.ship == sight.viewer.ship if sight.viewer.role == "crew" else whether(sight.is_staff))
