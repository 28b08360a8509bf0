"""The serving store's tables: readings and events as they are, and the latest word on everything that changes.

Keys are the log's own (coordinates, ids), never numbers of the database, so that a database built again is the same to the last row.
Times are UTC ms. `generation` and `offset` say which record of its origin a row of the kind "latest wins" was made from. A `body` that is
text is the log's own canonical JSON. Text is ordered by its bytes in every database. `folded`: by `streams.model.identifiers.folded`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from hq.serving.columns import AlertColumns, Base, Latest, Registered, StateColumns

METADATA = Base.metadata
"""All tables, as this module defines them."""


class Projection(Base):
    """One row: this database was begun at `started_wall_at_ms`, and has been whole since `ready_wall_at_ms` (null while it is built).

    `target` is what the log held when it was begun: {stream: {origin: offset}}. `caught_up_at_ms` (fleet time) and `caught_up_wall_at_ms`:
    when the projector last had all the log has. `readings`: how many rows `reading` has.
    """

    __tablename__ = "projection"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    started_wall_at_ms: Mapped[int]
    ready_wall_at_ms: Mapped[int | None]
    target: Mapped[dict[str, Any]]
    caught_up_at_ms: Mapped[int | None]
    caught_up_wall_at_ms: Mapped[int | None]
    readings: Mapped[int]


class Projected(Base):
    """The projector's Position: the next offset it needs of (stream, origin). Written in the transaction that writes the rows."""

    __tablename__ = "projected"
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    next_offset: Mapped[int]


class Skipped(Base):
    """Offsets `first_offset .. end_offset - 1`, below the projector's Position, that did not come in time and have not come since."""

    __tablename__ = "skipped"
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    first_offset: Mapped[int] = mapped_column(primary_key=True)
    end_offset: Mapped[int]


class StreamAge(Base):
    """Number of projected records of a stream, and the latest received time among them."""

    __tablename__ = "stream_age"
    stream: Mapped[str] = mapped_column(primary_key=True)
    records: Mapped[int]
    received_at_ms: Mapped[int]


class Reading(Base):
    """One record of `containers` or `ships`, the first of those that hold one reading. The key begins with topic and order time, so that a
    timeline is one walk along it. `identity`: 16 bytes, as `cargo.vocabulary.reading_identity` says, null for a reading that can not be
    repeated.
    """

    __tablename__ = "reading"
    topic: Mapped[str] = mapped_column(primary_key=True)
    order_at_ms: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(primary_key=True)
    device: Mapped[str | None]
    device_at_ms: Mapped[int | None]
    received_at_ms: Mapped[int]
    signals: Mapped[dict[str, Any]]
    body: Mapped[str | None]
    identity: Mapped[bytes | None]
    __table_args__ = (Index("reading_once", "topic", "device_at_ms", "identity", unique=True), {"sqlite_with_rowid": False})


class EventRow(Base):
    """One record of `events`; an `event_id` that comes again, in a later record, has another row there."""

    __tablename__ = "event"
    topic: Mapped[str] = mapped_column(primary_key=True)
    order_at_ms: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(primary_key=True)
    received_at_ms: Mapped[int]
    event_id: Mapped[str | None]
    event: Mapped[str]
    classifier: Mapped[str | None]
    event_at_ms: Mapped[int]
    place: Mapped[str | None]
    ship: Mapped[str | None]
    node: Mapped[str | None]
    body: Mapped[str]
    __table_args__ = (Index("event_at_place", "place", "event_at_ms"), Index("event_on_ship", "ship", "event_at_ms"))


class AlertChange(Base):
    """One record of `alerts`: a step in one alert's life. `believed_at_ms`: its order time, at most 10 min after its admission."""

    __tablename__ = "alert_change"
    topic: Mapped[str] = mapped_column(primary_key=True)
    order_at_ms: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(primary_key=True)
    received_at_ms: Mapped[int]
    believed_at_ms: Mapped[int]
    alert_id: Mapped[str]
    state: Mapped[str]
    at_ms: Mapped[int]
    body: Mapped[str]
    __table_args__ = (Index("alert_change_of", "alert_id"),)


