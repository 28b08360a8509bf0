"""Goal: who says that it has what it has not, or threw away what it acknowledged, is named as soon as its own later word shows it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from streams.config.roles import LAN, Peer
from streams.model.identifiers import Origin
from streams.model.ledger import OriginLedger
from streams.model.ranges import Range, RangeSet
from streams.replication import Key, Report, Session, Terms, exchange
from streams.replication import sync_messages as m
from streams.replication.exchange import HAS_NOT, PeerHoldings
from streams.replication.ledger_summaries import summaries
from tests.sync.world import World, rows

SHIP: Key = ("containers", Origin("ship-a", 1))


class Throwaway:
    """A port that says what a test wants of `SHIP`, session after session, to headquarters, which holds 100 records of it."""

    def __init__(self) -> None:
        self.world = World(3)
        self.hq = self.world.station("hq", "hq")
        self.world.station("liar")
        self.hq.log.write(SHIP, 0, rows(random.Random(3), 100))
        self.hq.exchange.changed(["containers"])

    def meets(self, next_offset: int, has: Sequence[Range] = (), beyond: Sequence[Range] = ()) -> list[Report]:
        """One session: what it says in the summary, and what it says to have got since; returns how it is named."""
        hq, stream, origin = self.hq, *SHIP
        terms = Terms(hq.me, Peer("liar", "port"), LAN, hq.exchange.roles)
        session = Session(hq.exchange, terms, self.world.clock.monotonic_s, lambda: None)
        told = m.OriginSummary(origin.node, origin.generation, next_offset, 0, list(beyond), [])
        for said in (
            m.Hello(m.PROTOCOL, m.PROTOCOL, "liar", "port", "", 1, ["*"], [], b""),
            m.Digests([(stream, bytes(8))], last=True),
            m.Summary(stream, [told], last=True),
            m.Track(0, stream, origin.node, origin.generation),
            *([m.Have(0, list(has))] if has else ()),
        ):
            session.receive(m.encode(said))
        assert not session.closed
        reports = [effect for effect in session.effects() if isinstance(effect, Report)]
        session.cut()
        return [report for report in reports if report.reason == HAS_NOT]


def test_what_it_said_it_had_and_has_not_when_we_meet_again_is_told_with_the_offsets() -> None:
    liar = Throwaway()
    assert liar.meets(0, has=[(0, 80)]) == []
    [named] = liar.meets(30)
    assert named.details == {"peer": "liar", "stream": "containers", "origin": "ship-a@1", "first": 30, "end": 80, "records": 50}
    assert liar.meets(0) == [], "not again within the hour"
    liar.world.clock.advance(exchange.REPORT_EVERY_S)
    [again] = liar.meets(0)
    assert (again.details["first"], again.details["end"]) == (0, 30), "its later word went for its earlier"


@pytest.mark.parametrize(
    ("has", "then", "beyond"),
    [
        ([(0, 80)], 80, []),
        ([(0, 80)], 100, []),
        ([(50, 80)], 0, [(50, 80)]),
        ([(100, 500)], 0, []),
        ([], 0, []),
    ],
    ids=["the-same", "more", "a-piece", "what-nobody-here-has", "nothing"],
)
def test_who_still_has_it_is_not_named(has: list[Range], then: int, beyond: list[Range]) -> None:
    port = Throwaway()
    port.meets(0, has=has)
    assert port.meets(then, beyond=beyond) == []


def test_beyond_the_pieces_that_a_summary_has_room_for_nothing_is_concluded() -> None:
    port = Throwaway()
    pieces = [(2 * at, 2 * at + 1) for at in range(m.RANGES_MAX)]
    port.hq.log.write(SHIP, 100, rows(random.Random(4), 100))
    port.hq.exchange.changed(["containers"])
    port.meets(0, has=[*pieces[1:], (150, 160)])
    assert port.meets(0, beyond=[(at + 2, end + 2) for at, end in pieces]) == []


def test_what_several_summaries_tell_of_one_origin_goes_on_where_the_one_before_ended() -> None:
    known, pieces = PeerHoldings(), RangeSet((2 * at, 2 * at + 1) for at in range(1, 101))
    known.remember("tokyo", {SHIP: pieces})
    one = OriginLedger(held=pieces.without([(150, 151)]))
    (told,) = summaries("containers", {SHIP[1]: one})
    assert [len(part.beyond) for part in told.origins] == [m.RANGES_MAX, 99 - m.RANGES_MAX]
    reports = [
        report for at, part in enumerate(told.origins) for report in known.broken("tokyo", SHIP, part, RangeSet([(0, 300)]), at > 0, 0.0)
    ]
    assert [(report.details["first"], report.details["records"]) for report in reports] == [(150, 1)]


def test_what_it_wrote_itself_a_peer_may_lose() -> None:
    """A log restored from a backup fetches it back."""
    known = PeerHoldings()
    known.remember("ship-a", {SHIP: RangeSet([(0, 50)])})
    nothing = m.OriginSummary("ship-a", 1, 0, 0, [], [])
    assert known.broken("ship-a", SHIP, nothing, RangeSet([(0, 50)]), False, 0.0) == []
    known.remember("tokyo", {SHIP: RangeSet([(0, 50)])})
    assert known.broken("tokyo", SHIP, nothing, RangeSet([(0, 50)]), False, 0.0)


def test_of_many_pieces_the_last_sessions_alone_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RANGES_KEPT_MAX", 10)
    known, pieces = PeerHoldings(), RangeSet((2 * at, 2 * at + 1) for at in range(6))
    for number in range(5):
        known.remember("tokyo", {("containers", Origin("ship-a", 1 + number)): pieces})
    assert list(known._said["tokyo"]) == [("containers", Origin("ship-a", 5))]


def test_a_node_that_restarts_names_nobody_for_what_it_has_forgotten() -> None:
    port = Throwaway()
    port.meets(0, has=[(0, 80)])
    port.hq.start()
    assert port.meets(0) == []
