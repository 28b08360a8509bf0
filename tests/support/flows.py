"""How many files of the product two flows pass: `python -m tests.support.flows` prints it.

One PUBLISH until its PUBACK, at an endpoint with its pipeline and log; one append on a ship until headquarters has it. Also how often
control changes files within one call of `Session.receive`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.intake.stand import TOPIC, Publisher, payload, stand
from tests.support.fleet import address, readings, started, until

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(f"{ROOT}/{name}/" for name in ("streams", "cargo", "intake", "edge", "shore", "hq", "landfall"))
RECEIVE = "streams/replication/sync_session.py", "receive"


class Flow:
    """The product's files that were called, and for each call of `Session.receive` how often control changed files."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.changes: list[int] = []
        self._stacks: dict[int, list[str]] = {}

    def event(self, frame: FrameType, kind: str, _: Any) -> None:
        """Count one event of the interpreter (`sys.setprofile`)."""
        name = frame.f_code.co_filename
        if kind not in ("call", "return") or not name.startswith(PRODUCT):
            return
        file = name.removeprefix(f"{ROOT}/")
        self.files.add(file)
        stack = self._stacks.setdefault(threading.get_ident(), [])
        if (file, frame.f_code.co_name) == RECEIVE and kind == "call" and not stack:
            self.changes.append(0)
        if not stack and (not self.changes or (file, frame.f_code.co_name) != RECEIVE):
            return
        if kind == "call":
            self.changes[-1] += bool(stack) and stack[-1] != file
            stack.append(file)
        elif stack:
            stack.pop()
            self.changes[-1] += bool(stack) and stack[-1] != file


@contextmanager
def profiled() -> Iterator[Flow]:
    """What runs in this thread and in threads that begin within the block."""
    flow = Flow()
    threading.setprofile(flow.event)
    sys.setprofile(flow.event)
    try:
        yield flow
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def publish(folder: Path) -> Flow:
    """One reading, acknowledged."""
    with profiled() as flow:
        async with stand(folder) as one:
            with Publisher(one.endpoint.port) as publisher:
                await publisher.welcomed()
                flow.files.clear()
                publisher.publish(TOPIC, payload())
                await asyncio.to_thread(publisher.wait, lambda p: len(p.acknowledged) == 1)
                passed = set(flow.files)
    flow.files = passed
    return flow


async def append(folder: Path) -> Flow:
    """One row of a ship, admitted at headquarters."""
    with profiled() as flow:
        hq, ship = await started("hq", folder), await started("ship-a", folder)
        ship.link([address("ship-a", "hq", hq.url)])
        await until(lambda: "hq" in ship.links.status())
        flow.files.clear()
        flow.changes.clear()
        await ship.append([readings(0, 1)])
        await until(lambda: "containers" in hq.log.streams() and sum(hq.log.position("containers").values()) > 0)
        passed = set(flow.files)
        await ship.stop()
        await hq.stop()
    flow.files = passed
    return flow


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        flow = asyncio.run(publish(Path(folder)))
        print(f"one PUBLISH until its PUBACK: {len(flow.files)} files")
    with tempfile.TemporaryDirectory() as folder:
        flow = asyncio.run(append(Path(folder)))
        print(f"one append on a ship until headquarters has it: {len(flow.files)} files")
        print(f"one call of Session.receive: at most {max(flow.changes, default=0)} changes of file")


if __name__ == "__main__":
    main()
