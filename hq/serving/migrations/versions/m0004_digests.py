"""What ships tell of containers while their readings wait for port."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLE = "digest"


def upgrade() -> None:
    """Their table."""
    op.create_table(
        TABLE,
        sa.Column("container", sa.String(), primary_key=True, autoincrement=False, nullable=False),
        sa.Column("until_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("at_ms", "generation", "offset")),
    )


def downgrade() -> None:
    """No table."""
    op.drop_table(TABLE)
