"""Goal: the promises of the Log port about copies and their mending, and about bad arguments; over files and over a real Kafka."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.storage.index_writer import IndexWriter
from landfall.storage.log_state import FrameChange
from streams.codec import BlockCodec
from streams.consumers import Consumer
from streams.log import Append, PeerKnowsMore
from streams.model.errors import Corrupt, Misuse, RetryLater
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from tests.streams.logkit import append_rows, content, copy_all, offsets, open_log, rows, stamped
from tests.streams.test_log_contract import Maker, files, in_kafka, make
from tests.support.refusals import refusal

__all__ = ["files", "in_kafka", "make"]

SHIP, HQ = Origin("ship-a", 5), Origin("hq", 9)
CUTS = st.lists(st.tuples(st.sampled_from([SHIP, HQ]), st.integers(0, 59), st.integers(1, 30)), min_size=1, max_size=12)


def test_what_is_left_of_a_large_block_comes_in_parts(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is cut is written anew, which takes memory by its rows; one that is not goes as it is."""
    monkeypatch.setattr("landfall.storage.log_reader.CUT_ROWS_MAX", 100)
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(1_000))
    assert [block.count for block in source.blocks("containers", source.origin, 0, 1_000)] == [1_000]
    blocks = list(source.blocks("containers", source.origin, 10, 960))
    assert [block.count for block in blocks] == [95] * 10
    assert [block.count for block in source.blocks("containers", source.origin, 905, 1_000)] == [95]
    assert target.admit(blocks) == 950
    assert offsets(target, "containers", source.origin) == list(range(10, 960))


