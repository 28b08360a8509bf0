"""Results of the rules: entries for the streams `events` and `alerts`, with ids that are the same on any node that computes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MadeRecord:
    """One record to append: its topic, the fleet time it is of (UTC ms), and its body (docs/reference/streams-table.md)."""

    topic: str
    at_ms: int
    body: Mapping[str, Any]


@dataclass(slots=True)
class WatchOutcome:
    """Records that a step made, in the order of fleet time, and the number of readings it skipped: those of boxes it had no room to
    watch."""

    events: list[MadeRecord] = field(default_factory=list)
    alerts: list[MadeRecord] = field(default_factory=list)
    unwatched: int = 0

    def add(self, more: WatchOutcome) -> None:
        """Append the outcome of the next step."""
        self.events += more.events
        self.alerts += more.alerts
        self.unwatched += more.unwatched


def digest(*parts: object) -> str:
    """Return 32 hexadecimal digits that identify the parts: BLAKE2b over their texts."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class WatchPlace:
    """Place of a watch: the node's name, and the ship's IMO number or the port's UN/LOCODE."""

    node: str
    ship: str | None = None
    port: str | None = None

    @property
    def side(self) -> str:
        """Side that reports: the ship or the port, whichever of its nodes sends the report."""
        return self.ship or self.port or self.node

    @property
    def log_topic(self) -> str:
        """Topic of records that concern the whole ship or quay: `<imo>.log`, `<locode>.log`."""
        return f"{self.ship or self.port}.log"


def event(by: WatchPlace, topic: str, code: str, at_ms: int, /, **more: Any) -> MadeRecord:
    """Return an event that has happened (classifier ACT), as `by` reports it.

    Its id is a hash of ship or port, topic, code and time, so that two nodes of one ship that see the same event report the same record.

    `more` goes into the body as it is: a ship gives its port there as `place`, a quay the `ship`.
    """
    body = {
        "event_id": digest(by.side, topic, code, at_ms),
        "event": code,
        "classifier": "ACT",
        "event_at_ms": at_ms,
        "place": by.port,
        "ship": by.ship,
        "node": by.node,
    }
    return MadeRecord(topic, at_ms, {**body, **more})
