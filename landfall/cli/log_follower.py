"""The follower of a stream as it grows: it shows each record once, and reports each hole that is in the way once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from landfall.cli.number_format import utc
from landfall.cli.record_output import table_of
from landfall.cli.table_output import Tables
from landfall.cli.unreadable_records import NEWER, unread_of, unread_words
from streams.integrity.missing_ranges import Gap, lacks, timed
from streams.log import LogReader
from streams.model.clock import Clock
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger, OriginLedger
from streams.model.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class NewRecords:
    """The news since the last look: `tables` of records not shown yet, and the messages on holes: which are filled by them, or will never
    be, and before which it waits now. It also reports what came and can not be read here.
    """

    ended: list[str]
    tables: Tables
    found: list[str]


@dataclass(slots=True)
class _Line:
    """One origin: the offsets that are dealt with, and the reported holes that are not filled yet."""

    shown: RangeSet = field(default_factory=RangeSet)
    holes: list[Gap] = field(default_factory=list)


class LogFollower:
    """The follower of `stream` of `log` from where it stands now, as `ledger` has it: what is held already is not shown.

    Records are shown in offset order within each origin, up to its first hole. With `past_holes` they are also shown beyond it, and records
    of a hole that come later are shown then. Offsets that are gone or below the floor are no holes. Offsets that this version can not read
    are no holes either: they are reported and passed over. `clock` gives the time since which a hole is waited for. Only one look at a
    time.
    """

    def __init__(self, log: LogReader, stream: str, clock: Clock, *, past_holes: bool = False) -> None:
        self._log, self._stream, self._clock, self._past_holes = log, stream, clock, past_holes
        self.ledger = log.ledger(stream)
        self._lines = {origin: _Line(one.held.copy()) for origin, one in self.ledger.items()}

    def look(self) -> NewRecords:
        """Return what is new. It counts as shown from now on. Raises what reading the log raises."""
        ledger: Ledger = self._log.ledger(self._stream)
        new: dict[Origin, RangeSet] = {}
        ended: list[str] = []
        found: list[str] = []
        for origin, origin_ledger in sorted(ledger.items()):
            line = self._lines.setdefault(origin, _Line())
            reached = origin_ledger.held if self._past_holes else origin_ledger.held.within(0, origin_ledger.next_offset())
            fresh = reached.without(line.shown)
            line.shown.update(fresh)
            unread = unread_of(self._log, self._stream, origin, fresh.first()).common(fresh) if fresh else fresh
            new[origin] = fresh.without(unread)
            found += [f"{words}: {NEWER}" for words in unread_words(self._stream, origin, unread)]
            ended += self._ended(line, origin_ledger)
            found += self._new_holes(line, origin, origin_ledger)
        return NewRecords(ended, lambda: self._rows(new), found)

    def _rows(self, new: dict[Origin, RangeSet]) -> Iterator[pa.Table]:
        for origin, ranges in new.items():
            for first, end in ranges:
                for batch in self._log.run(self._stream, origin, first, end):
                    yield table_of(batch)

    def _new_holes(self, line: _Line, origin: Origin, ledger: OriginLedger) -> Iterator[str]:
        """Yield the holes in the way that were not reported yet: with `past_holes` all there are, else the one the origin stands before."""
        wanted = [gap for gap in lacks(origin, ledger) if gap.why == "wanted"]
        for gap in wanted if self._past_holes else wanted[:1]:
            if any(hole.first <= gap.first and gap.end <= hole.end for hole in line.holes):
                continue  # what is left of one
            line.holes.append(gap)
            what = "passed over: shown when it comes" if self._past_holes else f"waiting since {utc(self._clock.now_ms())}"
            yield f"{self._place(gap)} {'is' if gap.count == 1 else 'are'} not here yet ({self._amount(gap, ledger)}); {what}"

    def _ended(self, line: _Line, ledger: OriginLedger) -> Iterator[str]:
        """Yield a message on each hole that wants nothing any more."""
        for gap in [gap for gap in line.holes if not ledger.wanted(RangeSet([(gap.first, gap.end)]))]:
            line.holes.remove(gap)
            lost = gap.count - ledger.held.within(gap.first, gap.end).count()
            what = f"{lost:,} will not come: thinned, expired, lost or below the floor here" if lost else "here now"
            yield f"{self._place(gap)}: {what}" + ("" if self._past_holes else "; going on")

    def _place(self, gap: Gap) -> str:
        offsets = f"offset {gap.first:,}" if gap.count == 1 else f"offsets {gap.first:,} to {gap.end - 1:,}"
        return f"{self._stream}:{gap.origin} {offsets}"

    def _amount(self, gap: Gap, ledger: OriginLedger) -> str:
        gap = timed(self._log, self._stream, gap, ledger.held)
        amount = [] if gap.count == 1 else [f"{gap.count:,} records"]
        bounds = (("after", gap.since_at_ms), ("before", gap.until_at_ms))
        times = [f"{word} {utc(at_ms)}" for word, at_ms in bounds if at_ms is not None]
        return ", ".join([*amount, *([f"received there {' and '.join(times)}"] if times else [])])
