"""Goal: every log keeps the promises of the Log port. One suite, every implementation: its own files, a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from streams.codec import BlockCodec
from streams.log import READ_RECORDS_MAX, Append, Log, PeerKnowsMore
from streams.model.clock import StillClock
from streams.model.errors import Corrupt, Misuse, Trimmed
from streams.model.identifiers import Origin, Position
from streams.model.ledger import position_of
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET, ORDER_AT, RECEIVED_AT, Record, concat, to_batch
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import NOW_MS, append_rows, content, copy_all, numbers, offsets, open_log, rows
from tests.support.refusals import refusal

CLOCK = StillClock(NOW_MS)
Maker = Callable[[str], Log]


@pytest.fixture
def files(tmp_path: Path) -> Maker:
    """Logs in files."""
    return lambda node: open_log(tmp_path / node, node, CLOCK)


@pytest.fixture
def in_kafka(kafka: Kafka, tmp_path: Path) -> Maker:
    """Logs in a Kafka."""
    return lambda node: open_kafka_log(place(kafka, tmp_path / node, node), CLOCK)


@pytest.fixture(params=["files", "in_kafka"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes the log of a node; closed after the test. The clock starts anew."""
    CLOCK.at_ms = NOW_MS
    opened: Maker = request.getfixturevalue(request.param)
    logs: list[Log] = []

    def maker(node: str) -> Log:
        logs.append(opened(node))
        return logs[-1]

    yield maker
    for log in logs:
        log.close()


def test_offsets_are_dense_from_zero_per_stream(make: Maker) -> None:
    log = make("ship-a")
    answers = log.append([Append("containers", rows(3)), Append("ships", rows(2)), Append("containers", rows(4, start=3))])
    assert [(a.stream, a.first, a.count) for a in answers] == [("containers", 0, 3), ("ships", 0, 2), ("containers", 3, 4)]
    assert append_rows(log, rows(1, start=7)) == 7
    assert offsets(log, "containers", log.origin) == list(range(8))
    assert log.streams() == ["containers", "ships"]
    assert log.position("containers") == position_of(log.ledger("containers")) == Position({log.origin: 8})


def test_what_was_appended_is_read_back_whole(make: Maker) -> None:
    log = make("ship-a")
    record = Record("MSKU1234565", "TRK-1", NOW_MS - 5, {"return_c": 4.2, "power_on": True, "note": "é"}, {"extra": [1, None]})
    log.append([Append("containers", to_batch([record]))])
    [stored] = [row for found in log.read("containers", Position()) for row in found.rows()]
    assert stored.record == record
    assert (stored.coordinates.offset, stored.received_at_ms, stored.order_at_ms) == (0, NOW_MS, NOW_MS - 5)


def test_received_times_never_go_back_at_one_origin(make: Maker) -> None:
    log = make("ship-a")
    for at_ms in (NOW_MS, NOW_MS - 60_000, NOW_MS + 10):
        CLOCK.at_ms = at_ms
        append_rows(log, to_batch([Record("box")]))
    times = [time for batch in log.read("containers", Position()) for time in batch.records.column(RECEIVED_AT).to_pylist()]
    assert times == [NOW_MS, NOW_MS, NOW_MS + 10]


def test_a_device_clock_that_is_wrong_does_not_order_records(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, to_batch([Record("box", device_at_ms=at) for at in (NOW_MS + 3_600_000, NOW_MS - 3_600_000, 0)]))
    [batch] = log.read("containers", Position())
    assert batch.records.column(ORDER_AT).to_pylist() == [NOW_MS, NOW_MS - 3_600_000, NOW_MS]


