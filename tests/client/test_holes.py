"""Goal: a program that follows a stream is held up by a hole no longer than the stream's patience, for alerts not at all; what comes late
is given once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import landfall
from landfall.node.node import Node
from landfall.storage.file_log import FileLog
from streams.gap_skipping_reader import ReaderStanding
from streams.model.clock import StillClock
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import Batch
from tests.client.test_client import Following
from tests.streams.logkit import NOW_MS, append_rows, open_log, rows
from tests.support.fleet import address, settings, started, until

SHIP = "ship-a"


@contextmanager
def ship_with(folder: Path, count: int, stream: str) -> Iterator[FileLog]:
    """The log of a ship that nobody can reach, of `count` rows: a test brings them."""
    ship = open_log(folder / SHIP, SHIP)
    append_rows(ship, rows(count), stream)
    yield ship
    ship.close()


async def bring(ship: FileLog, stream: str, node: Node, *ranges: tuple[int, int]) -> None:
    for first, end in ranges:
        await node.admit(list(ship.blocks(stream, ship.origin, first, end)))


def doors(*nodes: Node) -> list[landfall.NodeDoor]:
    return [landfall.NodeDoor(node.url, f"door-of-{node.settings.node}") for node in nodes]


def offsets(given: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in given]


async def pager_at(*nodes: Node) -> landfall.StreamFollower:
    return await asyncio.to_thread(landfall.connect(doors(*nodes)).follow, "alerts", "pager")


async def taken(follower: landfall.StreamFollower, count: int) -> list[int]:
    """The offsets of the next `count` records."""
    async with asyncio.timeout(60):
        return offsets(await asyncio.to_thread(lambda: [next(follower) for _ in range(count)]))


async def test_alerts_are_not_held_up_by_one_that_is_missing(tmp_path: Path) -> None:
    """What is skipped stands in the consumer's record and in `exceptions`; it is given when it comes, by whoever goes on then."""
    node = await started("hq", tmp_path, StillClock(NOW_MS))
    with ship_with(tmp_path, 40, "alerts") as ship:
        await bring(ship, "alerts", node, (0, 10), (15, 40))
        with await pager_at(node) as pager:
            assert await taken(pager, 35) == [*range(10), *range(15, 40)]
            await asyncio.to_thread(pager.commit)
            await bring(ship, "alerts", node, (12, 15))
            assert await taken(pager, 2) == [12, 13], "14 is fetched and not given: it is not committed"
            assert pager.standing == ReaderStanding(Position({ship.origin: 40}), {ship.origin: RangeSet([(10, 12), (14, 15)])})
            await asyncio.to_thread(pager.commit)
        records = await asyncio.to_thread(lambda: list(landfall.connect(doors(node)).read("consumers")))
        assert records[-1]["body"]["skipped"] == {str(ship.origin): [[10, 12], [14, 15]]}
        with await pager_at(node) as again:
            assert await taken(again, 1) == [14]
            await bring(ship, "alerts", node, (10, 12))
            assert await taken(again, 2) == [10, 11]
            assert again.standing == ReaderStanding(Position({ship.origin: 40}))
        told = await asyncio.to_thread(lambda: list(landfall.connect(doors(node)).read("exceptions")))
        [reason] = [row["body"]["reason"] for row in told]
        assert reason.startswith(f"alerts:{ship.origin} 10..14 ")
    await node.stop()


async def test_a_hole_is_waited_for_as_long_as_the_streams_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked; who comes to the same hole later waits no time of its own."""
    monkeypatch.setattr("landfall.client.WAIT_MS", 20)
    clock = StillClock(NOW_MS)
    node = await started("hq", tmp_path, clock)
    node.definitions.take("containers", 1, {"patience_s": 60.0})
    with ship_with(tmp_path, 40, "containers") as ship:
        await bring(ship, "containers", node, (0, 10), (15, 20), (25, 40))
        following = Following(landfall.connect(doors(node)).follow("containers"))
        await asyncio.to_thread(following.has, 10)
        asked = Counted(node)
        for _ in range(3):
            await asked.more(2)
            clock.advance(19)
        assert offsets(following.rows) == list(range(10)), "57 s"
        clock.advance(4)
        await asyncio.to_thread(following.has, 15)
        await asked.more(2)
        assert offsets(following.rows)[10:] == list(range(15, 20)), "the next hole has its own time"
        later = landfall.connect(doors(node)).follow("containers")
        assert await taken(later, 15) == [*range(10), *range(15, 20)]
        await bring(ship, "containers", node, (10, 15), (20, 25))
        await asyncio.to_thread(following.has, 40)
        assert offsets(following.rows)[15:] == [*range(10, 15), *range(20, 40)]
        await asyncio.to_thread(following.close)
    await node.stop()


class Counted:
    """Counts how often the node's log is read for who follows `containers`, so that nothing has to sleep."""

    def __init__(self, node: Node) -> None:
        self._answers, self._came = 0, asyncio.Condition()
        read = node.log.read

        def counting(stream: str, position: Position, topics: Collection[str] | None = None) -> Iterator[Batch]:
            if stream == "containers":
                loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._count()))
            return read(stream, position, topics)

        loop = asyncio.get_running_loop()
        node.log.read = counting  # type: ignore[method-assign]

    async def _count(self) -> None:
        async with self._came:
            self._answers += 1
            self._came.notify_all()

    async def more(self, times: int) -> None:
        """Returns when it was asked so many times more."""
        async with self._came, asyncio.timeout(60):
            goal = self._answers + times
            await self._came.wait_for(lambda: self._answers >= goal)


