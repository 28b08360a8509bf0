"""Goal: who opens connections to a node's door and asks nothing is let go; who has asked is not, and the node opens the files it needs."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

import landfall.node.http.connection_guard
from landfall.node.http.connection_guard import open_many_files
from landfall.node.node import Node
from tests.support.fleet import started, until

HALF = b"GET /healthz HTTP/1.1\r\nHost: node\r\n"


async def knock(node: Node, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
    writer.write(said)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n")


async def test_who_asks_nothing_is_let_go_and_who_has_asked_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landfall.node.http.connection_guard, "ASKS_WITHIN_S", 1.0)
    node = await started("tokyo", tmp_path)
    asked = await knock(node, HALF + b"\r\n")
    assert await answer(asked[0]) == b"HTTP/1.1 200 OK\r\n"
    silent = [await knock(node, said) for said in (b"", HALF, b"\r\n" * 100)]
    for reader, _ in silent:
        async with asyncio.timeout(60):
            await reader.read()
    asked[1].write(HALF + b"\r\n")
    await asked[0].readuntil(b"}")
    assert await answer(asked[0]) == b"HTTP/1.1 200 OK\r\n", "it may ask again"
    for _, writer in (asked, *silent):
        writer.close()
    await node.stop()


async def test_many_that_ask_nothing_make_room_the_longest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landfall.node.http.connection_guard, "STRANGERS_MAX", 20)
    node = await started("tokyo", tmp_path)
    crowd = [await knock(node, HALF) for _ in range(30)]
    assert node._runner is not None
    server = node._runner.server
    assert server is not None
    await until(lambda: len(server.connections) == 20)
    for reader, _ in crowd[:10]:
        async with asyncio.timeout(60):
            await reader.read()
    crowd[29][1].write(b"\r\n")
    assert await answer(crowd[29][0]) == b"HTTP/1.1 200 OK\r\n"
    for _, writer in crowd:
        writer.close()
    await node.stop()


def test_a_node_may_open_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        open_many_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, landfall.node.http.connection_guard.OPEN_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
