"""How many records of a stream are projected at a time: fewer of what the database cancels, down to one, which is then set aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from hq.serving.database_faults import CANCELLED, SERVING, DatabaseCancelled, fault_of
from streams.gap_skipping_reader import Polled
from streams.model.identifiers import Origin, Position
from streams.model.records import OFFSET

CANCELLED_MAX = 3
"""Number of times that a batch is tried as it is."""
HALVED = "database_halved"
"""The code of the last of these tries: what follows is another batch, and is not waited for as long."""


@dataclass(slots=True)
class _Portion:
    """`size`: records at a time, until the Position `until` is reached, where the first cancelled batch ended. `times`: how often a batch
    of this size was cancelled; of a single record, how often the one at `first` was.
    """

    size: int
    until: Position
    first: tuple[Origin, int] | None = None
    times: int = 0


class Portions:
    """Cancelled batches of each stream since its last success. For one thread."""

    def __init__(self) -> None:
        self._of: dict[str, _Portion] = {}

    def size(self, stream: str, records_max: int) -> int:
        """Return how many records of `stream` to read, `records_max` at most."""
        return min(records_max, self._of[stream].size) if stream in self._of else records_max

    def refuses(self, stream: str, polled: Polled) -> bool:
        """Return whether the batch is a single record that was cancelled CANCELLED_MAX times: it is to be set aside."""
        portion = self._of.get(stream)
        return portion is not None and portion.size == 1 and portion.times >= CANCELLED_MAX and portion.first == _first(polled)

    @contextmanager
    def watched(self, stream: str, polled: Polled) -> Iterator[None]:
        """Count the block as a projection of the records that were read of `stream`. Raises DatabaseCancelled, which is counted, and other
        errors as they are."""
        try:
            yield
        except DBAPIError as problem:
            if not isinstance(fault_of(problem), DatabaseCancelled):
                raise
            code = HALVED if self._halves(stream, polled) else CANCELLED.code
            raise DatabaseCancelled(f"{SERVING} cancelled a batch of {stream}", hint=CANCELLED.hint, code=code) from problem

    def note_committed(self, stream: str, position: Position) -> None:
        """Record that all of `stream` below `position` is committed."""
        if stream in self._of and position.reaches(self._of[stream].until):
            del self._of[stream]

    def _halves(self, stream: str, polled: Polled) -> bool:
        """Count one more, and return whether fewer records are tried from now on."""
        portion = self._of.setdefault(stream, _Portion(polled.rows, polled.position))
        first = _first(polled)
        if polled.rows == 1 and first != portion.first:
            portion.times = 0
        portion.first, portion.times = first, portion.times + 1
        if portion.times < CANCELLED_MAX or polled.rows == 1:
            return False
        portion.size, portion.first, portion.times = polled.rows // 2, None, 0
        return True


def _first(polled: Polled) -> tuple[Origin, int] | None:
    """Return the origin and offset of the first record that was read."""
    return next(((batch.origin, batch.records.column(OFFSET)[0].as_py()) for batch in (*polled.late, *polled.batches)), None)
