"""Goal: however often and wherever the watch is broken off, it makes what one that was never broken off makes, each thing once."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import landfall.watch.watch_service
from cargo.loss.reading_rows import Heard
from cargo.loss.state_snapshot import snapshot_of
from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.vocabulary.registry_entries import entry_body
from landfall.storage.file_log import FileLog
from landfall.watch.muster_reader import Musters
from landfall.watch.watch_service import GIVES_WAY_ROWS, Watching
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.log import Append, Log
from streams.model.clock import StillClock
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from tests.intake.stand import eventually, stored
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, fall

FALLS_MS = SAILS_MS + HOUR_MS
UNTIL_MS = FALLS_MS + HOUR_MS
PARTS = 4


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landfall.watch.watch_service, "GATHER_S", 0.0)


def voyage() -> list[Heard]:
    sea = Sea(
        boxes=24, storms=[(FALLS_MS - 10 * MINUTE_MS, FALLS_MS + 10 * MINUTE_MS)], silent={box: [(FALLS_MS, UNTIL_MS)] for box in range(3)}
    )
    return sea.readings(UNTIL_MS, [sea.says(box, FALLS_MS - 500 + box, shock_g=9.0, free_fall_ms=800) for box in range(3)])


class Aboard:
    """A log, and a watch over it that can be broken off and begun again."""

    def __init__(self, folder: Path, clock: StillClock | None = None) -> None:
        self.folder = folder
        self.clock = clock or StillClock(UNTIL_MS)
        self.log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), self.clock)
        self.reports: list[str] = []

    def append(self, readings: list[Heard]) -> None:
        for stream in ("ships", "containers"):
            said = [one for one in readings if ("." in one.topic) == (stream == "ships")]
            if said:
                self.log.append([Append(stream, to_batch([Record(one.topic, one.device, one.device_at_ms, one.signals) for one in said]))])

    def hears(self, readings: list[Heard]) -> None:
        """These are appended as time goes on: those of the last hour one by one, those before it a quarter of an hour together."""
        live_at_ms = readings[-1].order_at_ms - HOUR_MS

        def commit(one: Heard) -> int:
            return one.order_at_ms // (15 * MINUTE_MS) if one.order_at_ms < live_at_ms else one.order_at_ms

        for _, some in groupby(readings, key=commit):
            together = list(some)
            self.clock.at_ms = together[-1].order_at_ms + 500
            self.append(together)

    def told(self) -> None:
        self.log.append([Append(f"aboard/{SHIP}", to_batch([Record(one.topic, body=entry_body(one)) for one in Sea(boxes=24).entries()]))])

    async def watch(self, break_off: bool = False, gives_way: Callable[[], bool] | None = None) -> None:
        """Watch until all is judged; with `break_off`, end in the middle of whatever the watch is at."""
        committer = GroupCommitter(self.log)
        settings = WatchSettings(WatchPlace("ship-a", ship=SHIP))

        def report(reason: str, *_: str, **__: str) -> None:
            self.reports.append(reason)

        watching = Watching(settings, self.folder, self.clock, Metrics("ship"), report, (f"aboard/{SHIP}",))
        watching.gives_way = gives_way or watching.gives_way
        self.clock.advance(60)
        running = asyncio.create_task(watching.run(self.log, committer))
        if break_off:
            for _ in range(random.Random(len(self.made())).randrange(3_000)):
                await asyncio.sleep(0)
        else:
            await eventually(lambda: self.judged() or running.done())
            await watching.taken_up()
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        assert running.cancelled(), running

    def judged(self) -> bool:
        return all(self._stands_at(stream) == self.log.position(stream).to_json() for stream in (f"aboard/{SHIP}", "containers", "ships"))

    def _stands_at(self, stream: str) -> object:
        """The Position that the watch has committed; None before it has any."""
        newest = self.log.latest("consumers", f"watch/{stream}")[-1:]
        return next(((next(batch.rows()).record.body or {})["position"] for batch in newest), None)

    def made(self) -> list[tuple[str, dict[str, Any]]]:
        return [(row.record.topic, dict(row.record.body or {})) for stream in ("alerts", "events") for row in stored(self.log, stream)]


def sorted_made(aboard: Aboard) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in aboard.made())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a watch makes that is never broken off."""
    return asyncio.run(_never_broken_off(tmp_path_factory.mktemp("whole")))


