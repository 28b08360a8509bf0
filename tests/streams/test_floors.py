"""Goal: what a consumer never read below its log's floor is a trouble until it is accepted or a day is over, whatever the clock does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from landfall.storage.log_kinds import open_reader
from streams.codec import BlockCodec
from streams.consumers import Consumer
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from streams.skipped_records import ACCEPTED, DEGRADED_S, EXCEPTIONS, LOOK_EVERY_S, OVER, TROUBLE, FloorTrouble, floor_append, floor_topic
from tests.streams.logkit import append_rows, copy_all, open_log, rows

YEAR_MS = 365 * 86_400_000
REASON = "containers:tokyo@1 10..19 were dropped"


def test_it_lasts_a_day_of_the_machine_whatever_the_clock_does(tmp_path: Path) -> None:
    clock, log, troubles = StillClock(), open_log(tmp_path), dict[str, str]()
    trouble = FloorTrouble(log, "fanout", troubles, clock.monotonic_s)
    assert trouble.look() is None
    log.append([floor_append("fanout", REASON, "went on", clock.now_ms())])
    clock.advance(LOOK_EVERY_S)
    assert (trouble.look(), troubles) == (None, {TROUBLE: REASON})
    clock.at_ms += 10 * YEAR_MS
    clock.at_s += DEGRADED_S
    assert (trouble.look(), troubles) == (None, {TROUBLE: REASON})
    clock.at_ms -= 20 * YEAR_MS
    clock.at_s += LOOK_EVERY_S
    over = trouble.look()
    assert over is not None
    assert (REASON in over, troubles) == (True, {}), "its end is reported"
    log.append([floor_append("fanout", over, OVER, clock.now_ms())])
    again = dict[str, str]()
    assert (FloorTrouble(log, "fanout", again, clock.monotonic_s).look(), again) == (None, {}), "and remembered"
    log.close()


def test_the_latest_record_counts_though_the_clock_went_back(tmp_path: Path) -> None:
    clock, log, troubles = StillClock(), open_log(tmp_path), dict[str, str]()
    for reason, outcome in ((REASON, "went on"), ("known", ACCEPTED)):
        log.append([floor_append("node", reason, outcome, clock.now_ms())])
        log.open_generation("the clock went back")
        clock.at_ms -= YEAR_MS
    FloorTrouble(log, "node", troubles, clock.monotonic_s).look()
    assert troubles == {}
    log.append([floor_append("node", REASON, "went on", clock.now_ms())])
    FloorTrouble(log, "node", troubles, clock.monotonic_s).look()
    assert troubles == {TROUBLE: REASON}
    log.close()


@pytest.mark.parametrize("process", ["node", "projector"])
def test_only_the_node_of_the_log_raises_or_ends_it(tmp_path: Path, process: str) -> None:
    clock, log, other = StillClock(), open_log(tmp_path / "hq", "hq"), open_log(tmp_path / "ship", "ship-a")
    with closing(log), closing(other), closing(open_reader(tmp_path / "hq" / "log", BlockCodec())) as reader:
        for read in (log, reader):
            troubles = dict[str, str]()
            trouble = FloorTrouble(read, process, troubles, clock.monotonic_s)

            def look(trouble: FloorTrouble = trouble) -> None:
                clock.advance(LOOK_EVERY_S)
                trouble.look()

            other.append([floor_append(process, "false", "went on", clock.now_ms())])
            copy_all(other, log, [EXCEPTIONS])
            look()
            assert troubles == {}, "a peer raises none"
            log.append([floor_append(process, REASON, "went on", clock.now_ms())])
            look()
            other.open_generation("later than the log's own")
            other.append([floor_append(process, "false", ACCEPTED, clock.now_ms())])
            copy_all(other, log, [EXCEPTIONS])
            look()
            assert troubles == {TROUBLE: REASON}, "a peer ends none"
            log.append([floor_append(process, "known", ACCEPTED, clock.now_ms())])
            look()
            assert troubles == {}


def test_a_consumer_below_the_floor_reports_it_and_a_new_one_only_begins_there(tmp_path: Path) -> None:
    clock, log, troubles = StillClock(), open_log(tmp_path), dict[str, str]()
    append_rows(log, rows(20))
    known = Consumer(log, "rules", "containers")
    known.commit(Position({log.origin: 5}))
    log.trim("containers", log.origin, 12)
    new = Consumer(log, "other", "containers")
    new.commit(new.poll_from_floor().position)
    trouble = FloorTrouble(log, "node", troubles, clock.monotonic_s)
    trouble.look()
    assert troubles == {}
    known.commit(known.poll_from_floor().position)
    clock.advance(LOOK_EVERY_S)
    trouble.look()
    assert list(troubles) == [TROUBLE]
    assert f"containers:{log.origin} 5..11 " in troubles[TROUBLE]
    log.append([Append("exceptions", to_batch([Record("other", body={})]))])
    clock.advance(LOOK_EVERY_S)
    trouble.look()
    assert list(troubles) == [TROUBLE], "other records of the stream change nothing"
    log.close()


@pytest.mark.parametrize("body", [None, {"outcome": "went on"}, {"reason": 5, "outcome": "went on"}])
def test_a_record_that_is_no_report_ends_nothing(tmp_path: Path, body: dict[str, object] | None) -> None:
    clock, log, troubles = StillClock(), open_log(tmp_path), dict[str, str]()
    trouble = FloorTrouble(log, "node", troubles, clock.monotonic_s)
    log.append([floor_append("node", REASON, "went on", clock.now_ms())])
    trouble.look()
    log.append([Append(EXCEPTIONS, to_batch([Record(floor_topic("node"), body=body)]))])
    clock.advance(LOOK_EVERY_S)
    assert (trouble.look(), troubles) == (None, {TROUBLE: REASON})
    log.close()
