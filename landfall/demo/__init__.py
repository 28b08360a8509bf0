"""The demo: a whole fleet as separate processes on one machine."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("landfall-demo")
"""Default folder for all data of a demo."""
