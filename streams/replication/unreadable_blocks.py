"""Blocks that a node holds and its disk does not return: they are left alone for a while, tried again, and wanted from peers once that
lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from streams.model.identifiers import Origin
from streams.model.ledger import Ledger
from streams.model.ranges import RangeSet
from streams.replication.effects import Unread
from streams.replication.exchange import LedgerSource
from streams.replication.link_terms import Key

FIRST_S, MOST_S = 1.0, 60.0
"""First and longest pause before an unreadable block is tried again, seconds. The pause doubles after each try."""
LASTING_S = 60.0
"""Time for which a block is unreadable, while the disk returns other blocks, before it is wanted from peers, seconds."""
SPANS_MAX = 1_000
"""Maximum number of unreadable blocks that are tracked one by one. More mean that the whole disk fails: any other unreadable block waits
FIRST_S each time."""


@dataclass(slots=True)
class _Span:
    first: int
    end: int
    since_s: float
    pause_s: float
    due_s: float
    why: str
    lasting: bool = False


class Withheld:
    """Ledgers of a log for its node's sessions, without what the disk has not returned for LASTING_S: peers bring that again.

    The log itself releases nothing. What can be read again is held again. The copy here is given up only when the same records have come
    from a peer. Call it from the node's event loop.
    """

    def __init__(self, log: LedgerSource, now_s: Callable[[], float], report: Callable[..., None]) -> None:
        """Start with all blocks readable. `now_s` returns monotonic seconds. `report` is called once for the first unreadable block, and
        for each that lasts or is readable again."""
        self._log, self._now_s, self._report = log, now_s, report
        self._spans: dict[Key, list[_Span]] = {}
        self._gave_s = float("-inf")
        self._listeners: list[Callable[[list[str]], None]] = []

    def subscribe(self, changed: Callable[[list[str]], None]) -> None:
        """Call `changed` with the streams whose ledgers change without a commit."""
        self._listeners.append(changed)

    @property
    def origin(self) -> Origin:
        """Origin of the log."""
        return self._log.origin

    def streams(self) -> list[str]:
        """Return the same as the log."""
        return self._log.streams()

    def ledger(self, stream: str) -> Ledger:
        """Return the same as the log, except that what is lastingly unreadable is not held."""
        ledger = self._log.ledger(stream)
        hidden = {key[1]: self.lasting(key) for key in self._spans if key[0] == stream and key[1] in ledger}
        if not any(hidden.values()):
            return ledger
        shown = {origin: replace(ledger[origin], held=ledger[origin].held.without(ranges)) for origin, ranges in hidden.items() if ranges}
        return {**ledger, **shown}

    def own_end(self, stream: str, origin: Origin) -> int:
        """Return the same as the log."""
        return self._log.own_end(stream, origin)

    def lasting(self, key: Key) -> RangeSet:
        """Return the offsets of `key` that peers must bring though the log holds them."""
        return RangeSet((span.first, span.end) for span in self._spans.get(key, ()) if span.lasting)

    def records(self) -> int:
        """Return how many records can not be read now; for metrics."""
        return sum(span.end - span.first for spans in self._spans.values() for span in spans)

    def waits(self, key: Key, first: int) -> Unread | None:
        """Return an Unread when the block at `first` is known to be unreadable and is not yet due for another try; else None."""
        now_s = self._now_s()
        found = (span for span in self._spans.get(key, ()) if span.first <= first < span.end and span.due_s > now_s)
        return next((Unread(first, span.end, span.due_s - now_s) for span in found), None)

    def due(self) -> list[tuple[Key, int, int]]:
        """Return the blocks to try again now."""
        now_s = self._now_s()
        return [(key, span.first, span.end) for key, spans in self._spans.items() for span in spans if span.due_s <= now_s]

    def failed(self, key: Key, first: int, end: int, why: str) -> Unread:
        """Note that the disk did not return the block at `first .. end - 1`, because of `why`, and return the Unread to answer with."""
        now_s = self._now_s()
        spans = self._spans.get(key, [])
        same = [span for span in spans if span.first < end and first < span.end]
        if not same and sum(map(len, self._spans.values())) >= SPANS_MAX:
            return Unread(first, end, FIRST_S)
        if not self._spans:
            where = _where(key, first, end, why)
            self._report(
                "a block can not be read", "left alone and tried again; what is behind it goes on", code="block_unreadable", **where
            )
        known = min(same, key=lambda span: span.since_s, default=_Span(first, end, now_s, 0.0, now_s, why))
        tried = known.due_s <= now_s
        pause_s = min(max(FIRST_S, 2 * known.pause_s), MOST_S) if tried else known.pause_s
        low, high = min(first, *(span.first for span in same)) if same else first, max([end, *(span.end for span in same)])
        span = _Span(low, high, known.since_s, pause_s, now_s + pause_s if tried else known.due_s, why, known.lasting)
        self._spans[key] = [*(one for one in spans if one not in same), span]
        if not span.lasting and now_s - span.since_s >= LASTING_S and self._gave_s > span.since_s:
            span.lasting = True
            self._report(
                "a block can not be read, and that lasts", "wanted from peers", code="block_unreadable_lasts", **_where(key, low, high, why)
            )
            self._report_change(key[0])
        return Unread(first, end, span.due_s - now_s)

    def gave(self, key: Key, first: int, end: int) -> None:
        """Note that the disk returned the block at `first .. end - 1`."""
        self._gave_s = self._now_s()
        if self._drop(key, first, end):
            self._report(
                "a block that could not be read is read again",
                "it goes on from here",
                code="block_readable_again",
                **_where(key, first, end),
            )

    def replaced(self, key: Key, first: int, end: int) -> None:
        """Note that a peer has brought these offsets, and that the log now has them in another place on the disk."""
        self._drop(key, first, end)

    def _report_change(self, stream: str) -> None:
        for changed in self._listeners:
            changed([stream])

    def _drop(self, key: Key, first: int, end: int) -> bool:
        spans = self._spans.get(key, [])
        left = [part for span in spans for part in _without(span, first, end)]
        if left == spans:
            return False
        lasted = any(span.lasting and span.first < end and first < span.end for span in spans)
        self._spans = {**self._spans, key: left} if left else {of: ours for of, ours in self._spans.items() if of != key}
        if lasted:
            self._report_change(key[0])
        return True


def _without(span: _Span, first: int, end: int) -> Iterator[_Span]:
    for low, high in ((span.first, min(span.end, first)), (max(span.first, end), span.end)):
        if low < high:
            yield replace(span, first=low, end=high)


def _where(key: Key, first: int, end: int, why: str = "") -> Mapping[str, object]:
    where = {"stream": key[0], "origin": str(key[1]), "first": first, "end": end}
    return {**where, "problem": why} if why else where
