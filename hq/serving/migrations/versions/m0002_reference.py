"""Boxes are found by a booking's reference, in small letters or large."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INDEX, TABLE = "booking_container_of_reference", "booking_container"


def upgrade() -> None:
    """An index over what references are compared by."""
    op.create_index(INDEX, TABLE, [sa.text("lower(trim(booking))"), "customer", "container"])


def downgrade() -> None:
    """No such index."""
    op.drop_index(INDEX, TABLE)
