"""How Alembic runs here: on the connection the program hands it, never on its own."""

from __future__ import annotations

from alembic import context

from hq.serving.models import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
