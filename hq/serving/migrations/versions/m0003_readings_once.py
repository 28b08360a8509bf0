"""A reading that several nodes took in is one row. Rows of before do not say which are the same: the store is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hq.serving.migrations.versions.m0001_first import TABLES

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

INDEX, TABLE = "reading_once", "reading"


def upgrade() -> None:
    """No rows, so that the projector begins again; an identity of each reading, unique, and how many readings there are."""
    for name, _, _ in TABLES:
        op.execute(sa.delete(sa.table(name)))
    op.add_column(TABLE, sa.Column("identity", sa.LargeBinary()))
    op.create_index(INDEX, TABLE, ["topic", "device_at_ms", "identity"], unique=True)
    op.add_column("projection", sa.Column("readings", sa.BigInteger(), nullable=False))


def downgrade() -> None:
    """Neither."""
    op.drop_column("projection", "readings")
    op.drop_index(INDEX, TABLE)
    op.drop_column(TABLE, "identity")