async def test_copies_with_holes_of_their_own_are_one_stream(tmp_path: Path) -> None:
    """What the one lacks the other has, at once; what both lack comes when either has it; below the other's floor nothing is forgotten."""
    hq, tokyo = await started("hq", tmp_path, StillClock(NOW_MS)), await started("tokyo", tmp_path, StillClock(NOW_MS))
    with ship_with(tmp_path, 40, "alerts") as ship:
        await bring(ship, "alerts", tokyo, (0, 10), (15, 30))
        await bring(ship, "alerts", hq, (0, 8), (10, 12), (13, 40))
        with await pager_at(tokyo, hq) as pager:
            assert await taken(pager, 25) == [*range(10), *range(15, 30)]
            await asyncio.to_thread(pager.commit)
            port = tokyo.settings.model_copy(update={"port": int(tokyo.url.rpartition(":")[2])})
            await tokyo.stop()
            assert await taken(pager, 14) == [10, 11, 13, 14, *range(30, 40)]
            await asyncio.to_thread(pager.commit)
            hq.log.trim("alerts", ship.origin, 20)
            tokyo = Node(port, StillClock(NOW_MS))
            await tokyo.start()
            await bring(ship, "alerts", tokyo, (10, 15), (30, 40))
            await hq.stop()
            assert await taken(pager, 1) == [12]
            assert pager.standing == ReaderStanding(Position({ship.origin: 40}))
    await tokyo.stop()


async def test_what_two_nodes_heard_of_a_consumer_is_taken_together(tmp_path: Path) -> None:
    """It committed at one, then what came late at the other; neither has heard of the other's."""
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    with ship_with(tmp_path, 40, "alerts") as ship:
        for node, ranges in ((hq, ((0, 10), (15, 40))), (tokyo, ((0, 40),))):
            await bring(ship, "alerts", node, *ranges)
        with await pager_at(hq) as first:
            await taken(first, 35)
            await asyncio.to_thread(first.commit)
            at_hq = first.standing
        with await pager_at(tokyo, hq) as second:
            assert second.standing == at_hq
            assert await taken(second, 5) == [10, 11, 12, 13, 14]
            await asyncio.to_thread(second.commit)
        for order in ((tokyo, hq), (hq, tokyo)):
            third = await pager_at(*order)
            assert third.standing == ReaderStanding(Position({ship.origin: 40}))
    await hq.stop()
    await tokyo.stop()


async def test_nodes_that_end_late_blocks_and_programs_that_begin_again(tmp_path: Path) -> None:
    """Two ports have from headquarters what it has of a ship that is out of reach: blocks in any order, some of them late. The port at hand
    ends and comes back, and so, in its turn, does the program, which goes on where it committed. Each alert comes once."""
    chance, hq = random.Random(7), await started("hq", tmp_path)

    async def up(name: str, port: int = 0) -> Node:
        node = Node(settings(name, tmp_path, port, [address(name, "hq", hq.url)]))
        await node.start()
        return node

    ports = {node.url: node for node in [await up("tokyo"), await up("singapore")]}
    given: list[int] = []
    with ship_with(tmp_path, 300, "alerts") as ship:
        pieces = list(pairwise(range(0, 301, 50)))
        chance.shuffle(pieces)
        pager = await pager_at(*ports.values())
        for turn, (first, end) in enumerate(pieces):
            await bring(ship, "alerts", hq, (first, end))
            given += await taken(pager, end - first)
            await asyncio.to_thread(pager.commit)
            if turn % 3 == 1:
                at_hand = ports[pager.node]
                port = int(at_hand.url.rpartition(":")[2])
                await at_hand.stop()
                ports[pager.node] = await up(at_hand.settings.node, port)
            if turn % 3 == 2:
                await until(partial(have_heard, pager.standing, *ports.values()))
                pager.close()
                pager = await pager_at(*ports.values())
        assert pager.standing == ReaderStanding(Position({ship.origin: 300}))
        pager.close()
    assert given == [offset for first, end in pieces for offset in range(first, end)]
    for node in (*ports.values(), hq):
        await node.stop()


def have_heard(standing: ReaderStanding, *nodes: Node) -> bool:
    """Whether all of them know that the pager stands there."""
    return all(standing in _known(node) for node in nodes)


def _known(node: Node) -> list[ReaderStanding]:
    rows = [row.record.body or {} for batch in node.log.latest("consumers", "client/pager") for row in batch.rows()]
    return [ReaderStanding.from_json(body) for body in rows]


@pytest.mark.parametrize("seed", range(20))
def test_two_words_of_one_reader_are_the_later_one(seed: int) -> None:
    """However it went on: holes passed, late ones read, further on; for any number of origins."""
    chance = random.Random(seed)
    origins = [Origin(name, 1) for name in ("a", "b", "c")]
    ends, left = dict.fromkeys(origins, 0), {origin: RangeSet() for origin in origins}
    words = []
    for _ in range(30):
        origin = chance.choice(origins)
        if late := list(left[origin]) if chance.random() < 0.5 else []:
            first, end = chance.choice(late)
            left[origin].remove(chance.randint(first, end - 1), end)
        else:
            hole, more = chance.choice([0, 3]), chance.randint(1, 5)
            left[origin].add(ends[origin], ends[origin] + hole)
            ends[origin] += hole + more
        words.append(ReaderStanding(Position(ends), {one: ranges.copy() for one, ranges in left.items() if ranges}))
    for _ in range(20):
        earlier, later = sorted(chance.sample(range(30), 2))
        assert words[earlier].merged(words[later]) == words[later].merged(words[earlier]) == words[later]
        assert ReaderStanding.from_json(words[later].to_json()) == words[later]
