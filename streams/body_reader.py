"""Incremental reader of the bodies of a small stream's records, for components that keep a fold of all of them in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from streams.log import LogReader
from streams.model.identifiers import Coordinates, Origin
from streams.model.ranges import RangeSet
from streams.model.records import BODY, OFFSET, TOPIC, read_body

Unread = Callable[[Coordinates, ValueError], None]


class Bodies:
    """Reader of the new records in one stream of `log`. Records of a hole that was filled since are new too.

    Not for several threads at once.
    """

    def __init__(self, log: LogReader, stream: str, own: Collection[str] | None = None, unread: Unread = lambda at, problem: None) -> None:
        """Begin before the first record.

        `own`: the names of the nodes whose records alone are read, of whatever generation; None: everyone's. `unread` is called with each
        record whose body does not read (`streams.model.records.read_body`).
        """
        self._log, self._stream, self._own, self._unread = log, stream, own, unread
        self._read: dict[Origin, RangeSet] = {}

    def news(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield topic and body of each held record that was not yielded before, in offset order within each origin.

        Records without a body, or with one that does not read, are left out. Raises as `LogReader.run`; a range that was not yielded to
        its end is yielded again.
        """
        for origin, one in sorted(self._log.ledger(self._stream).items()):
            if self._own is not None and origin.node not in self._own:
                continue
            read = self._read.setdefault(origin, RangeSet())
            for first, end in one.held.without(read):
                for batch in self._log.run(self._stream, origin, first, end):
                    for row in self._log.own(batch).records.select([OFFSET, TOPIC, BODY]).to_pylist():
                        if row[BODY] is None:
                            continue
                        try:
                            body = read_body(row[BODY])
                        except ValueError as problem:
                            self._unread(Coordinates(self._stream, origin, row[OFFSET]), problem)
                            continue
                        yield row[TOPIC], body
                read.add(first, end)
