"""Goal: on a full disk the node gives its reserve back, makes room, says so once, and goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from landfall.node.disk_reserve import Reserve
from landfall.node.services.retention_job import Retaining
from landfall.node.settings import NodeSettings
from landfall.storage.file_log import FileLogOptions
from streams.config.stream_definitions import Definitions
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.clock_check import ClockCheck
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from streams.retention.disk_budget import Spending
from streams.retention.droppable_runs import RUN
from tests.retention.thinkit import no_excursions, none_ashore, readings, ship_log
from tests.streams.badsector import BadSector
from tests.streams.logkit import NOW_MS, FullDisk, open_log

RESERVE_BYTES = 1 << 16


class FullUntilTheReserveIsSpent(FullDisk):
    """A full disk with room for as long as the reserve is not there."""

    def __init__(self, reserve: Path) -> None:
        super().__init__()
        self.reserve = reserve
        self.is_full = False

    def _spend(self) -> None:
        self.writes_left = 0 if self.is_full and self.reserve.exists() else None
        super()._spend()


def test_the_reserve_is_taken_up_given_back_and_taken_up_again(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", RESERVE_BYTES)
    assert reserve.fill()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES, "really taken up"
    assert reserve.spend()
    assert not reserve.spend()
    assert reserve.fill()
    assert not Reserve(tmp_path / "huge", 1 << 60).fill(), "more than the disk has"
    assert not (tmp_path / "huge").exists()


def retaining_in(folder: Path, told: list[str]) -> Retaining:
    """A ship's whose disk budget is spent; what it reports is `told`."""
    settings = NodeSettings(
        node="ship-a",
        role="ship",
        identity="9321483",
        folder=folder,
        disk_budget_bytes=1,
        reserve_bytes=RESERVE_BYTES,
    )
    return Retaining(
        settings, Definitions(), ClockCheck(StillClock(NOW_MS)), Metrics("test"), lambda reason, outcome, code: told.append(reason)
    )


def test_a_full_disk_is_cleaned_up_with_the_reserve(tmp_path: Path) -> None:
    disk = FullUntilTheReserveIsSpent(tmp_path / "reserve")
    log = ship_log(tmp_path, 3, FileLogOptions(disk=disk))
    told: list[str] = []
    retaining = retaining_in(tmp_path, told)
    spending = Spending(log, Definitions(), none_ashore, no_excursions)
    assert Reserve(tmp_path / "reserve", RESERVE_BYTES).fill()
    disk.is_full = True
    with pytest.raises(RetryLater):
        log.append([Append("containers", readings(3 * RUN, 1))])
    retaining.round(log, {}, {}, spending)
    assert list(log.ledger("containers")[log.origin].gone["thinned"]) == [(0, 3 * RUN)]
    assert told == ["the disk is full"]
    disk.is_full = False
    log.append([Append("containers", readings(3 * RUN, 1))])
    assert log.ledger("containers")[log.origin].held == RangeSet([(3 * RUN, 3 * RUN + 1)])
    log.close()


def test_a_disk_that_can_not_be_read_is_not_taken_for_a_full_one(tmp_path: Path) -> None:
    """Told once; the reserve stays, and what is there. Thinning goes on when it can be read again."""
    log, told = ship_log(tmp_path, 3), list[str]()
    retaining, spending = retaining_in(tmp_path, told), Spending(log, Definitions(), none_ashore, no_excursions)
    assert Reserve(tmp_path / "reserve", RESERVE_BYTES).fill()
    [segment] = tmp_path.rglob("*.segment")
    segment.rename(aside := tmp_path / "aside")
    segment.mkdir()  # it opens, and no byte of it can be read
    for _ in range(2):
        retaining.round(log, {}, {}, spending)
    assert told == ["retention could not do its work"]
    assert (tmp_path / "reserve").exists()
    assert not log.ledger("containers")[log.origin].gone
    segment.rmdir()
    aside.rename(segment)
    retaining.round(log, {}, {}, spending)
    assert log.ledger("containers")[log.origin].gone["thinned"].first() == 0
    log.close()


def test_a_clock_that_is_years_ahead_makes_no_reading_old(tmp_path: Path) -> None:
    """Old is what an hour's readings came after, by the log's own times; before the first record of a generation nothing is."""
    clock = StillClock(NOW_MS)
    log = open_log(tmp_path, clock=clock)
    fresh = readings(0, 2 * RUN)
    at = fresh.schema.get_field_index("device_at_ms")
    log.append([Append("containers", fresh.set_column(at, fresh.schema.field(at), pa.array([NOW_MS] * 2 * RUN, pa.int64())))])
    clock.advance(10 * 366 * 86_400)
    spending = Spending(log, Definitions(), none_ashore, no_excursions)
    assert spending.thin() is None
    clock.advance(-10 * 366 * 86_400 + 3_601)
    assert spending.thin() is None, "nothing came since"
    log.append([Append("metrics", to_batch([Record("ship-a.ship")]))])
    assert log.newest_received_ms() == clock.now_ms()
    assert spending.thin() is not None
    log.open_generation("a test")
    assert log.newest_received_ms() == 0
    log.close()


@pytest.mark.parametrize("bad", [0, 1])
def test_one_run_that_can_not_be_read_keeps_no_other_from_being_thinned(tmp_path: Path, bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a ship with one bad block on her disk makes no room any more, and takes no readings once it is full."""
    log = ship_log(tmp_path, 3)
    sector = BadSector(log, tmp_path / "log", ("containers", log.origin), (bad * RUN, (bad + 1) * RUN), monkeypatch)
    told: list[str] = []
    retaining, spending = retaining_in(tmp_path, told), Spending(log, Definitions(), none_ashore, no_excursions)
    for _ in range(2):
        retaining.round(log, {}, {}, spending)
    assert sector.asked
    ledger = log.ledger("containers")[log.origin]
    assert ledger.gone["thinned"] == RangeSet([(0, 3 * RUN)]).without([(bad * RUN, (bad + 1) * RUN)])
    assert ledger.held == RangeSet([(bad * RUN, (bad + 1) * RUN)])
    log.close()
