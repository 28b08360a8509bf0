"""What the projector went on without, and puts in when it comes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "skipped"


def upgrade() -> None:
    """Its table."""
    op.create_table(
        TABLE,
        sa.Column("stream", sa.String(), primary_key=True, nullable=False),
        sa.Column("origin", sa.String(), primary_key=True, nullable=False),
        sa.Column("first_offset", sa.BigInteger(), primary_key=True, autoincrement=False, nullable=False),
        sa.Column("end_offset", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    """No table."""
    op.drop_table(TABLE)
