"""Goal: the bytes of records that a peer can make a node hold are bounded, for each by itself; nothing is lost, no alert is held up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from streams.config.roles import LAN, Lane, Peer
from streams.model.block import digest
from streams.model.identifiers import Origin
from streams.replication import Admit, Report, Session, Terms, ingress_quota
from streams.replication import sync_messages as m
from streams.replication.effects import BYTES_PAST_ALLOWANCE
from streams.replication.ingress_quota import BYTES_PER_DAY, DAY_S, SAVED_DAYS, Allowances
from tests.sync.framelog import block_of
from tests.sync.lying import Liar
from tests.sync.world import World, rows

ROW_BYTES = 1_000


class Flooder(Liar):
    """Brings records in another's name that read, block by block."""

    def __init__(self, per_day: int) -> None:
        super().__init__()
        terms = Terms(self.honest.me, Peer("liar", "port"), LAN, self.honest.exchange.roles, bytes_per_day=per_day)
        self.session = Session(self.honest.exchange, terms, self.world.clock.monotonic_s, lambda: None)
        self.tracks: list[str] = []
        self.number = 0
        self.told: list[Report] = []
        self.greet()

    def bring(self, stream: str, first: int, damaged: bool = False) -> str:
        """One row of ROW_BYTES and a little more; what becomes of it."""
        self.number += 1
        data = block_of((stream, Origin("hq", 1)), first, [bytes(ROW_BYTES)]).to_bytes()
        if stream not in self.tracks:
            self.say(m.Track(len(self.tracks), stream, "hq", 1))
            self.tracks.append(stream)
        named = bytes(16) if damaged else digest(data)
        self.say(m.Begin(self.number, self.tracks.index(stream), first, first + 1, len(data), named, 0, data))
        for effect in self.session.effects():
            if isinstance(effect, Admit):
                self.honest.log.admit(effect.block)
                self.session.admitted(effect.number, None)
            elif isinstance(effect, Report):
                self.told.append(effect)
        [answer] = [answer for answer in self.answers() if isinstance(answer, m.Ack | m.Reject)]
        return "taken" if isinstance(answer, m.Ack) else answer.code

    def flood(self, stream: str, first: int = 0, blocks: int = 40) -> int:
        """How many of so many blocks are taken."""
        return [self.bring(stream, first + number) for number in range(blocks)].count("taken")


def test_who_floods_is_stopped_and_named_and_goes_on_day_by_day() -> None:
    liar = Flooder(2 * ROW_BYTES)
    most = liar.flood("containers")
    assert SAVED_DAYS * 2 * 0.8 <= most <= SAVED_DAYS * 2 + 1
    assert [report.reason for report in liar.told] == [BYTES_PAST_ALLOWANCE], "once a session"
    details = liar.told[0].details
    assert (details["peer"], details["stream"], details["bytes_per_day"]) == ("liar", "containers", 2 * ROW_BYTES)
    assert not liar.session.closed
    liar.world.clock.advance(DAY_S)
    liar.say(m.Ping(1))
    assert 1 <= liar.flood("containers", most, 10) <= 3


def test_alerts_have_an_allowance_of_their_own_and_so_has_every_other_peer() -> None:
    liar = Flooder(2 * ROW_BYTES)
    liar.flood("containers")
    assert liar.bring("containers", 90) == "elsewhere"
    assert 1 < liar.flood("alerts", 10) < 40, "and it has an end too"
    world, honest = liar.world, liar.honest
    world.station("sydney").append("containers", rows(random.Random(1), 50, ROW_BYTES))
    world.connect("sydney", "tokyo")
    world.run(5.0)
    assert len(honest.log.rows["containers", world.stations["sydney"].origin]) == 50


def test_what_is_held_already_or_does_not_verify_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.replication.receiver.CORRUPT_MAX", 100)
    liar = Flooder(1_000 * ROW_BYTES)
    honest = liar.honest.exchange.allowances

    def left() -> float:
        return honest.left("liar", Lane.READINGS, 1_000 * ROW_BYTES, liar.world.clock.monotonic_s())

    liar.bring("containers", 0)
    once = left()
    for _ in range(9):
        assert liar.bring("containers", 0) == "taken"
        assert liar.bring("containers", 5, damaged=True) == "damaged"
    assert left() == once
    data = block_of(("containers", Origin("hq", 1)), 7, [bytes(ROW_BYTES)]).to_bytes()
    liar.say(m.Begin(99, 0, 7, 8, len(data), digest(data), 0, data[:10]))
    assert left() < once
    liar.session.cut()
    assert left() == once, "half a block has a bound of its own"


def test_a_node_that_was_refused_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records come as its allowance grows."""
    monkeypatch.setattr(ingress_quota, "DAY_S", 10.0)
    world = World(3)
    tokyo, hq = world.station("tokyo"), world.station("hq", "hq")
    tokyo.append("containers", rows(random.Random(3), 30, ROW_BYTES))
    connection = world.connect("tokyo", "hq")
    session = connection.ends["hq"]
    session.receiver.terms = session._terms = replace(session._terms, bytes_per_day=2 * ROW_BYTES)
    for _ in range(8):
        tokyo.append("containers", rows(random.Random(4), 4, ROW_BYTES))
        world.run(2.0)
    assert any(report.reason == BYTES_PAST_ALLOWANCE for report in hq.reports)
    world.run_until(lambda: world.complete("hq"), deadline_s=1_200.0)
    world.check()


def test_a_ship_that_comes_home_after_ten_days_with_a_reading_a_minute_of_24_000_boxes_brings_it_all() -> None:
    """At 16 bytes a reading, twice what a backlog takes; and in each of the next ten days as much as she makes."""
    day_bytes, known = 24_000 * 1_440 * 16, Allowances()
    per_day = BYTES_PER_DAY["ship"]
    assert known.left("ship-a", Lane.READINGS, per_day, 0.0) >= 10 * day_bytes
    known.spend("ship-a", Lane.READINGS, 10 * day_bytes)
    for day in range(1, 11):
        assert known.left("ship-a", Lane.READINGS, per_day, day * DAY_S) >= day_bytes
        known.spend("ship-a", Lane.READINGS, day_bytes)
