"""Goal: the simulator as a process: it can be paused, jumped, stopped, killed and started again, and the story goes on without a seam."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from landfall.transport.tls import trusting
from sim.paperwork import paperwork
from sim.settings import BEGINS_AT_MS, CADENCES, ApiDoor, IntakeDoor, SimSettings
from sim.sim_process import Simulation, run_sim
from sim.story import chapters
from sim.story_clock import JUMP_BEFORE_MS
from sim.story_progress import load_progress
from sim.truth import published
from sim.voyages import INTAKES, timeline
from sim.world import build_world
from streams.model.clock import StillClock
from streams.model.errors import Corrupt, Misuse
from tests.intake.stand import OPEN, Stand, eventually, stand
from tests.intake.test_endpoint import self_signed
from tests.sim.test_clerk import MoodyHeadquarters
from tests.sim.test_publish import logged, truth
from tests.support.ports import free_port
from tests.support.refusals import refusal

TIMES = timeline(BEGINS_AT_MS)
CHAPTERS = {chapter.id: chapter for chapter in chapters(TIMES)}
DEADLINE_S = 60.0
LOOK_EVERY_S = 0.1
TOKEN = SecretStr("a token of forty characters, or nearly so")


def settings_for(folder: Path, node: Stand, **others: Any) -> SimSettings:
    doors = tuple(IntakeDoor(at=place, port=node.endpoint.port) for place in INTAKES)
    return SimSettings(data=folder / "sim", intakes=doors, boxes=60, cadence="short", clock_port=free_port(), control_token=TOKEN, **others)


class Remote:
    """The clock's door, from outside."""

    def __init__(self, settings: SimSettings) -> None:
        self._url = f"http://127.0.0.1:{settings.clock_port}"
        self._client = httpx.AsyncClient(timeout=DEADLINE_S, headers={"Authorization": f"Bearer {TOKEN.get_secret_value()}"})

    async def close(self) -> None:
        await self._client.aclose()

    async def clock(self) -> dict[str, Any]:
        return dict((await self._client.get(f"{self._url}/clock")).json())

    async def order(self, **control: Any) -> httpx.Response:
        return await self._client.post(f"{self._url}/control", json=control)

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The clock's word once it holds."""
        told: dict[str, Any] = {}

        async def looked() -> bool:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                told.update(await self.clock())
            except httpx.TransportError:
                return False
            return holds(told)

        await eventually(looked, DEADLINE_S)
        return told


