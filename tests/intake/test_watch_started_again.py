"""Goal: a watch that is started again hears first what the other node of its ship took in meanwhile, all of it in its order, and counts no
time in which none of the two listened as silence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import landfall.watch.other_nodes
import landfall.watch.watch_service
from cargo.loss.reading_rows import Heard
from cargo.loss.state_snapshot import snapshot_of
from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from landfall.storage.file_log import FileLog
from landfall.watch.watch_service import Watching
from landfall.watch.watermark_reader import PATIENCE_S
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from tests.intake.stand import eventually
from tests.intake.test_watching import FALLS_MS, UNTIL_MS, Aboard, voyage
from tests.support.sea import MINUTE_MS, SECOND_MS, SHIP, Sea, fall, number

LOST = {number(box) for box in range(3)}
PARTS = 16
LOOKS = 3
"""After so many the watch waits for the other node: it has looked before."""


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landfall.watch.other_nodes, "LOOK_S", 0.005)
    monkeypatch.setattr(landfall.watch.watch_service, "GATHER_S", 0.0)


class Pair:
    """What the killed node has aboard, and the log of the other, which hears everything."""

    def __init__(self, folder: Path) -> None:
        self.aboard = Aboard(folder / "bridge")
        self.clock = StillClock(UNTIL_MS)
        self.engine = FileLog(folder / "engine", folder / "engine-marker", "engine", BlockCodec(), self.clock)
        self.aboard.told()

    def hears(self, said: list[Heard]) -> None:
        """The other node takes it in, one commit after another."""
        for part in range(PARTS):
            self.clock.advance(1)
            some = said[len(said) * part // PARTS : len(said) * (part + 1) // PARTS]
            for stream in ("ships", "containers"):
                said_here = [one for one in some if ("." in one.topic) == (stream == "ships")]
                rows = [Record(one.topic, one.device, one.device_at_ms, one.signals) for one in said_here]
                if rows:
                    self.engine.append([Append(stream, to_batch(rows))])

    def brings(self, stream: str) -> None:
        """All that the other node has of this stream comes."""
        first = self.aboard.log.position(stream)[self.engine.origin]
        self.aboard.log.admit(list(self.engine.blocks(stream, self.engine.origin, first, self.end(stream))))

    def end(self, stream: str) -> int:
        return self.engine.position(stream)[self.engine.origin]

    def lacked(self) -> int:
        """How much of it has not come."""
        return sum(self.end(stream) - self.aboard.log.position(stream)[self.engine.origin] for stream in ("ships", "containers"))

    def close(self) -> None:
        self.aboard.log.close()
        self.engine.close()


@asynccontextmanager
async def watched(aboard: Aboard, lacked: Callable[[], int | None]) -> AsyncIterator[Watching]:
    """A watch that runs until what is within has passed."""
    committer, settings = GroupCommitter(aboard.log), WatchSettings(WatchPlace("ship-a", ship=SHIP))
    watching = Watching(settings, aboard.folder, aboard.clock, Metrics("ship"), print, (f"aboard/{SHIP}",), companions=("engine",))
    watching.lacked = lacked
    running = asyncio.create_task(watching.run(aboard.log, committer))
    try:
        yield watching
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])
        await committer.close()


def noted(lacked: Callable[[], int | None], looks: list[int | None]) -> Callable[[], int | None]:
    """The same; each answer is added to `looks`."""

    def look() -> int | None:
        looks.append(lacked())
        return looks[-1]

    return look


def lost(aboard: Aboard) -> list[str]:
    """The boxes it told as lost."""
    return [topic for topic, body in aboard.made() if body.get("rule") == "lost_container"]


@pytest.mark.parametrize("first", ["ships", "containers"])
async def test_no_stream_of_the_other_node_runs_ahead_of_another(tmp_path: Path, first: str) -> None:
    """Started again while an hour of the other's readings is on its way: the ship's own come first, and her boxes' behind them."""
    pair, said = Pair(tmp_path), voyage()
    before = [one for one in said if one.order_at_ms < FALLS_MS - MINUTE_MS]
    pair.hears(before)
    pair.brings("ships")
    pair.brings("containers")
    async with watched(pair.aboard, pair.lacked):
        await eventually(pair.aboard.judged)
    pair.hears(said[len(before) :])
    pair.brings(first)
    looks: list[int | None] = []
    async with watched(pair.aboard, noted(pair.lacked, looks)) as watching:
        await eventually(lambda: len(looks) >= LOOKS)
        pair.brings("containers" if first == "ships" else "ships")
        await eventually(pair.aboard.judged)
        summary: Any = (await watching.call_roll()).summary
        assert (set(summary["gone"]), summary["accounted"]) == (LOST, summary["instrumented"] - len(LOST))
    pair.close()


