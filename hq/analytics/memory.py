"""What the driver knows from micro-batches before the one at hand, built again from the history after every start and every failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.dataset as ds

from cargo.vocabulary.registry_entries import Entry
from hq.analytics.bookings import BookingRights
from hq.analytics.fleet import FleetWatch
from hq.analytics.overview import REGISTRY, read_entries
from hq.delta_tables import HISTORY
from streams.model.records import BODY


@dataclass(frozen=True, slots=True)
class Memory:
    """Customers' rights, and what the fleet's rules remember."""

    rights: BookingRights
    watch: FleetWatch


def remembered(root: str, places: Mapping[str, str], before: int) -> Memory:
    """The memory as all micro-batches before number `before` left it. `places` as in the settings."""
    rights, watch = BookingRights(), FleetWatch(places)
    told = _entries(root, before)
    for batch, entries in sorted(told.items()):
        rights.learn(entries, batch)
    watch.remember(root, before, [entry for entries in told.values() for entry in entries])
    return Memory(rights, watch)


def _entries(root: str, before: int) -> dict[int, list[Entry]]:
    """The registry's entries by the micro-batch that brought them."""
    history = HISTORY.dataset(root)
    told: dict[int, list[Entry]] = {}
    if history is not None:
        wanted = (ds.field("stream") == REGISTRY) & (ds.field("batch") < before)
        for row in history.to_table(columns=["batch", BODY], filter=wanted).to_pylist():
            told.setdefault(row["batch"], []).extend(read_entries([row[BODY]])[0])
    return told
