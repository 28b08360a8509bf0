"""The budgets of a node's links, kept in its folder: which link may be opened for what, when a day begins, and what is reported."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from landfall.node.settings import LinkSettings
from landfall.system.replaced_files import replace_file
from landfall.transport.byte_meter import OPENING_BYTES, Count, Meter
from streams.commit_points import commit_point
from streams.config.roles import LinkClass, LinkPolicy
from streams.link_budget.budget_shares import Shares, Word
from streams.link_budget.daily_budget import Leased, RemainingBudget
from streams.model.clock import Clock
from streams.model.errors import Misuse

FILE_NAME = "budgets.json"
CLOCK_NAME = "budget_clock.json"
DAY_MS = 86_400_000
ALERTS = "alerts"
_NEWS = {
    "alerts": ("the day's budget of the {} link is spent", "all but alerts wait until midnight UTC"),
    "part": ("this node's part of the day's budget of the {} link is spent", "all but alerts wait for what another gives, or midnight UTC"),
    "overdrawn": ("alerts overdraw the day's budget of the {} link", "they are sent all the same"),
}

logger = logging.getLogger("landfall.node")


class Anchor(msgspec.Struct, frozen=True):
    """The statement that it was `at_ms` (UTC ms) `boot_s` seconds after the machine's start `boot_id`."""

    boot_id: str
    at_ms: int
    boot_s: float

    def at(self, boot_s: float) -> int:
        """Return the time (UTC ms) `boot_s` seconds after that start."""
        return self.at_ms + round((boot_s - self.boot_s) * 1000)


