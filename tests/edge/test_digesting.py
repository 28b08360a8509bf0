"""Goal: while readings wait for port, one line per container and window goes ashore over the dear link, once; in port none is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from cargo.vocabulary.trade_codes import make_container
from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import BacklogReporter
from edge.services.digest_service import DIGESTS, HOUR_MS, Digesting
from edge.settings import Headquarters
from landfall.node.node import Node
from landfall.node.settings import LinkSettings
from landfall.storage.file_log import FileLog
from streams.consumers import CONSUMERS
from streams.log import Append
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from tests.support.fleet import SINCE_AT_MS, Calendar, Stepped, address, settings, started, until

IMO = "9321483"
BOXES = [make_container("DUCU", serial) for serial in range(5)]
EVERY_H = 6
WINDOW_MS = EVERY_H * HOUR_MS


class Ship:
    """A ship's node that digests, her clock moved by hand; `at_sea` says which link she keeps."""

    def __init__(self, node: Node, clock: Calendar, every_h: float = EVERY_H) -> None:
        self.node, self.clock = node, clock
        shore = Headquarters.model_validate({"node": "hq", "url": "http://127.0.0.1:1", "token": "token-of-ship-a"})
        self.links = LinkChoice(node, [], shore)
        self.digesting = Digesting(node, self.links, BacklogReporter(node, every_s=3_600), every_h)

    def keep(self, *links: Any) -> None:
        """These links are hers from now on."""
        self.links._kept = list(links)
        self.node.link(list(links))

    async def speak(self, boxes: Sequence[str], at_ms: int, **signals: Any) -> None:
        """Each box once."""
        rows = [Record(box, f"TRK-{box}", at_ms, {"return_c": 4.0 + number, **signals}) for number, box in enumerate(boxes)]
        await self.node.append([Append("containers", to_batch(rows))])

    def ends(self) -> int:
        """The clock goes to the end of the present window, which is given."""
        self.clock.at_ms = (self.clock.at_ms // WINDOW_MS + 1) * WINDOW_MS
        return self.clock.at_ms


@asynccontextmanager
async def ship_of(folder: Path, clock: Calendar, every_h: float = EVERY_H, **links: LinkSettings) -> AsyncIterator[Ship]:
    node = Node(settings("ship-a", folder).model_copy(update={"links": links}), clock)
    await node.start()
    ship = Ship(node, clock, every_h)
    task = asyncio.create_task(ship.digesting.run())
    try:
        yield ship
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await node.stop()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks every moment."""
    monkeypatch.setattr("edge.services.digest_service.LOOK_S", 0.01)


def lines(node: Node, topic: str | None = None) -> list[dict[str, Any]]:
    """What `digests` holds here, of one topic or of all boxes, in order."""
    rows = [row for batch in node.log.read(DIGESTS, Position()) for row in batch.records.to_pylist()]
    return [row for row in rows if (row["topic"] == topic if topic else not row["topic"].endswith(".log"))]


def windows(node: Node, box: str = BOXES[0]) -> list[tuple[int, int]]:
    """Of the box's lines: which window, in hours since the beginning, and of how many readings."""
    return [((row["from_at_ms"] - SINCE_AT_MS) // HOUR_MS, row["readings"]) for row in lines(node, box)]


def stands(node: Node) -> int:
    """Up to which offset the consumer has come."""
    last = [row for batch in node.log.latest(CONSUMERS, DIGESTS) for row in batch.rows()]
    return sum((last[0].record.body or {})["position"].values()) if last else -1


async def test_what_waits_goes_ashore_as_one_line_a_box_and_window_and_not_in_port(tmp_path: Path) -> None:
    clock = Calendar(SINCE_AT_MS)
    hq = await started("hq", tmp_path, clock)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await until(lambda: stands(ship.node) == 0)
        for minute in (0, 50, 100):
            clock.at_ms = SINCE_AT_MS + minute * 60_000
            await ship.speak(BOXES, clock.at_ms, shock_g=minute / 20)
        first_until = ship.ends()
        await until(lambda: len(lines(hq)) == len(BOXES))
        [line] = lines(hq, BOXES[1])
        said = {name: line[name] for name in ("readings", "return_min_c", "return_max_c", "shock_max_g", "shocks", "silence_max_s")}
        assert said == {"readings": 3, "return_min_c": 5.0, "return_max_c": 5.0, "shock_max_g": 5.0, "shocks": 2, "silence_max_s": 260 * 60}
        assert (line["from_at_ms"], line["until_at_ms"]) == (SINCE_AT_MS, first_until)
        assert line["order_at_ms"] == SINCE_AT_MS + 100 * 60_000, "the time of the last reading"
        [whole] = lines(hq, f"{IMO}.log")
        assert (whole["boxes"], whole["readings"]) == (len(BOXES), 15)
        assert not hq.log.position("containers")

        await ship.speak(BOXES[:2], clock.at_ms)  # a window of two boxes
        ship.ends()
        await until(lambda: windows(hq) == [(0, 3), (6, 1)])
        assert len(lines(hq)) == len(BOXES) + 2
        status = ship.digesting.status()
        assert (status["wait"], status["last"]["boxes"], status["next_at_ms"]) == (True, 2, clock.at_ms + WINDOW_MS)

        ship.keep(address("ship-a", "hq", hq.url, "port"))
        await ship.speak(BOXES, clock.at_ms)
        await until(lambda: hq.log.position("containers") == ship.node.log.position("containers"))
        ship.ends()
        await until(lambda: stands(ship.node) == 22)
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await ship.speak(BOXES[:1], clock.at_ms)
        ship.ends()
        await until(lambda: windows(hq)[2:] == [(18, 1)])
        counts = ship.node.metrics.body(0, 0)["counts"]
        assert (counts["digests"], counts["digest_windows"], counts["digest_windows_without"]) == (8, 3, 1)
    await hq.stop()


async def test_what_is_ashore_already_is_in_no_digest(tmp_path: Path) -> None:
    """She leaves port in the middle of a window: only what she heard since waits."""
    clock = Calendar(SINCE_AT_MS)
    hq = await started("hq", tmp_path, clock)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "port"))
        await until(lambda: stands(ship.node) == 0)
        await ship.speak(BOXES, SINCE_AT_MS, return_c=-20.0)
        await until(lambda: ship.node.links.durable_ashore().get("containers", {}).get(ship.node.log.origin, RangeSet()).covers(0, 5))
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        clock.at_ms += HOUR_MS
        await ship.speak(BOXES[:1], clock.at_ms)
        ship.ends()
        await until(lambda: windows(hq) == [(0, 1)])
        assert [(row["topic"], row["return_min_c"]) for row in lines(hq)] == [(BOXES[0], 4.0)]
    await hq.stop()


async def test_what_a_port_alone_says_it_has_is_told_of(tmp_path: Path) -> None:
    """A word costs nothing: while headquarters has not said so, it waits."""
    clock = Calendar(SINCE_AT_MS)
    hq, tokyo = await started("hq", tmp_path, clock), await started("tokyo", tmp_path, clock)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "tokyo", tokyo.url, "port"))
        await ship.speak(BOXES, SINCE_AT_MS)
        await until(lambda: ship.node.links.durable_ashore().get("containers", {}).get(ship.node.log.origin, RangeSet()).covers(0, 5))
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        ship.ends()
        await until(lambda: windows(hq) == [(0, 1)])
        assert len(lines(hq)) == len(BOXES)
    for node in (hq, tokyo):
        await node.stop()


