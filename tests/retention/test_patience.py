"""Goal: a consumer waits at a hole as long as the stream's patience, then says so, goes on, and gets each record once when it comes."""

from __future__ import annotations

import json
import random
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from landfall.storage.file_log import FileLog, FileLogOptions
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.segments import file_path
from streams.config.roles import Peer
from streams.consumers import CONSUMERS, Consumer
from streams.gap_skipping_reader import Patience, PatientReader, Polled, ReaderStanding
from streams.integrity.record_authorization import Entitled
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from tests.streams.damagekit import flip_bit
from tests.streams.logkit import NOW_MS, SHIP, FullDisk, append_rows, open_log, rows


def gapped(folder: Path, *ranges: tuple[int, int], total: int = 40, options: FileLogOptions | None = None) -> tuple[FileLog, FileLog]:
    """A ship's log of `total` rows, and a port's that has only `ranges` of it."""
    ship = open_log(folder / "ship")
    append_rows(ship, rows(total))
    port = open_log(folder / "port", "tokyo", options=options or FileLogOptions())
    bring(ship, port, *ranges)
    return ship, port


def bring(ship: FileLog, port: FileLog, *ranges: tuple[int, int]) -> None:
    for first, end in ranges:
        port.admit(list(ship.blocks("containers", ship.origin, first, end)))


def offsets(polled: Polled) -> list[int]:
    return [row.coordinates.offset for batch in (*polled.late, *polled.batches) for row in batch.rows()]


def told(log: FileLog) -> list[str]:
    bodies = [json.loads(b) for batch in log.read("exceptions", Position()) for b in batch.records.column("body").to_pylist()]
    return [body["reason"] for body in bodies]


def test_rows_that_their_writer_may_not_write_are_left_out_and_count_as_read(tmp_path: Path) -> None:
    """More of them in a row than are asked for at once hold nobody up, and nobody takes himself for caught up behind them."""
    foreign: set[str] = set()
    entitled = Entitled(
        {"ship-a": Peer("ship-a", "ship", "9321483")}.get, {"containers": lambda topic, *_: "no" if topic in foreign else None}
    )
    log = open_log(tmp_path / "ship", options=FileLogOptions(entitled=entitled))
    append_rows(log, rows(40, topics=40))
    topics = [topic for batch in log.read("containers", Position()) for topic in batch.records.column("topic").to_pylist()]
    foreign.update(topics[5:30])
    reader, standing, seen, steps = PatientReader(log, "containers"), ReaderStanding(), list[int](), list[int]()
    while reader.moves(standing):
        polled = reader.poll(standing, 8)
        seen, steps, standing = seen + offsets(polled), [*steps, polled.rows], polled.standing
    assert seen == [*range(5), *range(30, 40)]
    assert steps == [8] * 5
    log.close()


def test_it_waits_as_long_as_the_patience_then_skips_says_so_and_delivers_late(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    clock, seconds = StillClock(NOW_MS), 60.0
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: seconds, clock, "tokyo.port"))
    first = consumer.poll()
    assert offsets(first) == list(range(10))
    consumer.commit(first.position)
    for _ in range(3):
        assert offsets(consumer.poll()) == []
        clock.advance(20)
    beyond = consumer.poll()
    assert offsets(beyond) == list(range(15, 40))
    assert told(port) == [], "nothing is skipped before it is committed"
    consumer.commit(beyond.position)
    assert consumer.skipped() == {ship.origin: RangeSet([(10, 15)])}
    [report] = told(port)
    assert report.startswith(f"containers:{ship.origin} 10..14 ")
    assert offsets(consumer.poll()) == []
    bring(ship, port, (12, 15))
    late = consumer.poll()
    assert (offsets(late), late.position) == ([12, 13, 14], beyond.position)
    assert offsets(consumer.poll()) == [12, 13, 14], "until it is committed"
    consumer.commit(late.position)
    assert consumer.skipped() == {ship.origin: RangeSet([(10, 12)])}
    port.close()
    port = open_log(tmp_path / "port", "tokyo")
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: seconds, clock))
    assert consumer.skipped() == {ship.origin: RangeSet([(10, 12)])}
    bring(ship, port, (10, 12))
    assert offsets(consumer.poll()) == [10, 11]
    consumer.commit(consumer.poll().position)
    assert (consumer.skipped(), offsets(consumer.poll()), len(told(port))) == ({}, [], 1)
    port.close()
    ship.close()