async def test_its_own_readings_do_not_run_ahead_of_the_other_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's hour is many steps, and what it hears itself since it was started comes behind them."""
    monkeypatch.setattr(landfall.watch.watch_service, "ROWS_AT_ONCE_MAX", 50)
    pair, said = Pair(tmp_path), voyage()
    pair.hears([one for one in said if one.order_at_ms < UNTIL_MS - MINUTE_MS])
    pair.brings("ships")
    pair.brings("containers")
    pair.aboard.clock.at_ms = pair.clock.at_ms + SECOND_MS
    pair.aboard.append([one for one in said if one.order_at_ms >= UNTIL_MS - MINUTE_MS])
    async with watched(pair.aboard, pair.lacked) as watching:
        await eventually(pair.aboard.judged)
        summary: Any = (await watching.call_roll()).summary
        assert (set(summary["gone"]), summary["accounted"]) == (LOST, summary["instrumented"] - len(LOST))
    pair.close()


@pytest.mark.parametrize("lacks", [None, 7])
async def test_nobody_is_waited_for_for_ever(tmp_path: Path, lacks: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no other node answers, or what it says it has never comes: the watch goes on alone."""
    pair = Pair(tmp_path)
    pair.aboard.append(voyage())
    looks: list[int | None] = []
    async with watched(pair.aboard, noted(lambda: lacks, looks)):
        await eventually(lambda: len(looks) >= LOOKS)
        assert not pair.aboard.judged()
        pair.aboard.clock.advance(landfall.watch.other_nodes.MEETS_S if lacks is None else PATIENCE_S)
        await eventually(pair.aboard.judged)
    pair.close()


async def test_that_it_listens_again_is_kept_with_its_step(tmp_path: Path) -> None:
    """Killed 20 s after a fall, down for 5 minutes: only what it listens counts, and who takes all steps again remembers the same."""
    sea, aboard = Sea(boxes=48), Aboard(tmp_path)
    heard = [*[one for one in sea.readings(FALLS_MS) if one.order_at_ms < FALLS_MS - MINUTE_MS], *fall(sea, 3, FALLS_MS)]
    aboard.told()
    aboard.hears(heard)
    await aboard.watch()
    assert not lost(aboard)
    aboard.clock.at_ms = FALLS_MS + 5 * MINUTE_MS
    async with watched(aboard, lambda: 0):
        for after_s in (10, 25, 60):
            aboard.clock.at_ms = FALLS_MS + 5 * MINUTE_MS + after_s * SECOND_MS
            aboard.append([sea.says(20 + after_s // 5, aboard.clock.at_ms - 500, battery_mv=3_600)])
            await eventually(aboard.judged)
            assert lost(aboard) == ([number(3)] if after_s == 60 else []), "of what nobody listened to nothing counts"

    settings = WatchSettings(WatchPlace("ship-a", ship=SHIP))
    memories = []
    for snapshot in ("kept", "lost"):
        if snapshot == "lost":
            (aboard.folder / "watch.snapshot").unlink()
        again = Watching(settings, aboard.folder, aboard.clock, Metrics("ship"), print, (f"aboard/{SHIP}",))
        await asyncio.to_thread(again._take_up, aboard.log)
        memories.append([json.loads(part) for part in snapshot_of(again._state)])
    assert memories[0] == memories[1]
    aboard.log.close()
