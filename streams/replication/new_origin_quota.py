"""Of how many (stream, origin)s of which nothing is here a peer may bring records, or say that they are gone: each stands on disk for good.

What a node brings itself, and what is here shown by its signature to be its own, counts for that node, whoever brings it: so who signs uses
up nobody's share but its own. All else counts for who brings it. Counted between two starts of this node; what is here already is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streams.config.companion_streams import HEADS, KEPT
from streams.config.roles import Role
from streams.integrity.signer import NEVER_SIGNED, is_signed
from streams.model.identifiers import Origin
from streams.replication.link_terms import Key

OWN_MAX = 1_000
"""Of a node's own, headquarters' apart: some 25 streams for each generation of its log."""
BROUGHT_MAX = 10_000
"""Of others', that nothing shows to be theirs: as much as one peer can make this node hold in their names."""
HQ_MAX = 100_000
"""Both for headquarters, which is believed in much else: as many as may be told of in a session."""


class Begun:
    """The shares of all peers of one node. Call it from the one thread that drives the sessions."""

    def __init__(self, roles: Mapping[str, Role], signed_end: Callable[[Key], int | None]) -> None:
        """`roles`, `signed_end`: as those of `Exchange`."""
        self._roles, self._signed_end = roles, signed_end
        self._signed: dict[Origin, set[str]] = {}
        self._own: dict[str, set[Key]] = {}
        self._brought: dict[str, dict[Origin, set[Key]]] = {}
        self._counts: dict[str, int] = {}

    def may_begin(self, node: str, key: Key) -> bool:
        """Whether `node` may bring of `key`, of which nothing is here; it counts from now on."""
        origin = key[1]
        if node == origin.node or self._vouched(key):
            own = self._own.setdefault(origin.node, set())
            if key not in own and len(own) < self._most(origin.node, OWN_MAX):
                own.add(key)
            return key in own
        brought = self._brought.setdefault(node, {}).get(origin, set())
        if key in brought:
            return True
        if self._counts.get(node, 0) >= self._most(node, BROUGHT_MAX):
            return False
        self._brought[node].setdefault(origin, set()).add(key)
        self._counts[node] = self._counts.get(node, 0) + 1
        return True

    def signed(self, heads: str, origin: Origin) -> None:
        """Statements of `origin`, in the stream `heads`, are here: what they show to be its own counts for nobody else any more."""
        self._signed.setdefault(origin, set()).add(heads.removesuffix(HEADS))
        for node, of_node in self._brought.items():
            brought = of_node.get(origin, set())
            shown = {key for key in brought if self._vouched(key)}
            brought -= shown
            self._counts[node] = self._counts.get(node, 0) - len(shown)

    def _most(self, node: str, others: int) -> int:
        return HQ_MAX if self._roles.get(node) == "hq" else others

    def _vouched(self, key: Key) -> bool:
        """Whether a signature of a known key shows that its origin has this: of the stream itself, or, of what is never signed, of any."""
        stream, origin = key[0].removesuffix(HEADS), key[1]
        if is_signed(stream):
            return bool(self._signed_end((stream, origin)))
        return stream.removesuffix(KEPT) in NEVER_SIGNED and any(self._signed_end((one, origin)) for one in self._signed.get(origin, ()))
