"""One leg of a voyage after another: links that come and go, and what each day of a budget lets pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf

from edge.planning.backlog_model import LegTally, PlannedLink, ShipBacklog
from edge.planning.voyage_inputs import DAY_S
from landfall.node.peers.link_budgets import for_alerts
from streams.config.roles import LinkPolicy
from streams.link_budget.daily_budget import Budget, Leased, RemainingBudget, Tariff

LOOK_S = 3_600.0
"""Interval at which the ship's disk is checked for being full, seconds."""
_ENOUGH_BYTES = 1.0
_INSTANT_S = 0.001
FREE = Tariff()


@dataclass(frozen=True, slots=True)
class Link:
    """A link as a leg has it: its policy, its line while it is up, and what it costs.

    `meeting_bytes`: what it takes to open it. Of the budget, `window_bytes` are held for what may come unasked, and with less than
    `opening_bytes` left it is not opened. It is away for `outage_s` at a time, and up for `up_s` between (None: always up). `tariff`: where
    there is no budget.
    """

    policy: LinkPolicy
    line: PlannedLink
    meeting_bytes: float
    budget: Budget | None = None
    window_bytes: int = 0
    opening_bytes: int = 0
    outage_s: float = 0.0
    up_s: float | None = None
    tariff: Tariff = FREE


@dataclass(slots=True)
class Day:
    """Traffic of a link on one day (`2026-05-01`, UTC). `charged_bytes` and `cost`: None where it has neither budget nor price. `cut_s`:
    when the budget was spent, in seconds since 1970."""

    day: str
    bytes: float = 0.0
    charged_bytes: int | None = None
    cost: float | None = None
    cut_s: float | None = None


@dataclass(frozen=True, slots=True)
class LegOutcome:
    """Outcome of one leg: when it began and ended (seconds since 1970), each stream's tally, what waits at its end, its days."""

    name: str
    link: Link
    begins_s: float
    ends_s: float
    streams: dict[str, LegTally]
    waiting_records: dict[str, float]
    days: list[Day]


@dataclass(slots=True)
class _Account:
    """The bytes of a link, by days."""

    link: Link
    remaining: RemainingBudget | None
    days: dict[str, Day] = field(default_factory=dict)

    def today(self, at_s: float, alerts: bool = False) -> Day:
        """Return the day for which the next traffic counts, to its end."""
        name = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d")
        if self.remaining is not None:
            self.remaining.ahead(0, alerts)
        return self.days.setdefault(name, Day(name))

    def passed(self, day: Day, bytes_: float) -> None:
        """Count so many bytes as passed through the link's socket."""
        day.bytes += bytes_
        if self.remaining is not None:
            self.remaining.passed(round(bytes_))
        tariff = self.link.tariff if self.remaining is None else self.remaining.budget.tariff
        if self.remaining is not None or tariff.price_per_mb:
            day.charged_bytes = tariff.charge(round(day.bytes))
            day.cost = tariff.cost(day.charged_bytes)

    def allowed_bytes(self) -> float | None:
        """Return how many bytes today's budget still allows; None: without a limit."""
        if self.remaining is None:
            return None
        return self.remaining.free_bytes() / (1 + self.remaining.budget.overhead_percent / 100)


class Sailing:
    """Sails `aboard` leg by leg. `hourly` is called at least every LOOK_S of the voyage."""

    def __init__(self, aboard: ShipBacklog, hourly: Callable[[], None] = lambda: None) -> None:
        self._aboard, self._hourly = aboard, hourly

    def leg(self, name: str, link: Link, lasts_s: float) -> LegOutcome:
        """Sail one leg, over this link, to its end."""
        aboard, begins_s = self._aboard, self._aboard.at_s
        aboard.leg_begins(link.line.streams)
        remaining = None if link.budget is None else RemainingBudget(link.budget, {}, _kept, lambda: int(aboard.at_s * 1000))
        account = _Account(link, remaining)
        ends_s, up = begins_s + lasts_s, False
        while aboard.at_s < ends_s:
            reached, changes_s = _reached(link, aboard.at_s - begins_s)
            until_s = min(ends_s, _next(aboard.at_s, DAY_S), _next(aboard.at_s, LOOK_S), begins_s + changes_s)
            if up and not reached:
                up = self._close(account)
            if not reached:
                aboard.pass_until(until_s, None)
            elif up or self._opens(account):
                up = self._open_until(until_s, account)
            else:
                self._for_alerts(until_s, account)
            self._hourly()
        tallies = {backlog.flow.stream: backlog.tally for backlog in aboard.waiting}
        waiting = {backlog.flow.stream: backlog.records for backlog in aboard.waiting}
        return LegOutcome(name, link, begins_s, ends_s, tallies, waiting, list(account.days.values()))

    def _opens(self, account: _Account) -> bool:
        link, remaining = account.link, account.remaining
        if remaining is not None and not (remaining.state(link.opening_bytes) == "open" and remaining.hold(link.window_bytes)):
            return False
        account.passed(account.today(self._aboard.at_s), link.meeting_bytes)
        self._aboard.opened(link.line)
        return True

    def _open_until(self, until_s: float, account: _Account) -> bool:
        """Keep the link open until then, or until its budget is spent, and return whether it still is open."""
        aboard, day, allowed = self._aboard, account.today(self._aboard.at_s), account.allowed_bytes()
        passed = aboard.pass_until(until_s, account.link.line, allowed)
        account.passed(day, passed)
        if allowed is None or passed < allowed - _ENOUGH_BYTES:
            return True
        account.passed(day, account.link.window_bytes)
        day.cut_s = day.cut_s or aboard.at_s
        return self._close(account)

    def _close(self, account: _Account) -> bool:
        if account.remaining is not None:
            account.remaining.release(account.link.window_bytes)
        return False

    def _for_alerts(self, until_s: float, account: _Account) -> None:
        """Pass time with the link open for alerts alone, as the day's budget allows no more: each has a session of its own."""
        aboard, link = self._aboard, account.link
        day, began_s = account.today(aboard.at_s, alerts=True), aboard.at_s
        alerts = for_alerts(link.policy)
        streams = [stream for stream in link.line.streams if alerts.carries(stream)]
        line = replace(link.line, idle_bytes_s=0.0, streams=streams)
        aboard.opened(line)
        passed = aboard.pass_until(until_s, line)
        raised = max((flow.records_per_s / flow.together for flow in aboard.flows(streams)), default=0.0)
        account.passed(day, passed + raised * (aboard.at_s - began_s) * link.meeting_bytes)


def _kept(leased: Leased) -> bool:
    return True


def _next(at_s: float, every_s: float) -> float:
    return (at_s // every_s + 1) * every_s


def _reached(link: Link, after_s: float) -> tuple[bool, float]:
    """Return whether the link is there so long after the leg's beginning, and until when."""
    if link.up_s is None:
        return True, inf
    cycle, phase_s = divmod(after_s, link.up_s + link.outage_s)
    begun_s = cycle * (link.up_s + link.outage_s)
    reached = phase_s < link.up_s - _INSTANT_S
    return reached, max(begun_s + (link.up_s if reached else link.up_s + link.outage_s), after_s + _INSTANT_S)
