"""Goal: a consumer deals with each record once, whatever dies in between, and takes its place to any copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from landfall.storage.file_log import FileLogOptions
from streams.consumers import CONSUMERS, Consumer
from streams.gap_skipping_reader import Patience
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import Misuse, RetryLater, Trimmed
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from tests.streams.logkit import NOW_MS, FullDisk, append_rows, copy_all, numbers, open_log, rows
from tests.streams.test_log_contract import Maker, files, in_kafka, make

__all__ = ["files", "in_kafka", "make"]


def test_it_goes_on_where_it_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(30))
    consumer = Consumer(log, "rules", "containers")
    assert consumer.position() == Position()
    first = consumer.poll(12)
    assert (first.rows, first.position) == (12, Position({log.origin: 12}))
    assert consumer.poll(12).position == first.position  # nothing was committed
    consumer.commit(first.position)
    log.close()
    log = open_log(tmp_path)
    consumer = Consumer(log, "rules", "containers")
    assert consumer.position() == first.position
    rest = consumer.poll()
    assert [row.coordinates.offset for batch in rest.batches for row in batch.rows()] == list(range(12, 30))
    consumer.commit(rest.position)
    assert consumer.poll() == (type(rest))((), rest.position)
    log.close()


def test_effects_and_position_are_one_commit(tmp_path: Path) -> None:
    full = FullDisk()
    log = open_log(tmp_path, options=FileLogOptions(disk=full))
    append_rows(log, rows(10))
    consumer = Consumer(log, "rules", "containers")
    polled = consumer.poll()
    full.writes_left = 1
    with pytest.raises(RetryLater):
        consumer.commit(polled.position, [Append("alerts", rows(2))])
    full.writes_left = None
    assert (numbers(log, "alerts"), Consumer(log, "rules", "containers").position()) == ([], Position())
    [answer] = consumer.commit(polled.position, [Append("alerts", rows(2))])
    assert (answer.stream, answer.count) == ("alerts", 2)
    assert (numbers(log, "alerts"), Consumer(log, "rules", "containers").position()) == ([0, 1], polled.position)
    log.close()


def test_it_never_goes_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    consumer = Consumer(log, "rules", "containers")
    consumer.commit(Position({log.origin: 7}))
    with pytest.raises(Misuse):
        consumer.commit(Position({log.origin: 6}))
    with pytest.raises(Misuse):
        Consumer(log, "rules", "ships")
    log.close()


def test_ahead_of_the_copy_it_waits_and_below_the_floor_it_is_told(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    append_rows(ship, rows(20))
    port.admit(list(ship.blocks("containers", ship.origin, 0, 10)))
    consumer = Consumer(port, "rules", "containers")
    consumer.commit(Position({ship.origin: 15}))
    assert consumer.poll().rows == 0
    copy_all(ship, port, ["containers"])
    assert [row.coordinates.offset for batch in consumer.poll().batches for row in batch.rows()] == list(range(15, 20))
    port.trim("containers", ship.origin, 18)
    with pytest.raises(Trimmed):
        consumer.poll()
    assert (consumer.poll_from_floor().rows, consumer.poll_from_floor().position) == (2, Position({ship.origin: 20}))


def test_a_hole_is_waited_for_then_skipped_then_delivered_late_once(make: Maker) -> None:
    """Also by who takes its place after it, where nothing but the log tells of it."""
    ship, port, clock = make("ship-a"), make("port-b"), StillClock(NOW_MS)
    append_rows(ship, rows(20))
    port.admit([*ship.blocks("containers", ship.origin, 0, 5), *ship.blocks("containers", ship.origin, 8, 20)])
    patience = Patience(lambda: 60.0, clock)
    consumer = Consumer(port, "rules", "containers", patience=patience)
    polled = consumer.poll()
    assert (polled.rows, polled.position) == (5, Position({ship.origin: 5}))
    consumer.commit(polled.position)
    clock.advance(59)
    assert consumer.poll().rows == 0
    clock.advance(2)
    polled = consumer.poll()
    assert (polled.rows, polled.position) == (12, Position({ship.origin: 20}))
    consumer.commit(polled.position)
    assert consumer.skipped() == {ship.origin: RangeSet([(5, 8)])}
    [told] = [text for batch in port.read("exceptions", Position()) for text in batch.records.column("body").to_pylist()]
    assert f"containers:{ship.origin} 5..7 " in told
    consumer = Consumer(port, "rules", "containers", patience=patience)
    copy_all(ship, port, ["containers"])
    late = consumer.poll()
    assert [row.coordinates.offset for batch in late.late for row in batch.rows()] == [5, 6, 7]
    consumer.commit(late.position)
    assert (consumer.skipped(), consumer.poll().rows) == ({}, 0)


def test_what_will_never_come_is_passed_over(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(10))
    log.declare_gone("containers", log.origin, 6, 10, "thinned")
    consumer = Consumer(log, "rules", "containers")
    polled = consumer.poll()
    assert (polled.rows, polled.position) == (6, Position({log.origin: 10}))


def test_a_successor_takes_its_place_at_another_node(tmp_path: Path) -> None:
    ship, port = open_log(tmp_path / "ship"), open_log(tmp_path / "port", "port-b")
    append_rows(ship, rows(10))
    Consumer(ship, "rules", "containers").commit(Position({ship.origin: 7}))
    copy_all(ship, port, ["containers", CONSUMERS])
    assert Consumer(port, "rules", "containers").position() == Position()  # its own, of the same name
    successor = Consumer(port, "rules", "containers", successor_of="ship-a")
    assert (successor.position(), successor.poll().rows) == (Position({ship.origin: 7}), 3)
    ship.close()
    port.close()


def test_a_new_generation_of_the_log_keeps_its_consumers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    old = log.origin
    append_rows(log, rows(10))
    Consumer(log, "rules", "containers").commit(Position({old: 4}))
    log.open_generation("to see")
    consumer = Consumer(log, "rules", "containers")
    assert consumer.position() == Position({old: 4})
    consumer.commit(Position({old: 9}))
    assert Consumer(log, "rules", "containers").position() == Position({old: 9})
    log.close()
