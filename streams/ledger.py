"""What a node knows of each (stream, origin): held, gone, below its floor; the rest is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from streams.ranges import RangeSet
from streams.words import Origin, Position

GoneReason = Literal["thinned", "expired", "lost"]
GONE_REASONS: tuple[GoneReason, ...] = get_args(GoneReason)


@dataclass(slots=True)
class OriginLedger:
    """One (stream, origin) as one node knows it.

    `held`: offsets this copy has. `gone`: offsets that will never come, by reason, declared by the origin alone (or by HQ for a dead one).
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
        """One past the largest offset this copy has ever heard of."""
        return self.settled().end()

    def wanted(self, offered: RangeSet) -> RangeSet:
        """What of `offered` this copy lacks."""
        return offered.without(self.settled())

    def copy(self) -> OriginLedger:
        """An independent twin."""
        return OriginLedger(self.held.copy(), {reason: ranges.copy() for reason, ranges in self.gone.items()}, self.floor)


Ledger = Mapping[Origin, OriginLedger]


def position_of(ledger: Ledger) -> Position:
    """The Position of a copy with this ledger."""
    return Position({origin: one.next_offset() for origin, one in ledger.items()})
