"""Goal: the clerk writes every paper in order, each accepted once it is due, whatever headquarters does in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from sim.arrays import NEVER_MS
from sim.clerk import ENTRIES_MAX, Clerk
from sim.paperwork import Paper
from sim.settings import ApiDoor
from streams.model.errors import Misuse
from tests.intake.stand import eventually
from tests.support.refusals import refusal

DEADLINE_S = 60.0


@dataclass
class MoodyHeadquarters:
    """An API that refuses and forgets: its next answers to entries are those of `moods`, then it accepts everything."""

    moods: list[int] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    logins: int = 0

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["password"] != "right":
            return web.json_response({"error": "no"}, status=401)
        self.logins += 1
        return web.json_response({"access_token": f"token-{self.logins}", "token_type": "bearer", "role": "clerk"})

    async def registry(self, request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer token-{self.logins}":
            return web.json_response({"error": "token"}, status=401)
        if self.moods and (mood := self.moods.pop(0)) != 200:
            if mood == 401:
                self.logins += 1
            return web.json_response({"error": "mood"}, status=mood)
        new = (await request.json())["entries"]
        self.requests.append(len(new))
        self.entries += new
        return web.json_response({"written": len(new)})


@pytest.fixture
def headquarters() -> MoodyHeadquarters:
    return MoodyHeadquarters()


@pytest.fixture
async def url(headquarters: MoodyHeadquarters) -> AsyncIterator[str]:
    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.post("/api/token", headquarters.token), web.post("/api/registry", headquarters.registry)])
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def door(url: str, password: str = "right") -> ApiDoor:
    return ApiDoor(url=url, password=SecretStr(password))


PAPERS = [Paper(1_000 + number // 3, 1_000 + number // 3, "custody", f"BOX{number}", {"number": number}) for number in range(30)]


def numbers(headquarters: MoodyHeadquarters) -> list[int]:
    return [entry["value"]["number"] for entry in headquarters.entries]


async def test_papers_are_written_in_order_through_every_mood(headquarters: MoodyHeadquarters, url: str) -> None:
    headquarters.moods = [503, 404, 200, 401, 500]
    clerk = Clerk(PAPERS, door(url), 0)
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(clerk.run, lambda: 10_000, threading.Event())
    assert numbers(headquarters) == list(range(30))
    assert clerk.accepted == 30
    assert clerk.free_before_ms() == NEVER_MS


async def test_only_what_is_due_is_written_and_the_fleet_waits_for_the_next(headquarters: MoodyHeadquarters, url: str) -> None:
    clerk, stop = Clerk(PAPERS, door(url), 3), threading.Event()
    running = asyncio.create_task(asyncio.to_thread(clerk.run, lambda: 1_002, stop))
    await eventually(lambda: clerk.accepted >= 9)
    stop.set()
    await running
    assert numbers(headquarters) == list(range(3, 9))
    assert clerk.free_before_ms() == 1_003


async def test_many_are_sent_in_bounded_requests(headquarters: MoodyHeadquarters, url: str) -> None:
    papers = [Paper(5, 5, "custody", str(number), {"number": number}) for number in range(2 * ENTRIES_MAX + 1)]
    await asyncio.to_thread(Clerk(papers, door(url), 0).run, lambda: 5, threading.Event())
    assert headquarters.requests == [ENTRIES_MAX, ENTRIES_MAX, 1]


@pytest.mark.parametrize(("password", "moods"), [("wrong", []), ("right", [422])])
async def test_what_can_never_be_accepted_ends_the_clerk(
    headquarters: MoodyHeadquarters, url: str, password: str, moods: list[int]
) -> None:
    headquarters.moods = moods
    with refusal(Misuse, "clerk_refused"):
        await asyncio.to_thread(Clerk(PAPERS, door(url, password), 0).run, lambda: 10_000, threading.Event())


async def test_what_is_ready_is_written_before_the_fleet_must_wait_for_it(headquarters: MoodyHeadquarters, url: str) -> None:
    papers = [Paper(100, 200, "custody", str(number), {"number": number}) for number in range(3)]
    clerk, now_ms = Clerk(papers, door(url), 0), iter((99, 100))
    assert clerk.free_before_ms() == 200
    await asyncio.to_thread(clerk.run, lambda: next(now_ms), threading.Event())
    assert numbers(headquarters) == [0, 1, 2]
