"""Goal: whatever the pattern of data centres and links, each node has all records once under their first offsets; who joins late, or comes
back after weeks, has the rest, and learns where each origin starts and why.

The patterns are those of fig. 5-2 in the book on Kafka that the design names: both ways between two, overlapping pairs, one way in from
two with different retention. Torture: `pytest -n 0 -m torture tests/node/test_patterns.py`, a minute.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import pyarrow as pa
import pytest

from landfall.node.node import Node
from landfall.node.settings import KeepSettings
from streams.log import Append
from streams.model.clock import Clock, WallClock
from streams.model.errors import RetryLater
from streams.model.identifiers import Origin
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from streams.retention.droppable_runs import RUN
from tests.landfall.commands import run
from tests.node.test_definitions import define
from tests.node.test_kill import Voyage
from tests.streams.logkit import content
from tests.support.fleet import Calendar, Station, address, knowing_all, readings, settings, stations, until

STREAMS = ("containers", "events", "alerts")
DAY_MS = 86_400_000
Pairs = Sequence[tuple[str, str]]
Rows = dict[tuple[str, Origin, int], dict[str, Any]]
NO_OWN_WAY: Mapping[str, KeepSettings] = MappingProxyType({})
OVERLAPPING: Pairs = (("tokyo", "singapore"), ("singapore", "sydney"), ("tokyo", "sydney"), ("sydney", "hq"))


async def node(name: str, folder: Path, clock: Clock | None = None, **more: Any) -> Node:
    one = Node(knowing_all(settings(name, folder), folder).model_copy(update={"retention_every_s": 0.05, **more}), clock or WallClock())
    await one.start()
    return one


@asynccontextmanager
async def fleet(
    folder: Path,
    names: Sequence[str],
    pairs: Pairs = (),
    clock: Clock | None = None,
    kept: Mapping[str, KeepSettings] = MappingProxyType({}),
) -> AsyncIterator[dict[str, Node]]:
    """Nodes in this process, each first of a pair dialling the second, over real sockets; all pairs are in session. `kept`: how long which
    node keeps `containers`, by its own settings.
    """
    async with AsyncExitStack() as ending:
        nodes: dict[str, Node] = {}
        for name in names:
            nodes[name] = await node(name, folder, clock, keep={"containers": kept[name]} if name in kept else {})
            ending.push_async_callback(nodes[name].stop)
        for name in names:
            nodes[name].link([address(name, to, nodes[to].url) for dialler, to in pairs if dialler == name])
        await until(lambda: all(in_session(nodes[a], b) and in_session(nodes[b], a) for a, b in pairs))
        yield nodes


def in_session(one: Node, peer: str) -> bool:
    return bool(one.links.status().get(peer, {}).get("open"))


async def write(one: Node, number: int, count: int) -> None:
    """A commit of readings, an event and an alert."""
    body = f'{{"event_id": "{one.settings.node} {number}", "alert_id": "{one.settings.node} {number}"}}'
    told = (
        readings(number, 1)
        .records.select(["topic", "device", "device_at_ms"])
        .append_column(pa.field("body", pa.string()), pa.array([body]))
    )
    await one.append([readings(number, count), Append("events", told), Append("alerts", told)])


def alike(nodes: Sequence[Node]) -> bool:
    """Whether all have the same of STREAMS, by their Positions."""
    return all(a.log.position(stream) == b.log.position(stream) for a, b in combinations(nodes, 2) for stream in STREAMS)


async def writes_in_turn(nodes: dict[str, Node], rounds: int, count: int) -> Rows:
    """Every node writes, again and again, all at once; then all are alike. What each had written, as its own log has it."""
    for round_ in range(rounds):
        await asyncio.gather(*(write(one, 10_000 * round_, count) for one in nodes.values()))
    await until(lambda: alike(list(nodes.values())), 60)
    return await asyncio.to_thread(content, next(iter(nodes.values())).log, STREAMS)


ROUNDS, WRITTEN = 3, 100
"""Commits of each node, and readings in each."""


@pytest.mark.parametrize(
    ("names", "pairs"),
    [(("tokyo", "hq"), (("tokyo", "hq"), ("hq", "tokyo"))), (("tokyo", "singapore", "sydney", "hq"), OVERLAPPING)],
    ids=["both-ways-between-two", "overlapping-pairs"],
)
async def test_all_have_all_once_under_its_first_offset(tmp_path: Path, names: Sequence[str], pairs: Pairs) -> None:
    """How little goes over two paths at once is shown on a simulated clock: `tests/sync/test_paths.py`."""
    async with fleet(tmp_path, names, pairs) as nodes:
        own = {name: one.log.origin for name, one in nodes.items()}
        truth = await writes_in_turn(nodes, ROUNDS, WRITTEN)
        for one in nodes.values():  # beside the loop: a session ends that hears nothing for 3 s
            assert await asyncio.to_thread(content, one.log, STREAMS) == truth
            assert {stream: dict(one.log.position(stream)) for stream in STREAMS} == {
                "containers": dict.fromkeys(own.values(), ROUNDS * WRITTEN),
                "events": dict.fromkeys(own.values(), ROUNDS),
                "alerts": dict.fromkeys(own.values(), ROUNDS),
            }
            assert one.log.history("MSKU1234565").rows == next(iter(nodes.values())).log.history("MSKU1234565").rows


async def test_one_way_in_from_two_with_different_retention(tmp_path: Path) -> None:
    """Each writes a stream of its own that headquarters has too, and nobody else; the one is kept for 60 days, the other for ever."""
    clock = Calendar(WallClock().now_ms())
    async with fleet(tmp_path, ("tokyo", "singapore", "hq"), (("tokyo", "hq"), ("singapore", "hq")), clock) as nodes:
        hq, tokyo, singapore = nodes["hq"], nodes["tokyo"], nodes["singapore"]
        await define(hq, "quays.tokyo", 1, replicate=["hq"], retention={"age_days": 60})
        await define(hq, "quays.singapore", 1, replicate=["hq"])
        for one in (tokyo, singapore):
            await until(lambda one=one: one.definitions.of("quays.singapore").replicate == ("hq",))  # type: ignore[misc]
            await one.append([Append(f"quays.{one.settings.node}", readings(0, 2 * RUN + 100).records)])
        both = ("quays.tokyo", "quays.singapore")
        written = content(tokyo.log, both) | content(singapore.log, both)
        await until(lambda: sum(sum(hq.log.position(stream).values()) for stream in both) == 4 * RUN + 200, 60)
        assert content(hq.log, both) == written
        clock.at_ms += 100 * DAY_MS
        await until(lambda: all(ledger(one, both[0], tokyo.log.origin).floor == 2 * RUN for one in (hq, tokyo)), 60)
        left = {at: row for at, row in written.items() if at[0] != both[0] or at[2] >= 2 * RUN}
        assert content(hq.log, both) == content(tokyo.log, both) | content(singapore.log, both) == left
        assert [one.log.ledger(stream) for one, stream in ((tokyo, both[1]), (singapore, both[0]))] == [{}, {}], (
            "nothing goes on from there"
        )


async def test_one_stream_is_kept_longer_or_shorter_at_a_node_by_its_own_settings(tmp_path: Path) -> None:
    """Headquarters keeps its copy for 60 days, as is set for all; Tokyo for 30; Singapore, and Sydney which joins late, for ever."""
    clock = Calendar(WallClock().now_ms())
    kept = {"tokyo": KeepSettings(age_days=30), "singapore": KeepSettings()}
    async with fleet(tmp_path, ("tokyo", "singapore", "hq"), (("tokyo", "hq"), ("singapore", "hq")), clock, kept) as nodes:
        hq, tokyo, singapore = nodes["hq"], nodes["tokyo"], nodes["singapore"]
        await tokyo.append([readings(0, 2 * RUN + 100)])
        origin, written = tokyo.log.origin, content(tokyo.log, ["containers"])
        await until(lambda: alike([hq, tokyo, singapore]), 60)
        clock.at_ms += 15 * DAY_MS
        await until(lambda: ledger(tokyo, "containers", origin).floor == 2 * RUN, 60)
        rounds = _rounds(hq), _rounds(singapore)
        await until(lambda: _rounds(hq) > rounds[0] + 1 and _rounds(singapore) > rounds[1] + 1)
        assert [content(one.log, ["containers"]) == written for one in (hq, singapore)] == [True, True], "nothing is set for all yet"
        await define(hq, "containers", 1, retention={"age_days": 60})
        clock.at_ms += 30 * DAY_MS
        await until(lambda: ledger(hq, "containers", origin).floor == 2 * RUN, 60)
        await until(lambda: "floors" in str(singapore.log.latest("homes", "home/containers")))
        rounds = _rounds(hq), _rounds(singapore)
        await until(lambda: _rounds(singapore) > rounds[1] + 1)
        assert content(singapore.log, ["containers"]) == written
        sydney = await node("sydney", tmp_path, clock, keep={"containers": KeepSettings()})
        try:
            hq.link([address("hq", "sydney", sydney.url)])
            await until(lambda: ledger(sydney, "containers", origin).gone.get("expired") == RangeSet([(0, 2 * RUN)]), 60)
            await until(lambda: sydney.log.position("containers") == hq.log.position("containers"), 60)
            assert ledger(sydney, "containers", origin).floor == 0
        finally:
            await sydney.stop()
        why = {one.settings.node: (await ledger_of(one, "containers"))[str(origin)]["floor_why"] for one in nodes.values()}
        assert why == {"tokyo": "age", "hq": "age", "singapore": None}


def ledger(one: Node, stream: str, origin: Origin) -> OriginLedger:
    return one.log.ledger(stream).get(origin) or OriginLedger()


async def test_who_joins_late_learns_where_each_origin_starts_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Headquarters has dropped what is old of Tokyo's and of its own; Sydney was never there before: its door and `log gaps` say so."""
    clock = Calendar(WallClock().now_ms())
    async with fleet(tmp_path, ("hq", "tokyo"), (("hq", "tokyo"),), clock) as nodes:
        hq, tokyo = nodes["hq"], nodes["tokyo"]
        await hq.append([readings(0, RUN + 50)])
        await tokyo.append([readings(0, 2 * RUN + 50)])
        starts = {hq.log.origin: RUN, tokyo.log.origin: 2 * RUN}
        await until(lambda: alike([hq, tokyo]), 60)
        await define(hq, "containers", 1, retention={"age_days": 60})
        clock.at_ms += 100 * DAY_MS
        await until(lambda: all(ledger(one, "containers", origin).floor == starts[origin] for one in (hq, tokyo) for origin in starts), 60)
        sydney = await node("sydney", tmp_path, clock)
        try:
            for name in ("hq", "tokyo"):
                nodes[name].link([address(name, "sydney", sydney.url)])
            await until(lambda: sydney.log.position("containers") == hq.log.position("containers"), 60)
            assert content(sydney.log, ["containers"]) == content(hq.log, ["containers"]), "what is left, under its first offsets"
            told = await ledger_of(sydney, "containers")
            assert {origin: one["floor"] for origin, one in told.items()} == {str(origin): first for origin, first in starts.items()}
            assert {one["floor_why"] for one in told.values()} == {"age_at_home"}
            assert {one["floor_why"] for one in (await ledger_of(hq, "containers")).values()} == {"age"}
        finally:
            await sydney.stop()
    code, printed, _ = await asyncio.to_thread(run, capsys, "log", "gaps", "containers", "-f", tmp_path / "sydney", "--format", "json")
    gaps = [json.loads(line) for line in printed.splitlines()]
    assert code == 0
    assert {(gap["origin"], gap["first"], gap["end"], gap["why"], gap["floor_why"]) for gap in gaps} == {
        (str(origin), 0, first, "below_floor", "age_at_home") for origin, first in starts.items()
    }
    _, listed, _ = await asyncio.to_thread(run, capsys, "log", "ls", "containers", "-f", tmp_path / "sydney", "--format", "json")
    assert [json.loads(line)["floor_why"] for line in listed.splitlines()] == ["age_at_home", "age_at_home"]


