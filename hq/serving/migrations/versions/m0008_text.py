"""Text is compared by its bytes, and found whatever the case of its letters. Rows of before lack that: the store is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hq.serving.migrations.versions.m0001_first import TABLES

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMN, REFERENCE, BOOKING = "folded", "booking_container_of_reference", "booking_folded"


def upgrade() -> None:
    """No rows, so that the projector begins again; what references are searched by; texts in PostgreSQL in the order of their bytes."""
    for name in (*(name for name, _, _ in TABLES), "digest", "skipped"):
        op.execute(sa.delete(sa.table(name)))
    op.drop_index(REFERENCE, "booking_container")
    for name in ("booking", "booking_container"):
        op.add_column(name, sa.Column(COLUMN, sa.String(), nullable=False))
    op.create_index(BOOKING, "booking", [COLUMN])
    op.create_index(REFERENCE, "booking_container", [COLUMN, "customer", "container"])
    _collate("C")


def downgrade() -> None:
    """The database's own order; references by the letters that SQLite knows."""
    _collate("default")
    op.drop_index(REFERENCE, "booking_container")
    op.drop_index(BOOKING, "booking")
    for name in ("booking", "booking_container"):
        op.drop_column(name, COLUMN)
    op.create_index(REFERENCE, "booking_container", [sa.text("lower(trim(booking))"), "customer", "container"])


def _collate(collation: str) -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    tables = sa.inspect(connection)
    for name in (*(name for name, _, _ in TABLES), "digest", "skipped"):
        for column in tables.get_columns(name):
            if isinstance(column["type"], sa.String):
                op.alter_column(name, column["name"], type_=sa.String(collation=collation))
