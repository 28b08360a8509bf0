"""Ledger of a node: for each (stream, origin), the offsets that are held, gone or below the floor. All other offsets are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet

GoneReason = Literal["thinned", "expired", "lost"]
GONE_REASONS: tuple[GoneReason, ...] = get_args(GoneReason)


@dataclass(slots=True)
class OriginLedger:
    """State of one (stream, origin) as one node knows it.

    `held` are the offsets in this copy. `gone` are the offsets that will never come, by reason. Only the origin declares offsets gone, or
    HQ for a dead origin. For another node's origin, `gone` is what was reported to this copy: a record that still comes is held, and is not
    gone. `floor`: this copy dropped everything below it. Held and gone never overlap.
    """

    held: RangeSet = field(default_factory=RangeSet)
    gone: dict[GoneReason, RangeSet] = field(default_factory=dict)
    floor: int = 0

    def settled(self) -> RangeSet:
        """Return the offsets that need not be fetched: held, gone or below the floor."""
        settled = self.held.copy()
        for ranges in self.gone.values():
            settled.update(ranges)
        settled.add(0, self.floor)
        return settled

    def next_offset(self) -> int:
        """Return the first offset that is not held, gone or below the floor."""
        return self.settled().run_from(0)

    def end(self) -> int:
        """Return the largest offset that this copy has ever known, plus one."""
        return max(self.floor, self.held.end(), *(ranges.end() for ranges in self.gone.values()))

    def all_gone(self) -> RangeSet:
        """Return the offsets that will never come, for any reason."""
        gone = RangeSet()
        for ranges in self.gone.values():
            gone.update(ranges)
        return gone

    def wanted(self, offered: RangeSet) -> RangeSet:
        """Return the offsets of `offered` that this copy lacks."""
        return offered.without(self.settled())

    def takes(self, offered: RangeSet, own: bool) -> RangeSet:
        """Return the offsets of `offered` that are accepted when they come: not held, not below the floor, and, at the node's `own` origin,
        not gone.

        Another node's report that an offset is gone may be wrong. The record itself is the proof.
        """
        return offered.without(self.settled()) if own else offered.without(self.held).without([(0, self.floor)])

    def copy(self) -> OriginLedger:
        """Return an independent copy."""
        return OriginLedger(self.held.copy(), {reason: ranges.copy() for reason, ranges in self.gone.items()}, self.floor)


Ledger = Mapping[Origin, OriginLedger]


def position_of(ledger: Ledger) -> Position:
    """Return the Position of a copy with this ledger."""
    return Position({origin: one.next_offset() for origin, one in ledger.items()})
