"""The log, the node, the watch, the command line; and `landfall.connect`, for programs that read streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from landfall.client import Client, NodeDoor, StreamFollower, connect
    from streams.gap_skipping_reader import ReaderStanding

__all__ = ["Client", "NodeDoor", "ReaderStanding", "StreamFollower", "connect"]


def __getattr__(name: str) -> Any:
    """Load what programs use when it is first asked for: set-up imports this package with nothing but Python."""
    if name in __all__:
        return getattr(import_module("landfall.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
