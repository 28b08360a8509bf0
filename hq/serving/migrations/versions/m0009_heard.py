"""When a customer's container was last heard, by its readings alone. Rows of before count events and alerts: the store is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hq.serving.migrations.versions.m0001_first import TABLES

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLE, COLUMN, BEFORE = "customer_container", "heard_at_ms", ("first_at_ms", "last_at_ms")


def upgrade() -> None:
    """No rows, so that the projector begins again; the newest reading instead of the first and last record."""
    for name in (*(name for name, _, _ in TABLES), "digest", "skipped"):
        op.execute(sa.delete(sa.table(name)))
    for name in BEFORE:
        op.drop_column(TABLE, name)
    op.add_column(TABLE, sa.Column(COLUMN, sa.BigInteger()))


def downgrade() -> None:
    """No rows, with the first and last record."""
    op.execute(sa.delete(sa.table(TABLE)))
    op.drop_column(TABLE, COLUMN)
    for name in BEFORE:
        op.add_column(TABLE, sa.Column(name, sa.BigInteger(), nullable=False))
