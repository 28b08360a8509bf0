"""The terms sent to each customer's own node: how its stream is managed, whether it may have it, whose key signs it. Nothing of others.

Pure: the same entries, in whatever order they came, give the same terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import msgspec

from cargo.vocabulary.registry_entries import Entry, NodeKeys, Stream
from streams.config.definition_format import read_fields
from streams.config.roles import Peer
from streams.config.selectors import matches
from streams.config.stream_definitions import TYPE, Definition, Definitions, may_have, stream_of

HEADQUARTERS = "headquarters"
"""The author of the terms: the terms do not name a person at headquarters."""
WITHHELD = ("hq",)
"""The selectors that are sent for a customer's stream when the customer itself may not have it."""


class CustomersDesk:
    """Remembers what concerns customers' nodes. Feed it every registry entry."""

    def __init__(self, nodes: Collection[Peer], writers: Collection[str]) -> None:
        """`nodes`: the customers' nodes that are known here. `writers`: the nodes of headquarters, which write customers' streams."""
        self._nodes: dict[str, list[Peer]] = {}
        for node in nodes:
            self._nodes.setdefault(node.identity, []).append(node)
        self._writers = frozenset(writers)
        self._definitions = Definitions()
        self._set_at_ms: dict[str, int] = {}
        self._keys: dict[str, Entry] = {}

    def take(self, entry: Entry) -> None:
        """Learn of one entry. One that does not read changes nothing: every node that reads it in `registry` says so."""
        match entry.value:
            case Stream() as value:
                try:
                    taken = self._definitions.take(entry.id, entry.version, read_fields(entry.id, msgspec.to_builtins(value)))
                except ValueError:
                    return
                if taken:
                    self._set_at_ms[entry.id] = entry.at_ms
            case NodeKeys() if entry.id in self._writers and (entry.id not in self._keys or entry.version > self._keys[entry.id].version):
                self._keys[entry.id] = entry

    def entries_by_customer(self) -> Mapping[str, tuple[Entry, ...]]:
        """Return, per customer that has a node, all entries that its nodes must have as things stand."""
        return {customer: tuple(self._terms(customer)) for customer in sorted(self._nodes)}

    def _terms(self, customer: str) -> Iterator[Entry]:
        stream = stream_of(customer)
        definition = self._definitions.of(stream)
        meant = {name: version for name, version in self._definitions.versions().items() if fnmatchcase(stream, name)}
        # A sum of versions grows with each of them, in whatever order they come.
        version, at_ms = 1 + sum(meant.values()), max((self._set_at_ms[name] for name in meant), default=0)
        yield Entry(TYPE, stream, version, at_ms, HEADQUARTERS, self._stream_terms(customer, definition))
        for entry in sorted(self._keys.values(), key=lambda entry: entry.id):
            yield replace(entry, by=HEADQUARTERS)

    def _stream_terms(self, customer: str, definition: Definition) -> Stream:
        """Return the stream's terms for this customer. Of its selectors they hold only those that this customer's nodes match: others may
        name others."""
        nodes = self._nodes[customer]
        own = tuple(selector for selector in definition.replicate if any(matches(selector, node) for node in nodes))
        return Stream(
            retention={"age_days": definition.retention.age_days, "bytes": definition.retention.bytes},
            replicate=own if any(may_have(node, definition) for node in nodes) else WITHHELD,
            lane=definition.lane.name.lower(),
            patience_s=definition.patience_s,
        )