async def test_a_ship_that_was_away_goes_on_and_one_that_begins_tells_nothing_old(tmp_path: Path) -> None:
    """Months that were there before digests were are passed over; a window that ended while she was down is made once, when she is up."""
    clock = Calendar(SINCE_AT_MS)
    before = await started("ship-a", tmp_path, clock)
    rows = [Record(BOXES[0], "TRK", SINCE_AT_MS, {"return_c": float(at)}) for at in range(10)]
    await before.append([Append("containers", to_batch(rows))])
    await before.stop()
    clock.at_ms += 7 * HOUR_MS
    nowhere = address("ship-a", "hq", "http://127.0.0.1:1", "satellite")
    async with ship_of(tmp_path, clock) as ship:
        await until(lambda: stands(ship.node) == 10)
        ship.keep(nowhere)
        await ship.speak(BOXES[:1], clock.at_ms)
    ship.ends()
    clock.at_ms += WINDOW_MS
    for _ in range(2):
        async with ship_of(tmp_path, clock) as again:
            again.keep(nowhere)
            await until(lambda: again.digesting._due_ms > 0)
            assert windows(again.node) == [(6, 1)]
            assert again.digesting.status()["last"]["readings"] == 1
    async with ship_of(tmp_path, clock, every_h=4) as otherwise:
        otherwise.keep(nowhere)
        await otherwise.speak(BOXES[:1], clock.at_ms)
        clock.at_ms += 4 * HOUR_MS
        await until(lambda: windows(otherwise.node) == [(6, 1), (16, 1)])


