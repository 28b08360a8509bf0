"""A witness of when each node had an alert: it looks at all nodes' logs in turn, and notes by its own, the wall's, clock what is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from streams.words import Coordinates, Position
from tests.e2e.voyage import Voyage

LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Witness:
    """How far each node was seen to have `alerts`, and when first (`time.monotonic`, seconds)."""

    seen: dict[str, list[tuple[float, Position]]] = field(default_factory=dict)

    def had_at_s(self, node: str, record: Coordinates) -> float:
        """When the node was first seen to have `record`."""
        for at_s, position in self.seen[node]:
            if position[record.origin] > record.offset:
                return at_s
        raise AssertionError(f"{node} was never seen to have {record}")

    def look(self, voyage: Voyage, done: threading.Event) -> None:
        """Look at every node in turn until `done`."""
        logs = {node: voyage.log(node) for node in self.seen}
        try:
            while not done.wait(LOOK_EVERY_S):
                for node, log in logs.items():
                    position, seen = log.position("alerts"), self.seen[node]
                    if not seen or not seen[-1][1].reaches(position):
                        seen.append((time.monotonic(), position))
        finally:
            for log in logs.values():
                log.close()


@contextmanager
def witnessing(voyage: Voyage, nodes: Sequence[str]) -> Iterator[Witness]:
    """While the block runs, somebody looks at these nodes' logs."""
    done, witness = threading.Event(), Witness({node: [] for node in nodes})
    thread = threading.Thread(target=witness.look, args=(voyage, done), name="witness")
    thread.start()
    try:
        yield witness
    finally:
        done.set()
        thread.join()
