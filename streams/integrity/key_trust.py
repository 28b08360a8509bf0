"""Owner of each key: by the registry, by a key that a person gives or, failing both, by what the node itself writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from streams.config.stream_definitions import TERMS
from streams.integrity.signing_keys import key_from_text, key_text
from streams.integrity.statements import Statement
from streams.log import LogReader
from streams.model.errors import Misuse
from streams.model.records import BODY

REGISTRY = "registry"
OWN_WORD = "the node's own word: nobody else vouches for its key"
IN_REGISTRY = "the registry of this copy"
TOLD_TO_CUSTOMER = "what headquarters sent this customer"
GIVEN = "the key that was given"
INTRODUCED = "the first key that it showed here in its own session"


@dataclass(frozen=True, slots=True)
class Trust:
    """Public keys by node, and their source: `source`, except for the nodes in `elsewhere`.

    Of a node that is not named, only its own claim is known.
    """

    keys: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    source: str = OWN_WORD
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: str) -> str:
        """Return the source of the keys of `node`."""
        return self.elsewhere.get(node, self.source) if node in self.keys else OWN_WORD

    def before(self, other: Trust) -> Trust:
        """Return these keys, and the keys in `other` of nodes that are not named here."""
        added = {node: other.of(node) for node in other.keys if node not in self.keys}
        return Trust({**other.keys, **self.keys}, self.source, {**self.elsewhere, **added})

    def problem(self, statement: Statement) -> str | None:
        """Return why the statement is not accepted; None when it is."""
        node = statement.origin.node
        if not statement.signed():
            return f"the signature of {statement} is not of that key"
        if node in self.keys and statement.key not in self.keys[node]:
            known = ", ".join(sorted(map(key_text, self.keys[node])))
            return f"{statement} is not signed with a key of {node}, which by {self.of(node)} are {known}"
        return None


NOBODY = Trust()
"""Trust without any keys."""


class _Keys(msgspec.Struct, frozen=True):
    keys: list[str] = []


class _NodeRecord(msgspec.Struct, frozen=True):
    value: _Keys
    version: int = 0


def pinned_in(streams: Collection[str]) -> list[str]:
    """Return those of a copy's streams that pin keys: the registry. A customer's copy has none; it uses what headquarters sent it."""
    return [REGISTRY] if REGISTRY in streams else [stream for stream in streams if stream.startswith(TERMS)]


def registry_trust(log: LogReader) -> Trust:
    """Return the keys that records `node/<name>` of this copy's registry pin: `{"keys": ["ed25519:…"]}`, the last version of each.

    For a customer's copy: the keys that headquarters sent it.

    Raises Misuse when one of the records does not read, so that no node counts as unpinned by mistake.
    """
    found: dict[str, _NodeRecord] = {}
    if not (pinned := pinned_in(log.streams())):
        return Trust()
    for node in {origin.node for stream in log.streams() for origin in log.ledger(stream)}:
        for batch in (batch for stream in pinned for batch in log.latest(stream, f"node/{node}")):
            record = _read(node, batch.records.column(BODY)[0].as_py())
            if node not in found or record.version >= found[node].version:
                found[node] = record
    keys = {node: frozenset(map(key_from_text, record.value.keys)) for node, record in found.items() if record.value.keys}
    return Trust(keys, IN_REGISTRY if pinned == [REGISTRY] else TOLD_TO_CUSTOMER)


def _read(node: str, body: str | None) -> _NodeRecord:
    try:
        return msgspec.json.decode(body or "", type=_NodeRecord)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise Misuse(
            f"the registry's record node/{node} does not read: {problem}",
            hint='its value is {"keys": ["ed25519:…"]}',
            code="keys_unreadable",
        ) from problem


def pinned_keys(log: LogReader, node: str) -> frozenset[bytes] | None:
    """Return the keys of `node` by the last version in this copy's registry; None when it names none. Raises Misuse when that does not
    read."""
    records = [_read(node, batch.records.column(BODY)[0].as_py()) for batch in log.latest(REGISTRY, f"node/{node}")]
    newest = max(records, key=lambda record: record.version, default=None)
    return None if newest is None or not newest.value.keys else frozenset(map(key_from_text, newest.value.keys))