class AlertRow(AlertColumns, Base):
    """An alert as it stands: the fold of all its changes. `unconfirmed_containers`: those of its loss that its ship did not have at
    `believed_at_ms` by the registry; `unconfirmed`: all of them are."""

    __tablename__ = "alert"
    alert_id: Mapped[str] = mapped_column(primary_key=True)
    unconfirmed: Mapped[bool]
    unconfirmed_containers: Mapped[list[Any]]
    believed_at_ms: Mapped[int]
    __table_args__ = (
        Index("alert_by_time", "raised_at_ms", "alert_id"),
        Index("alert_about", "topic"),
        Index("alert_of_incident", "incident_id"),
    )


class IncidentRow(Base):
    """Alerts of one cluster: which boxes, which at risk, since when, how it stands. `unconfirmed`: all of its alerts are.
    `unconfirmed_containers`: those of which each alert says so. `clock_doubted`: of any."""

    __tablename__ = "incident"
    incident_id: Mapped[str] = mapped_column(primary_key=True)
    unconfirmed: Mapped[bool]
    unconfirmed_containers: Mapped[list[Any]]
    clock_doubted: Mapped[bool]
    ship: Mapped[str | None]
    status: Mapped[str | None]
    severity: Mapped[str]
    open_alerts: Mapped[int]
    containers: Mapped[list[Any]]
    at_risk: Mapped[list[Any]]
    bays: Mapped[list[Any]]
    title: Mapped[str]
    detail: Mapped[str]
    latitude_deg: Mapped[float | None]
    longitude_deg: Mapped[float | None]
    raised_at_ms: Mapped[int]
    changed_at_ms: Mapped[int]


class CustomerRow(Registered, Base):
    """A customer: name, colour, role."""

    __tablename__ = "customer"


class BookingRow(Registered, Base):
    """A booking; its spans are rows of `booking_container`."""

    __tablename__ = "booking"
    customer: Mapped[str] = mapped_column(index=True)
    folded: Mapped[str]
    __table_args__ = (Index("booking_folded", "folded"),)


class BookingContainer(Base):
    """The right of `customer` to see `container` from `from_at_ms` until `until_at_ms` (excluded; null: open), by its latest version."""

    __tablename__ = "booking_container"
    container: Mapped[str] = mapped_column(primary_key=True)
    booking: Mapped[str] = mapped_column(primary_key=True)
    from_at_ms: Mapped[int] = mapped_column(primary_key=True)
    until_at_ms: Mapped[int | None]
    customer: Mapped[str]
    folded: Mapped[str]
    __table_args__ = (
        Index("booking_container_of_booking", "booking"),
        Index("booking_container_of_customer", "customer", "container"),
        Index("booking_container_of_reference", "folded", "customer", "container"),
    )


class LoadListRow(Registered, Base):
    """A load list (`<imo>/<call number>`): what is aboard after the call, what goes on and off there."""

    __tablename__ = "load_list"
    ship: Mapped[str] = mapped_column(index=True)
    port: Mapped[str] = mapped_column(index=True)
    call: Mapped[int]
    departs_at_ms: Mapped[int | None]


class CustodyRow(Registered, Base):
    """Place of a container by the papers: `ship/<imo>`, `quay/<locode>` or `delivered`."""

    __tablename__ = "custody"
    at: Mapped[str] = mapped_column(index=True)


class ShipRow(Registered, Base):
    """A ship of the fleet, by IMO number."""

    __tablename__ = "ship"


class PortRow(Registered, Base):
    """A port, by UN/LOCODE."""

    __tablename__ = "port"


class StoryRow(Registered, Base):
    """A chapter of the demo's story: what has just happened, and where to look."""

    __tablename__ = "story"


