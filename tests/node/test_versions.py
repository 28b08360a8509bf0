"""Goal: a node of the next protocol version and one of this sync over real sockets; one that shares no version is refused in words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from landfall.node.node import Node
from landfall.transport.websocket import NONCE_HEADER
from streams.log import Append
from streams.model.records import Record, to_batch
from streams.replication.sync_messages import MESSAGE_BYTES_MAX, PROTOCOL
from tests.support.fleet import address, readings, started, until
from tests.support.refusals import link_codes

HELLO = 1


class Later:
    """The way out of a node, made that of a later version: what it says offers `newest` to `oldest`, with a field more in every message."""

    def __init__(self, target: str, newest: int, oldest: int) -> None:
        self._target, self._newest, self._oldest = target, newest, oldest
        self.said = 0

    @asynccontextmanager
    async def up(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/sync", self._sync)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _sync(self, request: web.Request) -> web.StreamResponse:
        newer = web.WebSocketResponse(compress=False, max_msg_size=2 * MESSAGE_BYTES_MAX)
        headers = {name: value for name, value in request.headers.items() if name.startswith("X-") or name == "Authorization"}
        limit = 2 * MESSAGE_BYTES_MAX
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{self._target}/sync", headers=headers, max_msg_size=limit) as older:
            newer.headers[NONCE_HEADER] = older._response.headers[NONCE_HEADER]
            await newer.prepare(request)
            back = asyncio.create_task(carry(older, newer))
            async for message in newer:
                await older.send_bytes(self._later(message.data))
            await older.close()
            await back
        return newer

    def _later(self, data: bytes) -> bytes:
        parts = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
        if msgspec.msgpack.decode(parts[0]) == HELLO:
            parts[1:3] = [msgspec.Raw(msgspec.msgpack.encode(version)) for version in (self._newest, self._oldest)]
        self.said += 1
        return msgspec.msgpack.encode([*parts, {"a field": "of a later version"}])


async def carry(source: aiohttp.ClientWebSocketResponse, target: web.WebSocketResponse) -> None:
    async for message in source:
        await target.send_bytes(message.data)
    await target.close()


@asynccontextmanager
async def nodes(folder: Path, *names: str) -> AsyncIterator[list[Node]]:
    up = [await started(name, folder) for name in names]
    try:
        yield up
    finally:
        for node in up:
            await node.stop()


async def test_the_next_version_and_this_one_sync_both_ways(tmp_path: Path) -> None:
    async with nodes(tmp_path, "tokyo", "hq") as (tokyo, hq):
        later = Later(hq.url, PROTOCOL + 1, PROTOCOL)
        async with later.up() as url:
            await tokyo.append([readings(0, 5_000)])
            tokyo.log.declare_gone("containers", tokyo.log.origin, 0, 100, "thinned")
            await hq.append([Append("registry", to_batch([Record("port/JPTYO", body={"type": "port"})]))])
            tokyo.link([address("tokyo", "hq", url, "port")])
            await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
            assert hq.log.ledger("containers") == tokyo.log.ledger("containers")
            await until(lambda: tokyo.log.position("registry") == hq.log.position("registry"))
            await tokyo.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
            await until(lambda: hq.log.position("alerts") == tokyo.log.position("alerts"))
            assert later.said > 10
            tokyo.link([])


@pytest.mark.parametrize(("newest", "oldest"), [(9, 7), (PROTOCOL + 1, PROTOCOL + 1)])
async def test_a_version_that_shares_none_is_refused_in_words_on_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, newest: int, oldest: int
) -> None:
    spoken = f"version {newest}" if newest == oldest else f"versions {oldest} to {newest}"
    sentence = f"'ship-a' speaks {spoken} of the protocol, 'tokyo' version {PROTOCOL}"
    async with nodes(tmp_path, "ship-a", "tokyo") as (ship, tokyo), Later(tokyo.url, newest, oldest).up() as url:
        await ship.append([readings(0, 10)])
        with caplog.at_level(logging.INFO, "landfall.node"):
            ship.link([address("ship-a", "tokyo", url, "port")])
            await until(lambda: "protocol_version_unknown" in link_codes(caplog, "tokyo"))
        assert "protocol_version_unknown" in link_codes(caplog, "ship-a")
        await until(lambda: bool(tokyo.log.position("exceptions")))
        assert sentence in "".join(tokyo.log.history("tokyo.node").rows.column("body").to_pylist())
        assert not tokyo.log.position("containers")
        ship.link([])
