"""Goal: a step of a node's clock is reported and shown, and a confirmed time outlives the process."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from landfall.node.services import clock_job
from landfall.node.services.clock_job import CODE, FILE_NAME, MARKED, REPORTS_MAX, SHOWN_S, ClockKeeper
from landfall.storage.file_log import FileLog
from landfall.system.release import RELEASED, RELEASED_AT_MS
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import FleetClock, FleetTime, StillClock, WallClock
from streams.model.errors import InvalidValue
from streams.model.metrics import Metrics
from streams.model.records import CLOCK_DOUBTED, Record, to_batch
from tests.node.test_definitions import bodies
from tests.support.fleet import Stepped, address, readings, started, until

YEARS_MS = 10 * 365 * 86_400_000


class Kept:
    """A keeper in `folder`, and what it reports."""

    def __init__(self, folder: Path, clock: StillClock, boot_id: str = "boot-1") -> None:
        self.reported: list[dict[str, Any]] = []
        self.metrics = Metrics("test")
        self.keeper = ClockKeeper(folder, clock, boot_id, self.metrics, self._report)

    def look(self) -> None:
        assert self.keeper._checked is not None
        self.keeper.look(self.keeper._checked)

    def _report(self, reason: str, outcome: str, **details: Any) -> None:
        self.reported.append({"reason": reason, "outcome": outcome, **details})


def test_a_step_is_reported_once_and_shown_for_a_day(tmp_path: Path) -> None:
    clock = StillClock()
    kept = Kept(tmp_path, clock)
    kept.look()
    assert (kept.reported, kept.metrics.troubles, kept.keeper.status()["step"]) == ([], {}, None)
    clock.at_ms += YEARS_MS
    kept.look()
    kept.look()
    [report] = kept.reported
    assert (report["stepped_ms"], report["outcome"]) == (YEARS_MS, "not confirmed: nothing is dropped by age")
    assert kept.keeper.status()["step"] == {"stepped_ms": YEARS_MS, "at_ms": clock.now_ms(), "at_start": False}
    assert "stepped 87,600.0 h ahead" in kept.metrics.troubles[CODE]
    clock.advance(SHOWN_S)
    kept.look()
    assert (kept.metrics.troubles, kept.keeper.status()["step"]) == ({}, None)


def test_a_clock_that_steps_without_end_fills_nothing(tmp_path: Path) -> None:
    clock = StillClock()
    kept = Kept(tmp_path, clock)
    for _ in range(200):
        clock.at_ms -= 3_600_000
        kept.look()
    assert (len(kept.reported), kept.metrics.body(0, 0)["counts"]["clock_steps"]) == (REPORTS_MAX, 200)


def test_a_clock_before_its_log_or_its_release_is_reported_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_job, "RELEASED_AT_MS", RELEASED_AT_MS)
    clock = StillClock(RELEASED_AT_MS)
    kept = Kept(tmp_path, clock)
    kept.keeper.look_at_start(clock.now_ms() + 1_000)
    assert kept.reported == []
    kept.keeper.look_at_start(clock.now_ms() + YEARS_MS)
    assert kept.keeper.clock.doubted()
    clock.at_ms = RELEASED_AT_MS - 1
    kept.keeper.look_at_start(0)
    assert Kept(tmp_path, clock).keeper.clock.doubted()
    assert [(one["stepped_ms"], one["at_start"]) for one in kept.reported] == [(-YEARS_MS, True), (-1, True)]


def test_the_release_is_not_older_than_the_newest_version_of_the_changelog() -> None:
    """Each version's heading has its date: `## 0.1.0, 2026-12-01`. What is not released yet has none."""
    headings = re.findall(r"^## (.+)$", (Path(__file__).parents[2] / "CHANGELOG.md").read_text(), re.MULTILINE)
    dates = [heading.rpartition(", ")[2] for heading in headings if heading != "Unreleased"]
    assert [date for date in dates if not re.fullmatch(r"\d{4}-\d\d-\d\d", date)] == []
    assert max(dates, default=RELEASED) <= RELEASED
    assert datetime.fromtimestamp(RELEASED_AT_MS / 1_000, UTC).isoformat() == f"{RELEASED}T00:00:00+00:00"


def test_the_last_confirmed_time_is_kept_for_the_next_process(tmp_path: Path) -> None:
    clock = StillClock()
    first = Kept(tmp_path, clock)
    first.keeper.keep()
    assert not (tmp_path / FILE_NAME).exists(), "nothing confirms it yet"
    first.keeper.check.heard("tokyo", clock.now_ms())
    first.keeper.keep()
    assert Kept(tmp_path, clock).keeper.status()["confirmed"]
    assert Kept(tmp_path, clock, "boot-2").keeper.status()["confirmed"]
    assert not Kept(tmp_path, clock, "boot-2").keeper.clock.doubted()
    clock.at_ms += YEARS_MS
    assert not Kept(tmp_path, clock, "boot-2").keeper.status()["confirmed"]
    assert Kept(tmp_path, clock, "boot-2").keeper.clock.doubted()
    (tmp_path / FILE_NAME).write_bytes(b"{")
    assert not Kept(tmp_path, clock).keeper.status()["confirmed"]


def test_a_fleet_clock_may_jump(tmp_path: Path) -> None:
    clock = FleetClock(FleetTime(0, 0, 1.0))
    keeper = ClockKeeper(tmp_path, clock, "boot-1", Metrics("test"), lambda reason, outcome: None)
    clock.follow(FleetTime(0, YEARS_MS, 1.0))
    assert keeper.status() == {"confirmed": False, "contradicted": False, "step": None}