async def test_what_is_committed_after_its_window_was_told_is_in_the_next(tmp_path: Path) -> None:
    """A commit took its time before the window's end and was not there yet when the digest was made: no window has two lines of a box."""
    clock = Calendar(SINCE_AT_MS)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", "http://127.0.0.1:1", "satellite"))
        await until(lambda: stands(ship.node) == 0)
        await ship.speak(BOXES[:1], clock.at_ms)
        end = ship.ends()
        await until(lambda: windows(ship.node) == [(0, 1)])
        clock.at_ms = end - 1
        await ship.speak(BOXES[:1], clock.at_ms)
        clock.at_ms = end + WINDOW_MS
        await until(lambda: windows(ship.node) == [(0, 1), (6, 1)])


async def test_a_clock_that_was_years_ahead_ends_no_window_then_and_holds_up_none_later(tmp_path: Path) -> None:
    clock = Stepped(SINCE_AT_MS)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", "http://127.0.0.1:1", "satellite"))
        await until(lambda: stands(ship.node) == 0)
        await ship.speak(BOXES[:1], clock.at_ms)
        clock.ahead_ms = 10 * 365 * 24 * HOUR_MS
        await ship.speak(BOXES[:1], clock.at_ms)
        assert not ship.digesting._is_due()
        clock.ahead_ms = 0
        ship.node.clock_keeper.check.heard("tokyo", clock.at_ms)
        assert isinstance(ship.node.log, FileLog)
        ship.node.clock_keeper.reopen(ship.node.log)
        await ship.speak(BOXES[:1], clock.at_ms)
        ship.ends()
        await until(lambda: windows(ship.node)[:1] == [(0, 2)])
        ship.ends()
        await until(lambda: windows(ship.node) == [(0, 2), (6, 1)])


@pytest.mark.parametrize(
    ("streams", "wait"),
    [(None, True), (("alerts", "digests", "ships"), True), (("alerts", "ships"), False), (("*",), False), (("*", "!containers"), True)],
)
async def test_the_links_policy_decides(tmp_path: Path, streams: tuple[str, ...] | None, wait: bool) -> None:
    async with ship_of(tmp_path, Calendar(SINCE_AT_MS), satellite=LinkSettings(streams=streams)) as ship:
        assert ship.links.readings_wait() is None, "nothing is known before links were chosen"
        sea = address("ship-a", "hq", "http://127.0.0.1:1", "satellite")
        ship.links._kept = [sea]
        assert ship.links.readings_wait() is wait
        ship.links._kept = [sea.model_copy(update={"link": "port"})]
        assert ship.links.readings_wait() is False
        assert LinkChoice(ship.node, [], None).readings_wait() is None
        without = LinkChoice(ship.node, [], None)
        without._kept = []
        assert without.readings_wait() is False, "no satellite, no digest"


async def test_a_disk_that_is_full_for_a_while_costs_no_digest(tmp_path: Path) -> None:
    clock = Calendar(SINCE_AT_MS)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", "http://127.0.0.1:1", "satellite"))
        await until(lambda: stands(ship.node) == 0)
        await ship.speak(BOXES[:1], clock.at_ms)
        append, failures = ship.node.append, [RetryLater("the disk is full")] * 3

        async def failing(appends: Sequence[Append]) -> Any:
            if failures and appends[0].stream == DIGESTS:
                raise failures.pop()
            return await append(appends)

        cast(Any, ship.node).append = failing
        ship.ends()
        await until(lambda: windows(ship.node) == [(0, 1)])
        assert not failures
