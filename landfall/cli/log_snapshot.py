"""A stream as one copy holds it at one moment: the rows that commands write out, and the rows behind a hole that they leave out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from landfall.cli.number_format import there_are
from landfall.cli.record_output import table_of
from landfall.cli.unreadable_records import unread_of, unread_words
from landfall.storage.row_tables import merged
from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger
from streams.model.ranges import RangeSet
from streams.model.records import TOPIC


@dataclass(frozen=True, slots=True)
class Held:
    """The held rows of stream `stream` of `log`, by `ledger`: of each origin the offsets `rows_of`, and `unread_of` that this version can
    not read.

    `past_holes`: all that is held; else up to each origin's first hole.
    """

    log: LogReader
    stream: str
    ledger: Ledger
    past_holes: bool
    rows_of: Mapping[Origin, RangeSet]
    unread_of: Mapping[Origin, RangeSet]

    @classmethod
    def now(cls, log: LogReader, stream: str, *, past_holes: bool = False) -> Held:
        """Return the stream as this copy has it now."""
        ledger = log.ledger(stream)
        reached = {origin: one.held if past_holes else one.held.within(0, one.next_offset()) for origin, one in sorted(ledger.items())}
        unread = {origin: unread_of(log, stream, origin).common(held) for origin, held in reached.items()}
        read = {origin: held.without(unread[origin]) for origin, held in reached.items()}
        return cls(log, stream, ledger, past_holes, read, unread)

    def rows(self, topics: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the same rows each time, however the log grows meanwhile, in offset order within each origin; only of `topics`, if given.

        Without any row, yield the columns.
        """
        yield merged([])
        for origin, ranges in self.rows_of.items():
            for first, end in ranges:
                for batch in self.log.run(self.stream, origin, first, end):
                    table = table_of(batch)
                    yield table if topics is None else table.filter(pc.is_in(table.column(TOPIC), pa.array(topics, pa.string())))

    def count(self) -> int:
        """Return the number of rows, of all topics."""
        return sum(ranges.count() for ranges in self.rows_of.values())

    def unread(self) -> list[str]:
        """Return a sentence for each range that is left out because it can not be read here."""
        return [words for origin, ranges in self.unread_of.items() for words in unread_words(self.stream, origin, ranges)]

    def left_out(self) -> list[str]:
        """Return a sentence for each origin that holds something behind a hole: that it was left out, or which hole was passed over."""
        sentences = []
        for origin, one in sorted(self.ledger.items()):
            hole, end = one.next_offset(), one.held.end()
            lacking = end - hole - one.settled().within(hole, end).count() if hole < end else 0
            behind = one.held.within(hole, end).count() if lacking else 0
            place = f"{self.stream}:{origin}"
            if lacking and self.past_holes:
                sentences.append(f"{place}: {there_are(lacking, 'offset', f'from {hole:,} on')} not held here, and passed over")
            elif lacking:
                rest = there_are(behind, "record", "behind it")
                sentences.append(f"{place}: ends before offset {hole:,}, which is not held here; {rest}")
        return sentences