@asynccontextmanager
async def running(settings: SimSettings, *, fresh: bool = False) -> AsyncIterator[Remote]:
    """The simulator in this process, until the block ends."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_sim(settings, fresh=fresh, stop=stop))
    remote = Remote(settings)
    try:
        await remote.until(lambda told: True)
        yield remote
    finally:
        stop.set()
        await task
        await remote.close()


def holds_the_truth(node: Stand, settings: SimSettings) -> None:
    """All that the progress file calls acknowledged is in the log once, and nothing else."""
    whole = published(settings.data / "truth", fleet_at_ms(settings))
    repeats = sum(whole["repeat"].to_pylist())
    assert node.counts()["intake_accepted"] == whole.num_rows - repeats


def fleet_at_ms(settings: SimSettings) -> int:
    progress = load_progress(settings.progress, settings.story())
    assert progress is not None
    return progress.fleet_at_ms


async def test_with_a_certificate_its_clock_speaks_tls_alone(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    async with stand(tmp_path, OPEN, clock=StillClock(TIMES.ends_at_ms)) as node:
        settings, stop = settings_for(tmp_path, node, tls_certificate=certificate, tls_key=key), asyncio.Event()
        task = asyncio.create_task(run_sim(settings, stop=stop))
        url = f"localhost:{settings.clock_port}"
        async with httpx.AsyncClient(verify=trusting(certificate), trust_env=False) as client:

            async def answers() -> bool:
                await asyncio.sleep(LOOK_EVERY_S)
                with contextlib.suppress(httpx.TransportError):
                    return (await client.get(f"https://{url}/healthz")).status_code == 200
                return False

            await eventually(answers, DEADLINE_S)
            assert (await client.post(f"https://{url}/control", json={"action": "pause"})).status_code == 401
            with pytest.raises(httpx.TransportError):
                await client.get(f"http://{url}/healthz")
        stop.set()
        await task


@pytest.mark.long
async def test_a_story_with_everything(tmp_path: Path) -> None:
    """Pause, speed, jumps, stops and starts; then nothing is missing or twice, at the node and at headquarters."""
    headquarters = MoodyHeadquarters(moods=[503])
    api = web.Application(client_max_size=1 << 24)
    api.add_routes([web.post("/api/token", headquarters.token), web.post("/api/registry", headquarters.registry)])
    async with stand(tmp_path, OPEN, clock=StillClock(TIMES.ends_at_ms)) as node, TestServer(api) as server:
        door = ApiDoor(url=str(server.make_url("/")), password=SecretStr("right"))
        settings = settings_for(tmp_path, node, api=door)
        async with running(settings, fresh=True) as remote:
            await remote.until(lambda told: told["fleet_at_ms"] > BEGINS_AT_MS)
            await remote.order(action="pause")
            held = await remote.clock()
            assert (held["state"], held["speed"]) == ("paused", 0.0)
            assert (await remote.clock())["fleet_at_ms"] == held["fleet_at_ms"]
            await remote.order(action="speed", speed=2)
            await remote.order(action="jump", chapter="B")
            landed = await remote.until(lambda told: told["state"] == "paused")
            assert landed["fleet_at_ms"] == CHAPTERS["B"].begins_at_ms - JUMP_BEFORE_MS
            assert landed["chapter"] == "A"
            assert (await remote.order(action="jump", chapter="A")).status_code == 409
        stopped_at_ms = fleet_at_ms(settings)
        assert stopped_at_ms == landed["fleet_at_ms"] + 1, "all up to the pause is acknowledged"
        async with running(settings) as remote:
            again = await remote.clock()
            assert (again["fleet_at_ms"], again["state"], again["speed_set"]) == (stopped_at_ms, "paused", 2)
            await remote.order(action="speed", speed=1_000_000)
            await remote.order(action="resume")
            ended = await remote.until(lambda told: told["state"] == "ended")
            assert ended["chapter"] == "C"
            whole = published(settings.data / "truth")
            await eventually(lambda: node.counts()["intake_received"] == whole.num_rows and not node.waiting())
        assert logged(node) == truth(settings.data / "truth")
        papers = paperwork(build_world(settings.seed, settings.boxes, BEGINS_AT_MS), CADENCES["short"].report_ms)
        assert [(entry["type"], entry["id"]) for entry in headquarters.entries] == [(paper.type, paper.id) for paper in papers]


START = """
import asyncio, sys
from sim.sim_process import run_sim
from sim.settings import SimSettings
asyncio.run(run_sim(SimSettings.model_validate_json(sys.argv[1])))
"""


def more_than(node: Stand, readings: int) -> Callable[[], bool]:
    return lambda: node.counts().get("intake_accepted", 0) > readings


async def test_killed_and_started_again_it_misses_nothing(tmp_path: Path) -> None:
    async with stand(tmp_path, OPEN, clock=StillClock(TIMES.ends_at_ms)) as node:
        settings = settings_for(tmp_path, node, speed=1_000_000)
        for ending in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
            begun = node.counts().get("intake_accepted", 0)
            words = (sys.executable, "-c", START, settings.model_dump_json(exclude={"control_token"}))
            process = await asyncio.create_subprocess_exec(*words, stderr=subprocess.DEVNULL)
            try:
                await eventually(more_than(node, begun + 250), DEADLINE_S)
            finally:
                process.send_signal(ending)
                code = await process.wait()
        assert code == 0, "a clean end on SIGTERM"
        holds_the_truth(node, settings)


def test_another_story_does_not_go_on_where_this_one_stopped(tmp_path: Path) -> None:
    doors = tuple(IntakeDoor(at=place) for place in INTAKES)
    settings = SimSettings(data=tmp_path, intakes=doors, boxes=60, cadence="short")
    one = Simulation(settings)
    one._save()
    with refusal(Misuse, "story_of_another"):
        Simulation(settings.model_copy(update={"seed": 2}))
    (tmp_path / "kept.txt").write_text("mine")
    fresh = Simulation(settings.model_copy(update={"seed": 2}), fresh=True)
    assert fresh.clock.now_ms() == BEGINS_AT_MS
    assert not (tmp_path / "progress.json").exists()
    assert (tmp_path / "kept.txt").exists()
    (tmp_path / "progress.json").write_text("{")
    with refusal(Corrupt, "progress_unreadable"):
        Simulation(settings)
