"""How much of a link's rate a backlog uses, rate by rate: `python -m bench.pacing [seconds]`. Prints a JSON object per rate.

A node here sends to one in a process of its own over loopback, and keeps below `rate_bit_s` of its settings. Counted are the bytes of its
WebSocket frames, from a fifth of the time on: `share` of what the rate allows. `cpu`: of one processor, this process's.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from pydantic import SecretStr

from bench.machine import machine
from bench.proc import cpu_s
from bench.results import Measured, write
from landfall.node.node import Node
from landfall.node.settings import KnownPeer, LinkSettings, NodeSettings, PeerAddress
from landfall.storage.file_log import FileLog
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.credentials import allow_peers
from tests.support.ports import free_port

RATES_BIT_S = (256_000, 2_000_000, 10_000_000, 50_000_000, 100_000_000)
ROW_BYTES, COMMIT_ROWS = 2_000, 200
TOKEN = SecretStr("bench")
DEADLINE_S = 60.0


def _settings(node: str, folder: Path, port: int = 0, rate_bit_s: int | None = None) -> NodeSettings:
    known = tuple(KnownPeer(node=name, role="port") for name in ("here", "there") if name != node)
    links: dict[LinkClass, LinkSettings] = {"lan": LinkSettings(rate_bit_s=rate_bit_s)}
    allow_peers(folder / node, {name: TOKEN.get_secret_value() for name in ("here", "there") if name != node})
    return NodeSettings(node=node, role="port", folder=folder / node, port=port, known=known, links=links, metrics_every_s=3_600)


async def there(folder: Path, port: int) -> None:
    """The receiving node."""
    node = Node(_settings("there", folder, port))
    await node.start()
    await node.run_until_stopped()


async def share(rate_bit_s: int, seconds: float, folder: Path) -> dict[str, float]:
    """One rate: a backlog that takes a quarter longer than is measured, as rows that do not compress."""
    port = free_port()
    node = Node(_settings("here", folder, rate_bit_s=rate_bit_s))
    await node.start()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.pacing", "there", str(folder), str(port))
    try:
        rows = int(rate_bit_s / 8 * seconds * 1.25) // ROW_BYTES + COMMIT_ROWS
        for first in range(0, rows, COMMIT_ROWS):
            batch = [Record("MSKU1234565", body={"x": os.urandom(ROW_BYTES).hex()}) for _ in range(min(COMMIT_ROWS, rows - first))]
            await node.append([Append("events", to_batch(batch))])
        assert isinstance(node.log, FileLog)
        while await asyncio.to_thread(node.log.upkeep.step):  # as a ship at sea has it: nothing is to be packed again while it is measured
            pass
        node.link([PeerAddress(node="there", url=f"http://127.0.0.1:{port}", token=TOKEN)])
        async with asyncio.timeout(DEADLINE_S):
            while not node.links.status().get("there", {}).get("open"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(seconds / 5)
        began_s, began_cpu_s, before = time.monotonic(), cpu_s(os.getpid()), _sent_bytes(node)
        await asyncio.sleep(seconds * 4 / 5)
        took_s, sent_bytes = time.monotonic() - began_s, _sent_bytes(node) - before
        used = (cpu_s(os.getpid()) - began_cpu_s) / took_s
        status = node.links.status()["there"]
        assert status["backlog_records"] + status["unacknowledged_records"], "the backlog was under way to the end"
    finally:
        await node.stop()
        process.terminate()
        await process.wait()
    return {"rate_bit_s": rate_bit_s, "share": round(sent_bytes * 8 / took_s / rate_bit_s, 3), "cpu": round(used, 2)}


def _sent_bytes(node: Node) -> int:
    return int(node.links.status()["there"]["sent_bytes"])


def main(seconds: float = 10.0) -> None:
    """Measures and prints."""
    print(json.dumps(machine()))
    shares: list[float] = []
    for rate_bit_s in RATES_BIT_S:
        with tempfile.TemporaryDirectory() as name:
            measured = asyncio.run(share(rate_bit_s, seconds, Path(name)))
        shares.append(measured["share"])
        print(json.dumps({**measured, "load_1_min": round(os.getloadavg()[0], 1)}), flush=True)
    write("pacing", {"share": Measured("; ".join(f"{share:.3f}" for share in shares), min(shares) >= 0.95)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["there"]:
        asyncio.run(there(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main(*(float(argument) for argument in sys.argv[1:]))
