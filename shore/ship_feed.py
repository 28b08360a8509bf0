"""What each ship is sent: the registry's entries that its crew needs, and no other ship's customers.

A ship is sent its own entry, its own load lists, every port, what is asked of each size and type of container, the bookings of boxes on its
latest list, cut down to those boxes, how the streams are managed that it writes or may have, and which ports' nodes, and nodes of its own,
are withdrawn. Pure: the same entries in the same order give the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import msgspec

from cargo.vocabulary.registry_entries import Booking, Entry, LoadList, NodeKeys, Port, Ship, SizeType, Stream
from streams.config.definition_format import read_fields
from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, may_have, may_originate

ShipEntry = tuple[str, Entry]
"""The IMO number of the receiving ship, and the entry for it."""


class ShipsDesk:
    """Remembers what concerns which ship. Feed it every registry entry, in the registry's order."""

    def __init__(self, nodes: Collection[Peer] = ()) -> None:
        """`nodes`: those that are known here, of which a ship may hear that they are withdrawn."""
        self._nodes = {node.node: node for node in nodes}
        self._withdrawn: dict[str, Entry] = {}
        self._latest: dict[str, LoadList | None] = {}
        self._bookings: dict[str, Entry] = {}
        self._common: dict[str, Entry] = {}
        self._streams: dict[str, Entry] = {}
        self._sent: dict[tuple[str, str], object] = {}

    def take(self, entry: Entry) -> Iterator[ShipEntry]:
        """Yield what must be sent because of this entry. What a ship received before is sent again only when it changed."""
        match entry.value:
            case Ship(imo=imo):
                yield from self._meet(imo)
                yield from self._entry_if_changed(imo, entry)
            case Port() | SizeType():
                self._common[entry.topic] = entry
                for imo in sorted(self._latest):
                    yield from self._entry_if_changed(imo, entry)
            case Stream():
                self._streams[entry.id] = entry
                for imo in sorted(self._latest):
                    yield from self._stream_entry(imo, entry)
            case NodeKeys(withdrawn=withdrawn) if entry.id in self._nodes and (withdrawn is True or entry.id in self._withdrawn):
                bare_entry = replace(entry, value=NodeKeys(withdrawn=withdrawn is True))
                self._withdrawn[entry.id] = bare_entry
                for imo in sorted(self._latest):
                    yield from self._node_entry(imo, bare_entry)
            case LoadList() as listed:
                yield from self._list(listed, entry)
            case Booking():
                self._bookings[entry.id] = entry
                for imo in sorted(self._latest):
                    yield from self._booking_entry(imo, entry)

    def _list(self, listed: LoadList, entry: Entry) -> Iterator[ShipEntry]:
        yield from self._meet(listed.ship)
        yield from self._entry_if_changed(listed.ship, entry)
        before = self._latest[listed.ship]
        if before is None or listed.call >= before.call:
            self._latest[listed.ship] = listed
            for booking in self._bookings.values():
                yield from self._booking_entry(listed.ship, booking)

    def _meet(self, imo: str) -> Iterator[ShipEntry]:
        if imo not in self._latest:
            self._latest[imo] = None
            for common in self._common.values():
                yield from self._entry_if_changed(imo, common)
            for stream in self._streams.values():
                yield from self._stream_entry(imo, stream)
            for node in self._withdrawn.values():
                yield from self._node_entry(imo, node)

    def _node_entry(self, imo: str, entry: Entry) -> Iterator[ShipEntry]:
        """Yield the node's entry without its keys; nothing of a customer's node, nor another ship's."""
        node = self._nodes[entry.id]
        if node.role == "port" or (node.role, node.identity) == ("ship", imo):
            yield from self._entry_if_changed(imo, entry)

    def _booking_entry(self, imo: str, entry: Entry) -> Iterator[ShipEntry]:
        listed, booking = self._latest[imo], entry.value
        if listed is None or not isinstance(booking, Booking):
            return
        aboard = {box.container for box in listed.aboard}
        boxes = tuple(box for box in booking.containers if box.container in aboard)
        if boxes:
            yield from self._entry_if_changed(imo, replace(entry, value=msgspec.structs.replace(booking, containers=boxes)))

    def _stream_entry(self, imo: str, entry: Entry) -> Iterator[ShipEntry]:
        """Yield the stream's entry, also when the ship may not have it any more: it knows it from before."""
        definitions = Definitions()
        try:
            definitions.take(entry.id, entry.version, read_fields(entry.id, msgspec.to_builtins(entry.value)))
        except ValueError:
            return  # of another version of this program: every node that reads it in `registry` says so
        definition, ship = definitions.of(entry.id), Peer(f"ship-{imo}", "ship", imo)
        if may_have(ship, definition) or may_originate(definition, ship.role, ship.node) or (imo, entry.topic) in self._sent:
            yield from self._entry_if_changed(imo, entry)

    def _entry_if_changed(self, imo: str, entry: Entry) -> Iterator[ShipEntry]:
        if self._sent.get((imo, entry.topic)) != entry.value:
            self._sent[imo, entry.topic] = entry.value
            yield imo, entry
