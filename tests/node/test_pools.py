"""Goal: requests that hang in the log, and a default pool of threads that is taken, hold up neither appends nor withdrawals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edge.links.port_probe import Seeking
from edge.settings import PortOfCall
from landfall.access.credentials import CredentialFile
from landfall.node.http import request_guard
from landfall.system.hung_calls import apart
from landfall.system.thread_pool import BoundedPool
from landfall.transport.http_client import AppendDoor
from streams.model.clock import StillClock, WallClock
from streams.model.errors import RetryLater
from tests.intake.stand import AT, TOPIC, Publisher, eventually, payload, stand
from tests.support.fleet import address, readings, started, until

READS_MAX = 18
"""Reads of one process that are taken at one time: 2 under way and 16 that wait."""


class Held:
    """Calls that do not return until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.began = 0

    def __call__(self, *_: Any) -> Iterator[Any]:
        self.began += 1
        assert self.let_go.wait(120)
        return iter(())


@pytest.fixture
def held() -> Iterator[Held]:
    """Holds the loop's default pool too, which has one thread in this test."""
    calls = Held()
    yield calls
    calls.let_go.set()


def hold_default_pool(held: Held) -> asyncio.Future[Any]:
    """The default pool of this loop has one thread, and that one is taken."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    return loop.run_in_executor(None, held)


async def test_appends_and_withdrawals_go_on_while_readers_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: Held) -> None:
    monkeypatch.setattr(request_guard, "LOOK_EVERY_S", 0.05)
    file = CredentialFile(tmp_path / "hq")
    reader, other = (file.give_token(f"user:{name}", {"consume": ("*",)}) for name in ("reader", "other"))
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, "door-of-hq")
    await node.append([readings(0, 10)])
    monkeypatch.setattr(node.log, "read", held)
    taken = hold_default_pool(held)
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:

        async def asked(path: str, token: str) -> tuple[int, Any, str | None]:
            async with http.get(f"{node.url}/{path}", headers={"Authorization": f"Bearer {token}"}) as answer:
                read = await answer.json() if answer.status >= 400 else {"rows": await answer.text()}
                return answer.status, read.get("code"), answer.headers.get("Retry-After")

        reads = [asyncio.create_task(asked("read/containers", reader)) for _ in range(READS_MAX)]
        await until(lambda: node.guard.under_way() == ["user:reader"] * READS_MAX and held.began == 3)
        assert await asked("read/containers", reader) == (503, "node_busy", "1")
        [appended] = await apart("client", partial(door.append, [readings(10, 10)]))
        assert appended.count == 10
        file.withdraw("user:other")
        await until(lambda: node.credentials.of_token(other) is None)
        assert (await asked("ledger/containers", other))[:2] == (401, "credential_wrong")
        assert held.began == 3
        assert not held.let_go.is_set()
        held.let_go.set()
        assert {status for status, *_ in await asyncio.gather(*reads)} == {200}
    await taken
    await node.stop()


async def test_a_pool_refuses_beyond_its_queue_and_forgets_who_has_gone(held: Held) -> None:
    pool = BoundedPool("test", 1, 1)
    first = asyncio.create_task(pool.run(held))
    await until(lambda: held.began == 1)
    second = asyncio.create_task(pool.run(lambda: "second"))
    await asyncio.sleep(0)
    with pytest.raises(RetryLater) as refused:
        await pool.run(lambda: "third")
    assert refused.value.code == "node_busy"
    second.cancel()
    await asyncio.wait([second])
    fourth = asyncio.create_task(pool.run(lambda: "fourth"))
    await asyncio.sleep(0)
    held.let_go.set()
    assert (await fourth, list(await first)) == ("fourth", [])


async def test_a_ship_looks_for_ports_apart_from_the_default_pool(held: Held) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "localhost", 0)
    url = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    where = {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": 35.6, "longitude_deg": 139.8, "only_there": True}
    seeking = Seeking([PortOfCall.model_validate({"node": "tokyo", "url": url, "token": "t" * 32, **where})], StillClock(100))
    taken = hold_default_pool(held)
    await seeking.seek()
    assert seeking.found
    held.let_go.set()
    await taken
    server.close()
    await server.wait_closed()


async def test_what_peers_bring_is_admitted_while_the_default_pool_is_taken(tmp_path: Path, held: Held) -> None:
    hq, ship = await started("hq", tmp_path), await started("ship-a", tmp_path)
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: "hq" in ship.links.status())
    taken = hold_default_pool(held)
    await ship.append([readings(0, 10)])
    await until(lambda: sum(hq.log.position("containers").values()) == 10)
    held.let_go.set()
    await taken
    await ship.stop()
    await hq.stop()


async def test_a_reading_dated_ahead_is_acknowledged_while_the_default_pool_is_taken(tmp_path: Path, held: Held) -> None:
    """The clock is asked once more for such a reading, and all others wait for that."""
    async with stand(tmp_path) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            taken = hold_default_pool(held)
            ahead_s = (WallClock().now_ms() - AT) // 1_000 + 30 * 86_400
            publisher.publish(TOPIC, payload(ahead_s))
            await eventually(lambda: len(publisher.acknowledged) == 1)
            held.let_go.set()
            await taken
