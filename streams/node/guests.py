"""Peers that come: which known one it is, what proves it, and who is reported for coming in a known peer's name without proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from streams.access import Principal
from streams.clock import Clock
from streams.credentials import Credentials
from streams.errors import NotAllowed
from streams.metrics import Metrics
from streams.node.settings import KnownPeer

TOLD_EVERY_S = 3_600.0
"""So long a name is not told again."""


class Unproven:
    """For the door of one node. Remembers as many names as it is given: those of the settings, never those that strangers make up."""

    def __init__(self, clock: Clock, report: Callable[..., None]) -> None:
        self._clock, self._report = clock, report
        self._told: dict[str, tuple[float, int]] = {}

    def refused(self, peer: str, problem: str, address: str) -> None:
        """Somebody at `address` (host) has come as `peer`, and was turned away for `problem`. What is not told is counted for the next."""
        now_s = self._clock.monotonic_s()
        told_s, untold = self._told.get(peer, (-math.inf, 0))
        if now_s - told_s < TOLD_EVERY_S:
            self._told[peer] = told_s, untold + 1
            return
        self._told[peer] = now_s, 0
        reason = "somebody comes in a known node's name and does not prove to be it"
        self._report(reason, "turned away", peer=peer, problem=problem, address=address, untold_since_last=untold)


@dataclass(frozen=True, slots=True)
class Guest:
    """A known peer that has come, and the principal whose token it showed; None where it has shown its certificate."""

    peer: KnownPeer
    principal: Principal | None


class Guests:
    """The peers that may come to one node. Call it from the event loop of the node."""

    def __init__(self, known: Collection[KnownPeer], node: str, credentials: Credentials, unproven: Unproven, metrics: Metrics) -> None:
        """`node`: this one's name."""
        self._known = {peer.node: peer for peer in known}
        self._node, self._credentials, self._unproven, self._metrics = node, credentials, unproven, metrics
        self._shown: dict[str, Principal] = {}

    def who(self, node: str, certified: str | None, token: str, host: str) -> Guest:
        """The known peer that comes as `node` from `host`: with a certificate of `certified`, which counts alone, or else with `token`, of
        a credential of this very node (`node:NAME`, or its ship's, port's or customer's) that may replicate.

        Raises NotAllowed with a sentence it can show its operator; who comes in a known peer's name is named in `exceptions`.
        """
        peer, principal = self._known.get(node), None
        if certified is None:
            principal, wrong = self._credentials.of_token(token), "shows a wrong token"
            proven = peer is not None and principal is not None and principal.name in peer.principals() and "replicate" in principal.allowed
        else:
            proven, wrong = certified == node, f"shows the certificate of '{certified}'"
        if peer is None or not proven:
            self._metrics.count("links_refused")
            if peer is not None:
                self._unproven.refused(node, wrong, host)
            raise NotAllowed(f"'{node}' is not known at '{self._node}', or {wrong}")
        return Guest(peer, principal)

    def came(self, guest: Guest) -> tuple[str, ...]:
        """A session with it begins; returns the streams, by pattern, that it may replicate."""
        name = guest.peer.node
        self._shown.pop(name, None)
        if guest.principal is None:
            return ("*",)
        self._shown[name] = guest.principal
        return guest.principal.allowed["replicate"]

    def without_credential(self) -> list[str]:
        """The peers that came with a credential which is not among this node's any more, or allows something else now; each once."""
        gone = [name for name, principal in self._shown.items() if not self._credentials.holds(principal)]
        for name in gone:
            del self._shown[name]
        return gone
