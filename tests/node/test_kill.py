"""Goal: three nodes in a cycle, killed between any two commits, their links cut mid-transfer: every row everywhere, once, unchanged."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import product
from pathlib import Path

import pytest

from bench.proxy import Proxy
from streams.errors import RetryLater
from streams.log import Append
from streams.records import Record, to_batch
from tests.node.fleet import Station, readings, stations, until
from tests.node.points import KEPT

STREAMS = ("containers", "events", "alerts")
NAMES = ("tokyo", "singapore", "sydney")
DEADLINE_S = 90
EACH = list(product(range(len(NAMES)), KEPT))
ONE_AFTER_ANOTHER = [(at % len(NAMES), point) for at, point in enumerate(KEPT)]


class Voyage:
    """Writes to all three stations of a cycle, whoever is down, and brings back those that died."""

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
        """Wait until all three have all rows, and compare them field by field."""
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
            assert rows[0] == rows[1] == rows[2]

    def _counts(self, station: Station) -> dict[str, int] | None:
        try:
            return {stream: sum(station.reader.position(stream).values()) for stream in STREAMS}
        except RetryLater:
            return None


def _cycle(folder: Path) -> tuple[Station, Station, Station]:
    tokyo, singapore, sydney = (Station(name, folder, {}) for name in NAMES)
    tokyo.links, singapore.links, sydney.links = {"singapore": singapore.url}, {"sydney": sydney.url}, {"tokyo": tokyo.url}
    return tokyo, singapore, sydney


@pytest.mark.parametrize("deaths", [ONE_AFTER_ANOTHER, pytest.param(EACH, marks=pytest.mark.torture)], ids=["each-point", "each-at-each"])
async def test_each_killed_between_any_two_commits(tmp_path: Path, deaths: list[tuple[int, str]]) -> None:
    """At each point once, one station after another; each station at each point by `make torture`."""
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


@pytest.mark.long
async def test_links_cut_mid_transfer(tmp_path: Path) -> None:
    cycle = _cycle(tmp_path)
    proxies = [Proxy(station.port) for station in cycle]
    for station, target, proxy in zip(cycle, (1, 2, 0), (proxies[1], proxies[2], proxies[0]), strict=True):
        station.links = {cycle[target].name: await proxy.start()}
    with stations(*cycle):
        voyage = Voyage(cycle)
        for round_ in range(6):
            cuts = sum(proxy.cuts for proxy in proxies)
            for proxy in proxies:
                proxy.cut_after_bytes = proxy.carried_bytes + 9_000 + 7_000 * round_
            while sum(proxy.cuts for proxy in proxies) == cuts:  # while one link waits to be dialled the rows go the other way round
                await asyncio.gather(*(voyage.write(station, 3_000) for station in cycle))
        await voyage.converge()
        assert sum(proxy.cuts for proxy in proxies) >= 6
    for proxy in proxies:
        await proxy.stop()


async def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    cycle = _cycle(tmp_path)
    with stations(*cycle):
        voyage = Voyage(cycle)
        await voyage.write(cycle[0], 100)
        await voyage.converge()
        words = tmp_path / "tokyo" / "told.txt"
        await until(lambda: "connected to singapore over lan" in words.read_text())  # the rows may have come the other way round
        assert [await asyncio.to_thread(station.stop) for station in cycle] == [0, 0, 0]
    told = words.read_text()
    assert "left singapore" in told
    assert "'tokyo' has stopped" in told
    assert "Traceback" not in told