def test_a_retry_of_a_producer_changes_nothing(make: Maker) -> None:
    log = make("ship-a")
    first = log.append([Append("alerts", rows(3), "spark", 7)])[0]
    sent = [Append("alerts", rows(3), "spark", 7), Append("alerts", rows(3), "spark", 6), Append("alerts", rows(2, start=3), "spark", 8)]
    assert [log.repeats(append) for append in (*sent, Append("alerts", rows(3)))] == [True, True, False, False]
    again = log.append(sent)
    assert [(a.repeated, a.count) for a in again] == [(True, 0), (True, 0), (False, 2)]
    assert again[0].first == first.first
    assert numbers(log, "alerts") == [0, 1, 2, 3, 4]
    assert not log.append([Append("events", rows(1), "spark", 7)])[0].repeated  # another stream, another sequence


def test_a_repeat_within_one_call_is_seen(make: Maker) -> None:
    log = make("ship-a")
    answers = log.append([Append("alerts", rows(2), "spark", 1), Append("alerts", rows(2), "spark", 1)])
    assert [a.repeated for a in answers] == [False, True]
    assert numbers(log, "alerts") == [0, 1]


def test_bad_records_change_nothing(make: Maker) -> None:
    log = make("ship-a")
    bad = rows(2).drop_columns(["device"])
    with pytest.raises(Misuse):
        log.append([Append("containers", rows(2)), Append("containers", bad)])
    with pytest.raises(Misuse):
        log.append([Append("Not A Stream", rows(2))])
    assert log.streams() == []


def test_an_append_of_nothing_is_harmless(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(2))
    assert log.append([]) == []
    [answer] = log.append([Append("containers", rows(2).slice(0, 0))])
    assert (answer.first, answer.count) == (2, 0)


def test_one_signal_of_two_types_stays_as_it_was_given(make: Maker) -> None:
    """Blocks part where columns disagree: a whole number does not become a fraction."""
    log = make("ship-a")
    log.append(
        [
            Append("containers", to_batch([Record("box", signals={"x": 1})])),
            Append("containers", to_batch([Record("box", signals={"x": 1.5})])),
        ]
    )
    values = [row.record.signals["x"] for batch in log.read("containers", Position()) for row in batch.rows()]
    assert [(type(value), value) for value in values] == [(int, 1), (float, 1.5)]
    assert log.history("box").rows.column("x").to_pylist() == [1.0, 1.5]


def test_many_rows_in_one_append(make: Maker) -> None:
    log = make("ship-a")
    big = concat([rows(1000)] * 150)
    assert append_rows(log, big) == 0
    batches = list(log.read("containers", Position()))
    assert sum(b.records.num_rows for b in batches) == 150_000
    assert max(b.records.num_rows for b in batches) <= READ_RECORDS_MAX
    assert offsets(log, "containers", log.origin) == list(range(150_000))


