"""A link's budget of bytes per day: leased durably ahead of the bytes, so that it is kept whatever dies; alerts may overdraw it, loudly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from streams.link_budget.budget_shares import DAYS_MAX, Shares, Word

LEASE_BYTES = 64 << 10
"""What is leased at a time: what a crash may cost of the day's budget."""
FAREWELL_BYTES = 4 << 10
"""What a clean end keeps of a lease: the other side's last words, which reach a link that is closed already, pass all the same."""
BYTES_A_MB = 1_000_000

State = Literal["open", "alerts", "overdrawn"]
Leased = Mapping[str, int]
"""By day (`2026-05-01`) what was leased, and by day and node (`2026-05-01 engine`) what was given to it of that day. Of DAYS_MAX days: a
clock that goes back finds the day it comes to as it left it, however far ahead it ran, unless it did so for longer than this."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a link costs: what passes the socket counts for `overhead_percent` more than it has, for what carries it; `price_per_mb`, in the
    ship's own currency, a MB being 1,000,000 bytes.
    """

    overhead_percent: float = 0.0
    price_per_mb: float = 0.0

    def charge(self, bytes_: int) -> int:
        """What so many bytes at the socket count, rounded up."""
        return bytes_ + -(-bytes_ * round(self.overhead_percent * 1_000) // 100_000)

    def cost(self, charged_bytes: int) -> float:
        """What so many charged bytes cost."""
        return charged_bytes / BYTES_A_MB * self.price_per_mb


@dataclass(frozen=True, slots=True)
class Budget:
    """`bytes_per_day` of UTC, as they are charged, of which alerts alone may have the last `reserve_bytes`; and the link's tariff."""

    bytes_per_day: int
    reserve_bytes: int = 0
    overhead_percent: float = 0.0
    price_per_mb: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.reserve_bytes <= self.bytes_per_day:
            raise ValueError(f"the reserve for alerts, {self.reserve_bytes} bytes, is a part of the day's {self.bytes_per_day}")

    @property
    def tariff(self) -> Tariff:
        """What the link costs."""
        return Tariff(self.overhead_percent, self.price_per_mb)

    def charge(self, bytes_: int) -> int:
        """What so many bytes at the socket count, rounded up."""
        return self.tariff.charge(bytes_)

    def cost(self, charged_bytes: int) -> float:
        """What so many charged bytes cost."""
        return self.tariff.cost(charged_bytes)


class Purse:
    """The rest of a budget. Every byte passes only after `ahead` or `hold` has allowed it; the caller then reports it to `passed`.

    At any moment what has passed in a day is at most what is kept as leased for it, and that at most the budget, alerts' overdraft apart.
    After a restart all that was leased counts as passed, unless `settle` was called before. Call it from one thread.

    Of a budget of which others spend too (`shares`) no more is leased than this node's right to it: its part, what it was given, less what
    it has given. So all of them together keep it, in touch or not.
    """

    def __init__(
        self,
        budget: Budget,
        leased: Leased,
        keep: Callable[[Leased], bool],
        now_ms: Callable[[], int],
        shares: Shares | None = None,
        known: Mapping[str, int] | None = None,
    ) -> None:
        """`leased`: what was kept last. `keep`: durable when it returns, or False. `now_ms`: the time by which days begin, UTC. `shares`:
        None where nobody else spends of the budget. `known`: by day what `known_bytes` said as that was kept; None: nobody knows.
        """
        self.budget = budget
        self.shares = shares or Shares()
        self._leased, self._keep, self._now_ms = dict(leased), keep, now_ms
        self._day = _day(now_ms())
        self._used = {key: bytes_ for key, bytes_ in leased.items() if " " not in key}
        self._unsure = {} if known is None else {day: max(0, used - known.get(day, 0)) for day, used in self._used.items()}
        self._held_bytes = self._open_links = 0
        self._granted: dict[str, int] = {}

    def grant(self, day: str, bytes_: int) -> None:
        """On `day` (`2026-05-01`, UTC) so many charged bytes more than the budget may pass, as granted. Not kept: the caller grants it
        again after a restart.
        """
        self._granted[day] = self._granted.get(day, 0) + bytes_

    def word(self) -> Word:
        """What the others are to hear of today."""
        return self._word(_day(self._now_ms()))

    def give(self) -> bool:
        """Give of what is left here today to those of whom it is known that they have less. False when nothing was given.

        For who hears, and is heard: to one that is out of touch it is of no use, and it does not come back.
        """
        day = _day(self._now_ms())
        gifts = self.shares.gifts(day, self._whole(), self._word(day), self.free_here_bytes())
        given = {f"{day} {who}": self._leased.get(f"{day} {who}", 0) + bytes_ for who, bytes_ in gifts.items()}
        return bool(gifts) and self._kept({**self._leased, **given})

    def ahead(self, bytes_: int, alerts: bool = False) -> bool:
        """Whether `bytes_` more may pass the socket now. With `alerts` they always may, whatever is left.

        Bytes that were allowed on one day count for it, though they pass after midnight.
        """
        day = _day(self._now_ms())
        allowed = self._leased_for(day, bytes_, alerts)
        if allowed:
            self._day = day
        return allowed

    def _leased_for(self, day: str, bytes_: int, alerts: bool) -> bool:
        wanted = self._used.get(day, 0) + self.budget.charge(bytes_ + self._held_bytes)
        right = self._right(day)
        if wanted > right and not alerts:
            return False
        if wanted <= self._leased.get(day, 0):
            return True
        lease = max(wanted, min(right, wanted + LEASE_BYTES))
        return self._kept({**self._leased, day: lease}) or alerts

    def _kept(self, leased: Leased) -> bool:
        days = sorted({key[: len("2026-05-01")] for key in leased})[-DAYS_MAX:]
        leased = {key: bytes_ for key, bytes_ in sorted(leased.items()) if key >= days[0]}
        if not self._keep(leased):
            return False
        self._leased = leased
        return True

    def hold(self, bytes_: int, alerts: bool = False) -> bool:
        """Whether a link may be opened that can bring `bytes_` unasked at any time; if so they are allowed for until `release`."""
        if not self.ahead(bytes_, alerts):
            return False
        self._held_bytes += bytes_
        self._open_links += not alerts
        return True

    def release(self, bytes_: int, alerts: bool = False) -> None:
        """That link is closed."""
        self._held_bytes -= bytes_
        self._open_links -= not alerts

    def passed(self, bytes_: int) -> None:
        """So many bytes have passed the socket."""
        self._used[self._day] = self._used.get(self._day, 0) + self.budget.charge(bytes_)

    def settle(self) -> None:
        """What was leased, did not pass, and is not held for an open link or last words is given back, where that can be kept. Bytes that
        pass later are leased again, so it may be called at any time.
        """
        kept = self.budget.charge(self._held_bytes + FAREWELL_BYTES)
        days = [(day, lease) for day, lease in self._leased.items() if " " not in day]
        settled = {**self._leased, **{day: min(lease, self._used.get(day, 0) + kept) for day, lease in days}}
        if settled != self._leased:
            self._kept(settled)

    def known_bytes(self) -> dict[str, int]:
        """By day what is known to have passed here: what counts as passed, but for what an earlier run had leased as it ended."""
        return {day: bytes_ - self._unsure.get(day, 0) for day, bytes_ in self._used.items()}

    def spent_bytes(self) -> int:
        """What counts as passed today, here and, by their last words, with the others."""
        day = _day(self._now_ms())
        return self._used.get(day, 0) + self.shares.spent_bytes(day)

    def state(self, opening_bytes: int) -> State:
        """`open` while a link that is open may go on, or one that takes `opening_bytes` to be worth it may be opened, whatever it carries;
        then there are links for `alerts` alone; then they are `overdrawn`.
        """
        day = _day(self._now_ms())
        more = 0 if self._open_links else opening_bytes
        if self._used.get(day, 0) + self.budget.charge(self._held_bytes + more) <= self._right(day):
            return "open"
        return "alerts" if self.spent_bytes() <= self._bytes_today() else "overdrawn"

    def free_bytes(self) -> int:
        """Return the bytes, as charged, that may still pass today, without the reserve for alerts and the bytes held for open links."""
        taken = self.spent_bytes() + self.budget.charge(self._held_bytes) + self.budget.reserve_bytes
        return max(0, self._bytes_today() - taken)

    def free_here_bytes(self) -> int:
        """What of that is this node's to spend, as far as it may give it away: what is leased is not."""
        day = _day(self._now_ms())
        return max(0, self._right(day) - max(self._leased.get(day, 0), self._used.get(day, 0) + self.budget.charge(self._held_bytes)))

    def _right(self, day: str) -> int:
        return self.shares.right_bytes(day, self._whole(), self._word(day)) + self._granted.get(day, 0)

    def _whole(self) -> int:
        return self.budget.bytes_per_day - self.budget.reserve_bytes

    def _word(self, day: str) -> Word:
        given = {key.removeprefix(f"{day} "): bytes_ for key, bytes_ in self._leased.items() if key.startswith(f"{day} ")}
        return Word(self._used.get(day, 0), given)

    def _bytes_today(self) -> int:
        return self.budget.bytes_per_day + self._granted.get(_day(self._now_ms()), 0)

    def to_json(self) -> dict[str, object]:
        """The day, what was spent of what, and what that cost. Of what was spent here `unsure_bytes` were leased as an earlier run ended:
        they count, and may not have passed.
        """
        spent, budget, day = self.spent_bytes(), self.budget, _day(self._now_ms())
        mine = self._word(day)
        return {
            "day": day,
            "bytes_per_day": budget.bytes_per_day,
            "reserve_bytes": budget.reserve_bytes,
            "granted_bytes": self._bytes_today() - budget.bytes_per_day,
            "spent_bytes": spent,
            "spent_here_bytes": mine.spent_bytes,
            "unsure_bytes": self._unsure.get(day, 0),
            "given_bytes": mine.given_bytes,
            "left_bytes": max(0, self._bytes_today() - spent),
            "free_bytes": self.free_bytes(),
            "free_here_bytes": self.free_here_bytes(),
            "cost": round(budget.cost(spent), 4),
            "price_per_mb": budget.price_per_mb,
        }


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")
