"""Goal: a copy says when it took in what others wrote, whatever becomes of its files: reopened, merged, moved, its index made anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from landfall.node.http.row_json import table_lines
from landfall.storage.admission_times import MINUTE_MS, together, within
from landfall.storage.append_planner import NewBlock
from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.kafka.kafka_records import block_headers, placed_block
from landfall.storage.log_state import FileLocation, Piece
from landfall.storage.merge_levels import Level
from streams.log import Log, LogReader
from streams.model.clock import StillClock
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from tests.fanout.kafka import Kafka
from tests.streams.kafkakit import open_kafka_log, place
from tests.streams.logkit import NOW_MS, append_rows, copy_all, numbers, open_log, rows
from tests.support.refusals import refusal

CLOCK = StillClock(NOW_MS)
MINUTE = NOW_MS // MINUTE_MS
SMALL = FileLogOptions(WriteLimits(segment_bytes=2000, marker_commits=5), levels=(Level(50, 4, 200), Level(200, 4, 800)))
Opener = Callable[[], Log]


@pytest.fixture
def files(tmp_path: Path) -> Opener:
    """A port's log in files."""
    return lambda: open_log(tmp_path / "port", "port", CLOCK)


@pytest.fixture
def in_kafka(kafka: Kafka, tmp_path: Path) -> Opener:
    """A port's log in a Kafka."""
    where = place(kafka, tmp_path / "port", "port")
    return lambda: open_kafka_log(where, CLOCK)


@pytest.fixture(params=["files", "in_kafka"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens the same log, again and again."""
    opened: Opener = request.getfixturevalue(request.param)
    return opened


@pytest.fixture
def ship(tmp_path: Path) -> Iterator[Log]:
    """Who wrote the records."""
    CLOCK.at_ms = NOW_MS
    with closing(open_log(tmp_path / "ship", "ship-a", CLOCK)) as log:
        yield log


def taken_in(log: LogReader, origin: Origin) -> list[tuple[int, int, int]]:
    """First offset, end and minute after NOW_MS of every run; what lies side by side and is of one minute as one."""
    found: list[tuple[int, int, int]] = []
    for first, end, at_ms in log.admissions("containers", origin, 0, 1_000):
        minute = at_ms // MINUTE_MS - MINUTE - 1
        if found and found[-1][1:] == (first, minute):
            first = found.pop()[0]
        found.append((first, end, minute))
    return found


def bring(ship: Log, port: Log, count: int, minutes: int) -> None:
    """The ship writes and the port takes it in, so many minutes after NOW_MS."""
    CLOCK.at_ms = NOW_MS + minutes * MINUTE_MS
    append_rows(ship, rows(count))
    copy_all(ship, port, ["containers"])


def test_a_copy_says_when_it_took_in_what_others_wrote(ship: Log, opener: Opener) -> None:
    port = opener()
    append_rows(port, rows(3))
    bring(ship, port, 5, 0)
    bring(ship, port, 2, 7)
    bring(ship, port, 1, 7)
    own = list(port.admissions("containers", port.origin, 0, 10)), list(ship.admissions("containers", ship.origin, 0, 10))
    assert own == ([], [])
    assert taken_in(port, ship.origin) == [(0, 5, 0), (5, 8, 7)]
    assert list(port.admissions("containers", ship.origin, 4, 6)) == [
        (4, 5, (MINUTE + 1) * MINUTE_MS),
        (5, 6, (MINUTE + 8) * MINUTE_MS),
    ]
    port.close()
    with closing(opener()) as again:
        assert taken_in(again, ship.origin) == [(0, 5, 0), (5, 8, 7)]


def test_a_history_that_a_node_answers_says_it_with_each_record(ship: Log, opener: Opener) -> None:
    with closing(opener()) as port:
        append_rows(port, rows(1, topics=1))
        bring(ship, port, 1, 0)
        bring(ship, port, 1, 7)
        lines = map(json.loads, table_lines(port, port.history("box-0").rows, 9))
        found = {(row["origin"], row["offset"]): row["admitted_at_ms"] for row in lines}
        first, second = ((MINUTE + minutes) * MINUTE_MS for minutes in (1, 8))
        assert found == {(str(port.origin), 0): None, (str(ship.origin), 0): first, (str(ship.origin), 1): second}


def test_a_record_that_comes_again_keeps_the_first_time(ship: Log, opener: Opener) -> None:
    with closing(opener()) as port:
        bring(ship, port, 5, 0)
        CLOCK.at_ms += 3_600_000
        copy_all(ship, port, ["containers"])
        assert taken_in(port, ship.origin) == [(0, 5, 0)]


def test_merging_and_an_index_made_anew_keep_it(ship: Log, tmp_path: Path) -> None:
    port = open_log(tmp_path / "port", "port", CLOCK, SMALL)
    expected: list[tuple[int, int, int]] = []
    for commit in range(40):
        bring(ship, port, 10, commit // 7)
        minute, first = commit // 7, 10 * commit
        expected[-1:] = [(expected[-1][0], first + 10, minute)] if commit % 7 else [*expected[-1:], (first, first + 10, minute)]
    before = numbers(port)
    assert taken_in(port, ship.origin) == expected
    while port.upkeep.step():
        pass
    assert len(list(port.spans("containers", ship.origin))) < 10
    assert taken_in(port, ship.origin) == expected
    port.close()
    remove_index(tmp_path / "port" / "log" / INDEX_NAME)
    with closing(open_log(tmp_path / "port", "port", CLOCK, SMALL)) as again:
        assert (taken_in(again, ship.origin), numbers(again)) == (expected, before)


def test_of_records_whose_time_is_not_known_nothing_is_said() -> None:
    place_of = FileLocation(1, 0, 10)
    old, new = Piece(0, 4, place_of, 0, 0, b""), Piece(4, 9, place_of, 0, 0, b"", ((2, 7), (6, 8)))
    assert together([old, new]) == ((0, 0), (4, 7), (6, 8))
    assert together([old]) == ()
    assert within(together([old, new]), 5, 8) == ((5, 7), (6, 8))


def test_what_a_kafka_says_of_it_is_bounded(ship: Log) -> None:
    append_rows(ship, rows(3))
    [block] = ship.blocks("containers", ship.origin, 0, 3)
    headers = block_headers(NewBlock(block, None, admitted=((0, MINUTE),)), 1)
    told = {name: value.encode() if isinstance(value, str) else value or b"" for name, value in headers}
    assert placed_block(told, block.to_bytes(), FileLocation(0, 0, 1))[1].admitted == ((0, MINUTE),)
    with refusal(Corrupt, "kafka_record_corrupt", 99999999999):
        placed_block({**told, "admitted": b"99999999999"}, block.to_bytes(), FileLocation(0, 0, 1))
