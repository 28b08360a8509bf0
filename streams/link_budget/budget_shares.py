"""One day's budget in parts, one for each spender, so that together they keep it without exchanging messages.

Each spender may spend its part, and what others have given it of theirs. The giver stores a gift before it reports it, and a gift only
grows. So a report that arrives late, twice or never lets nobody spend another's part. (A bounded counter: V. Balegas et al., "Extending
Eventual Consistency with Numeric Invariants", SRDS 2015.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

DAYS_MAX = 400
GIFT_SHARE = 32
"""Divisor of a part that gives the smallest gift: a smaller one would go back and forth without use."""


@dataclass(frozen=True, slots=True)
class Word:
    """Report of one spender on a day: the bytes it spent, and the bytes it gave to each other spender, as charged."""

    spent_bytes: int = 0
    given_bytes: Mapping[str, int] = field(default_factory=dict)

    def and_later(self, word: Word) -> Word:
        """Return both reports merged, in whatever order they came: nothing is ever taken back."""
        given = {who: max(self.given(who), word.given(who)) for who in {*self.given_bytes, *word.given_bytes}}
        return Word(max(self.spent_bytes, word.spent_bytes), given)

    def given(self, who: str) -> int:
        """Return the bytes given to `who`."""
        return self.given_bytes.get(who, 0)


class Shares:
    """Known state of a budget that `me` and the `others` spend. Days are of UTC, `2026-05-01`."""

    def __init__(self, me: str = "", others: Iterable[str] = ()) -> None:
        self.me, self._others = me, set(others)
        self._words: dict[str, dict[str, Word]] = {}

    def heard(self, day: str, who: str, word: Word) -> None:
        """Remember the report of `who` for `day`, for at most DAYS_MAX days. In memory alone: `who` reports again after a restart."""
        self._others.add(who)
        day_words = self._words.setdefault(day, {})
        self._words = dict(sorted(self._words.items())[-DAYS_MAX:])
        day_words[who] = day_words.get(who, Word()).and_later(word)

    def apart(self, who: str) -> None:
        """Remove `who` from the spenders: it reports that it spends nothing of this budget, so there is no part for it."""
        self._others.discard(who)

    def spent_bytes(self, day: str) -> int:
        """Return the bytes that the others have spent, by their last reports."""
        return sum(word.spent_bytes for word in self._words.get(day, {}).values())

    def right_bytes(self, day: str, whole_bytes: int, mine: Word) -> int:
        """Return the bytes that this node may spend on `day`. `whole_bytes`: what all may spend together. `mine`: this node's own
        report."""
        return self._right_bytes(self.me, day, whole_bytes, mine)

    def gifts(self, day: str, whole_bytes: int, mine: Word, free_bytes: int) -> dict[str, int]:
        """Return the gift of each receiver from the `free_bytes` here.

        Receivers are the nodes with a report for the day. Each gets half of the bytes by which it has less than this node.
        """
        gifts = {}
        for who, word in sorted(self._words.get(day, {}).items()):
            if who in self._others:
                has_bytes = self._right_bytes(who, day, whole_bytes, mine) - word.spent_bytes
                gift = (free_bytes - has_bytes) // 2
                if gift >= max(1, self._part(whole_bytes) // GIFT_SHARE):
                    gifts[who] = gift
                    free_bytes -= gift
        return gifts

    def _part(self, whole_bytes: int) -> int:
        return whole_bytes // (1 + len(self._others))

    def _right_bytes(self, who: str, day: str, whole_bytes: int, mine: Word) -> int:
        words = {**self._words.get(day, {}), self.me: mine}
        given = sum(words[who].given_bytes.values()) if who in words else 0
        return self._part(whole_bytes) + sum(word.given(who) for word in words.values()) - given