def test_blocks_are_cut_at_the_edges_and_admitted_anywhere(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    for start in range(0, 50, 10):
        append_rows(source, rows(10, start=start))
    origin = source.origin
    blocks = list(source.blocks("containers", origin, 7, 33))
    assert [(blocks[0].first, blocks[-1].end)] == [(7, 33)]
    assert [a.end for a in blocks[:-1]] == [b.first for b in blocks[1:]]
    assert target.admit(blocks[::-1]) == 26
    assert target.position("containers") == Position()
    assert target.ledger("containers")[origin].held == RangeSet([(7, 33)])
    assert numbers(target) == []  # never beyond a hole
    assert offsets(target, "containers", origin) == list(range(7, 33))
    assert copy_all(source, target, ["containers"]) == 24
    assert numbers(target) == list(range(50))
    assert content(source, ["containers"]) == content(target, ["containers"])


def test_admitting_again_changes_nothing(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(20))
    blocks = list(source.blocks("containers", source.origin, 0, 20))
    assert target.admit([*blocks, *blocks]) == 20
    assert target.admit(blocks) == 0
    assert target.admit(list(source.blocks("containers", source.origin, 3, 9))) == 0
    assert numbers(target) == list(range(20))


def test_a_damaged_block_is_refused_and_the_others_with_it(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(20))
    [block] = source.blocks("containers", source.origin, 0, 20)
    with refusal(Corrupt, "block_corrupt"):
        target.admit([block, replace(block, first=20, payload=block.payload[:-9])])
    assert target.ledger("containers") == {}


def test_a_block_of_an_unknown_codec_is_stored_and_relayed_whole(make: Maker) -> None:
    source, target, far = make("ship-a"), make("port-b"), make("port-c")
    append_rows(source, rows(20))
    [block] = source.blocks("containers", source.origin, 0, 20)
    newer = replace(block, codec=99, payload=b"from the future")
    assert target.admit([newer]) == 20
    assert target.position("containers") == Position({source.origin: 20})
    assert list(target.blocks("containers", source.origin, 5, 9)) == [newer]
    assert far.admit(list(target.blocks("containers", source.origin, 0, 20))) == 20
    with pytest.raises(Misuse):
        list(target.run("containers", source.origin, 0, 20))
    assert target.history("box-1").rows.num_rows == 0


def test_a_peer_that_knows_more_of_this_origin_is_told(make: Maker) -> None:
    log, other = make("ship-a"), make("port-b")
    append_rows(log, rows(5))
    append_rows(other, rows(9))
    [block] = other.blocks("containers", other.origin, 0, 9)
    with pytest.raises(PeerKnowsMore):
        log.admit([replace(block, origin=log.origin)])
    before = log.origin
    after = log.open_generation("a peer knows more")
    assert after == log.origin
    assert (after.node, after.generation > before.generation) == ("ship-a", True)
    assert log.admit([replace(block, origin=before)]) == 4
    assert append_rows(log, rows(1)) == 0
    assert set(log.ledger("containers")) == {before, after}


def test_gone_offsets_are_passed_over(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(30))
    origin = source.origin
    for log in (source, target, source):
        log.declare_gone("containers", origin, 10, 20, "thinned")
    assert source.ledger("containers")[origin].gone == {"thinned": RangeSet([(10, 20)])}
    assert numbers(source) == [*range(10), *range(20, 30)]
    assert copy_all(source, target, ["containers"]) == 20
    assert target.position("containers") == Position({origin: 30})
    assert numbers(target) == numbers(source)


def test_a_record_outweighs_the_word_that_it_is_gone_but_for_its_own_node_s(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(30))
    target.admit(list(source.blocks("containers", source.origin, 12, 15)))
    target.declare_gone("containers", source.origin, 10, 20, "thinned")
    assert target.ledger("containers")[source.origin].gone == {"thinned": RangeSet([(10, 12), (15, 20)])}
    assert copy_all(source, target, ["containers"]) == 27
    target.declare_all_gone("containers", source.origin, RangeSet([(0, 6), (29, 32)]), "lost")
    assert target.ledger("containers")[source.origin].gone == {"lost": RangeSet([(30, 32)])}, "no reason without offsets"
    source.declare_gone("containers", source.origin, 0, 30, "thinned")
    assert not source.admit(list(target.blocks("containers", source.origin, 0, 30)))


def test_the_own_future_can_not_be_declared_gone_or_trimmed(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(3))
    with pytest.raises(Misuse):
        log.declare_gone("containers", log.origin, 0, 4, "lost")
    with pytest.raises(Misuse):
        log.trim("containers", log.origin, 4)


def test_trimmed_records_are_gone_from_this_copy_alone(make: Maker) -> None:
    source, target = make("ship-a"), make("port-b")
    append_rows(source, rows(30))
    copy_all(source, target, ["containers"])
    target.trim("containers", source.origin, 12)
    target.trim("containers", source.origin, 5)
    assert target.ledger("containers")[source.origin].floor == 12
    assert offsets(target, "containers", source.origin) == list(range(12, 30))
    with pytest.raises(Trimmed):
        list(target.read("containers", Position()))
    assert [b.records.num_rows for b in target.read("containers", Position({source.origin: 12}))] == [18]
    assert copy_all(source, target, ["containers"]) == 0
    assert numbers(source) == list(range(30))


def test_spans_are_what_the_ledger_holds(make: Maker) -> None:
    log = make("ship-a")
    for start in range(0, 50, 10):
        append_rows(log, rows(10, start=start))
    log.declare_gone("containers", log.origin, 23, 26, "thinned")
    log.trim("containers", log.origin, 12)
    spans = list(log.spans("containers", log.origin))
    assert [a.end <= b.first for a, b in pairwise(spans)] == [True] * (len(spans) - 1)
    assert RangeSet((span.first, span.end) for span in spans) == RangeSet([(12, 23), (26, 50)])
    assert all(span.order_first_ms <= NOW_MS + span.first and NOW_MS + span.end - 1 <= span.order_last_ms for span in spans)
    assert sum(span.stored_bytes for span in spans) > 0
    assert RangeSet((span.first, span.end) for span in log.spans("containers", log.origin, first=31)) == RangeSet([(31, 50)])
    assert list(log.spans("unheard/of", log.origin)) == []


def test_reading_some_topics(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(30, topics=3))
    found = [row for batch in log.read("containers", Position({log.origin: 4}), ["box-1", "elsewhere"]) for row in batch.rows()]
    assert [row.coordinates.offset for row in found] == list(range(4, 30, 3))


def test_a_topic_s_rows_are_as_they_were_appended(make: Maker) -> None:
    """A signal that is whole in one commit and broken in another, or a text, stays so; holes are no hindrance; each stream for itself."""
    ship, port = make("ship-a"), make("tokyo")
    for value in (1, 1.5, "much"):
        ship.append([Append("containers", to_batch([Record("box", "d", NOW_MS, {"x": value}), Record("other", "d", NOW_MS)]))])
    ship.append([Append("events", to_batch([Record("box", "d", NOW_MS)]))])
    port.admit(list(ship.blocks("containers", ship.origin, 2, 6)))
    found = [row for batch in port.topic_rows("containers", "box", NOW_MS, NOW_MS + 1) for row in batch.rows()]
    assert [(row.coordinates.offset, row.record.signals["x"]) for row in found] == [(2, 1.5), (4, "much")]
    whole = [row.record.signals["x"] for batch in ship.topic_rows("containers", "box") for row in batch.rows()]
    assert [type(value) for value in whole] == [int, float, str]
    assert not list(ship.topic_rows("containers", "box", NOW_MS + 1))
    assert not list(ship.topic_rows("soundings", "box"))


def test_history_is_one_order_over_streams_and_origins(make: Maker) -> None:
    ship, port = make("ship-a"), make("port-b")
    append_rows(ship, to_batch([Record("box", device_at_ms=NOW_MS - at, signals={"n": at}) for at in (5, 3, 9)]))
    append_rows(ship, to_batch([Record("box", device_at_ms=NOW_MS - 4, signals={"event": "LOAD"}), Record("other")]), "events")
    append_rows(port, to_batch([Record("box", device_at_ms=NOW_MS - at, signals={"n": at}) for at in (7, 3)]))
    copy_all(ship, port, ["containers", "events"])
    copy_all(port, ship, ["containers", "events"])
    history = port.history("box")
    assert history.rows.column(ORDER_AT).to_pylist() == [NOW_MS - at for at in (9, 7, 5, 4, 3, 3)]
    assert history.rows.select(sorted(history.rows.column_names)).equals(ship.history("box").rows.select(sorted(history.rows.column_names)))
    assert history.positions["containers"] == Position({ship.origin: 3, port.origin: 2})
    part = port.history("box", since_at_ms=NOW_MS - 7, until_at_ms=NOW_MS - 4, streams=["containers"])
    assert part.rows.column("n").to_pylist() == [7, 5]
    assert port.history("nobody").rows.num_rows == 0


def test_the_latest_row_of_a_topic(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.storage.index.PIECES_PAGE", 20)  # it lies behind more blocks than are looked up at once
    ship, log = make("ship-a"), make("port-b")
    append_rows(ship, rows(60, topics=4000))
    pairs = [block for first in range(0, 60, 2) for block in ship.blocks("containers", ship.origin, first, first + 2)]
    log.admit(pairs)
    assert len(list(log.blocks("containers", ship.origin, 0, 60))) == 30
    [latest] = log.latest("containers", "box-3")
    assert (latest.records.num_rows, latest.records.column(OFFSET)[0].as_py()) == (1, 3)
    assert log.latest("containers", "nobody") == []


def test_many_threads_append_and_read_at_once(make: Maker) -> None:
    log = make("ship-a")
    threads, commits = 4, 8

    def work(thread: int) -> None:
        for commit in range(commits):
            append_rows(log, rows(3, start=1000 * thread + 3 * commit))
            found = offsets(log, "containers", log.origin)
            assert found == list(range(len(found)))

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, thread) for thread in range(threads)]:
            done.result(60)
    assert sorted(numbers(log)) == [1000 * thread + number for thread in range(threads) for number in range(3 * commits)]


