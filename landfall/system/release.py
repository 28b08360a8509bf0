"""When this version was released: the one thing that a machine knows of the time before it asks anybody."""

from __future__ import annotations

from datetime import UTC, datetime

RELEASED = "2026-11-29"
"""Date of the release, UTC. Set with each version in CHANGELOG.md, whose newest date it is not older than."""
RELEASED_AT_MS = int(datetime.fromisoformat(RELEASED).replace(tzinfo=UTC).timestamp() * 1_000)
