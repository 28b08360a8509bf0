"""The bodies of records as this side reads them: what must be there, of which type; all else is kept as it came."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec

from cargo.registry import AtMs as FleetMs

Body = TypeVar("Body", bound=msgspec.Struct)
AtMs = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""UTC ms, as a column of 64 bits holds them."""


class Unreadable(ValueError):
    """A record's body is not what its stream promises; the message says where it is not."""


class Event(msgspec.Struct, frozen=True):
    """Of `events`: what happened, when and where."""

    event: str
    event_at_ms: AtMs
    event_id: str | None = None
    classifier: str | None = None
    place: str | None = None
    ship: str | None = None
    node: str | None = None


class Position(msgspec.Struct, frozen=True):
    """Where an alert happened; `basis` is ACTUAL, ESTIMATED or DISCOVERED."""

    latitude_deg: float
    longitude_deg: float
    basis: str | None = None
    at_ms: AtMs | None = None


class Evidence(msgspec.Struct, frozen=True):
    """One piece of an alert's evidence; customers are told no weight and no detail."""

    family: str
    signal: str
    at_ms: AtMs
    weight: float | None = None
    detail: str = ""


class Cluster(msgspec.Struct, frozen=True):
    """What belongs to an incident: boxes lost, boxes without tracker beside them, bays, and when the first and the last fell."""

    containers: list[str] = []
    at_risk: list[str] = []
    bays: list[int] = []
    from_at_ms: FleetMs | None = None
    until_at_ms: FleetMs | None = None


class Alert(msgspec.Struct, frozen=True):
    """Of `alerts`: one step in an alert's life."""

    alert_id: str
    rule: str
    severity: str
    state: Literal["raised", "updated", "acknowledged", "cleared", "retracted"]
    at_ms: FleetMs
    title: str = ""
    detail: str = ""
    ship: str | None = None
    incident_id: str | None = None
    slot: str | None = None
    status: str | None = None
    position: Position | None = None
    evidence: list[Evidence] = []
    posterior: float | None = None
    by: str | None = None
    incident: Cluster | None = None


class Place(msgspec.Struct, frozen=True):
    """On a ship (its IMO number) or on a quay (its UN/LOCODE)."""

    kind: str
    id: str


class State(msgspec.Struct, frozen=True):
    """Of `states`: the last known state of a container or ship."""

    kind: str
    at_ms: AtMs
    place: Place | None = None
    latitude_deg: float | None = None
    longitude_deg: float | None = None


class HourBody(msgspec.Struct, frozen=True):
    """Of `hours`: which hour."""

    hour_at_ms: AtMs


class MetricsBody(msgspec.Struct, frozen=True):
    """Of `metrics`: whose word it is, and when it was said."""

    process: str
    at_ms: AtMs
    wall_at_ms: AtMs


class Backlog(msgspec.Struct, frozen=True):
    """How many records of one stream wait, and since when."""

    records: int
    since_at_ms: AtMs


class WaitingBody(msgspec.Struct, frozen=True):
    """Of `ships.waiting`: what waits on board of a ship, per stream, and when that was so."""

    at_ms: AtMs
    wall_at_ms: AtMs
    streams: dict[str, Backlog]


def read(body: str | None, kind: type[Body]) -> Body:
    """`body` as `kind`. Raises Unreadable when it is missing or of another shape."""
    if body is None:
        raise Unreadable("the record has no body")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as problem:
        raise Unreadable(str(problem)) from problem
