"""Goal: a node runs on the fleet's clock, through pauses, jumps and changes of speed, and keeps its last word while the clock is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from landfall.node.fleet_clock import clock_of, first_word
from landfall.node.node import Node
from streams.model.clock import WallClock
from streams.model.errors import RetryLater
from tests.support.fleet import settings, until
from tests.support.ports import free_port
from tests.support.refusals import refusal

LONG_AGO_MS = 1_600_000_000_000


class FakeFleet:
    """The simulator's clock, which says whatever the test wants."""

    def __init__(self) -> None:
        self.answer: dict[str, object] = {"wall_at_ms": WallClock().now_ms(), "fleet_at_ms": LONG_AGO_MS, "speed": 0.0}
        self.url = f"http://127.0.0.1:{free_port()}/clock"
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/clock", self._tell)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", int(self.url.split(":")[2].split("/")[0])).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _tell(self, request: web.Request) -> web.Response:
        return web.json_response(self.answer)


async def test_the_node_follows_the_fleets_clock(tmp_path: Path) -> None:
    fleet = FakeFleet()
    await fleet.start()
    mine = settings("tokyo", tmp_path).model_copy(update={"clock": fleet.url})
    node = await asyncio.to_thread(Node, mine)
    await node.start()
    assert node.clock.now_ms() == LONG_AGO_MS, "paused from the first moment on"
    fleet.answer = {"wall_at_ms": WallClock().now_ms(), "fleet_at_ms": LONG_AGO_MS + 86_400_000, "speed": 60.0}
    await until(lambda: node.clock.now_ms() > LONG_AGO_MS + 86_400_000)
    fleet.answer = {"no": "clock"}
    before_ms = node.clock.now_ms()
    await until(lambda: node.clock.now_ms() > before_ms + 3_000)
    await fleet.stop()
    await until(lambda: node.clock.now_ms() > before_ms + 20_000)
    await node.stop()


def test_a_clock_that_tells_nothing_is_not_guessed() -> None:
    with refusal(RetryLater, "fleet_clock_silent"):
        first_word("http://127.0.0.1:1/clock", within_s=0.0)
    assert isinstance(clock_of("wall"), WallClock)
