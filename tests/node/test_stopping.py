"""Goal: a node that is stopped ends every part of itself, the log last, whatever the other parts do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from landfall.node import node as nodes
from landfall.node.http.request_guard import OPEN
from landfall.node.node import Node
from landfall.node.peers.link_budgets import FILE_NAME
from landfall.node.settings import LinkSettings
from landfall.node.shutdown import ShutdownStep, end_in_turn
from landfall.transport.http_client import ReadDoor
from streams.log import Append
from streams.model.errors import LandfallError
from tests.streams.logkit import numbers, open_log, rows
from tests.support.fleet import address, settings, until
from tests.support.refusals import link_codes

SATELLITE = {"satellite": LinkSettings(streams=("alerts", "containers"), budget_bytes_per_day=1_000_000, price_per_mb=5.0)}


Fault = Callable[..., Awaitable[None]]


class Broken(Exception):
    """What a part raises."""


async def raising(*_: object) -> None:
    raise Broken


async def hanging(*_: object) -> None:
    await asyncio.Event().wait()


def raising_after(close: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def closes() -> None:
        await close()
        raise Broken

    return closes


class Stubborn:
    """Work that does not heed being cancelled until it is let go."""

    def __init__(self) -> None:
        self.let_go, self.begun = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self.let_go.wait()


@asynccontextmanager
async def at_work(folder: Path, prepare: Callable[[Node], object] = lambda _: None) -> AsyncIterator[Node]:
    """A ship that has five readings, and a budget."""
    node = Node(settings("ship-a", folder).model_copy(update={"links": SATELLITE}))
    prepare(node)
    await node.start()
    try:
        await node.append([Append("containers", rows(5))])
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def stubborn_work(folder: Path, prepare: Callable[[Node], object] = lambda _: None) -> AsyncIterator[Node]:
    """Such a ship, whose background work is stubborn."""
    stubborn = Stubborn()

    def both(node: Node) -> None:
        prepare(node)
        node.add_background("stubborn", stubborn)

    async with at_work(folder, both) as node:
        await stubborn.begun.wait()
        try:
            yield node
        finally:
            stubborn.let_go.set()


async def stopped_all_the_same(node: Node, problem: type[BaseException], words: str | None = None) -> None:
    """It is stopped with this error; nobody is let in, and the log is closed and whole."""
    url, folder = node.url, node.settings.folder
    with pytest.raises(problem, match=words):
        async with asyncio.timeout(60):
            await node.stop()
    with pytest.raises(RuntimeError, match="not started"):
        await node.append([Append("containers", rows(5, start=5))])
    with pytest.raises(LandfallError):
        await asyncio.to_thread(ReadDoor(url, "door-of-ship-a").health)
    log = open_log(folder)
    assert numbers(log) == list(range(5))
    log.close()


async def test_work_that_does_not_end_leaves_the_log_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "WORK_ENDED_WITHIN_S", 0.1)
    async with stubborn_work(tmp_path) as node:
        assert await asyncio.to_thread(ReadDoor(node.url, "door-of-ship-a").health)
        await stopped_all_the_same(node, TimeoutError, "background work did not end within 0.1 s")


@pytest.mark.parametrize(
    ("part", "fault"),
    [("links", raising), ("doors", raising), ("last words", raising), ("links", hanging)],
    ids=["links", "doors", "last words", "links that hang"],
)
async def test_a_part_that_fails_leaves_the_log_closed(part: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doors_faults = [fault] if part == "doors" else []

    async def shut_down(_: web.Application) -> None:
        if doors_faults:
            await doors_faults.pop()()

    async with at_work(tmp_path, lambda node: node.app.on_shutdown.append(shut_down)) as node:
        broken = {"links": (node.links._dialler, "close"), "last words": (node._reporter, "flush")}
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "ENDED_WITHIN_S", 0.5 if fault is hanging else 60.0)
            if part in broken:
                patch.setattr(*broken[part], fault)
            await stopped_all_the_same(node, Broken if fault is raising else TimeoutError)


async def test_a_committer_that_fails_leaves_the_log_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_work(tmp_path) as node:
        committer = node._committer
        assert committer is not None
        monkeypatch.setattr(committer, "close", raising_after(committer.close))
        await stopped_all_the_same(node, Broken)


async def test_a_log_that_does_not_close_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_work(tmp_path) as node:
        log = node.log
        close = log.close

        def fails() -> None:
            close()
            raise Broken

        monkeypatch.setattr(log, "close", fails)
        await stopped_all_the_same(node, Broken)


async def test_peers_hear_goodbye_the_budget_is_settled_and_requests_end_though_work_is_stubborn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And though the one that dials does not close."""
    monkeypatch.setattr(nodes, "WORK_ENDED_WITHIN_S", 0.1)
    asked, ended = asyncio.Event(), asyncio.Event()

    async def asking(_: web.Request) -> web.Response:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    hq = Node(settings("hq", tmp_path).model_copy(update={"links": {"satellite": LinkSettings(streams=("alerts", "containers"))}}))
    await hq.start()
    try:
        served = stubborn_work(tmp_path, lambda node: node.guard.route("GET", "/asking", asking, OPEN))
        async with served as ship, aiohttp.ClientSession() as http:
            ship.link([address("ship-a", "hq", hq.url, "satellite")])
            await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
            request = asyncio.create_task(http.get(f"{ship.url}/asking"))
            await asked.wait()
            book = ship.settings.folder / FILE_NAME
            (leased,) = json.loads(book.read_text())["satellite"].values()
            with caplog.at_level("INFO", logger="landfall.node"), monkeypatch.context() as patch:
                patch.setattr(ship.links._dialler, "close", raising_after(ship.links._dialler.close))
                await stopped_all_the_same(ship, TimeoutError)
                await until(lambda: "node_stopping" in link_codes(caplog, "ship-a"))
            (settled,) = json.loads(book.read_text())["satellite"].values()
            assert settled < leased
            assert ended.is_set()
            with pytest.raises(aiohttp.ClientError):
                await request
    finally:
        await hq.stop()


async def test_each_part_has_its_turn_and_the_first_error_is_raised() -> None:
    ended: list[str] = []

    def fine(what: str) -> ShutdownStep:
        async def end() -> None:
            ended.append(what)

        return ShutdownStep(what, end, None)

    with pytest.raises(TimeoutError, match=r"the one .*0\.01 s"):
        await end_in_turn(ShutdownStep("the one", hanging, 0.01), ShutdownStep("the other", raising, None), fine("a"))
    with pytest.raises(Broken):
        await end_in_turn(fine("b"), ShutdownStep("the one", raising, 1.0), fine("c"), ShutdownStep("the other", hanging, 0.01))
    assert ended == ["a", "b", "c"]


async def test_each_part_has_its_turn_though_nobody_waits_any_more() -> None:
    last = asyncio.Event()

    async def end() -> None:
        last.set()

    ending = asyncio.create_task(end_in_turn(ShutdownStep("the one", hanging, None), ShutdownStep("the last", end, None)))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert last.is_set()