class BudgetClock:
    """The wall clock's time, continued by boot time from one midnight (UTC) to the next, also over restarts of the process.

    It follows the wall clock only at midnight, and only where that is not doubted: so each day lasts until its midnight by boot time. After
    a restart of the machine a clock that is doubted, or behind, continues from the last day's beginning. Call it from one thread.
    """

    def __init__(self, folder: Path, wall: Clock, doubted: Callable[[], bool], boot_id: str) -> None:
        """Prepare the clock. `folder`: the node's. `boot_id`: the id of this start of the machine, empty where it is unknown."""
        self._path, self._wall, self._doubted, self._boot_id = folder / CLOCK_NAME, wall, doubted, boot_id
        self._anchor: Anchor | None = None

    def now_ms(self) -> int:
        """Return UTC milliseconds. It writes its file when a day begins; a disk that does not take it costs at most one more day after a
        restart.
        """
        boot_s = self._wall.boot_s()
        anchor = self._anchor or self._kept(boot_s)
        if anchor is None or anchor.at(boot_s) // DAY_MS != anchor.at_ms // DAY_MS:
            at_ms = anchor.at(boot_s) if anchor is not None and self._doubted() else self._wall.now_ms()
            anchor = Anchor(self._boot_id, at_ms, boot_s)
        if anchor != self._anchor:
            self._anchor = anchor
            self._keep(anchor)
        return anchor.at(boot_s)

    def _kept(self, boot_s: float) -> Anchor | None:
        """Return what an earlier process left; None where the wall clock is to be followed now."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Anchor)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as problem:
            logger.warning("cannot read when the day of the link budgets began, so the wall clock is followed: %s: %s", self._path, problem)
            return None
        if kept.boot_id and kept.boot_id == self._boot_id and kept.boot_s <= boot_s:
            return kept
        wrong = self._doubted() or self._wall.now_ms() < kept.at_ms
        return Anchor(self._boot_id, kept.at_ms, boot_s) if wrong else None

    def _keep(self, anchor: Anchor) -> None:
        try:
            replace_file(self._path, msgspec.json.encode(anchor))
        except OSError as problem:
            logger.warning("cannot write when the day of the link budgets began: %s: %s", self._path, problem)


class LinkBudgets:
    """One `RemainingBudget` per class of link that has a budget. Call it from the node's event loop."""

    def __init__(
        self, folder: Path, links: Mapping[LinkClass, LinkSettings], now_ms: Callable[[], int], me: str = "", others: Collection[str] = ()
    ) -> None:
        """Read the budgets' file. `now_ms`: the time by which days begin, UTC. `me` and the `others` of this ship spend from one budget.

        Raises Misuse when the file does not read.
        """
        self._path, self._book = folder / FILE_NAME, _read(folder / FILE_NAME)
        budgets = {link: budget for link, settings in links.items() if (budget := settings.budget())}
        self._budgets = {
            link: RemainingBudget(
                budget, self._book.get(link, {}), partial(self._keep, link), now_ms, Shares(me, others), self._book.get(_known(link))
            )
            for link, budget in budgets.items()
        }
        self._meters: dict[tuple[LinkClass, bool], Meter] = {}
        self._reported: set[tuple[str, LinkClass, str]] = set()

    def spent(self, link: LinkClass) -> bool:
        """Return whether a link of this class may be opened for nothing but alerts now."""
        return link in self._budgets and self._budgets[link].state(OPENING_BYTES) != "open"

    def any_spent(self) -> bool:
        """Return whether that is true of any class."""
        return any(self.spent(link) for link in self._budgets)

    def grant(self, link: str, day: str, bytes_: int) -> None:
        """Allow links of this class these charged bytes more on `day` (UTC): `RemainingBudget.grant`. Without a budget nothing changes."""
        for budget in (budget for name, budget in self._budgets.items() if name == link):
            budget.grant(day, bytes_)

    def heard(self, who: str, words: Mapping[str, tuple[str, Word]]) -> None:
        """Record the report of another node of the ship: per class of link for which it has a budget, the day (UTC) and its message about
        it.
        """
        for link, budget in self._budgets.items():
            if link in words:
                budget.shares.heard(words[link][0], who, words[link][1])
            else:
                budget.shares.apart(who)

    def give(self) -> bool:
        """Give some of what is left here to those of the ship's nodes that have less of a budget: `RemainingBudget.give`. Return whether
        anything was given.
        """
        return sum(budget.give() for budget in self._budgets.values()) > 0

    def settle(self) -> None:
        """Give back what no open link needs: a node that ends cleanly has spent what passed, and no more."""
        for budget in self._budgets.values():
            budget.settle()

    def meter(self, policy: LinkPolicy, count: Count) -> Meter:
        """Return the meter that reports to `count` the bytes of links with this policy, and allows them where their class has a budget. It
        is the same each time.
        """
        link, alerts = policy.link_class, policy.streams == (ALERTS,)
        if (link, alerts) not in self._meters:
            self._meters[link, alerts] = Meter(self._budgets.get(link), alerts, count)
        return self._meters[link, alerts]

    def news(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield what has happened since the last call, for `exceptions`: reason, outcome, details; each once a day."""
        for link, budget in self._budgets.items():
            fields: dict[str, Any] = budget.to_json()
            state = budget.state(OPENING_BYTES)
            news = "part" if state == "alerts" and fields["free_bytes"] >= OPENING_BYTES else state
            if news in _NEWS and (fields["day"], link, news) not in self._reported:
                self._reported = {key for key in self._reported if key[0] == fields["day"]} | {(fields["day"], link, news)}
                reason, outcome = _NEWS[news]
                yield reason.format(link), outcome, fields

    def status(self) -> dict[str, dict[str, Any]]:
        """Return, per class with a budget, the day, what was spent of what, what it cost, and what the link is open for."""
        return {link: {**budget.to_json(), "state": budget.state(OPENING_BYTES)} for link, budget in self._budgets.items()}

    def gauges(self) -> dict[str, float]:
        """Return the same for `metrics`: `budget.<class>.<what>`, the day by its number, and the bytes given to each node."""
        gauges: dict[str, float] = {}
        for link, status in self.status().items():
            figures = {what: status[what] for what in ("spent_bytes", "spent_here_bytes", "unsure_bytes", "left_bytes", "cost")}
            figures["day"] = date.fromisoformat(status["day"]).toordinal()
            figures |= {f"given_bytes.{who}": bytes_ for who, bytes_ in status["given_bytes"].items()}
            gauges |= {f"budget.{link}.{what}": value for what, value in figures.items()}
        return gauges

    def _keep(self, link: LinkClass, leased: Leased) -> bool:
        known = {day: bytes_ for day, bytes_ in self._budgets[link].known_bytes().items() if day in leased}
        book = {**self._book, link: dict(leased), _known(link): known}
        new_file = self._path.with_name(f"new-{FILE_NAME}")
        try:
            with new_file.open("w") as file:
                json.dump(book, file)
                file.flush()
                commit_point("lease.written")
                os.fsync(file.fileno())
            commit_point("lease.synced")
            new_file.rename(self._path)
            commit_point("lease.renamed")
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            return False  # a full disk: nothing more passes but alerts
        commit_point("lease.durable")
        self._book = book
        return True


def _known(link: LinkClass) -> str:
    """Return the key of the book for what was known to have passed, in addition to what was leased."""
    return f"{link} known"


def for_alerts(policy: LinkPolicy) -> LinkPolicy:
    """Return the same link, for alerts alone."""
    return replace(policy, streams=(ALERTS,))


def _read(path: Path) -> dict[str, dict[str, int]]:
    try:
        book = json.loads(path.read_bytes())
        return {str(link): {str(day): int(bytes_) for day, bytes_ in leased.items()} for link, leased in book.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as problem:
        raise Misuse(
            f"{path} does not read: {problem}", hint="delete it; today's budgets start again then", code="budgets_unreadable"
        ) from problem
