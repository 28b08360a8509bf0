"""A node that a failed test left running is stopped with it: else its open log is blamed on the test after it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from landfall.node.node import Node


@pytest.fixture(autouse=True)
async def _left_running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    started: list[Node] = []
    start = Node.start

    async def noted(node: Node) -> None:
        started.append(node)
        await start(node)

    monkeypatch.setattr(Node, "start", noted)
    yield
    for node in started:
        if node._log is not None:
            await node.stop()
