"""Goal: what a commit or a start costs grows with the (stream, origin)s it is of, not with their square: a peer may bring thousands."""

from __future__ import annotations

import pytest

from landfall.storage import log_state as books
from landfall.storage.log_state import Book, OriginState
from streams.model.identifiers import Origin, Position
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet


def line(end: int) -> OriginState:
    return OriginState(OriginLedger(RangeSet([(0, end)])), end, next_offset=end)


def test_each_stream_of_a_commit_is_made_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(offsets: dict[Origin, int] | None = None) -> Position:
        made.append(len(offsets or {}))
        return Position(offsets)

    monkeypatch.setattr(books, "Position", counted)
    book = Book()
    many = {(stream, Origin(f"n{number}", 1)): line(number + 1) for number in range(50) for stream in ("containers", "events")}
    book.set_lines(many)
    assert sum(made) == 100, "every origin of a stream is written down once"
    book.set_lines({("events", Origin("n7", 1)): line(100)})
    assert book.view[1] == {
        "containers": Position({Origin(f"n{number}", 1): number + 1 for number in range(50)}),
        "events": Position({Origin(f"n{number}", 1): 100 if number == 7 else number + 1 for number in range(50)}),
    }
    assert book.line(("events", Origin("n7", 1))).end == 100
    assert book.line(("events", Origin("n8", 1))).end == 9
