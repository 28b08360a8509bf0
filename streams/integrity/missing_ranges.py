"""Offsets that a copy lacks of a stream: wanted, gone or below its floor, and between which times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason, OriginLedger
from streams.model.ranges import RangeSet
from streams.model.records import RECEIVED_AT

Lack = Literal["wanted", "below_floor"] | GoneReason


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `first .. end - 1` of `origin` that are not here, and why.

    Their origin received them between `since_at_ms` and `until_at_ms` (fleet time, UTC ms): the received times of the nearest records
    held before and after. None where there is no such record.
    """

    origin: Origin
    first: int
    end: int
    why: Lack
    since_at_ms: int | None = None
    until_at_ms: int | None = None

    @property
    def count(self) -> int:
        """Number of offsets."""
        return self.end - self.first


def lacks(origin: Origin, ledger: OriginLedger) -> list[Gap]:
    """Return the offsets that are not held by one ledger, by offset, without times.

    "Below the floor" takes precedence over "gone": below its floor a copy can not know any more.
    """
    found = [Gap(origin, 0, ledger.floor, "below_floor")] if ledger.floor else []
    for reason, ranges in ledger.gone.items():
        found += [Gap(origin, first, end, reason) for first, end in ranges.without([(0, ledger.floor)])]
    settled = ledger.settled()
    found += [Gap(origin, first, end, "wanted") for first, end in RangeSet([(0, settled.end())]).without(settled)]
    return sorted(found, key=lambda gap: gap.first)


def gaps(log: LogReader, stream: str) -> Iterator[Gap]:
    """Yield everything that this copy lacks of `stream` up to the last offset it knows, by origin and offset, with times.

    It can not know of missing offsets that no peer has named: `landfall log verify` reports up to which offset each origin signed. Raises
    what reading the log raises.
    """
    for origin, ledger in sorted(log.ledger(stream).items()):
        for gap in lacks(origin, ledger):
            yield timed(log, stream, gap, ledger.held)


def timed(log: LogReader, stream: str, gap: Gap, held: RangeSet) -> Gap:
    """Return the gap with its times, from the nearest records on either side of it among `held`. Raises what reading the log raises."""
    before, after = held.within(0, gap.first), held.within(gap.end, max(gap.end, held.end()))
    since = _received_at_ms(log, stream, gap.origin, before.end() - 1) if before else None
    until = _received_at_ms(log, stream, gap.origin, after.first()) if after else None
    return replace(gap, since_at_ms=since, until_at_ms=until)


def _received_at_ms(log: LogReader, stream: str, origin: Origin, offset: int) -> int | None:
    for batch in log.run(stream, origin, offset, offset + 1):
        at_ms: int = batch.records.column(RECEIVED_AT)[0].as_py()
        return at_ms
    return None
