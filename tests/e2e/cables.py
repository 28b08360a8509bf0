"""The ships' links to the nodes ashore, each through a proxy that cuts it in the middle of a transfer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from landfall.demo.fleet import HQ, QUAYS, SHIP_NODES, Fleet
from tests.node.fleet import Proxy

Answer = TypeVar("Answer")
CUT_AT_BYTES = (4_000, 12_000, 40_000, 100_000)
"""A cable's connections are cut when it has carried so much: what it has read of the frame under way arrives nowhere."""


@dataclass(frozen=True, slots=True)
class CabledFleet(Fleet):
    """A fleet whose ships dial other addresses than the shore's own. `cables`: node ashore → URL."""

    cables: Mapping[str, str] = field(default_factory=dict)

    def link_url(self, node: str, other: str) -> str:
        """Where `node` dials `other`."""
        return self.cables[other] if node in SHIP_NODES and other in self.cables else self.node_url(other)


class Cable(Proxy):
    """A proxy that cuts at each of CUT_AT_BYTES."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._later: Iterator[int] = iter(CUT_AT_BYTES)
        self.cut_after_bytes = next(self._later)

    def cut(self) -> None:
        self.cut_after_bytes = next(self._later, None)
        super().cut()


class Cables:
    """A cable to each node ashore, in a thread of its own. `close` when the ships are gone."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        """`ports`: what each node listens on."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables", daemon=True)
        self._thread.start()
        self._cables = {node: Cable(ports[node]) for node in (*QUAYS, HQ)}
        self.urls = {node: self._wait(cable.start()) for node, cable in self._cables.items()}

    def cuts(self) -> dict[str, int]:
        """Node → how often its cable was cut in the middle of a transfer."""
        return {node: cable.cuts for node, cable in self._cables.items()}

    def close(self) -> None:
        """Nothing is carried any more."""
        for cable in self._cables.values():
            self._wait(cable.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
