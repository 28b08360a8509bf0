"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TYPES: dict[str, Any] = {"": sa.String(), "int": sa.BigInteger(), "float": sa.Float(53), "json": sa.JSON(none_as_null=True)}

TABLES: tuple[tuple[str, str, str], ...] = (
    (
        "alert",
        "alert_id",
        (
            "topic rule severity state status? title detail ship? incident_id? slot? latitude_deg:float? longitude_deg:float? "
            "position_basis? position_at_ms:int? posterior:float? evidence:json incident:json? raised_at_ms:int changed_at_ms:int "
            "acknowledged_by?"
        ),
    ),
    (
        "alert_change",
        "topic order_at_ms:int stream origin offset:int",
        "received_at_ms:int alert_id state at_ms:int body",
    ),
    (
        "booking",
        "id",
        "customer version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "booking_container",
        "container booking from_at_ms:int",
        "until_at_ms:int? customer",
    ),
    (
        "container_state",
        "container",
        "place_kind? place_id? latitude_deg:float? longitude_deg:float? body:json at_ms:int generation:int offset:int",
    ),
    (
        "custody",
        "id",
        "at version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "customer",
        "id",
        "version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "customer_alert",
        "customer alert_id",
        (
            "topic rule severity state status? title detail ship? incident_id? slot? latitude_deg:float? longitude_deg:float? "
            "position_basis? position_at_ms:int? posterior:float? evidence:json incident:json? raised_at_ms:int changed_at_ms:int "
            "acknowledged_by?"
        ),
    ),
    (
        "customer_container",
        "customer container",
        "first_at_ms:int last_at_ms:int place_kind? place_id? place_at_ms:int? signals:json",
    ),
    (
        "customer_record",
        "customer topic order_at_ms:int origin offset:int",
        "kind source_stream? source_origin? source_offset:int? device? device_at_ms:int? received_at_ms:int signals:json body?",
    ),
    (
        "event",
        "topic order_at_ms:int stream origin offset:int",
        "received_at_ms:int event_id? event classifier? event_at_ms:int place? ship? node? body",
    ),
    (
        "hour",
        "container hour_at_ms:int",
        "body:json at_ms:int generation:int offset:int",
    ),
    (
        "incident",
        "incident_id",
        (
            "ship? status? severity open_alerts:int containers:json at_risk:json bays:json title detail latitude_deg:float? "
            "longitude_deg:float? raised_at_ms:int changed_at_ms:int"
        ),
    ),
    (
        "load_list",
        "id",
        "ship port call:int departs_at_ms:int? version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "port",
        "id",
        "version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "process_status",
        "node process",
        "at_ms:int wall_at_ms:int body:json generation:int offset:int",
    ),
    (
        "waiting",
        "node",
        "at_ms:int wall_at_ms:int body:json generation:int offset:int",
    ),
    (
        "projected",
        "stream origin",
        "next_offset:int",
    ),
    (
        "projection",
        "id:int",
        "started_wall_at_ms:int ready_wall_at_ms:int? target:json caught_up_at_ms:int? caught_up_wall_at_ms:int?",
    ),
    (
        "reading",
        "topic order_at_ms:int stream origin offset:int",
        "device? device_at_ms:int? received_at_ms:int signals:json body?",
    ),
    (
        "rejected",
        "stream origin offset:int",
        "topic reason body?",
    ),
    (
        "ship",
        "id",
        "version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "ship_state",
        "ship",
        "latitude_deg:float? longitude_deg:float? body:json at_ms:int generation:int offset:int",
    ),
    (
        "story",
        "id",
        "version:int by value:json at_ms:int generation:int offset:int",
    ),
    (
        "stream_age",
        "stream",
        "records:int received_at_ms:int",
    ),
)
"""Table, its key, its other columns, each `name:type`, text when no type is named, with a `?` when it may be null."""

CLUSTERED = {"customer_record", "reading"}
"""Tables that SQLite keeps in the order of their key."""

INDEXES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("alert_about", "alert", ("topic",)),
    ("alert_by_time", "alert", ("raised_at_ms", "alert_id")),
    ("alert_of_incident", "alert", ("incident_id",)),
    ("alert_change_of", "alert_change", ("alert_id",)),
    ("ix_booking_customer", "booking", ("customer",)),
    ("booking_container_of_booking", "booking_container", ("booking",)),
    ("booking_container_of_customer", "booking_container", ("customer", "container")),
    ("container_state_at", "container_state", ("place_kind", "place_id")),
    ("ix_custody_at", "custody", ("at",)),
    ("customer_alert_by_time", "customer_alert", ("customer", "raised_at_ms", "alert_id")),
    ("event_at_place", "event", ("place", "event_at_ms")),
    ("event_on_ship", "event", ("ship", "event_at_ms")),
    ("ix_load_list_port", "load_list", ("port",)),
    ("ix_load_list_ship", "load_list", ("ship",)),
)
"""Index, its table, its columns."""


def upgrade() -> None:
    """All tables and indexes of the first version."""
    for name, key, columns in TABLES:
        parts = [_column(word, key=True) for word in key.split()] + [_column(word) for word in columns.split()]
        op.create_table(name, *parts, sqlite_with_rowid=name not in CLUSTERED)
    for name, table, indexed in INDEXES:
        op.create_index(name, table, list(indexed))


def downgrade() -> None:
    """No tables."""
    for name, _, _ in TABLES:
        op.drop_table(name)


def _column(word: str, *, key: bool = False) -> sa.Column[object]:
    name, _, kind = word.removesuffix("?").partition(":")
    return sa.Column(name, TYPES[kind], primary_key=key, autoincrement=False, nullable=word.endswith("?"))