async def test_a_node_tells_a_step_in_exceptions_and_health(tmp_path: Path) -> None:
    clock = Stepped(WallClock().now_ms())
    hq = await started("hq", tmp_path, clock)
    await until(lambda: hq.metrics.body(0, 0)["counts"].get("retention_rounds", 0) > 0)
    clock.ahead_ms = YEARS_MS
    await until(lambda: "this node's clock has stepped" in "".join(bodies(hq, "exceptions")))
    assert hq.health()["clock"]["step"]["stepped_ms"] == YEARS_MS
    await hq.stop()


def log_of(folder: Path, kept: Kept) -> FileLog:
    return FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), kept.keeper.clock)


def received_at_ms(log: FileLog) -> list[int]:
    """Of each row of readings, in the order of the log's generations."""
    batches = [batch for origin in sorted(log.ledger("containers")) for batch in log.run("containers", origin, 0, 1 << 40)]
    return [at_ms for batch in batches for at_ms in batch.records.column("received_at_ms").to_pylist()]


async def test_what_a_node_writes_while_its_clock_is_doubted_says_so(tmp_path: Path) -> None:
    """Not readings, whose times are their devices', and not what programs read as it is."""
    clock = Stepped(WallClock().now_ms())
    node = await started("hq", tmp_path, clock)

    async def wrote(**body: Any) -> dict[str, bool]:
        streams = (*MARKED, "containers", "states")
        await node.append([Append(stream, to_batch([Record("x", body=body or None)])) for stream in streams])
        last = {stream: node.log.latest(stream, "x")[0].records.column("body")[0].as_py() for stream in streams}
        return {stream: CLOCK_DOUBTED in text for stream, text in last.items() if text}

    assert set((await wrote(v=1)).values()) == {False}
    clock.ahead_ms = -YEARS_MS
    assert await wrote(v=2) == {**dict.fromkeys(MARKED, True), "containers": False, "states": False}
    assert await wrote() == dict.fromkeys(MARKED, True), "records without a body too"
    with pytest.raises(InvalidValue):
        await node.append([Append("alerts", to_batch([Record("x")]).append_column("offset", to_batch([Record("x")]).column(2)))])
    clock.ahead_ms = 0
    assert set((await wrote(v=3)).values()) == {False}
    await node.stop()


def test_after_a_step_back_received_times_fall_with_one_new_generation(tmp_path: Path) -> None:
    clock = StillClock()
    kept = Kept(tmp_path, clock)
    log, now_ms = log_of(tmp_path, kept), clock.now_ms()
    clock.at_ms += YEARS_MS
    log.append([readings(0, 1)])
    kept.keeper.reopen(log)
    clock.at_ms -= YEARS_MS
    kept.keeper.reopen(log)
    assert len(log.generations()) == 1, "nobody confirms this clock"
    log.append([readings(1, 1)])
    kept.keeper.check.heard("tokyo", now_ms)
    for first in (2, 3):
        kept.keeper.reopen(log)
        log.append([readings(first, 1)])
    assert received_at_ms(log) == [now_ms + YEARS_MS] * 2 + [now_ms] * 2
    assert [report["code"] for report in kept.reported] == ["log_reopened"]
    log.close()


def test_a_restart_within_six_hours_opens_no_second_generation(tmp_path: Path) -> None:
    clock = StillClock()
    kept = Kept(tmp_path, clock)
    log = log_of(tmp_path, kept)
    kept.keeper.check.heard("tokyo", clock.now_ms())
    for _ in range(2):
        log.append([readings(0, 1)])
        clock.at_ms -= 3_600_000
        kept.keeper._reopened_s = kept.keeper._last_reopened_s(log)  # as at a start
        kept.keeper.reopen(log)
    assert len(log.generations()) == 2
    log.close()


@pytest.mark.parametrize(("step_ms", "opened"), [(-1_000, 0), (-3_600_000, 4)])
def test_many_steps_back_in_a_day_open_few_generations(tmp_path: Path, step_ms: int, opened: int) -> None:
    clock = StillClock()
    kept = Kept(tmp_path, clock)
    log = log_of(tmp_path, kept)
    kept.keeper.check.heard("tokyo", clock.now_ms())
    for count in range(200):
        log.append([readings(count, 1)])
        clock.advance(86_400 / 200)
        clock.at_ms += step_ms
        kept.keeper.reopen(log)
    assert len(log.generations()) - 1 <= opened
    assert (len(log.generations()) == 1) == (opened == 0)
    log.close()


async def test_a_peer_takes_both_generations_of_a_ship_whose_clock_was_ahead(tmp_path: Path) -> None:
    clock = Stepped(WallClock().now_ms())
    tokyo, ship = await started("tokyo", tmp_path), await started("ship-a", tmp_path, clock)
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    clock.ahead_ms = YEARS_MS
    await ship.append([readings(0, 3)])
    await until(lambda: tokyo.log.position("containers")[ship.log.origin] == 3)
    clock.ahead_ms, before = 0, ship.log.origin
    await until(lambda: ship.log.origin != before)
    await ship.append([readings(3, 3)])
    await until(lambda: tokyo.log.position("containers")[ship.log.origin] == 3)
    await until(lambda: "log_reopened" in "".join(bodies(ship, "exceptions")))
    for node in (ship, tokyo):
        await node.stop()
