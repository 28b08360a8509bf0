"""Goal: /healthz says 503, and for what a node waits, until it can do all it is for."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import aiohttp
import pytest

from landfall.node.node import Node
from landfall.transport.http_client import ReadDoor
from streams.model.errors import RetryLater
from tests.support.fleet import settings, started
from tests.support.refusals import refusal


async def test_a_node_that_waits_is_not_ready(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    there = False
    node.needs("the crane", lambda: there)
    async with aiohttp.ClientSession() as client, client.get(f"{node.url}/healthz") as answer:
        told = await answer.json()
        assert (answer.status, told["ready"], told["waits_for"], told["node"]) == (503, False, ["the crane"], "hq")
    reader = ReadDoor(node.url, "door-of-hq")
    with pytest.raises(RetryLater):
        await asyncio.to_thread(reader.health)
    there = True
    health = await asyncio.to_thread(reader.health)
    assert (health["ready"], health["waits_for"]) == (True, [])
    await node.stop()


async def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refusal(RetryLater, "folder_missing", os.strerror(errno.ENOTDIR)):
        await Node(settings("hq", tmp_path).model_copy(update={"folder": tmp_path / "file" / "hq"})).start()
