"""Bookings as customers' rights over time: which spans of which boxes each customer could see at each micro-batch; and from when on owners
are told of a probable loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cargo.vocabulary.registry_entries import Booking, Entry, NoticeStage, Policy

OPEN_MS = (1 << 63) - 1
"""The end of a span that has none yet."""


@dataclass(frozen=True, slots=True, order=True)
class BookingRight:
    """One customer's right to one box: from `from_at_ms` until before `until_at_ms`, known from micro-batch `since` until before
    `ended`."""

    customer: str
    container: str
    from_at_ms: int
    until_at_ms: int
    since: int
    ended: int | None = None


class BookingRights:
    """Every right there is or ever was, so that what a customer has already been given can be told from what a new version adds.

    Entries are learned micro-batch by micro-batch; the highest version of a booking, or of the carrier's policy, counts, then the latest.
    """

    def __init__(self) -> None:
        self._current: dict[str, list[BookingRight]] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        self._past: list[BookingRight] = []
        self._policy: Entry | None = None

    def learn(self, entries: Iterable[Entry], batch: int) -> list[BookingRight]:
        """The rights that `entries` of micro-batch `batch` add; what a newer version no longer has ends with it."""
        latest: dict[str, Entry] = {}
        for entry in entries:
            if isinstance(entry.value, Policy) and _version(entry) > _version(self._policy):
                self._policy = entry
            if isinstance(entry.value, Booking) and _version(entry) > max(
                self._versions.get(entry.id, (-1, -1)), _version(latest.get(entry.id))
            ):
                latest[entry.id] = entry
        added: list[BookingRight] = []
        for booking, entry in sorted(latest.items()):
            added += self._replace(booking, entry, batch)
        return added

    @property
    def told_from(self) -> NoticeStage:
        """From when on owners are told of a probable loss, by the policy learned last; `drafted` where the carrier has none."""
        value = self._policy.value if self._policy is not None else None
        return value.told_from if isinstance(value, Policy) else "drafted"

    def current(self) -> list[BookingRight]:
        """The rights as they stand, by customer and box."""
        return sorted(right for rights in self._current.values() for right in rights)

    def past(self, containers: Iterable[str], before: int) -> list[BookingRight]:
        """All rights to these boxes that held in any micro-batch before number `before`."""
        wanted = set(containers)
        held = [*self._past, *(right for rights in self._current.values() for right in rights)]
        return sorted(right for right in held if right.container in wanted and right.since < before)

    def _replace(self, booking: str, entry: Entry, batch: int) -> list[BookingRight]:
        assert isinstance(entry.value, Booking)
        self._versions[booking] = _version(entry)
        shipper = entry.value.shipper
        wanted = {
            (shipper, box.container, box.from_at_ms, OPEN_MS if box.until_at_ms is None else box.until_at_ms)
            for box in entry.value.containers
        }
        kept, added = [], []
        for right in self._current.get(booking, []):
            span = (right.customer, right.container, right.from_at_ms, right.until_at_ms)
            if span in wanted:
                kept.append(right)
                wanted.discard(span)
            elif right.since < batch:
                self._past.append(BookingRight(*span, since=right.since, ended=batch))
        added = [BookingRight(*span, since=batch) for span in sorted(wanted)]
        self._current[booking] = kept + added
        return added


def _version(entry: Entry | None) -> tuple[int, int]:
    return (-1, -1) if entry is None else (entry.version, entry.at_ms)
