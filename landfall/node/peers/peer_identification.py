"""The identification of incoming peers: which known peer it is, and what proves it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from landfall.access.credentials import NODE, Credentials
from landfall.access.principals import Principal, may
from landfall.node.settings import KnownPeer
from streams.model.errors import NotAllowed
from streams.model.metrics import Metrics

PEER_UNKNOWN = "peer_unknown"
"""Code of the refusal of a peer that is not known, or does not prove to be the one that it names."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A known peer that has come, and the principal that it is by its token or its certificate."""

    peer: KnownPeer
    principal: Principal

    def may_replicate(self, stream: str) -> bool:
        """Return whether it may have and bring `stream`."""
        return may(self.principal, "replicate", stream)


class Guests:
    """The peers that may come to one node. Call it from the event loop of the node."""

    def __init__(self, known: Collection[KnownPeer], node: str, credentials: Credentials, metrics: Metrics) -> None:
        """Prepare the identification. `node`: this node's name."""
        self._known = {peer.node: peer for peer in known}
        self._node, self._credentials, self._metrics = node, credentials, metrics
        self._shown: dict[str, Principal] = {}

    def who(self, node: str, certified: str | None, token: str) -> Guest:
        """Return the known peer that comes as `node`. It has a certificate of `certified`, which counts alone, or else `token`, of a
        credential of this very node (`node:NAME`, or its ship's, port's or customer's) that may replicate.

        Raises NotAllowed (PEER_UNKNOWN) with a sentence that the peer can show its operator.
        """
        peer = self._known.get(node)
        if certified is None:
            principal, wrong = self._credentials.of_token(token), "shows a wrong token"
            proven = peer is not None and principal is not None and principal.name in peer.principals()
        else:
            principal, wrong = Principal(f"{NODE}{certified}", {"replicate": ("*",)}), f"shows the certificate of '{certified}'"
            proven = certified == node
        if peer is None or principal is None or not proven or not may(principal, "replicate", None):
            self._metrics.count("links_refused")
            raise NotAllowed(f"'{node}' is not known at '{self._node}', or {wrong}", code=PEER_UNKNOWN)
        return Guest(peer, principal)

    def came(self, guest: Guest) -> None:
        """Record that a session with the guest begins."""
        self._shown.pop(guest.peer.node, None)
        if guest.principal.secret_hash:
            self._shown[guest.peer.node] = guest.principal

    def without_credential(self) -> list[str]:
        """Return the peers whose credential is not among this node's any more, or allows something else now; each once."""
        gone = [name for name, principal in self._shown.items() if not self._credentials.holds(principal)]
        for name in gone:
            del self._shown[name]
        return gone
