"""Goal: a node that is stopped closes its log, whatever else does not end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from streams.errors import LandfallError
from streams.link.door import ReadDoor
from streams.log import Append
from streams.node import node as nodes
from streams.node.node import Node
from tests.node.fleet import settings
from tests.streams.logkit import numbers, open_log, rows


async def test_work_that_does_not_end_leaves_the_log_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "STOP_TIMEOUT_S", 0.1)
    let_go, begun = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    node = Node(settings("ship-a", tmp_path))
    node.add_background("stubborn", stubborn)
    await node.start()
    await begun.wait()
    await node.append([Append("containers", rows(5))])
    url = node.url
    assert await asyncio.to_thread(ReadDoor(url, "door-of-ship-a").health)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await node.stop()
        with pytest.raises(RuntimeError, match="not started"):
            await node.append([Append("containers", rows(5, start=5))])
        with pytest.raises(LandfallError):
            await asyncio.to_thread(ReadDoor(url, "door-of-ship-a").health)
        log = open_log(tmp_path / "ship-a")
        assert numbers(log) == list(range(5))
        log.close()
    finally:
        let_go.set()