def test_what_is_set_aside_is_wanted_again_and_comes_back(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    for commit in range(4):
        append_rows(ship, rows(10, start=10 * commit))
    copy_all(ship, port, ["containers"])
    truth = content(port, ["containers"])
    assert port.set_aside("containers", ship.origin, 10, 20, "not what was signed") == 10
    assert port.position("containers") == Position({ship.origin: 10})
    one = port.ledger("containers")[ship.origin]
    assert (one.held.count(), list(one.wanted(one.held.copy())), one.gone) == (30, [], {})
    assert [block.first for block in port.blocks("containers", ship.origin, 0, 40)][-1] >= 20
    copy_all(ship, port, ["containers"])
    assert content(port, ["containers"]) == truth
    with refusal(Misuse, "origin_own"):
        ship.set_aside("containers", ship.origin, 0, 1, "why")
    for stream, first, end in (("containers", -1, 5), ("containers", 5, 4), ("containers", 0, 1 << 63), ("no stream!", 0, 1)):
        with pytest.raises(Misuse):
            port.set_aside(stream, ship.origin, first, end, "why")
    assert port.set_aside("containers", ship.origin, 40, 60, "why") == 0, "nothing is held there"
    assert content(port, ["containers"]) == truth


def test_what_the_disk_does_not_give_is_replaced_by_what_a_peer_brings_and_by_nothing_that_is_damaged(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    for commit in range(4):
        append_rows(ship, rows(10, start=10 * commit))
    copy_all(ship, port, ["containers"])
    truth, origin = content(ship, ["containers"]), ship.origin
    [block] = ship.blocks("containers", origin, 10, 20)
    for log in (ship, port):
        with refusal(Corrupt, "block_corrupt"):
            log.replace(replace(block, payload=block.payload[:-1]), RangeSet([(0, 40)]))
        assert log.ledger("containers")[origin].held == RangeSet([(0, 40)])
        assert log.replace(block, RangeSet([(15, 30)])) == 5, "the rest of the block is held, and can be read"
        assert log.replace(block, RangeSet([(20, 30)])) == 0, "it brings none of these"
        assert content(log, ["containers"]) == truth
        with pytest.raises(PeerKnowsMore) if log is ship else nullcontext():
            log.replace(replace(block, first=40), RangeSet([(0, 40)]))
    assert ship.position("containers") == Position({origin: 40})


def test_the_latest_row_of_a_topic_at_some_nodes_alone(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    for log in (ship, port):
        append_rows(log, rows(10))
    copy_all(ship, port, ["containers"])
    for nodes, found in ((None, [port.origin, ship.origin]), (["ship-a"], [ship.origin]), ({"port-b", None}, [port.origin]), ([], [])):
        assert [batch.origin for batch in port.latest("containers", "box-3", nodes)] == found


def test_a_topic_s_rows_are_those_that_are_held_of_a_block(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(30))
    log.trim("containers", log.origin, 12)
    assert [row.coordinates.offset for batch in log.topic_rows("containers", "box-3") for row in batch.rows()] == [17, 24]


def test_own_end_is_what_this_log_gave_itself(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    append_rows(ship, rows(7))
    first = ship.origin
    copy_all(ship, port, ["containers"])
    assert (ship.own_end("containers", first), ship.own_end("events", first), port.own_end("containers", first)) == (7, 0, 0)
    second = ship.open_generation("to see")
    append_rows(ship, rows(2, start=7))
    assert (ship.own_end("containers", first), ship.own_end("containers", second)) == (7, 2)


def test_who_polls_while_a_commit_is_under_way_passes_over_nothing(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index has a commit before the log tells of it: a Position is never beyond what is read with it, whoever asks in between."""
    log = make("ship-a")
    append_rows(log, rows(5))
    consumer, apply, told = Consumer(log, "rules", "containers"), IndexWriter.apply, list[Position]()

    def applied(index: IndexWriter, changes: Sequence[FrameChange]) -> None:
        apply(index, changes)
        told.append(log.position("containers"))
        polled = consumer.poll()
        consumer.committed(polled.position)
        dealt_with.extend(row.coordinates.offset for batch in polled.batches for row in batch.rows())

    dealt_with: list[int] = []
    monkeypatch.setattr(IndexWriter, "apply", applied)
    append_rows(log, rows(5, start=5))
    append_rows(log, rows(5, start=10))
    monkeypatch.undo()
    dealt_with.extend(row.coordinates.offset for batch in consumer.poll().batches for row in batch.rows())
    assert dealt_with == list(range(15))
    assert told == [Position({log.origin: 5}), Position({log.origin: 10})]


def test_positions_are_those_of_all_streams(make: Maker) -> None:
    log = make("ship-a")
    assert dict(log.positions()) == {}
    log.append([Append("containers", rows(3)), Append("ships", rows(2))])
    log.declare_gone("containers", log.origin, 0, 1, "lost")
    assert (
        dict(log.positions())
        == {stream: log.position(stream) for stream in log.streams()}
        == {
            "containers": Position({log.origin: 3}),
            "ships": Position({log.origin: 2}),
        }
    )


def test_what_is_no_stream_range_or_reason_changes_nothing(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(10))
    origin, before = log.origin, log.ledger("containers")
    for stream, first, end, reason in (("Not A Stream", 0, 1, "lost"), ("containers", 5, 3, "lost"), ("containers", -2, 3, "lost")):
        with pytest.raises(Misuse):
            log.declare_gone(stream, origin, first, end, reason)  # type: ignore[arg-type]
    with refusal(Misuse, "gone_reason_unknown", "eaten"):
        log.declare_gone("containers", origin, 0, 1, "eaten")  # type: ignore[arg-type]
    for stream, floor in (("Not A Stream", 1), ("containers", -1), ("containers", 1 << 63)):
        with pytest.raises(Misuse):
            log.trim(stream, origin, floor)
    assert log.ledger("containers") == before


def test_closing_again_takes_nothing_from_others(make: Maker, tmp_path: Path) -> None:
    """What the first time gave back to the system may be another's by the second."""
    log = make("ship-a")
    append_rows(log, rows(10))
    log.close()
    with ExitStack() as others:
        opened = [others.enter_context((tmp_path / f"other-{number}").open("w+b", buffering=0)) for number in range(64)]
        log.close()
        assert [file.write(b"whole") for file in opened] == [5] * 64


def test_a_closed_log_in_files_writes_into_nobodys_file(files: Maker, tmp_path: Path) -> None:
    """The segment it wrote may have given its descriptor to another's file."""
    log = files("ship-a")
    append_rows(log, rows(10))
    log.close()
    with ExitStack() as others:
        paths = [tmp_path / f"other-{number}" for number in range(64)]
        for path in paths:
            others.enter_context(path.open("w+b", buffering=0))
        with refusal(RetryLater, "disk_refused", os.strerror(errno.EBADF)):
            append_rows(log, rows(10, start=10))
        assert not any(path.stat().st_size for path in paths)


@settings(max_examples=10)
@given(CUTS, st.randoms(use_true_random=False))
def test_blocks_may_come_in_any_order_cut_anyhow_and_again(cuts: list[tuple[Origin, int, int]], chance: random.Random) -> None:
    """Whatever pieces of two origins' records come, one by one or several in one commit: the same are held, and read the same."""
    codec = BlockCodec()
    blocks = [
        codec.encode("containers", origin, stamped(rows(count, start=first), first=first))
        for origin, first, count in cuts
        for _ in range(2)
    ]
    found = []
    for _ in range(3):
        chance.shuffle(blocks)
        with TemporaryDirectory() as folder:
            log = open_log(Path(folder), "port-b")
            at = 0
            while at < len(blocks):
                some = chance.randint(1, 4)
                log.admit(blocks[at : at + some])
                at += some
            found.append((log.ledger("containers"), log.position("containers"), content(log, ["containers"])))
            log.close()
    assert found[0] == found[1] == found[2]
    held = {origin: RangeSet((first, first + count) for one, first, count in cuts if one == origin) for origin, _, _ in cuts}
    assert {origin: one.held for origin, one in found[0][0].items()} == held


def test_a_block_around_rows_that_came_before_it_counts_once(make: Maker) -> None:
    """As after `landfall ask`: every tenth row came alone, the others in one block later. Retention goes by these bytes."""
    source, target = make("ship-a"), make("tokyo")
    append_rows(source, rows(200))
    (whole,) = source.blocks("containers", source.origin, 0, 200)
    for at in range(5, 200, 10):
        target.admit(list(source.blocks("containers", source.origin, at, at + 1)))
    alone = sum(span.stored_bytes for span in target.spans("containers", source.origin))
    assert alone > 0
    target.admit([whole])
    assert RangeSet((span.first, span.end) for span in target.spans("containers", source.origin)) == RangeSet([(0, 200)])
    stored = sum(span.stored_bytes for span in target.spans("containers", source.origin))
    assert stored < alone + 2 * sum(span.stored_bytes for span in source.spans("containers", source.origin))
