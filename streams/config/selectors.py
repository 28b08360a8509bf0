"""Which nodes a stream's definition means: `hq`, `port`, `ship` (by role), `port/JPTYO`, `ship/9321483` (by identity), `node/tokyo`."""

from __future__ import annotations

import re
from typing import get_args

from streams.config.roles import Peer, Role
from streams.model.identifiers import NODE_PATTERN

NAMESAKE = "{}"
"""Placeholder in a selector of `aboard/*`, `customers/*` or `terms/*` for the part that the star stands for: the ship's or the
customer's own identity."""
NODE = "node"
ROLES: tuple[str, ...] = get_args(Role)
_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}|\{\}")


def matches(selector: str, peer: Peer) -> bool:
    """Return whether the selector matches `peer`."""
    kind, _, name = selector.partition("/")
    if kind == NODE:
        return peer.node == name
    return peer.role == kind and (not name or peer.identity == name)


def matches_node(selector: str, role: Role | None, node: str) -> bool:
    """Return whether the selector matches a node of which only the name and the role (None: unknown) are known. Identities match
    nothing."""
    kind, _, name = selector.partition("/")
    return node == name if kind == NODE else role == selector


def problem_of(selector: str) -> str | None:
    """Return why `selector` is invalid; None when it is valid."""
    kind, slash, name = selector.partition("/")
    if kind == NODE:
        return None if NODE_PATTERN.fullmatch(name) else f"{selector!r} names no node: it is like node/tokyo"
    if kind not in ROLES:
        return f"{selector!r} means no node: say {', '.join(ROLES)}, a role with an identity (port/JPTYO) or node/<name>"
    return None if not slash or _IDENTITY.fullmatch(name) else f"{selector!r} has no identity after the slash: it is like port/JPTYO"