async def _never_broken_off(folder: Path) -> list[str]:
    aboard = Aboard(folder)
    aboard.told()
    readings = voyage()
    for part in range(PARTS):
        aboard.append(readings[len(readings) * part // PARTS : len(readings) * (part + 1) // PARTS])
        await aboard.watch()
    made = sorted_made(aboard)
    aboard.log.close()
    assert any('"PROBABLE_OVERBOARD"' in one for one in made)
    return made


@pytest.mark.parametrize("snapshot", ["kept", "lost", "damaged", "old"])
async def test_a_watch_that_is_broken_off_makes_the_same(tmp_path: Path, whole: list[str], snapshot: str) -> None:
    aboard = Aboard(tmp_path / "broken")
    file = aboard.folder / "watch.snapshot"
    aboard.told()
    readings = voyage()
    oldest = b""
    for part in range(PARTS):
        aboard.append(readings[len(readings) * part // PARTS : len(readings) * (part + 1) // PARTS])
        await aboard.watch(break_off=True)
        await aboard.watch()
        kept = file.read_bytes() if file.exists() else b""
        oldest = oldest or kept
        if snapshot == "lost":
            file.unlink(missing_ok=True)
        elif snapshot == "damaged" and kept:
            file.write_bytes(kept[:-1] + b"?")
        elif snapshot == "old" and oldest:
            file.write_bytes(oldest)
    assert sorted_made(aboard) == whole
    assert len(set(aboard.reports)) == (1 if snapshot == "damaged" else 0)
    aboard.log.close()


async def test_a_watch_further_behind_than_the_floor_goes_on_from_there_and_says_so(tmp_path: Path) -> None:
    """The node was off for longer than its streams are kept: what was dropped is passed over once, of readings and of what it is told."""
    aboard = Aboard(tmp_path)
    aboard.told()
    readings = voyage()
    aboard.append(readings[:20])
    await aboard.watch()
    judged = aboard.log.position("containers")[aboard.log.origin]
    aboard.append(readings[20 : len(readings) // 8])
    told = aboard.log.position(f"aboard/{SHIP}")[aboard.log.origin]
    aboard.told()
    dropped = aboard.log.position("containers")[aboard.log.origin]
    aboard.log.trim("containers", aboard.log.origin, dropped)
    aboard.log.trim(f"aboard/{SHIP}", aboard.log.origin, told + 2)
    aboard.append(readings[len(readings) // 8 : len(readings) // 4])
    await aboard.watch()
    reasons = [str((row.record.body or {})["reason"]) for row in stored(aboard.log, "exceptions")]
    origin = aboard.log.origin
    aboard_span, judged_span = f"aboard/{SHIP}:{origin} {told}..{told + 1} ", f"containers:{origin} {judged}..{dropped - 1} "
    assert [reason.startswith(span) for reason, span in zip(sorted(reasons), (aboard_span, judged_span), strict=True)] == [True, True]
    aboard.append(readings[len(readings) // 4 :])
    await aboard.watch()
    assert len(stored(aboard.log, "exceptions")) == 2
    assert any("PROBABLE_OVERBOARD" in one for one in sorted_made(aboard))
    aboard.log.close()


async def test_a_registry_entry_that_does_not_read_is_reported_and_left_out(tmp_path: Path) -> None:
    aboard = Aboard(tmp_path)
    aboard.log.append([Append(f"aboard/{SHIP}", to_batch([Record("load_list/x", body={"type": "load_list"}), Record("port/y")]))])
    aboard.told()
    aboard.append(voyage()[:50])
    await aboard.watch()
    assert ["registry" in report for report in aboard.reports] == [True, True]
    aboard.log.close()


async def test_readings_of_other_nodes_are_left_to_them(tmp_path: Path) -> None:
    elsewhere = FileLog(tmp_path / "else", tmp_path / "else-marker", "port-b", BlockCodec(), StillClock(UNTIL_MS))
    readings = voyage()
    said = [Record(one.topic, one.device, one.device_at_ms, one.signals) for one in readings if "." not in one.topic]
    elsewhere.append([Append("containers", to_batch(said))])
    aboard = Aboard(tmp_path / "aboard")
    aboard.log.admit(list(elsewhere.blocks("containers", elsewhere.origin, 0, len(said))))
    aboard.told()
    aboard.append([one for one in readings if "." in one.topic])
    committer, settings = GroupCommitter(aboard.log), WatchSettings(WatchPlace("ship-a", ship=SHIP))
    watching = Watching(settings, aboard.folder, aboard.clock, metrics := Metrics("ship"), print, (f"aboard/{SHIP}",))
    running = asyncio.create_task(watching.run(aboard.log, committer))
    ours = len(readings) - len(said) + len(Sea().entries())
    await eventually(lambda: metrics.body(0, 0)["counts"].get("watch_readings") == ours or running.done())
    muster: Any = (await watching.call_roll()).summary
    assert muster["total"] == 24
    assert (muster["accounted"], "heard" in muster["reasons"]) == (0, False)
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    aboard.log.close()
    elsewhere.close()


async def test_who_looks_at_the_muster_does_not_wait_for_a_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while a step takes long, the muster of before is shown, as of its time, then one of now; who has to know waits."""
    judges, goes_on = threading.Event(), threading.Event()
    aboard, readings = Aboard(tmp_path), voyage()
    aboard.told()
    aboard.append(readings[:200])
    committer, settings = GroupCommitter(aboard.log), WatchSettings(WatchPlace("ship-a", ship=SHIP))
    watching = Watching(settings, aboard.folder, aboard.clock, metrics := Metrics("ship"), print, (f"aboard/{SHIP}",))
    running = asyncio.create_task(watching.run(aboard.log, committer))
    await eventually(lambda: metrics.body(0, 0)["counts"].get("watch_readings", 0) >= 200 or running.done())
    musters = Musters(watching.call_roll, aboard.clock)
    before = await musters.last()
    assert before.lines
    judge = watching._judge

    def slow(batches: Any, times: Any) -> Any:
        judges.set()
        assert goes_on.wait(60)
        return judge(batches, times)

    monkeypatch.setattr(watching, "_judge", slow)
    aboard.append(readings[200:])
    await eventually(judges.is_set)
    aboard.clock.advance(10_000)
    assert await musters.last() is before
    must_know = asyncio.create_task(watching.call_roll())
    goes_on.set()
    assert (await must_know).at_ms > before.at_ms
    aboard.clock.advance(10_000)
    assert (await musters.last()).at_ms > before.at_ms
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    aboard.log.close()


async def test_a_backlog_is_judged_at_one_go_though_no_step_of_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: steps end where a commit of another stream begins, short of what they may hold; the watch asks on, and waits for nothing."""
    monkeypatch.setattr(landfall.watch.watch_service, "ROWS_AT_ONCE_MAX", 40)
    monkeypatch.setattr(landfall.watch.watch_service, "PATIENCE_S", 1_000_000.0)
    aboard = Aboard(tmp_path)
    aboard.told()
    readings = voyage()
    for first in range(0, len(readings), 30):
        aboard.clock.advance(1)
        aboard.append(readings[first : first + 30])
    await aboard.watch()
    steps = [row for row in stored(aboard.log, "consumers") if row.record.topic == "watch/containers"]
    assert len(steps) > 5
    aboard.log.close()


async def test_a_fall_in_calm_water_is_told_though_nothing_more_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: nobody speaks for a minute after a box fell over the side: the bridge is told by the node's own time, not before its half
    minute of silence, and a watch that takes all steps again makes no more of it."""
    sea, aboard = Sea(boxes=48), Aboard(tmp_path)
    heard = [*[one for one in sea.readings(FALLS_MS) if one.order_at_ms < FALLS_MS - MINUTE_MS], *fall(sea, 3, FALLS_MS)]
    aboard.log.append([Append(f"aboard/{SHIP}", to_batch([Record(one.topic, body=entry_body(one)) for one in sea.entries()]))])
    aboard.hears(heard)
    committer, settings = GroupCommitter(aboard.log), WatchSettings(WatchPlace("ship-a", ship=SHIP))
    watching = Watching(settings, aboard.folder, aboard.clock, Metrics("ship"), print, (f"aboard/{SHIP}",))
    monkeypatch.setattr(landfall.watch.watch_service, "LOOK_S", 0.005)
    looks, read_and_judge = list[int](), watching._read_and_judge

    def noted(log: Log) -> Any:
        made = read_and_judge(log)
        looks.append(aboard.clock.at_ms)
        return made

    monkeypatch.setattr(watching, "_read_and_judge", noted)
    running = asyncio.create_task(watching.run(aboard.log, committer))

    def lost() -> list[str]:
        return [topic for topic, body in aboard.made() if body.get("rule") == "lost_container"]

    await eventually(lambda: aboard.judged() or running.done())
    aboard.clock.advance(38)
    await eventually(lambda: looks.count(aboard.clock.at_ms) > 1 or running.done())
    assert not lost()
    aboard.clock.advance(10)
    await eventually(lambda: bool(lost()) or running.done())
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    made = sorted_made(aboard)
    assert lost() == [heard[-1].topic]

    (aboard.folder / "watch.snapshot").unlink(missing_ok=True)
    again = Watching(settings, aboard.folder, aboard.clock, Metrics("ship"), print, (f"aboard/{SHIP}",))
    await asyncio.to_thread(again._take_up, aboard.log)
    assert again._state.memory.incidents
    assert list(snapshot_of(again._state)) == list(snapshot_of(watching._state))
    assert sorted_made(aboard) == made
    aboard.log.close()


@pytest.mark.parametrize("waits", [True, False])
async def test_while_sensors_wait_it_rests_as_long_as_it_works_in_small_parts(
    tmp_path: Path, whole: list[str], monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Of the threads of a process one is at work: while it judges, no sensor is answered."""
    aboard, rests, parts = Aboard(tmp_path), list[float](), list[int]()

    def sensors_wait() -> bool:
        aboard.clock.advance(0.5)  # so long this part took
        parts.append(len(rests))
        return waits

    monkeypatch.setattr(landfall.watch.watch_service, "time", SimpleNamespace(sleep=rests.append))
    aboard.told()
    aboard.append(voyage())
    await aboard.watch(gives_way=sensors_wait)
    assert sorted_made(aboard) == whole
    assert len(parts) >= len(voyage()) / GIVES_WAY_ROWS > 10
    assert rests == ([0.5] * len(parts) if waits else [])
    aboard.log.close()


async def test_the_watch_goes_on_while_the_default_pool_is_taken(tmp_path: Path) -> None:
    aboard, let_go = Aboard(tmp_path), threading.Event()
    aboard.told()
    aboard.hears(voyage())
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    taken = loop.run_in_executor(None, let_go.wait, 120)
    await aboard.watch()
    assert not let_go.is_set()
    assert aboard.made()
    let_go.set()
    await taken
    aboard.log.close()
