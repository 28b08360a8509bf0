"""Results into the node's log through its append door: in pieces, each with producer and sequence, so that none is taken twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from landfall.transport.http_client import APPENDS_MAX
from streams.commit_points import commit_point
from streams.log import Append, Appended
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch

PIECE_RECORDS_MAX = 20_000
PIECES_MAX = 10_000
"""Records of one append, and appends of one producer a micro-batch: its sequence is micro-batch × PIECES_MAX + piece."""
REQUEST_RECORDS_MAX = 40_000


class HqAppendDoor(Protocol):
    """The node's append door."""

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """All of `appends` or none, durable when it returns. Raises RetryLater while the node can not be reached."""
        ...


def append_piece(stream: str, producer: str, batch: int, piece: int, records: pa.RecordBatch) -> Append:
    """Piece number `piece` (from 0) of what micro-batch `batch` appends to `stream`. Raises Misuse beyond PIECES_MAX."""
    if piece >= PIECES_MAX:
        raise Misuse(
            f"micro-batch {batch} makes more than {PIECES_MAX} appends to {stream}", hint="lower records_max", code="appends_too_many"
        )
    return Append(stream, records, producer, batch * PIECES_MAX + piece)


def pieces(stream: str, producer: str, batch: int, records: Sequence[Record]) -> Iterator[Append]:
    """`records` as appends of at most PIECE_RECORDS_MAX. The same records in the same order give the same appends."""
    for piece, first in enumerate(range(0, len(records), PIECE_RECORDS_MAX)):
        yield append_piece(stream, producer, batch, piece, to_batch(records[first : first + PIECE_RECORDS_MAX]))


def append_all(door: HqAppendDoor, appends: Iterable[Append], *, records_max: int = REQUEST_RECORDS_MAX, first_time: bool = False) -> int:
    """All `appends` are in the log, each once; returns how many records were new. Several requests when they have more than
    `records_max` records, or are more than APPENDS_MAX.

    `first_time`: none of them can have been tried before; Misuse is raised when the log has one all the same, since it then holds the
    results of other tables and would take no new ones.
    """
    new = 0
    for number, request in enumerate(_requests(appends, records_max)):
        if number:
            commit_point("analytics.requested")
        for answer in door.append(request):
            if answer.repeated and first_time:
                raise Misuse(
                    f"{answer.stream} already has results of this micro-batch, from other tables or another checkpoint",
                    hint="put back the tables and the checkpoint that belong to this log, or begin with an empty log too",
                    code="results_of_another",
                )
            new += answer.count
    return new


def _requests(appends: Iterable[Append], records_max: int) -> Iterator[list[Append]]:
    request: list[Append] = []
    records = 0
    for append in appends:
        if request and (records + append.records.num_rows > records_max or len(request) == APPENDS_MAX):
            yield request
            request, records = [], 0
        request.append(append)
        records += append.records.num_rows
    if request:
        yield request
