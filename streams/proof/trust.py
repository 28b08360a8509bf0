"""Whose key is whose: as the registry says, as a person was told, or, failing both, as the node itself writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.log import LogReader
from streams.proof.keys import key_from_text, key_text
from streams.proof.statements import Statement
from streams.records import BODY

REGISTRY = "registry"
OWN_WORD = "the node's own word: nobody else vouches for its key"
IN_REGISTRY = "the registry of this copy"
GIVEN = "the key that was given"


@dataclass(frozen=True, slots=True)
class Trust:
    """Public keys by node, and where they are from. Of a node that is not named, only its own word is known."""

    keys: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    source: str = OWN_WORD

    def of(self, node: str) -> str:
        """Where the keys of `node` are from."""
        return self.source if node in self.keys else OWN_WORD

    def problem(self, statement: Statement) -> str | None:
        """Why the statement is not to be believed; None when it is."""
        node = statement.origin.node
        if not statement.signed():
            return f"the signature of {statement} is not of that key"
        if node in self.keys and statement.key not in self.keys[node]:
            known = ", ".join(sorted(map(key_text, self.keys[node])))
            return f"{statement} is not signed with a key of {node}, which by {self.source} are {known}"
        return None


def registry_trust(log: LogReader) -> Trust:
    """The keys that records `node/<name>` of this copy's registry pin: `{"keys": ["ed25519:…"]}`, the last version of each.

    Raises Misuse when one of them is no key.
    """
    found: dict[str, tuple[int, frozenset[bytes]]] = {}
    if REGISTRY not in log.streams():
        return Trust()
    nodes = {origin.node for stream in log.streams() for origin in log.ledger(stream)}
    for node in nodes:
        for batch in log.latest(REGISTRY, f"node/{node}"):
            body = json.loads(batch.records.column(BODY)[0].as_py() or "{}")
            keys = frozenset(key_from_text(text) for text in (body.get("value") or {}).get("keys", ()))
            if keys and int(body.get("version", 0)) >= found.get(node, (0, keys))[0]:
                found[node] = (int(body.get("version", 0)), keys)
    return Trust({node: keys for node, (_, keys) in found.items()}, IN_REGISTRY)