class ContainerState(StateColumns, Base):
    """Spark's last report of a container; `place_kind` is `ship` or `quay`."""

    __tablename__ = "container_state"
    container: Mapped[str] = mapped_column(primary_key=True)
    place_kind: Mapped[str | None]
    place_id: Mapped[str | None]
    __table_args__ = (Index("container_state_at", "place_kind", "place_id"),)


class ShipState(StateColumns, Base):
    """Spark's last report of a ship."""

    __tablename__ = "ship_state"
    ship: Mapped[str] = mapped_column(primary_key=True)


class Hour(Latest, Base):
    """One container's hour: counts, and minimum, mean and maximum of each temperature."""

    __tablename__ = "hour"
    container: Mapped[str] = mapped_column(primary_key=True)
    hour_at_ms: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]]


class Digest(Latest, Base):
    """The digest of a container with the newest reading in it (`at_ms`), as a ship sent it over a metered link; the window with the later
    end where two are of one time. `body`: `node`, `from_at_ms`, `until_at_ms`, `readings`, `signals`, as `cargo.shore_rules.digests` has
    it."""

    __tablename__ = "digest"
    container: Mapped[str] = mapped_column(primary_key=True)
    until_at_ms: Mapped[int]
    body: Mapped[dict[str, Any]]


class ShipMuster(Latest, Base):
    """A ship's last statement of its muster, of `at_ms`. `counts`: by the names of `cargo.loss.muster.STATED`."""

    __tablename__ = "ship_muster"
    ship: Mapped[str] = mapped_column(primary_key=True)
    counts: Mapped[dict[str, Any]]


class CustomerRecord(Base):
    """One record of `customers/<id>`: all a customer may see comes from here. `kind` is `reading`, `event` or `alert`."""

    __tablename__ = "customer_record"
    customer: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str] = mapped_column(primary_key=True)
    order_at_ms: Mapped[int] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    source_origin: Mapped[str | None]
    device: Mapped[str | None]
    device_at_ms: Mapped[int | None]
    received_at_ms: Mapped[int]
    signals: Mapped[dict[str, Any]]
    body: Mapped[str | None]
    __table_args__ = ({"sqlite_with_rowid": False},)


class CustomerContainer(Base):
    """A container as one customer may know it: the latest of each thing its own records say, and nothing else. `heard_at_ms`: its newest
    reading; events and alerts are none."""

    __tablename__ = "customer_container"
    customer: Mapped[str] = mapped_column(primary_key=True)
    container: Mapped[str] = mapped_column(primary_key=True)
    heard_at_ms: Mapped[int | None]
    place_kind: Mapped[str | None]
    place_id: Mapped[str | None]
    place_at_ms: Mapped[int | None]
    signals: Mapped[dict[str, Any]]


class CustomerAlert(AlertColumns, Base):
    """An alert as it stands for one customer."""

    __tablename__ = "customer_alert"
    customer: Mapped[str] = mapped_column(primary_key=True)
    alert_id: Mapped[str] = mapped_column(primary_key=True)
    __table_args__ = (Index("customer_alert_by_time", "customer", "raised_at_ms", "alert_id"),)


class ProcessStatus(Base):
    """The last word of one process of one node: the body of its latest `metrics` record."""

    __tablename__ = "process_status"
    node: Mapped[str] = mapped_column(primary_key=True)
    process: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int]
    wall_at_ms: Mapped[int]
    body: Mapped[dict[str, Any]]
    generation: Mapped[int]
    offset: Mapped[int]


class ShipBacklogRow(Base):
    """One ship's last report of the records that wait on board for a link: the body of its latest `ships.waiting` record."""

    __tablename__ = "waiting"
    node: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int]
    wall_at_ms: Mapped[int]
    body: Mapped[dict[str, Any]]
    generation: Mapped[int]
    offset: Mapped[int]


class Rejected(Base):
    """A record that is not what its stream promises: left out here, and reported to `exceptions`."""

    __tablename__ = "rejected"
    stream: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(primary_key=True)
    topic: Mapped[str]
    reason: Mapped[str]
    body: Mapped[str | None]