async def test_who_comes_back_after_weeks_has_the_rest_and_brings_its_own(tmp_path: Path) -> None:
    """Both have written all the while; what was old meanwhile is dropped where nobody lacks it, and not before."""
    clock = Calendar(WallClock().now_ms())
    async with fleet(tmp_path, ("hq", "tokyo"), (("tokyo", "hq"),), clock) as nodes:
        hq, tokyo = nodes["hq"], nodes["tokyo"]
        await define(hq, "containers", 1, retention={"age_days": 50})
        await until(lambda: tokyo.definitions.of("containers").retention.age_days == 50)
        tokyo.link([])
        await until(lambda: not hq.links.status() and not tokyo.links.status())
        for week in range(3):
            for one in nodes.values():
                await write(one, 14 * 86_400 * week, RUN)
            clock.at_ms += 14 * DAY_MS
        rounds = _rounds(tokyo)
        await until(lambda: _rounds(tokyo) > rounds + 1)
        assert ledger(tokyo, "containers", tokyo.log.origin).held.count() == 3 * RUN, "its home has none of it"
        own = {one.log.origin: content(one.log, STREAMS) for one in nodes.values()}
        assert ledger(hq, "containers", hq.log.origin).floor == 0, "no peer has confirmed its clock since it moved"
        tokyo.link([address("tokyo", "hq", hq.url)])
        await until(lambda: alike([hq, tokyo]), 60)
        await until(lambda: ledger(tokyo, "containers", tokyo.log.origin).floor > 0, 60)
        await until(lambda: ledger(hq, "containers", hq.log.origin).floor > 0)
        floor = ledger(hq, "containers", hq.log.origin).floor
        for one in nodes.values():
            for (stream, origin, offset), row in content(one.log, STREAMS).items():
                assert own[origin][stream, origin, offset] == row
            assert dict(one.log.position("containers")) == dict.fromkeys(own, 3 * RUN)
            await until(partial(_has_floor, one, hq, floor), 60)


