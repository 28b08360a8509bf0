"""The demo: a whole fleet as separate processes on one machine."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("landfall-demo")
"""Where a demo keeps all its data, unless told otherwise."""
