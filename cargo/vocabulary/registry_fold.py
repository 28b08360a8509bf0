"""The registry as a fold: the latest version of each thing, and queries for a box's owner, the boxes aboard, and permissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from cargo.vocabulary.registry_entries import (
    ENTRY_TYPES,
    OWNERS,
    BookedContainer,
    Booking,
    Custody,
    Customer,
    Entry,
    LoadList,
    NoticeStage,
    Policy,
    Port,
    Ship,
    Story,
)

T = TypeVar("T", Customer, Booking, LoadList, Custody, Ship, Port, Policy, Story)


class Registry:
    """Latest version per (type, id).

    Entries may come in any order and more than once: the highest version wins, then the latest `at_ms`."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self._booked: dict[str, dict[str, list[BookedContainer]]] = {}
        self._listed: dict[str, dict[str, LoadList]] = {}
        for entry in entries:
            self.learn(entry)

    def learn(self, entry: Entry) -> bool:
        """Apply one version and return whether it is now the latest one of its thing."""
        known = self._entries.get(entry.topic)
        if known is not None and _rank(entry) <= _rank(known):
            return False
        if known is not None and isinstance(known.value, Booking):
            for box in known.value.containers:
                self._booked[box.container].pop(known.id, None)
        if known is not None and isinstance(known.value, LoadList):
            self._listed[known.value.ship].pop(known.id, None)
        self._entries[entry.topic] = entry
        if isinstance(entry.value, LoadList):
            self._listed.setdefault(entry.value.ship, {})[entry.id] = entry.value
        if isinstance(entry.value, Booking):
            for box in entry.value.containers:
                self._booked.setdefault(box.container, {}).setdefault(entry.id, []).append(box)
        return True

    def entries(self) -> list[Entry]:
        """Return all latest entries, by topic."""
        return [self._entries[topic] for topic in sorted(self._entries)]

    def get(self, kind: type[T], id_: str) -> T | None:
        """Return the thing of this type and id, or None."""
        entry = self._entries.get(f"{_NAMES[kind]}/{id_}")
        return entry.value if entry is not None and isinstance(entry.value, kind) else None

    def all(self, kind: type[T]) -> dict[str, T]:
        """Return every thing of this type, by id."""
        found = {entry.id: entry.value for entry in self.entries() if entry.type == _NAMES[kind]}
        return {id_: value for id_, value in found.items() if isinstance(value, kind)}

    def bookings_of(self, container: str, at_ms: int) -> list[Booking]:
        """Return the bookings whose span of this container covers the instant, by id. Usually one or none."""
        found = []
        for id_, spans in sorted(self._booked.get(container, {}).items()):
            booking = self.get(Booking, id_)
            if booking is not None and any(span.covers(at_ms) for span in spans):
                found.append(booking)
        return found

    def may_see(self, customer: str, container: str, at_ms: int) -> bool:
        """Return whether the customer may see the container's data of this instant: it ships it under a booking whose span covers the
        instant.

        Default deny: an unknown customer, container or time gives False. Consignees and ports have coarser views of their own, not this
        one."""
        return any(booking.shipper == customer for booking in self.bookings_of(container, at_ms))

    def spans_of(self, customer: str) -> list[BookedContainer]:
        """Return every box and span the customer may see, by container and begin: `may_see` as a table, for joins."""
        spans = [box for booking in self.all(Booking).values() if booking.shipper == customer for box in booking.containers]
        return sorted(spans, key=lambda box: (box.container, box.from_at_ms))

    @property
    def notice_stage(self) -> NoticeStage:
        """Policy of the carrier; `drafted` where the registry has none."""
        policy = self.get(Policy, OWNERS)
        return policy.told_from if policy is not None else "drafted"

    def load_lists(self, ship: str) -> list[LoadList]:
        """Return the ship's load lists, in order of its calls."""
        return sorted(self._listed.get(ship, {}).values(), key=lambda listed: (listed.call, listed.id))

    def load_list_at(self, ship: str, at_ms: int) -> LoadList | None:
        """Return the list of the last call the ship was due to leave by then, or None before its first."""
        left = [listed for listed in self.load_lists(ship) if listed.departs_at_ms <= at_ms]
        return left[-1] if left else None

    def carries(self, ship: str, container: str, at_ms: int) -> bool:
        """Return whether the ship has the box at that time (UTC ms), by the custody of the box or by a load list of the ship.

        The load list is that of the call it left last or leaves next. It does not count if the custody of the box went elsewhere since that
        departure."""
        custody, lists = self.get(Custody, container), self.load_lists(ship)
        if custody is not None and custody.at == f"ship/{ship}":
            return True
        coming = (listed for listed in lists if listed.departs_at_ms > at_ms)
        for listed in (self.load_list_at(ship, at_ms), next(coming, None)):
            if listed is not None and any(box.container == container for box in listed.aboard):
                return custody is None or custody.since_at_ms <= listed.departs_at_ms
        return False

    def calls_at(self, port: str) -> list[LoadList]:
        """Return every load list of this port, in order of departure."""
        calls = [listed for listed in self.all(LoadList).values() if listed.port == port]
        return sorted(calls, key=lambda listed: (listed.departs_at_ms, listed.id))


_NAMES: dict[type[msgspec.Struct], str] = {kind: name for name, kind in ENTRY_TYPES.items()}


def _rank(entry: Entry) -> tuple[int, int, bytes]:
    return entry.version, entry.at_ms, msgspec.json.encode(entry)
