"""What tables of the serving store have in common: their types, and the columns of alerts, registry entries and states."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Boolean, Float, LargeBinary, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables of the serving store."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger,
        float: Float(53),
        str: String().with_variant(String(collation="C"), "postgresql"),
        bool: Boolean,
        bytes: LargeBinary,
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON,
    }


class AlertColumns:
    """An alert after all its known changes, as `cargo.alerts.alert_log.AlertStanding` has it. `state` leaves `reopens_at_ms` aside, which
    the API adds; `rank`: of the severity, the worst first; `more`: figure, count, members."""

    topic: Mapped[str]
    rule: Mapped[str]
    severity: Mapped[str]
    state: Mapped[str]
    status: Mapped[str | None]
    title: Mapped[str]
    detail: Mapped[str]
    ship: Mapped[str | None]
    incident_id: Mapped[str | None]
    slot: Mapped[str | None]
    latitude_deg: Mapped[float | None]
    longitude_deg: Mapped[float | None]
    position_basis: Mapped[str | None]
    position_at_ms: Mapped[int | None]
    posterior: Mapped[float | None]
    evidence: Mapped[list[Any]]
    incident: Mapped[dict[str, Any] | None]
    raised_at_ms: Mapped[int]
    changed_at_ms: Mapped[int]
    rank: Mapped[int]
    reopens_at_ms: Mapped[int | None]
    acknowledgement: Mapped[dict[str, Any] | None]
    more: Mapped[dict[str, Any]]


class Latest:
    """Columns of a row of which the latest record of its origin wins."""

    at_ms: Mapped[int]
    generation: Mapped[int]
    offset: Mapped[int]


class Registered(Latest):
    """The latest version of one entry of the registry; `by` wrote it at `at_ms`."""

    id: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]
    by: Mapped[str]
    value: Mapped[dict[str, Any]]


class StateColumns(Latest):
    """The last known state of one thing; `body` is the whole record's."""

    latitude_deg: Mapped[float | None]
    longitude_deg: Mapped[float | None]
    body: Mapped[dict[str, Any]]
