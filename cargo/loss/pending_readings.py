"""Readings that have come and wait for their turn: what is asked of them before that."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from operator import itemgetter

from cargo.loss.loss_classifier import SHOCK_G
from cargo.loss.reading_rows import Heard


class PendingReadings:
    """Made from what a watch remembers as pending.

    `called`: whether the roll is being called; `settled_at_ms`: up to when (UTC ms) readings have had their turn.
    """

    def __init__(self) -> None:
        self._came: dict[str, list[tuple[int, int]]] = {}
        self._blows: list[tuple[int, str]] = []

    def note_all(self, pending: Iterable[tuple[int, Heard]], settled_at_ms: int, *, called: bool) -> None:
        """These, and no others, wait."""
        self._came.clear()
        self._blows.clear()
        for at_ms, row in pending:
            self.note(at_ms, row, settled_at_ms, called=called)

    def note(self, at_ms: int, row: Heard, settled_at_ms: int, *, called: bool) -> None:
        """This one has come and has its turn at `at_ms`."""
        if float(row.signals.get("shock_g", 0.0)) > SHOCK_G:
            self._blows.append((at_ms, row.topic))
        if called and row.received_at_ms < at_ms:
            came = self._came.setdefault(row.topic, [])
            insort(came, (row.received_at_ms, at_ms))
            del came[: max(0, bisect_right(came, settled_at_ms, key=itemgetter(0)) - 1)]

    def came_at_ms(self, number: str, at_ms: int) -> int:
        """When the last word of this box came, up to `at_ms`, that may still wait for its turn (UTC ms); 0: none, or nobody is called.

        Under a roll call a box has spoken once its word has come, though by a clock that is ahead that has its turn later.
        """
        return max((came_ms for came_ms, _ in self._came.get(number, ()) if came_ms <= at_ms), default=0)

    def waits(self, number: str, at_ms: int) -> bool:
        """Whether a word of this box that came by then has its turn later."""
        return any(came_ms <= at_ms < turn_ms for came_ms, turn_ms in self._came.get(number, ()))

    def blows(self, settled_at_ms: int) -> list[str]:
        """Who was struck, by readings that have not had their turn yet: one topic for each of these."""
        self._blows = [blow for blow in self._blows if blow[0] > settled_at_ms]
        return [topic for _, topic in self._blows]

    def next_blow_at_ms(self, settled_at_ms: int) -> int | None:
        """When the first of these readings has its turn (UTC ms); None: there is none."""
        return min((at_ms for at_ms, _ in self._blows if at_ms > settled_at_ms), default=None)