def test_alerts_do_not_wait_at_all_and_a_changed_patience_counts_at_once(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    patience: list[float | None] = [None]
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: patience[0], StillClock(NOW_MS)))
    consumer.commit(consumer.poll().position)
    assert offsets(consumer.poll()) == [], "as long as it takes"
    patience[0] = 0.0
    assert offsets(consumer.poll()) == list(range(15, 40))
    port.close()
    ship.close()


def test_behind_a_hole_it_goes_on_in_pieces_of_any_size(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 0.0, StillClock(NOW_MS)))
    read: list[int] = []
    while found := offsets(polled := consumer.poll(3)):
        assert len(found) <= 3
        consumer.commit(polled.position)
        read += found
    assert read == [*range(10), *range(15, 40)]
    port.close()
    ship.close()


def test_who_is_never_idle_passes_a_hole_too(tmp_path: Path) -> None:
    """Another origin has something new at every poll: that the hole is due does not wait for a quiet moment."""
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    clock = StillClock(NOW_MS)
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 60.0, clock))
    read: list[tuple[Origin, int]] = []
    for _ in range(4):
        append_rows(port, rows(1))
        polled = consumer.poll()
        read += [(row.coordinates.origin, row.coordinates.offset) for batch in polled.batches for row in batch.rows()]
        consumer.commit(polled.position)
        clock.advance(25)
    assert [offset for origin, offset in read if origin == ship.origin] == [*range(10), *range(15, 40)]
    assert [offset for origin, offset in read if origin == port.origin] == [*range(4)]
    port.close()
    ship.close()


def test_a_hole_that_fills_while_it_waits_is_read_in_order(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 20), (25, 40))
    clock = StillClock(NOW_MS)
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 60.0, clock))
    consumer.commit(consumer.poll().position)
    assert offsets(consumer.poll()) == []
    clock.advance(59)
    bring(ship, port, (10, 15))
    polled = consumer.poll()
    assert offsets(polled) == list(range(10, 20))
    consumer.commit(polled.position)
    clock.advance(2)
    assert offsets(consumer.poll()) == [], "the next hole is waited for anew"
    assert told(port) == []
    clock.advance(61)
    assert offsets(consumer.poll()) == list(range(25, 40))
    port.close()
    ship.close()


def test_a_hole_that_is_declared_gone_is_no_longer_waited_for(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 0.0, StillClock(NOW_MS)))
    for _ in range(2):
        consumer.commit(consumer.poll().position)
    assert consumer.skipped() == {ship.origin: RangeSet([(10, 15)])}
    port.declare_gone("containers", ship.origin, 10, 15, "lost")
    consumer.commit(consumer.poll().position)
    assert consumer.skipped() == {}
    port.close()
    ship.close()


def test_effects_position_skip_and_exception_are_one_commit(tmp_path: Path) -> None:
    full = FullDisk()
    ship, port = gapped(tmp_path, (0, 10), (15, 40), options=FileLogOptions(disk=full))
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 0.0, StillClock(NOW_MS)))
    consumer.commit(consumer.poll(10).position)
    polled = consumer.poll()
    full.writes_left = 1
    with pytest.raises(RetryLater):
        consumer.commit(polled.position, [Append("alerts", rows(1))])
    full.writes_left = None
    assert (told(port), consumer.skipped(), port.position("alerts")) == ([], {}, Position())
    answers = consumer.commit(polled.position, [Append("alerts", rows(1))])
    assert [answer.stream for answer in answers] == ["alerts"]
    assert len(told(port)) == 1
    port.close()
    ship.close()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_in_whatever_order_each_is_delivered_once(tmp_path: Path, seed: int) -> None:
    """Blocks arrive anyhow, patience runs out now and then, the consumer is made anew between: every record once, none never."""
    chance = random.Random(seed)
    ship, port = gapped(tmp_path, total=60)
    clock, delivered = StillClock(NOW_MS), list[int]()
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 10.0, clock))
    cuts = sorted({0, 60, *(chance.randrange(60) for _ in range(12))})
    pieces = list(pairwise(cuts))
    chance.shuffle(pieces)
    for piece in pieces:
        bring(ship, port, piece)
        for _ in range(chance.randrange(4)):
            clock.advance(chance.choice([1, 11]))
            polled = consumer.poll(chance.choice([1, 5, 1000]))
            if chance.random() < 0.7:
                consumer.commit(polled.position)
                delivered += offsets(polled)
            if chance.random() < 0.2:
                consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 10.0, clock))
    while offsets(polled := consumer.poll(7)) or polled.position != consumer.position():
        consumer.commit(polled.position)
        delivered += offsets(polled)
    assert sorted(delivered) == list(range(60))
    assert consumer.skipped() == {}
    assert consumer.position() == Position({ship.origin: 60})
    port.close()
    ship.close()


