"""The bodies of records as this side reads them: what must be there, of which type; all else is kept as it came."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from cargo.vocabulary.registry_entries import need_plain
from streams.model.records import read_body

Body = TypeVar("Body", bound=msgspec.Struct)
AtMs = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""UTC ms, as a column of 64 bits holds them."""


class BadBody(ValueError):
    """A record's body is not what its stream promises; the message says where it is not."""


class EventBody(msgspec.Struct, frozen=True):
    """Of `events`: what happened, when and where."""

    event: str
    event_at_ms: AtMs
    event_id: str | None = None
    classifier: str | None = None
    place: str | None = None
    ship: str | None = None
    node: str | None = None


class BodyPlace(msgspec.Struct, frozen=True):
    """On a ship (its IMO number) or on a quay (its UN/LOCODE)."""

    kind: str
    id: str


class StateBody(msgspec.Struct, frozen=True):
    """Of `states`: the last known state of a container or ship."""

    kind: str
    at_ms: AtMs
    place: BodyPlace | None = None
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
    """Number of waiting records of one stream, and the time since when they wait."""

    records: int
    since_at_ms: AtMs


class WaitingBody(msgspec.Struct, frozen=True):
    """Of `ships.waiting`: what waits on board of a ship, per stream, and when that was so."""

    at_ms: AtMs
    wall_at_ms: AtMs
    streams: dict[str, Backlog]


def read(body: str | None, kind: type[Body]) -> Body:
    """Return `body` as `kind`. Raises BadBody when it is missing, of another shape, or holds what some store does not take."""
    try:
        plain = read_body(body)
        need_plain(plain)
        return msgspec.convert(plain, kind)
    except ValueError as problem:
        raise BadBody(str(problem)) from problem
