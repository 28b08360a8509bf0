"""Alerts with their figure, count and acknowledgement. Rows of before lack that: the store is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hq.serving.migrations.versions.m0001_first import TABLES

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

OF, BEFORE = ("alert", "customer_alert"), "acknowledged_by"
COLUMNS = (
    ("rank", sa.BigInteger(), False),
    ("reopens_at_ms", sa.BigInteger(), True),
    ("acknowledgement", sa.JSON(), True),
    ("more", sa.JSON(), False),
)


def upgrade() -> None:
    """No rows, so that the projector begins again; what an alert's state follows from."""
    for name in (*(name for name, _, _ in TABLES), "digest", "skipped", "ship_muster"):
        op.execute(sa.delete(sa.table(name)))
    for name in OF:
        op.drop_column(name, BEFORE)
        for column, kind, optional in COLUMNS:
            op.add_column(name, sa.Column(column, kind, nullable=optional))


def downgrade() -> None:
    """Who acknowledged each alert first."""
    for name in OF:
        for column, _, _ in COLUMNS:
            op.drop_column(name, column)
        op.add_column(name, sa.Column(BEFORE, sa.String(), nullable=True))
