"""The body of a record of `alerts` as it is read: required fields and their types. A body from any node may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cargo.errors import BadEntry
from cargo.vocabulary.registry_entries import AtMs, need_plain

AnyMs = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Time, UTC ms, by a clock that may be wrong, as a column of 64 bits holds it."""

COUNT_MAX = 1 << 53
NOTE_CHARS_MAX = 500


class AlertPosition(msgspec.Struct, frozen=True):
    """Place of an alert. `basis`: ACTUAL, ESTIMATED or DISCOVERED."""

    latitude_deg: float
    longitude_deg: float
    basis: str | None = None
    at_ms: AnyMs | None = None


class EvidenceBody(msgspec.Struct, frozen=True):
    """One piece of an alert's evidence. A customer's copy has no `weight` and no `detail`."""

    family: str
    signal: str
    at_ms: AnyMs
    weight: float | None = None
    detail: str = ""


class Cluster(msgspec.Struct, frozen=True):
    """Content of an incident: lost containers, containers without a working tracker next to them, bays, and the window of the loss."""

    containers: list[str] = []
    at_risk: list[str] = []
    bays: list[int] = []
    from_at_ms: AtMs | None = None
    until_at_ms: AtMs | None = None


class AlertBody(msgspec.Struct, frozen=True):
    """One change of an alert, the body of a record of `alerts`. The newest record of an alert shows its state.

    `alert_id` begins with the owner of the alert: an IMO number, a UN/LOCODE or `hq`, then `-`. Each lost container has one alert; its
    `incident_id` is that of the loss. The loss itself has one alert of rule `incident` on `<imo>.log`, with `incident`. `figure` is the
    worst value so far in `unit`; it gets `worse` in that direction from `limit`. `count` is how often it happened, from `first_at_ms`
    to `last_at_ms` (null: not over). A person's record has `by` and `note`; an acknowledgement also the severity and figure that were
    acknowledged, and `reopened_at_ms`: since when the alert had been open again; a closing `seen_until_ms`: the changes before
    then had been seen. `clock_doubted`: its node doubted its own clock then.
    """

    alert_id: Annotated[str, Meta(min_length=1)]
    rule: str
    severity: str
    state: Literal["raised", "updated", "acknowledged", "unacknowledged", "cleared", "retracted"]
    at_ms: AtMs
    title: str = ""
    detail: str = ""
    ship: str | None = None
    incident_id: str | None = None
    slot: str | None = None
    status: str | None = None
    position: AlertPosition | None = None
    evidence: list[EvidenceBody] = []
    posterior: float | None = None
    by: str | None = None
    incident: Cluster | None = None
    figure: float | None = None
    unit: str | None = None
    limit: float | None = None
    worse: Literal["up", "down"] | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    first_at_ms: AnyMs | None = None
    last_at_ms: AnyMs | None = None
    note: Annotated[str, Meta(max_length=NOTE_CHARS_MAX)] = ""
    reopened_at_ms: AtMs | None = None
    seen_until_ms: AtMs | None = None
    clock_doubted: bool = False


def read_alert(body: Mapping[str, Any]) -> AlertBody:
    """Return `body` (a JSON object already read) with its defaults filled in; other fields may be there.

    Raises BadEntry, which names field and reason."""
    try:
        need_plain(body)
        return msgspec.convert(body, AlertBody)
    except ValueError as problem:
        raise BadEntry(f"an alert does not read: {problem}", code="alert_unreadable") from problem
