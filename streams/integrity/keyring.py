"""Keys whose statements a node accepts while it runs: its own, those it was given, those that its registry pins, and those it was shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from streams.config.companion_streams import HEADS
from streams.integrity.key_trust import IN_REGISTRY, NOBODY, REGISTRY, Trust, pinned_keys
from streams.integrity.statements import Statement
from streams.log import Log, LogReader
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Position
from streams.model.records import BODY

NODES_MAX = 65_536
"""Maximum number of nodes whose pinned keys are remembered: peers may name nodes that never existed."""


def own_keys(log: Log, key: bytes) -> frozenset[bytes]:
    """Return the key that this node signs with, and those it last signed with under each of its origins: a restored log may have another
    key."""
    found = {key}
    for heads in (stream for stream in log.streams() if stream.endswith(HEADS)):
        stream = heads.removesuffix(HEADS)
        for batch in log.latest(heads, stream, [log.node]):
            if log.own_end(heads, batch.origin):
                with suppress(Corrupt):
                    found.add(Statement.from_body(stream, batch.origin, batch.records.column(BODY)[0].as_py() or "").key)
    return frozenset(found)


class Keyring:
    """Known keys of each node, looked up again when the registry changes. Safe from any thread.

    A key that was given takes precedence over the registry's: an attacker who could forge the registry could pin any key in it. A node's
    own keys are its present and former ones, and those that the registry adds. The keys that a node has shown itself, `introduced`, count
    where there is no other source.
    """

    def __init__(
        self, log: LogReader, node: str, own: frozenset[bytes], given: Trust, introduced: Callable[[], Trust] = lambda: NOBODY
    ) -> None:
        self._log, self._node, self._own, self._given, self._introduced = log, node, own, given, introduced
        self._pinned: tuple[Position, dict[str, frozenset[bytes] | None]] = (Position(), {})

    def of(self, node: str) -> Trust:
        """Return what is known of `node`; without keys when nothing is. Raises what reading the log raises.

        While the registry's record of a node does not read, no key counts as that node's.
        """
        if node in self._given.keys:
            return self._given
        pinned = self._in_registry(node)
        if node == self._node:
            return Trust({node: self._own | (pinned or frozenset())}, "this node itself")
        if pinned is not None:
            return Trust({node: pinned}, IN_REGISTRY)
        introduced = self._introduced()
        return introduced if node in introduced.keys else NOBODY

    def _in_registry(self, node: str) -> frozenset[bytes] | None:
        at = self._log.position(REGISTRY)
        if self._pinned[0] != at:
            self._pinned = (at, {})
        known = self._pinned[1]
        if node not in known:
            if len(known) >= NODES_MAX:
                known.clear()
            try:
                known[node] = pinned_keys(self._log, node)
            except Misuse:
                known[node] = frozenset()
        return known[node]
