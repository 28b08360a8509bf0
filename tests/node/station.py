"""One node of the test's fleet as a process: `python -m tests.node.station NAME FOLDER PORT {"peer": "url"}`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

from landfall.node.node import Node
from tests.support.fleet import address, knowing_all, settings


async def main(name: str, folder: Path, port: int, links: dict[str, str]) -> None:
    own = settings(name, folder, port, [address(name, target, url) for target, url in links.items()])
    node = Node(knowing_all(own, folder, made=True))
    await node.start()
    await node.run_until_stopped()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])))
