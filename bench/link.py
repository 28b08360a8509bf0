"""Measure what the link costs and carries: bytes per reading, readings a second, and lag from port to port.

Each figure is compared with a bound of the same run.

`python -m bench.link [containers] [hours]` starts a ship here and a port in a process of its own, over loopback. Prints one JSON object.
Bytes are those of the WebSocket frames both ways; TCP's own headers are not in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard
from pydantic import SecretStr

from bench.proc import cpu_s
from bench.readings import as_json, fleet_readings
from bench.results import Measured, write
from landfall.node.node import Node
from landfall.node.settings import KnownPeer, NodeSettings, PeerAddress
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.ranges import RangeSet
from tests.support.credentials import allow_peers
from tests.support.ports import free_port

COMMIT_READINGS = 2_000
LIVE_READINGS, LIVE_COMMIT_READINGS = 4_000, 20
ZSTD_BATCH = 1_000
MEASURED = ("containers", "events")
LAG_APPENDS, LAG_EVERY_S = 300, 0.02
DEADLINE_S = 300.0
TOKEN = SecretStr("bench")


def _settings(node: str, folder: Path, port: int = 0) -> NodeSettings:
    known = tuple(KnownPeer(node=name, role="port") for name in ("here", "there") if name != node)
    allow_peers(folder / node, {name: TOKEN.get_secret_value() for name in ("here", "there") if name != node})
    return NodeSettings(node=node, role="port", folder=folder / node, port=port, known=known, metrics_every_s=3600)


async def there(folder: Path, port: int) -> None:
    """The port: a node that notes when each of its commits was durable (wall clock, ns) and prints that at the end."""
    node = Node(_settings("there", folder, port))
    await node.start()
    arrivals: list[tuple[int, int]] = []

    def changed(streams: frozenset[str]) -> None:
        if "events" in streams:
            arrivals.append((sum(node.log.position("events").values()), time.time_ns()))

    def noted(streams: frozenset[str]) -> None:
        loop.call_soon_threadsafe(changed, streams)

    loop = asyncio.get_running_loop()
    node.log.subscribe(noted)
    await node.run_until_stopped()
    print(json.dumps(arrivals), flush=True)


async def here(containers: int, hours: int, folder: Path) -> dict[str, object]:
    """The ship: everything that is measured."""
    readings = fleet_readings(containers, hours)
    backlog = readings.slice(0, readings.num_rows - LIVE_READINGS)
    address = PeerAddress(node="there", url=f"http://127.0.0.1:{free_port()}", token=TOKEN)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.link", "there", str(folder), address.url.rpartition(":")[2], stdout=asyncio.subprocess.PIPE
    )
    node = Node(_settings("here", folder))
    await node.start()
    try:
        result = {**_machine(), "readings": backlog.num_rows, "containers": containers, **_as_json(backlog), **_synced(folder)}
        result |= await _catching_up(node, address, process.pid, backlog, "merged", folder)
        node.link([])
        await _until(lambda: not node.links.status())
        result |= await _catching_up(node, address, process.pid, backlog, "fresh", folder)
        before = _carried(node)
        live = readings.slice(backlog.num_rows)
        for first in range(0, LIVE_READINGS, LIVE_COMMIT_READINGS):
            await node.append([Append("containers", live.slice(first, LIVE_COMMIT_READINGS))])
            await asyncio.sleep(0.005)
        _, after = await _caught_up(node)
        result["live_bytes_reading"] = round((after - before) / LIVE_READINGS, 2)
        appended = await _lag_appends(node)
    finally:
        await node.stop()
        process.terminate()
    arrivals = json.loads((await process.communicate())[0])
    return _ratios(result | _lags(appended, arrivals))


async def _catching_up(node: Node, address: PeerAddress, peer: int, backlog: pa.RecordBatch, how: str, folder: Path) -> dict[str, object]:
    """A backlog appended while there was no link, then the link: `merged` as upkeep leaves it at sea, or `fresh` as it was committed."""
    first = node.log.position("containers")[node.log.origin]
    for at in range(0, backlog.num_rows, COMMIT_READINGS):
        await node.append([Append("containers", backlog.slice(at, COMMIT_READINGS))])
    assert isinstance(node.log, FileLog)
    while how == "merged" and await asyncio.to_thread(node.log.upkeep.step):
        pass
    alone_s = await asyncio.to_thread(_admitted_alone, node, first, folder / how)
    used_s = [cpu_s(os.getpid()), cpu_s(peer)]
    node.link([address])
    seconds, carried = await _caught_up(node)
    sent_us, applied_us = ((cpu_s(pid) - used) / backlog.num_rows * 1e6 for pid, used in zip((os.getpid(), peer), used_s, strict=True))
    return {
        f"{how}_catch_up_readings_s": round(backlog.num_rows / seconds),
        f"{how}_catch_up_cpu_us": {"here": round(sent_us, 2), "there": round(applied_us, 2)},
        f"{how}_admit_alone_readings_s": round(backlog.num_rows / alone_s),
        f"{how}_catch_up_of_admit_alone": round(alone_s / seconds, 2),
        f"{how}_bytes_reading": round(carried / backlog.num_rows, 2),
    }


async def _lag_appends(node: Node) -> list[int]:
    """One event every LAG_EVERY_S; when each was given to the log (wall clock, ns)."""
    given = []
    event = fleet_readings(1, 1).select(["topic", "device", "device_at_ms", "body"])
    for _ in range(LAG_APPENDS):
        given.append(time.time_ns())
        await node.append([Append("events", event)])
        await asyncio.sleep(LAG_EVERY_S)
    await _caught_up(node)
    return given


async def _caught_up(node: Node) -> tuple[float, int]:
    """Waits until the peer has all; the seconds that took and the bytes carried so far, both ways."""
    began_s = time.perf_counter()
    await _until(lambda: _is_caught_up(node))
    return time.perf_counter() - began_s, _carried(node)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def _is_caught_up(node: Node) -> bool:
    """Return whether the peer itself reports that it has all of the node's own records of MEASURED.

    Right after a session has opened, the peer has reported nothing yet, and no record seems to be missing.
    """
    there = node.links.durable_ashore()
    own = {stream: node.log.position(stream)[node.log.origin] for stream in MEASURED}
    return all(there.get(stream, {}).get(node.log.origin, RangeSet()).covers(0, end) for stream, end in own.items())


def _carried(node: Node) -> int:
    status = node.links.status()["there"]
    return int(status["sent_bytes"]) + int(status["received_bytes"])


def _as_json(backlog: pa.RecordBatch) -> dict[str, float]:
    """What the same readings cost as JSON."""
    lines = as_json(backlog.slice(0, min(backlog.num_rows, 20_000)))
    packed = sum(len(zstandard.compress(b"\n".join(lines[at : at + ZSTD_BATCH]), 3)) for at in range(0, len(lines), ZSTD_BATCH))
    return {
        "json_bytes_reading": round(sum(map(len, lines)) / len(lines), 1),
        "zstd_json_bytes_reading": round(packed / len(lines), 1),
    }


def _admitted_alone(node: Node, first: int, folder: Path) -> float:
    """The seconds in which a log alone admits the blocks of the backlog as they are."""
    log = FileLog(folder / "log", folder / "marker", "bound", BlockCodec(), WallClock())
    blocks = list(node.log.blocks("containers", node.log.origin, first, node.log.position("containers")[node.log.origin]))
    began_s = time.perf_counter()
    for at in range(0, len(blocks), 16):
        log.admit(blocks[at : at + 16])
    seconds = time.perf_counter() - began_s
    log.close()
    return seconds


def _synced(folder: Path) -> dict[str, float]:
    """How long the disk takes to sync a little."""
    sync_ms = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(100):
            began_s = time.perf_counter()
            file.write(bytes(512))
            os.fdatasync(file.fileno())
            sync_ms.append((time.perf_counter() - began_s) * 1000)
    return {"fdatasync_p99_ms": round(statistics.quantiles(sync_ms, n=100)[-1], 2)}


def _lags(given: list[int], arrivals: list[tuple[int, int]]) -> dict[str, float]:
    """From the append at one port until it is durable at the other."""
    lags_ms = []
    for at, given_ns in enumerate(given):
        durable_ns = next(ns for count, ns in arrivals if count > at)
        lags_ms.append((durable_ns - given_ns) / 1e6)
    percentiles = statistics.quantiles(lags_ms, n=100)
    return {"lag_p50_ms": round(percentiles[49], 2), "lag_p99_ms": round(percentiles[98], 2)}


def _ratios(result: dict[str, object]) -> dict[str, object]:
    number = {name: value for name, value in result.items() if isinstance(value, int | float)}
    return result | {
        "json_over_backlog": round(number["json_bytes_reading"] / number["merged_bytes_reading"], 1),
        "zstd_json_over_backlog": round(number["zstd_json_bytes_reading"] / number["merged_bytes_reading"], 1),
        "lag_p99_over_two_fdatasync_p99": round(number["lag_p99_ms"] / (2 * number["fdatasync_p99_ms"]), 1),
    }


def _machine() -> dict[str, object]:
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "cores": os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def main(containers: int = 2_000, hours: int = 400) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, Any] = asyncio.run(here(containers, hours, Path(name)))
    print(json.dumps(found, indent=1))
    alone = f"a log alone admits the same blocks at {found['fresh_admit_alone_readings_s']:,}/s"
    fresh_s = found["fresh_catch_up_readings_s"]
    write(
        "link",
        {
            "live_bytes": Measured(str(found["live_bytes_reading"]), found["live_bytes_reading"] <= 16),
            "lag": Measured(f"p50 {found['lag_p50_ms']}, p99 {found['lag_p99_ms']} ms", found["lag_p99_ms"] <= 500),
            "fresh": Measured(f"{fresh_s:,}/s", fresh_s >= 1_000_000, alone),
        },
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["there"]:
        asyncio.run(there(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
