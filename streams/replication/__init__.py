"""The sync session: one protocol for every pair of nodes, without I/O.

`Exchange` is the state that all sessions of a node share, `Session` is one of them, and `Terms` say what may travel in it. `effects` are
the requests of a session to its driver. `messages` are what goes over the wire.
"""

from streams.replication.effects import (
    BROKE_RULES,
    NAME_IN_USE,
    OTHER_VERSION,
    PLAYED_BACK,
    Admit,
    Closed,
    DeclareGone,
    Effect,
    Load,
    Loaded,
    OldCopy,
    Opened,
    Report,
    Unread,
)
from streams.replication.exchange import Exchange
from streams.replication.link_terms import Key, Nonces, Terms
from streams.replication.sync_session import Session
from streams.replication.unreadable_blocks import Withheld

__all__ = [
    "BROKE_RULES",
    "NAME_IN_USE",
    "OTHER_VERSION",
    "PLAYED_BACK",
    "Admit",
    "Closed",
    "DeclareGone",
    "Effect",
    "Exchange",
    "Key",
    "Load",
    "Loaded",
    "Nonces",
    "OldCopy",
    "Opened",
    "Report",
    "Session",
    "Terms",
    "Unread",
    "Withheld",
]
