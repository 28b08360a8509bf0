"""The ships' links to the ports, each through a proxy that cuts it in the middle of a transfer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from landfall.demo.fleet_settings import QUAYS, SHIP_NODES, Fleet
from tests.support.proxy import LoopThread, Proxy

CUT_AFTER_BYTES = (2_000, 4_000, 8_000, 16_000)
"""A cable's connections are cut when it has carried so much more: what it has read of the frame under way arrives nowhere."""


@dataclass(frozen=True, slots=True)
class CabledFleet(Fleet):
    """A fleet whose ships dial other addresses than the ports' own. `cables`: port's node → URL."""

    cables: Mapping[str, str] = field(default_factory=dict)

    def link_url(self, node: str, other: str) -> str:
        """Where `node` dials `other`."""
        return self.cables[other] if node in SHIP_NODES and other in self.cables else self.node_url(other)


class Cable(Proxy):
    """A proxy that cuts, once it is told to `begin`, after each of CUT_AFTER_BYTES."""

    _later: Iterator[int] = iter(())

    def begin(self) -> None:
        """From now on."""
        self._later = iter(CUT_AFTER_BYTES)
        self._arm()

    def end(self) -> None:
        """No more."""
        self._later, self.cut_after_bytes = iter(()), None

    def cut(self) -> None:
        self._arm()
        super().cut()

    def _arm(self) -> None:
        more = next(self._later, None)
        self.cut_after_bytes = None if more is None else self.carried_bytes + more


class Cables:
    """A cable to each port, in a thread of its own. `close` when the ships are gone."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        """`ports`: what each node listens on."""
        self._thread = LoopThread("cables")
        self._cables = {node: Cable(ports[node]) for node in QUAYS}
        self.urls = {node: self._thread.wait(cable.start()) for node, cable in self._cables.items()}

    @contextmanager
    def cutting(self) -> Iterator[None]:
        """While the block runs they are cut. What a ship is to be told just then comes later, as it would."""
        for cable in self._cables.values():
            self._thread.soon(cable.begin)
        try:
            yield
        finally:
            for cable in self._cables.values():
                self._thread.soon(cable.end)

    def cuts(self) -> dict[str, int]:
        """Node → how often its cable was cut in the middle of a transfer."""
        return {node: cable.cuts for node, cable in self._cables.items()}

    def close(self) -> None:
        """Nothing is carried any more."""
        for cable in self._cables.values():
            self._thread.wait(cable.stop())
        self._thread.close()
