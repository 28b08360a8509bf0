"""The budgets of a node's links, kept in a file of its folder: which may be opened for what, and what people are told of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from landfall.node.settings import LinkSettings
from landfall.transport.byte_meter import OPENING_BYTES, Count, Meter
from streams.commit_points import commit_point
from streams.config.roles import LinkClass, LinkPolicy
from streams.link_budget.budget_shares import Shares, Word
from streams.link_budget.daily_budget import Leased, Purse
from streams.model.errors import Misuse

FILE_NAME = "budgets.json"
ALERTS = "alerts"
_NEWS = {
    "alerts": ("the day's budget of the {} link is spent", "all but alerts wait until midnight UTC"),
    "part": ("this node's part of the day's budget of the {} link is spent", "all but alerts wait for what another gives, or midnight UTC"),
    "overdrawn": ("alerts overdraw the day's budget of the {} link", "they are sent all the same"),
}


class Purses:
    """One purse per class of link that has a budget. Call it from the node's event loop."""

    def __init__(
        self, folder: Path, links: Mapping[LinkClass, LinkSettings], now_ms: Callable[[], int], me: str = "", others: Collection[str] = ()
    ) -> None:
        """`now_ms`: the time by which days begin, UTC. `me` and the `others` of this ship spend of one budget. Raises Misuse when the file
        does not read.
        """
        self._path, self._book = folder / FILE_NAME, _read(folder / FILE_NAME)
        budgets = {link: budget for link, settings in links.items() if (budget := settings.budget())}
        self._purses = {
            link: Purse(
                budget, self._book.get(link, {}), partial(self._keep, link), now_ms, Shares(me, others), self._book.get(_known(link))
            )
            for link, budget in budgets.items()
        }
        self._meters: dict[tuple[LinkClass, bool], Meter] = {}
        self._told: set[tuple[str, LinkClass, str]] = set()

    def spent(self, link: LinkClass) -> bool:
        """Whether a link of this class may be opened for nothing but alerts now."""
        return link in self._purses and self._purses[link].state(OPENING_BYTES) != "open"

    def any_spent(self) -> bool:
        """Whether that is so of any class."""
        return any(self.spent(link) for link in self._purses)

    def grant(self, link: str, day: str, bytes_: int) -> None:
        """On `day` (UTC) links of this class may take so many charged bytes more: `Purse.grant`. Without a budget nothing changes."""
        for purse in (purse for name, purse in self._purses.items() if name == link):
            purse.grant(day, bytes_)

    def heard(self, who: str, words: Mapping[str, tuple[str, Word]]) -> None:
        """Another node of the ship says so: per class of link for which it has a budget, the day (UTC) and its word of it."""
        for link, purse in self._purses.items():
            if link in words:
                purse.shares.heard(words[link][0], who, words[link][1])
            else:
                purse.shares.apart(who)

    def give(self) -> bool:
        """Give those of the ship's nodes that have less of a budget some of what is left here: `Purse.give`. Whether anything was given."""
        return sum(purse.give() for purse in self._purses.values()) > 0

    def settle(self) -> None:
        """Give back what no link that is open needs: a node that ends cleanly has spent what passed, and no more."""
        for purse in self._purses.values():
            purse.settle()

    def meter(self, policy: LinkPolicy, count: Count) -> Meter:
        """What tells `count` the bytes of links with this policy, and allows them where their class has a budget: each time the same."""
        link, alerts = policy.link_class, policy.streams == (ALERTS,)
        if (link, alerts) not in self._meters:
            self._meters[link, alerts] = Meter(self._purses.get(link), alerts, count)
        return self._meters[link, alerts]

    def news(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """What has come to pass since the last call, for `exceptions`: reason, outcome, details; each once a day."""
        for link, purse in self._purses.items():
            told: dict[str, Any] = purse.to_json()
            state = purse.state(OPENING_BYTES)
            news = "part" if state == "alerts" and told["free_bytes"] >= OPENING_BYTES else state
            if news in _NEWS and (told["day"], link, news) not in self._told:
                self._told = {one for one in self._told if one[0] == told["day"]} | {(told["day"], link, news)}
                reason, outcome = _NEWS[news]
                yield reason.format(link), outcome, told

    def status(self) -> dict[str, dict[str, Any]]:
        """Per class with a budget: the day, what was spent of what, what it cost, and what the link is open for."""
        return {link: {**purse.to_json(), "state": purse.state(OPENING_BYTES)} for link, purse in self._purses.items()}

    def gauges(self) -> dict[str, float]:
        """The same for `metrics`: `budget.<class>.<what>`, the day by its number, and what was given to whom of it."""
        gauges: dict[str, float] = {}
        for link, status in self.status().items():
            told = {what: status[what] for what in ("spent_bytes", "spent_here_bytes", "unsure_bytes", "left_bytes", "cost")}
            told["day"] = date.fromisoformat(status["day"]).toordinal()
            told |= {f"given_bytes.{who}": bytes_ for who, bytes_ in status["given_bytes"].items()}
            gauges |= {f"budget.{link}.{what}": value for what, value in told.items()}
        return gauges

    def _keep(self, link: LinkClass, leased: Leased) -> bool:
        known = {day: bytes_ for day, bytes_ in self._purses[link].known_bytes().items() if day in leased}
        book = {**self._book, link: dict(leased), _known(link): known}
        beside = self._path.with_name(f"new-{FILE_NAME}")
        try:
            with beside.open("w") as file:
                json.dump(book, file)
                file.flush()
                commit_point("lease.written")
                os.fsync(file.fileno())
            commit_point("lease.synced")
            beside.rename(self._path)
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
    """Where the book has what was known to have passed, beside what was leased."""
    return f"{link} known"


def for_alerts(policy: LinkPolicy) -> LinkPolicy:
    """The same link, for alerts alone."""
    return replace(policy, streams=(ALERTS,))


def _read(path: Path) -> dict[str, dict[str, int]]:
    try:
        book = json.loads(path.read_bytes())
        return {str(link): {str(day): int(bytes_) for day, bytes_ in leased.items()} for link, leased in book.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as problem:
        raise Misuse(
            f"{path} does not read: {problem}", hint="delete it; today's budgets begin anew then", code="budgets_unreadable"
        ) from problem