def _has_floor(one: Node, of: Node, floor: int) -> bool:
    """Whether `one` too has dropped what its own clock says is too old of what `of` wrote."""
    return ledger(one, "containers", of.log.origin).floor >= floor


def _rounds(one: Node) -> int:
    return int(one.metrics.body(0, 0)["counts"].get("retention_rounds", 0))


@pytest.mark.torture
async def test_overlapping_pairs_killed_in_the_midst(tmp_path: Path) -> None:
    """As processes: one after another is killed while all write, 24 times; one that was never there joins in the midst."""
    chance = random.Random(5)
    all_ = {name: Station(name, tmp_path, {}) for name in ("tokyo", "singapore", "sydney", "hq")}
    for dialler, to in OVERLAPPING:
        all_[dialler].links[to] = all_[to].url
    first, late = [all_[name] for name in ("tokyo", "singapore", "sydney")], all_["hq"]
    with stations(*first):
        voyage = Voyage(tuple(first))
        for turn in range(24):
            if turn == 12:
                late.start()
                voyage.cycle = (*first, late)
            for station in voyage.cycle:
                await voyage.write(station, 200)
            await asyncio.to_thread(chance.choice(voyage.cycle).kill)
            await voyage.revive()
        try:
            await _converge(voyage)
        finally:
            late.kill()


async def _converge(voyage: Voyage) -> None:
    def counts(station: Station) -> dict[str, int] | None:
        try:
            return {stream: sum(station.reader.position(stream).values()) for stream in STREAMS}
        except RetryLater:
            return None

    await until(lambda: all(counts(station) == voyage.written for station in voyage.cycle), 120)
    for stream in STREAMS:
        copies = [await asyncio.to_thread(station.rows, stream) for station in voyage.cycle]
        assert all(copy == copies[0] for copy in copies), stream


async def ledger_of(one: Node, stream: str) -> dict[str, Any]:
    """What its door says of the origins of the stream."""
    headers = {"Authorization": f"Bearer door-of-{one.settings.node}"}
    async with aiohttp.ClientSession(headers=headers) as web, web.get(f"{one.url}/ledger/{stream}") as answer:
        told: dict[str, Any] = (await answer.json())["origins"]
        return told
