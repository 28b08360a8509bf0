"""A link's budget of bytes per day: leased durably ahead of the bytes, so that it is kept whatever dies; alerts may overdraw it, loudly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from streams.link_budget.budget_shares import DAYS_MAX, Shares, Word

LEASE_BYTES = 64 << 10
"""Size of one lease, bytes: a crash may cost this much of the day's budget."""
FAREWELL_BYTES = 4 << 10
"""Part of a lease that a clean end keeps, bytes: the other side's last messages still pass when they reach a link that is closed
already."""
BYTES_A_MB = 1_000_000

State = Literal["open", "alerts", "overdrawn"]
Leased = Mapping[str, int]
"""Leased bytes by day (`2026-05-01`), and bytes given to a node by day and node (`2026-05-01 engine`), for DAYS_MAX days.

A clock that goes back finds its day as it left it, however far ahead it ran, unless it ran ahead for longer than DAYS_MAX days.
"""


@dataclass(frozen=True, slots=True)
class Tariff:
    """Cost of a link. Bytes at the socket count for `overhead_percent` more, because of the protocols that carry them.

    `price_per_mb` is in the ship's own currency; a MB is 1,000,000 bytes.
    """

    overhead_percent: float = 0.0
    price_per_mb: float = 0.0

    def charge(self, bytes_: int) -> int:
        """Return the charged bytes for so many bytes at the socket, rounded up."""
        return bytes_ + -(-bytes_ * round(self.overhead_percent * 1_000) // 100_000)

    def cost(self, charged_bytes: int) -> float:
        """Return the cost of so many charged bytes."""
        return charged_bytes / BYTES_A_MB * self.price_per_mb


@dataclass(frozen=True, slots=True)
class Budget:
    """Charged bytes per day of UTC, of which alerts alone may use the last `reserve_bytes`, and the link's tariff."""

    bytes_per_day: int
    reserve_bytes: int = 0
    overhead_percent: float = 0.0
    price_per_mb: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.reserve_bytes <= self.bytes_per_day:
            raise ValueError(f"the reserve for alerts, {self.reserve_bytes} bytes, is a part of the day's {self.bytes_per_day}")

    @property
    def tariff(self) -> Tariff:
        """Tariff of the link."""
        return Tariff(self.overhead_percent, self.price_per_mb)

    def charge(self, bytes_: int) -> int:
        """Return the charged bytes for so many bytes at the socket, rounded up."""
        return self.tariff.charge(bytes_)

    def cost(self, charged_bytes: int) -> float:
        """Return the cost of so many charged bytes."""
        return self.tariff.cost(charged_bytes)


class RemainingBudget:
    """Rest of a budget. Every byte passes only after `ahead` or `hold` has allowed it; the caller then reports it to `passed`.

    The bytes passed in a day are at most the bytes stored as leased for it, at any moment. The leased bytes are at most the budget,
    except for the overdraft of alerts. After a restart all leased bytes count as passed, unless `settle` was called before. Call it from
    one thread.

    Where others spend the budget too (`shares`), a node leases no more than its right to it. The right is its part, plus the bytes it was
    given, less the bytes it has given. So all of them together keep the budget, in touch or not.
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
        """Start from the stored leases.

        `leased`: the leases stored last. `keep`: stores leases; durable when it returns True, False where it can not. `now_ms`: the time
        by which days begin, UTC. `shares`: None where nobody else spends the budget. `known`: by day, the value of `known_bytes` when the
        leases were stored; None: unknown.
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
        """Let so many charged bytes more than the budget pass on `day` (`2026-05-01`, UTC).

        The grant is not stored: the caller grants it again after a restart.
        """
        self._granted[day] = self._granted.get(day, 0) + bytes_

    def word(self) -> Word:
        """Return today's report for the others."""
        return self._word(_day(self._now_ms()))

    def give(self) -> bool:
        """Give part of what is left here today to spenders known to have less. Return False when nothing was given.

        Called while this node can reach the others: a gift is of no use to a node that is out of touch, and it does not come back.
        """
        day = _day(self._now_ms())
        gifts = self.shares.gifts(day, self._whole(), self._word(day), self.free_here_bytes())
        given = {f"{day} {who}": self._leased.get(f"{day} {who}", 0) + bytes_ for who, bytes_ in gifts.items()}
        return bool(gifts) and self._kept({**self._leased, **given})

    def ahead(self, bytes_: int, alerts: bool = False) -> bool:
        """Return whether `bytes_` more may pass the socket now. With `alerts` they always may, whatever is left.

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
        """Return whether a link may be opened that can bring `bytes_` unasked at any time; if so, allow for them until `release`."""
        if not self.ahead(bytes_, alerts):
            return False
        self._held_bytes += bytes_
        self._open_links += not alerts
        return True

    def release(self, bytes_: int, alerts: bool = False) -> None:
        """Release the bytes that `hold` allowed for, once the link is closed."""
        self._held_bytes -= bytes_
        self._open_links -= not alerts

    def passed(self, bytes_: int) -> None:
        """Count bytes that have passed the socket."""
        self._used[self._day] = self._used.get(self._day, 0) + self.budget.charge(bytes_)

    def settle(self) -> None:
        """Give back leased bytes that did not pass and are not held for an open link or last messages, where that can be stored.

        Bytes that pass later are leased again, so it may be called at any time.
        """
        kept = self.budget.charge(self._held_bytes + FAREWELL_BYTES)
        days = [(day, lease) for day, lease in self._leased.items() if " " not in day]
        settled = {**self._leased, **{day: min(lease, self._used.get(day, 0) + kept) for day, lease in days}}
        if settled != self._leased:
            self._kept(settled)

    def known_bytes(self) -> dict[str, int]:
        """Return by day the bytes known to have passed here: the bytes that count as passed, less those leased when an earlier run
        ended."""
        return {day: bytes_ - self._unsure.get(day, 0) for day, bytes_ in self._used.items()}

    def spent_bytes(self) -> int:
        """Return the bytes that count as passed today, here and, by their last reports, at the others."""
        day = _day(self._now_ms())
        return self._used.get(day, 0) + self.shares.spent_bytes(day)

    def state(self, opening_bytes: int) -> State:
        """Return which links the budget still allows.

        `open`: an open link may go on, or one that takes `opening_bytes` to be worth it may be opened, for any lane. `alerts`: for alerts
        alone. `overdrawn`: the budget is exceeded.
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
        """Return the part of the free bytes that this node may spend or give away: leased bytes are not among them."""
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
        """Return the day, the bytes spent and allowed, and their cost.

        `unsure_bytes` of the bytes spent here were leased when an earlier run ended: they count, and may not have passed.
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