def test_changes_are_told_once_they_are_durable(make: Maker) -> None:
    log, other = make("ship-a"), make("port-b")
    told: list[frozenset[str]] = []
    stop = log.subscribe(told.append)
    log.append([Append("containers", rows(1)), Append("ships", rows(1))])
    append_rows(other, rows(1), "events")
    copy_all(other, log, ["events"])
    copy_all(other, log, ["events"])
    log.trim("containers", log.origin, 1)
    stop()
    append_rows(log, rows(1))
    assert told == [{"containers", "ships"}, {"events"}, {"containers"}]


def test_a_ledger_is_a_snapshot(make: Maker) -> None:
    log = make("ship-a")
    append_rows(log, rows(3))
    before = log.ledger("containers")
    before[log.origin].held.remove(0, 3)
    append_rows(log, rows(3))
    assert log.position("containers") == Position({log.origin: 6})
    assert log.ledger("unheard/of") == {}


def test_the_codec_is_not_the_logs_business(make: Maker) -> None:
    """What leaves the log decodes elsewhere to the same rows."""
    log = make("ship-a")
    append_rows(log, rows(10))
    [block] = log.blocks("containers", Origin(log.node, log.origin.generation), 0, 10)
    assert BlockCodec().decode(block).column("number").to_pylist() == list(range(10))


def test_what_a_witness_says_is_part_of_the_commit(make: Maker) -> None:
    log = make("ship-a")
    seen, ends_told = list[tuple[str, list[int]]](), list[int | None]()

    def witness(stream: str, origin: Origin, batches: Sequence[pa.RecordBatch], ends: Callable[[str], int | None]) -> Append | None:
        ends_told.append(ends("alerts.heads"))
        seen.append((stream, [offset for batch in batches for offset in batch.column(OFFSET).to_pylist()]))
        assert origin == log.origin
        return Append("alerts.heads", rows(1, start=90)) if stream == "alerts" else None

    log.witnessed_by(witness)
    answers = log.append([Append("alerts", rows(3)), Append("alerts.heads", rows(1, start=80)), Append("ships", rows(2))])
    assert [answer.first for answer in answers] == [0, 0, 0]
    assert sorted(seen) == [("alerts", [0, 1, 2]), ("alerts.heads", [0]), ("alerts.heads", [1]), ("ships", [0, 1])]
    assert (numbers(log, "alerts.heads"), append_rows(log, rows(1, start=3), "alerts")) == ([80, 90], 3)
    assert (numbers(log, "alerts.heads"), ends_told[0], ends_told[-2]) == ([80, 90, 90], None, 2)
