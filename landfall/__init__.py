"""The command line, which starts every other part; and `landfall.connect`, for programs that read streams."""

from landfall.client import Client, Follower, NodeDoor, connect

__all__ = ["Client", "Follower", "NodeDoor", "connect"]
