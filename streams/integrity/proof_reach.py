"""Reach of a proof: from the last statement before which nothing of its span can be to the first statement behind which nothing can be."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.copy_verifier import SignedHeads
from streams.integrity.hash_chain import first_head
from streams.integrity.key_trust import Trust
from streams.integrity.statements import Statement, statements
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin
from streams.model.records import LATE_MS_MAX, RECEIVED_AT


class Unsigned(Misuse):
    """No accepted statement of an origin in this copy."""

    code = "unsigned"


@dataclass(frozen=True, slots=True)
class Reach:
    """Statements with which a proof begins and ends (`start` None: it begins at the first run), and the roots of the closed runs
    between."""

    start: Statement | None
    end: Statement
    signed: SignedHeads


def reach(copy: Copy, stream: str, origin: Origin, span: tuple[int, int], trust: Trust) -> Reach:
    """Return the reach over every signed record of (stream, origin) with an order time in `span` (UTC ms, the end not included), as far as
    this copy knows.

    It ends at the last statement, or at one that only follows what was received LATE_MS_MAX after the span. Received times never go back,
    and a device's time that is further behind is not used for order. The statements are read one by one, and a digest or two per run are
    kept. Raises Unsigned when no statement is accepted.
    """
    since_at_ms, until_at_ms = span
    settled_at_ms = until_at_ms + LATE_MS_MAX
    signed = SignedHeads(heads={0: first_head(stream, origin)})
    start: Statement | None = None
    end: Statement | None = None
    tried_run = -1
    for _, one in statements(copy, stream, origin):
        if isinstance(one, Corrupt) or trust.problem(one) is not None:
            continue
        signed.add(replace(one, tail=None, sums=()))
        if end is None or one.end >= end.end:
            end = one
        if one.newest_at_ms < since_at_ms:
            start = one
            signed.forget(one.runs)
        if one.at_ms >= settled_at_ms and one.runs > tried_run:
            tried_run = one.runs
            if _last_received_at_ms(copy, one) >= settled_at_ms:
                break
    if end is None:
        raise Unsigned(
            f"of {stream}:{origin} nothing is here that its origin signed",
            hint="a node signs once a minute, and heads come with the next sync; a generation that ended before stays unsigned",
        )
    return Reach(start, end, signed)


def _last_received_at_ms(copy: Copy, one: Statement) -> int:
    """Return when the last record that a statement covers was received; 0 when that can not be read here."""
    for part in copy.rows(one.stream, one.origin, max(0, one.end - 1), one.end):
        if not isinstance(part, UnreadRows):
            at_ms: int = part.column(RECEIVED_AT)[0].as_py()
            return at_ms
    return 0
