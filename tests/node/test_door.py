"""Goal: local processes append and read through the node's door, a retry changes nothing, and every refusal says why."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import urllib.error
import urllib.request
import zlib
from pathlib import Path

import aiohttp
import pytest

from streams.errors import LandfallError, Misuse, NotAllowed, RetryLater
from streams.link.door import APPEND_BYTES_MAX, AppendDoor, ReadDoor
from streams.log import Append
from streams.node.node import Node
from streams.records import Record, to_batch
from streams.words import Position
from tests.node.fleet import SINCE_AT_MS, readings, settings, started, until


async def test_append_is_durable_and_a_retry_is_no_second_copy(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, "door-of-hq")
    append = Append("states", to_batch([Record("MSKU1234565", signals={"return_c": 4.5}, body={"kind": "container"})]), "spark", 7)
    first = await asyncio.to_thread(door.append, [append])
    again = await asyncio.to_thread(door.append, [append])
    assert (first[0].first, first[0].count, first[0].repeated) == (0, 1, False)
    assert again[0].repeated
    assert node.log.history("MSKU1234565").rows.num_rows == 1
    await node.stop()


async def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    record = Record("MSKU1234565", "TRK-1", SINCE_AT_MS, {"return_c": 4.5, "power_on": True}, {"flags": ["check_digit"]})
    await node.append([Append("containers", to_batch([record])), readings(1, 3)])
    reader = ReadDoor(node.url, "door-of-hq")
    rows = await asyncio.to_thread(lambda: list(reader.read("containers")))
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["signals"] == {"return_c": 4.5, "power_on": True}
    assert rows[0]["body"] == {"flags": ["check_digit"]}
    position = await asyncio.to_thread(reader.position, "containers")
    assert position == Position({node.log.origin: 4})
    assert [row["offset"] for row in await asyncio.to_thread(lambda: list(reader.read("containers", Position({node.log.origin: 2}))))] == [
        2,
        3,
    ]
    history = await asyncio.to_thread(lambda: list(reader.history("MSKU1234565", until_at_ms=SINCE_AT_MS + 1500)))
    assert [row["device_at_ms"] - SINCE_AT_MS for row in history] == [0, 1000]
    assert "containers" in await asyncio.to_thread(reader.streams)
    health = await asyncio.to_thread(reader.health)
    assert (health["node"], health["origin"]) == ("hq", str(node.log.origin))
    await node.stop()


async def test_refusals(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)

    def ask(path: str, token: str = "door-of-hq", body: bytes | None = None) -> tuple[int, str]:
        request = urllib.request.Request(node.url + path, data=body, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, json.loads(problem.read())["problem"]

    assert (await asyncio.to_thread(ask, "/healthz", ""))[0] == 200
    for path, token, body, status, sentence in (
        ("/streams", "", None, 401, "token"),
        ("/streams", "token-of-tokyo", None, 401, "token"),
        ("/ledger/no such", "door-of-hq", None, 400, "stream's name"),
        ("/read/containers?position=5", "door-of-hq", None, 400, ""),
        ("/append", "door-of-hq", b"rubbish", 400, ""),
        ("/sync", "door-of-hq", None, 403, "not known"),
    ):
        answer = await asyncio.to_thread(ask, path.replace(" ", "%20"), token, body)
        assert answer[0] == status, (path, answer)
        assert sentence in answer[1], (path, answer)
    door = AppendDoor(node.url, "door-of-hq")
    stamped = to_batch([Record("x")]).append_column("offset", to_batch([Record("x")]).column("device_at_ms"))
    with pytest.raises(Misuse, match="itself stamps"):
        await asyncio.to_thread(door.append, [Append("containers", stamped)])
    with pytest.raises(Misuse, match="64-bit"):
        await asyncio.to_thread(door.append, [Append("containers", to_batch([Record("x")]), "spark", 1 << 63)])
    with pytest.raises(NotAllowed):
        await asyncio.to_thread(AppendDoor(node.url, "wrong").append, [])
    await node.stop()
    with pytest.raises(RetryLater):
        await asyncio.to_thread(door.append, [])


async def test_a_body_that_unpacks_to_more_than_a_request_takes_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    """A quarter of a gigabyte of zeros is a quarter of a megabyte as gzip has it."""
    node = await started("hq", tmp_path)
    packer, mebibyte = zlib.compressobj(wbits=31), bytes(1 << 20)
    bomb = b"".join(packer.compress(mebibyte) for _ in range(256)) + packer.flush()
    headers = {"Authorization": "Bearer door-of-hq", "Content-Encoding": "gzip"}
    tracemalloc.start()
    async with aiohttp.ClientSession() as http, http.post(f"{node.url}/append", data=bomb, headers=headers) as answer:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status == 413
        assert await answer.json(content_type=None) == {"problem": f"one request takes at most {APPEND_BYTES_MAX} bytes"}
    assert peak_bytes < 1.5 * APPEND_BYTES_MAX
    await node.stop()


async def test_metrics_and_failures_are_told_in_the_log(tmp_path: Path) -> None:
    node = await started("tokyo", tmp_path)
    node.metrics.count("boxes", 3)
    node.report("a sensor speaks gibberish", "kept", payload=b"\xff", n=1)
    await until(lambda: bool(node.log.position("exceptions")) and bool(node.log.position("metrics")))
    rows = node.log.history("tokyo.node").rows.to_pylist()
    bodies = {row["stream"]: json.loads(row["body"]) for row in rows}
    assert bodies["exceptions"]["reason"] == "a sensor speaks gibberish"
    assert bodies["exceptions"]["outcome"] == "kept"
    assert bodies["metrics"]["process"] == "tokyo.node"
    assert {"counts", "gauges", "histograms", "wall_at_ms", "at_ms"} <= bodies["metrics"].keys()
    await node.stop()


async def test_background_work_that_fails_stops_the_node_and_says_why(tmp_path: Path) -> None:
    node = Node(settings("tokyo", tmp_path))

    async def fails() -> None:
        raise RetryLater("the disk is full")

    node.add_background("doomed", fails)
    await node.start()
    with pytest.raises(LandfallError, match="the disk is full"):
        async with asyncio.timeout(10):
            await node.run_until_stopped()
