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
"""Less than a part's one in so many is not given: it would come and go for nothing."""


@dataclass(frozen=True, slots=True)
class Word:
    """What one of them says of a day: what it spent, and to whom it gave how much, in charged bytes."""

    spent_bytes: int = 0
    given_bytes: Mapping[str, int] = field(default_factory=dict)

    def and_later(self, word: Word) -> Word:
        """Both, in whatever order they came: nothing is ever taken back."""
        given = {who: max(self.given(who), word.given(who)) for who in {*self.given_bytes, *word.given_bytes}}
        return Word(max(self.spent_bytes, word.spent_bytes), given)

    def given(self, who: str) -> int:
        """What was given to `who`."""
        return self.given_bytes.get(who, 0)


class Shares:
    """What is known here of a budget that `me` and the `others` spend of. Days are of UTC, `2026-05-01`."""

    def __init__(self, me: str = "", others: Iterable[str] = ()) -> None:
        self.me, self._others = me, set(others)
        self._words: dict[str, dict[str, Word]] = {}

    def heard(self, day: str, who: str, word: Word) -> None:
        """Remember the report of `who` for `day`, for at most DAYS_MAX days. In memory alone: `who` reports again after a restart."""
        self._others.add(who)
        told = self._words.setdefault(day, {})
        self._words = dict(sorted(self._words.items())[-DAYS_MAX:])
        told[who] = told.get(who, Word()).and_later(word)

    def apart(self, who: str) -> None:
        """`who` says that it spends nothing of this budget: there is no part for it."""
        self._others.discard(who)

    def spent_bytes(self, day: str) -> int:
        """What the others have spent, by their last words."""
        return sum(word.spent_bytes for word in self._words.get(day, {}).values())

    def right_bytes(self, day: str, whole_bytes: int, mine: Word) -> int:
        """What this node may spend on `day` of so many bytes that all may together, when it has given what `mine` says."""
        return self._right_bytes(self.me, day, whole_bytes, mine)

    def gifts(self, day: str, whole_bytes: int, mine: Word, free_bytes: int) -> dict[str, int]:
        """Who is to be given how much of the `free_bytes` here: those of whom there is a word of the day half of what they have less."""
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
