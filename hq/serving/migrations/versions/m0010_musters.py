"""What ships state of their musters. A store without their table is built anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLE = "ship_muster"


def upgrade() -> None:
    """Their table."""
    collation = "C" if op.get_bind().dialect.name == "postgresql" else None
    op.create_table(
        TABLE,
        sa.Column("ship", sa.String(collation=collation), primary_key=True, nullable=False),
        sa.Column("counts", sa.JSON(none_as_null=True), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("at_ms", "generation", "offset")),
    )


def downgrade() -> None:
    """No table."""
    op.drop_table(TABLE)