LAID_OUT = {
    "on the way": [(0, 10), (10, 15), (15, 40)],
    "at the end": [(0, 10), (10, 15)],
    "behind a hole": [(0, 5), (10, 15), (15, 20), (20, 40)],
    "right behind a hole": [(0, 5), (10, 15), (20, 40)],
    "come late": [(0, 5), (20, 25), (10, 15), (15, 20)],
}
"""What of the ship's 40 records comes to the port, in that order, the block of 10..14 of which is damaged."""


@pytest.mark.parametrize(("where", "seconds"), [("on the way", None), ("at the end", None), *((where, 0.0) for where in LAID_OUT)])
def test_what_turns_out_to_be_damaged_as_it_is_read_is_delivered_once_it_is_fetched_again(
    tmp_path: Path, where: str, seconds: float | None
) -> None:
    """Whatever was read around it: it is a hole from that moment on, waited for or skipped like any other."""
    ship, port = gapped(tmp_path)
    patience = None if seconds is None else Patience(lambda: seconds, StillClock(NOW_MS))
    consumer, delivered = Consumer(port, "rules", "containers", patience=patience), list[int]()

    def deliver(rows_max: int) -> None:
        polled = consumer.poll(rows_max)
        while (polled.position, polled.skipped) != (consumer.position(), consumer.skipped()):
            consumer.commit(polled.position)
            delivered.extend(offsets(polled))
            polled = consumer.poll(rows_max)

    for first, end in LAID_OUT[where]:
        if first == 10 and where == "come late":
            deliver(100)
        bring(ship, port, (first, end))
    with closing(IndexReader.open(tmp_path / "port" / "log" / INDEX_NAME)) as index:
        [piece] = index.pieces(("containers", ship.origin), 10, 15)
    place = piece.location
    flip_bit(file_path(tmp_path / "port" / "log", place.segment), place.at + place.length // 2)
    deliver(100)
    assert not port.ledger("containers")[ship.origin].held.covers(10, 15), "it was read"
    assert not {*range(10, 15)}.intersection(delivered)
    bring(ship, port, (10, 15))
    deliver(3)
    bring(ship, port, (0, 40))
    deliver(3)
    assert sorted(delivered) == list(range(40))
    port.close()
    ship.close()


def test_where_it_stands_is_written_down_for_people(tmp_path: Path) -> None:
    ship, port = gapped(tmp_path, (0, 10), (15, 40))
    consumer = Consumer(port, "rules", "containers", patience=Patience(lambda: 0.0, StillClock(NOW_MS)))
    for _ in range(2):
        consumer.commit(consumer.poll().position)
    body = json.loads(port.latest(CONSUMERS, "rules")[0].records.column("body")[0].as_py())
    assert body == {"stream": "containers", "position": {str(ship.origin): 40}, "skipped": {str(ship.origin): [[10, 15]]}}
    with pytest.raises(Misuse):
        consumer.commit(Position({ship.origin: 12}))
    assert Origin.parse(next(iter(body["skipped"]))) == ship.origin != SHIP
    port.close()
    ship.close()
