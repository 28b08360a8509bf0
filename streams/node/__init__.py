"""What every node runs, ship, port or headquarters: its log, its sessions with peers, its HTTP door, its metrics and its failures told."""

from streams.node.node import Node
from streams.node.settings import KnownPeer, NodeSettings, PeerAddress

__all__ = ["KnownPeer", "Node", "NodeSettings", "PeerAddress"]
