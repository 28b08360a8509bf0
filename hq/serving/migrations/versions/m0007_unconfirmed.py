"""Losses that no load list and no custody record confirms. Rows of before are not judged: the store is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hq.serving.migrations.versions.m0001_first import TABLES

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMN, OF = "unconfirmed", ("alert", "incident")


def upgrade() -> None:
    """No rows, so that the projector begins again; whether each loss and each incident is unconfirmed."""
    for name in (*(name for name, _, _ in TABLES), "digest", "skipped"):
        op.execute(sa.delete(sa.table(name)))
    for name in OF:
        op.add_column(name, sa.Column(COLUMN, sa.Boolean(), nullable=False))


def downgrade() -> None:
    """Not told."""
    for name in OF:
        op.drop_column(name, COLUMN)
