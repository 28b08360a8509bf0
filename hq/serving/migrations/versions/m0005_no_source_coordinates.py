"""A customer's record no longer says where in a shared stream it comes from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLE = "customer_record"


def upgrade() -> None:
    """Who took it in stays; stream and offset go."""
    op.drop_column(TABLE, "source_stream")
    op.drop_column(TABLE, "source_offset")


def downgrade() -> None:
    """Both again, unknown."""
    op.add_column(TABLE, sa.Column("source_stream", sa.String()))
    op.add_column(TABLE, sa.Column("source_offset", sa.BigInteger()))
