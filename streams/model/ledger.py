"""What a node knows of each (stream, origin): held, gone, below its floor; the rest is wanted."""

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
    """One (stream, origin) as one node knows it.

    `held`: offsets this copy has. `gone`: offsets that will never come, by reason, declared by the origin alone (or by HQ for a dead one);
    for another node's origin as reported to this copy: a record that comes all the same is held, and not gone.
    `floor`: this copy dropped everything below it. Held and gone never overlap.
    """

    held: RangeSet = field(default_factory=RangeSet)
    gone: dict[GoneReason, RangeSet] = field(default_factory=dict)
    floor: int = 0

    def settled(self) -> RangeSet:
        """Offsets nothing is to be fetched for: held, gone or below the floor."""
        settled = self.held.copy()
        for ranges in self.gone.values():
            settled.update(ranges)
        settled.add(0, self.floor)
        return settled

    def next_offset(self) -> int:
        """The offset up to which all is held, gone or below the floor."""
        return self.settled().run_from(0)

    def end(self) -> int:
        """One past the largest offset this copy has ever known."""
        return max(self.floor, self.held.end(), *(ranges.end() for ranges in self.gone.values()))

    def all_gone(self) -> RangeSet:
        """Offsets that will never come, for whatever reason."""
        gone = RangeSet()
        for ranges in self.gone.values():
            gone.update(ranges)
        return gone

    def wanted(self, offered: RangeSet) -> RangeSet:
        """What of `offered` this copy lacks."""
        return offered.without(self.settled())

    def takes(self, offered: RangeSet, own: bool) -> RangeSet:
        """What of `offered` is taken when it comes: what is neither held nor below the floor, and is not gone by the `own` node's word.

        Others may be wrong about what is gone, the record itself is not.
        """
        return offered.without(self.settled()) if own else offered.without(self.held).without([(0, self.floor)])

    def copy(self) -> OriginLedger:
        """An independent twin."""
        return OriginLedger(self.held.copy(), {reason: ranges.copy() for reason, ranges in self.gone.items()}, self.floor)


Ledger = Mapping[Origin, OriginLedger]


def position_of(ledger: Ledger) -> Position:
    """The Position of a copy with this ledger."""
    return Position({origin: one.next_offset() for origin, one in ledger.items()})
