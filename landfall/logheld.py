"""A stream as one copy holds it at one moment: the rows that commands write out, and what they leave out behind a hole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from landfall.logshowing import table_of
from streams.ledger import Ledger, position_of
from streams.log import LogReader
from streams.logs.tables import merged
from streams.records import OFFSET, TOPIC, Batch
from streams.words import Position


@dataclass(frozen=True, slots=True)
class Held:
    """Stream `stream` of `log`, as `ledger` says. `past_holes`: all that is held; else up to each origin's first hole."""

    log: LogReader
    stream: str
    ledger: Ledger
    past_holes: bool = False

    @classmethod
    def now(cls, log: LogReader, stream: str, *, past_holes: bool = False) -> Held:
        """As this copy stands now."""
        return cls(log, stream, log.ledger(stream), past_holes)

    def rows(self, topics: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same rows each time, however the log grows meanwhile, in offset order within each origin; only of `topics`, if given.

        Where there is none, its columns.
        """
        yield merged([])
        for batch in self._all() if self.past_holes else self._up_to_holes(topics):
            table = table_of(batch)
            yield table if topics is None else table.filter(pc.is_in(table.column(TOPIC), pa.array(topics, pa.string())))

    def count(self) -> int:
        """How many rows that is, of all topics."""
        return sum(one.held.within(0, one.held.end() if self.past_holes else one.next_offset()).count() for one in self.ledger.values())

    def left_out(self) -> list[str]:
        """A sentence for each origin of which something is held behind a hole: that it was left out, or which hole was passed over."""
        sentences = []
        for origin, one in sorted(self.ledger.items()):
            hole, end = one.next_offset(), one.held.end()
            lacking = end - hole - one.settled().within(hole, end).count() if hole < end else 0
            behind = one.held.within(hole, end).count() if lacking else 0
            place = f"{self.stream}:{origin}"
            if lacking and self.past_holes:
                sentences.append(f"{place}: {lacking:,} offsets from {hole:,} on are not held here and were passed over")
            elif lacking:
                sentences.append(f"{place}: ends before offset {hole:,}, which is not held here; {behind:,} records behind it are")
        return sentences

    def _up_to_holes(self, topics: Sequence[str] | None) -> Iterator[Batch]:
        end = position_of(self.ledger)
        for batch in self.log.read(self.stream, Position({origin: one.floor for origin, one in self.ledger.items()}), topics):
            records = batch.records
            yield Batch(batch.stream, batch.origin, records.filter(pc.less(records.column(OFFSET), end[batch.origin])))

    def _all(self) -> Iterator[Batch]:
        for origin, one in sorted(self.ledger.items()):
            for first, end in one.held:
                yield from self.log.run(self.stream, origin, first, end)
