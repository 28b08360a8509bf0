"""Goal: while a node's own clock can not be believed, records are ordered by what most devices say, as far as they agree."""

from __future__ import annotations

from pathlib import Path

from landfall.storage.append_planner import DEVICE_APART_MS_MAX, DEVICES_MAX
from landfall.storage.file_log import FileLog
from landfall.system.release import RELEASED_AT_MS
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import EARLY_MS_MAX, Clock, FleetClock, FleetTime, StillClock
from streams.model.records import Record, to_batch

YEARS_MS = 10 * 365 * 86_400_000
NOW_MS = StillClock().now_ms()
BOX = "MSKU1234565"


class Doubted(StillClock):
    """A clock of which a test says whether it is doubted."""

    doubts = False

    def doubted(self) -> bool:
        return self.doubts


def log_of(folder: Path, clock: Clock) -> FileLog:
    return FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), clock)


def said(*device_at_ms: int | None, first: int = 0) -> Append:
    """One reading of each of as many devices, numbered from `first`."""
    return Append("containers", to_batch([Record(BOX, f"TRK-{first + at}", at_ms) for at, at_ms in enumerate(device_at_ms)]))


def order_at_ms(log: FileLog) -> list[int]:
    return [at_ms for batch in log.run("containers", log.origin, 0, 1 << 40) for at_ms in batch.records.column("order_at_ms").to_pylist()]


def test_a_clock_years_ahead_moves_no_order_time(tmp_path: Path) -> None:
    clock = Doubted()
    clock.doubts = True
    clock.at_ms += YEARS_MS
    log = log_of(tmp_path, clock)
    times = [NOW_MS, NOW_MS - 1_000, NOW_MS + 2_000, NOW_MS - DEVICE_APART_MS_MAX + 1, NOW_MS - DEVICE_APART_MS_MAX - 1_001, None]
    log.append([said(*times)])
    assert order_at_ms(log) == [*times[:4], clock.at_ms, clock.at_ms]
    log.close()


def test_two_devices_alone_tell_no_time(tmp_path: Path) -> None:
    clock = Doubted()
    clock.doubts = True
    clock.at_ms += YEARS_MS
    log = log_of(tmp_path, clock)
    log.append([said(NOW_MS, NOW_MS)])
    log.append([said(NOW_MS, first=1)])
    assert order_at_ms(log) == [clock.at_ms] * 3
    log.append([said(NOW_MS, first=2)])
    assert order_at_ms(log)[3:] == [NOW_MS]
    log.close()


def test_where_the_clock_shows_a_time_before_the_release_one_device_is_believed(tmp_path: Path) -> None:
    """A node that starts without a battery in its clock shows 2020, or 1970: its first reading is not of then."""
    now_ms = RELEASED_AT_MS + 86_400_000
    clock = Doubted(RELEASED_AT_MS - YEARS_MS)
    clock.doubts = True
    log = log_of(tmp_path, clock)
    log.append([said(now_ms, RELEASED_AT_MS - 1)])
    assert order_at_ms(log) == [now_ms, clock.at_ms]
    log.append([said(RELEASED_AT_MS + 2 * YEARS_MS)])
    assert order_at_ms(log)[2:] == [clock.at_ms], "nobody runs this release then"
    log.close()


def test_after_the_clock_is_right_again_readings_are_in_true_order_though_received_times_stand(tmp_path: Path) -> None:
    clock = Doubted()
    log = log_of(tmp_path, clock)
    clock.at_ms += YEARS_MS
    log.append([said(NOW_MS)])
    clock.at_ms = NOW_MS
    log.append([said(NOW_MS + 1_000, NOW_MS + 2_000, NOW_MS + 3_000, NOW_MS + YEARS_MS, first=1)])
    assert order_at_ms(log)[1:] == [NOW_MS + 1_000, NOW_MS + 2_000, NOW_MS + 3_000, NOW_MS + YEARS_MS]
    log.close()


def test_one_device_that_speaks_much_outvotes_nobody(tmp_path: Path) -> None:
    clock = Doubted()
    log = log_of(tmp_path, clock)
    log.append([said(NOW_MS, NOW_MS, NOW_MS, NOW_MS)])
    clock.doubts = True
    clock.at_ms += YEARS_MS
    backlog = [Record(BOX, "TRK-9", NOW_MS - 30 * EARLY_MS_MAX + at) for at in range(2 * DEVICES_MAX)]
    log.append([Append("containers", to_batch(backlog))])
    log.append([said(NOW_MS)])
    assert order_at_ms(log)[-1] == NOW_MS
    log.close()


def test_what_comes_from_elsewhere_is_dated_by_no_clock_that_is_doubted(tmp_path: Path) -> None:
    clock = Doubted()
    ship = log_of(tmp_path / "ship", clock)
    ship.append([said(NOW_MS)])
    blocks = list(ship.blocks("containers", ship.origin, 0, 1))
    shore = FileLog(tmp_path / "shore", tmp_path / "marker", "hq", BlockCodec(), clock)
    clock.doubts = True
    shore.admit(blocks)
    assert list(shore.admissions("containers", ship.origin, 0, 1)) == []
    ship.close()
    shore.close()


def test_a_fleet_clock_that_was_ahead_while_a_jump_slowed_down_moves_no_order_time(tmp_path: Path) -> None:
    """A fix of an hour before would be dated by when it was received, and boxes shown 19 nm from where they fell."""
    clock = FleetClock(FleetTime(0, NOW_MS + 2 * DEVICE_APART_MS_MAX, 0.0))
    log = log_of(tmp_path, clock)
    log.append([said(NOW_MS, NOW_MS, NOW_MS)])
    clock.follow(FleetTime(0, NOW_MS, 0.0))
    log.append([said(NOW_MS - 2 * DEVICE_APART_MS_MAX, first=3)])
    assert order_at_ms(log)[3:] == [NOW_MS - 2 * DEVICE_APART_MS_MAX]
    log.close()
