"""Goal: what a peer says is gone costs what it says, not that times all that it said before."""

from __future__ import annotations

from typing import Any

import pytest

from streams.config.roles import Peer
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import deletion_claims
from streams.replication.deletion_claims import DeletionClaims
from streams.replication.effects import DeclareGone
from streams.replication.link_terms import Key
from tests.support.refusals import refusal

SAID = 2_000


class Exchange:
    """Holds the first ten records of every origin but its own, and counts how often it is asked."""

    origin = Origin("here", 1)

    def __init__(self) -> None:
        self.asked = 0

    def held(self, key: Key) -> RangeSet:
        self.asked += 1
        return RangeSet([(0, 2), (8, 10)])

    def gone(self, key: Key) -> RangeSet:
        return RangeSet()

    def signed_end(self, key: Key) -> None:
        return None

    def said_gone(self, node: str, key: Key, ranges: RangeSet) -> None:
        """Nothing of it is looked at here."""

    def may_begin(self, node: str, key: Key) -> bool:
        return True


def heard(peer: str, role: Any = "port") -> tuple[DeletionClaims, Exchange, list[DeclareGone]]:
    exchange, declared = Exchange(), list[DeclareGone]()
    return DeletionClaims(exchange, Peer(peer, role), declared.append), exchange, declared  # type: ignore[arg-type]


def test_each_word_is_looked_at_once_while_nothing_changes() -> None:
    word, exchange, declared = heard("relay")
    for number in range(SAID):
        word.heard(("containers", Origin(f"o{number}", 1)), "lost", RangeSet([(100, 200)]))
    assert declared == [], "above all that is held here: kept in mind"
    assert exchange.asked <= 3 * SAID
    asked = exchange.asked
    word.learnt(("containers", Origin("o7", 1)))
    assert exchange.asked <= asked + 3, "of that one alone"


def test_what_is_believed_is_declared_one_after_another() -> None:
    word, _, declared = heard("relay")
    for number in range(3):
        word.heard(("containers", Origin(f"o{number}", 1)), "lost", RangeSet([(2, 20)]))
    assert [one.ranges for one in declared] == [RangeSet([(2, 8)])], "below what is held, and no more before that is written down"
    word.declared()
    word.declared()
    word.declared()
    assert [one.origin.node for one in declared] == ["o0", "o1", "o2"]
    own, _, said = heard("o5")
    own.heard(("containers", Origin("o5", 1)), "lost", RangeSet([(2, 20)]))
    assert [one.ranges for one in said] == [RangeSet([(2, 8), (10, 20)])], "its own word holds beyond"


def test_there_is_an_end_to_what_is_kept_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_claims, "WAITING_RANGES_MAX", 50)
    word, _, _ = heard("relay")
    for number in range(50):
        word.heard(("containers", Origin(f"o{number}", 1)), "lost", RangeSet([(100, 200)]))
    with refusal(Corrupt, "peer_limit_passed"):
        word.heard(("containers", Origin("more", 1)), "lost", RangeSet([(100, 200)]))
