"""Goal: whatever befalls a fleet, in any graph, nothing is lost, nothing comes twice or altered, nobody gets what is not his, no budget is
overspent, no forger believed and no honest peer accused; and these simulations would notice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from streams.config.roles import may_send
from streams.integrity.admission_verifier import Believing
from streams.integrity.key_trust import Trust
from streams.link_budget.daily_budget import RemainingBudget
from streams.replication import Session, Terms
from streams.replication.exchange_member import ExchangeMember
from streams.replication.receiver import Receiver
from streams.replication.sync_messages import Ack, Hello
from tests.sync.plans import FAULTS, SHAPES, plan_of
from tests.sync.simulate import command, failure, until_stopped

SEEDS, SEEDS_IN_CI, SEEDS_BY_TORTURE, SEEDS_A_TEST = 120, 960, 2400, 12
"""So many by default: they bring every shape and every fault, and notice every bug that is put in below. Those up to SEEDS_IN_CI by
`make long` too, the others by `make torture`."""
FIRST, LONG, TORTURE = (range(low, high, SEEDS_A_TEST) for low, high in pairwise((0, SEEDS, SEEDS_IN_CI, SEEDS_BY_TORTURE)))


@pytest.mark.cases("first", FIRST, long=LONG, torture=TORTURE)
def test_all_holds_whatever_befalls_a_fleet(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        problem = failure(plan_of(seed))
        assert problem is None, f"seed {seed}: {problem}\n{command(seed)}"


@pytest.mark.torture
def test_all_holds_until_it_is_stopped() -> None:
    until_stopped(random.randrange(1 << 48))


@pytest.mark.parametrize("seed", [5_000_041, 5_000_153])
def test_who_brings_what_a_disk_keeps_the_statement_of_is_no_forger(seed: int) -> None:
    """Goal: what is signed may lie on a disk that does not give it; nobody is accused for what he brought of it."""
    assert failure(plan_of(seed)) is None


def test_the_seeds_bring_every_shape_and_every_fault() -> None:
    plans = [plan_of(seed) for seed in range(SEEDS)]
    assert {plan.shape for plan in plans} == set(SHAPES)
    kinds = Counter(step.kind for plan in plans for step in plan.steps)
    assert min(kinds[kind] for kind in FAULTS) >= 20, kinds


def _hasty(bugs: pytest.MonkeyPatch) -> None:
    complete: Callable[..., None] = Receiver._complete

    def hasty(self: Any, incoming: Any) -> None:
        complete(self, incoming)
        self._answer(Ack([incoming.begin.transfer]))

    bugs.setattr(Receiver, "_complete", hasty)


def _generous(bugs: pytest.MonkeyPatch) -> None:
    bugs.setattr(Terms, "outgoing", lambda self, key: self.link.carries(key[0]) and may_send(self.me, key[1].node))


def _forgetful(bugs: pytest.MonkeyPatch) -> None:
    begin: Callable[..., None] = RemainingBudget.__init__

    def forgetful(self: Any, *known: Any) -> None:
        begin(self, *known)
        self._used = {}

    bugs.setattr(RemainingBudget, "__init__", forgetful)


def _proud(bugs: pytest.MonkeyPatch) -> None:
    bugs.setattr(ExchangeMember, "lost", lambda *_: None)


def _credulous(bugs: pytest.MonkeyPatch) -> None:
    bugs.setattr(Believing, "looked_at", lambda self, block: None)


def _anybodys(bugs: pytest.MonkeyPatch) -> None:
    bugs.setattr(Trust, "problem", lambda self, statement: None if statement.signed() else "no signature")


def _trusting(bugs: pytest.MonkeyPatch) -> None:
    bugs.setattr("landfall.node.peers.peer_acknowledgements.is_home", lambda peer, definition: True)


def _any_links(bugs: pytest.MonkeyPatch) -> None:
    heard: Callable[..., None] = Session._heard_hello

    def any_links(self: Any, hello: Hello) -> None:
        heard(self, msgspec.structs.replace(hello, answers=self._terms.nonces.mine))

    bugs.setattr(Session, "_heard_hello", any_links)


@pytest.mark.parametrize(
    ("bug", "noticed", "first"),
    [
        (_hasty, "is not durable there", 0),
        (_generous, "ship-", 0),
        (_forgetful, "has spent", 15),
        (_proud, "has not heard of", 11),
        (_credulous, "has taken other rows", 5),
        (_anybodys, "has taken other rows", 5),
        (_trusting, "which headquarters has not had", 6),
        (_any_links, "goes by what was said on another link", 5),
    ],
)
def test_a_bug_is_noticed(bug: Callable[[pytest.MonkeyPatch], None], noticed: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one of the default seeds: `first`, as the code is now, which is tried before the others."""
    bug(monkeypatch)
    assert any(noticed in (failure(plan_of(seed)) or "") for seed in (first, *range(SEEDS)))
