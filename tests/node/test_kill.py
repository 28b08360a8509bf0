"""Goal: three nodes in a cycle, killed between any two commits: every row everywhere, once, unchanged."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import product
from pathlib import Path

import pytest

from streams.log import Append
from streams.model.errors import RetryLater
from streams.model.records import Record, to_batch
from tests.node.points import KEPT
from tests.support.fleet import Station, readings, stations

STREAMS = ("containers", "events", "alerts")
NAMES = ("tokyo", "singapore", "sydney")
DEADLINE_S = 90
EACH = list(product(range(len(NAMES)), KEPT))
AS_IT_TAKES_IN = [(at, "sync.admitted") for at in range(2)]
"""The points of the log are passed by each log, whoever has it: `tests/streams/test_log_kill.py`."""


class Voyage:
    """Writes to all stations of a cycle, whoever is down, and brings back those that died."""

    def __init__(self, cycle: tuple[Station, ...]) -> None:
        self.cycle = cycle
        self.written: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self._sequence = 0

    async def write(self, station: Station, count: int) -> None:
        """Append to one station, again and again until it says that it is durable: producer and sequence make that harmless."""
        self._sequence += 1
        number = self._sequence
        appends = [
            Append("containers", readings(number * 10_000, count).records, "test", number),
            Append("events", to_batch([Record("MSKU1234565", body={"event_id": f"{station.name} {number}"})]), "test", number),
            Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": f"{station.name} {number}"})]), "test", number),
        ]
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                await asyncio.to_thread(station.writer.append, appends)
                break
            except RetryLater:
                assert time.monotonic() < deadline_s, f"{station.name} does not come back"
                await self.revive()
                await asyncio.sleep(0.05)
        for append in appends:
            self.written[append.stream] += append.records.num_rows

    async def revive(self) -> None:
        for station in self.cycle:
            if station.process is not None and station.process.poll() is not None:
                station.start()

    async def converge(self) -> None:
        """Wait until all have all rows, and compare them field by field."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            await self.revive()
            counts = [await asyncio.to_thread(self._counts, station) for station in self.cycle]
            if all(count == self.written for count in counts):
                break
            assert time.monotonic() < deadline_s, f"written {self.written}, there are {counts}"
            await asyncio.sleep(0.1)
        for stream in STREAMS:
            rows = [await asyncio.to_thread(station.rows, stream) for station in self.cycle]
            assert all(one == rows[0] for one in rows)

    def _counts(self, station: Station) -> dict[str, int] | None:
        try:
            return {stream: sum(station.reader.position(stream).values()) for stream in STREAMS}
        except RetryLater:
            return None


def _cycle(folder: Path) -> tuple[Station, Station, Station]:
    tokyo, singapore, sydney = (Station(name, folder, {}) for name in NAMES)
    tokyo.links, singapore.links, sydney.links = {"singapore": singapore.url}, {"sydney": sydney.url}, {"tokyo": tokyo.url}
    return tokyo, singapore, sydney


@pytest.mark.parametrize("deaths", [AS_IT_TAKES_IN, pytest.param(EACH, marks=pytest.mark.torture)], ids=["as-it-takes-in", "each-at-each"])
async def test_each_killed_between_any_two_commits(tmp_path: Path, deaths: list[tuple[int, str]]) -> None:
    """Two of them as they have taken in what others wrote; each station at each point by `make torture`."""
    cycle = _cycle(tmp_path)
    with stations(*cycle):
        voyage = Voyage(cycle)
        for at, (number, point) in enumerate(deaths):
            doomed = cycle[number]
            await asyncio.to_thread(doomed.kill)
            doomed.start(crash_at=f"{point}:{2 + at % 5}")
            dying = doomed.process
            assert dying is not None
            while dying.poll() is None:
                for station in cycle:
                    await voyage.write(station, 40)
            assert dying.poll() == -signal.SIGKILL
        await voyage.converge()


async def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    tokyo, singapore, _ = _cycle(tmp_path)
    singapore.links = {}
    with stations(tokyo, singapore):
        voyage = Voyage((tokyo, singapore))
        await voyage.write(tokyo, 100)
        await voyage.converge()
        assert [await asyncio.to_thread(station.stop) for station in (tokyo, singapore)] == [0, 0]
    told = (tmp_path / "tokyo" / "told.txt").read_text()
    assert "left singapore" in told
    assert "'tokyo' has stopped" in told
    assert "Traceback" not in told
