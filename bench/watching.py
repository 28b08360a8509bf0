"""What the logs of a fleet show and when: each loss alert at each node, and how long a port's records take to the other ports."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from bench.fleet import Underway
from landfall.demo.fleet_settings import HQ, QUAYS, SHIP_NODES
from landfall.storage.file_log import FileLogReader
from streams.model.identifiers import Origin, Position

NODES = (*SHIP_NODES, *QUAYS, HQ)
LAGGING = ("containers", "events", "metrics")
TURN_S = 0.01


class Watcher:
    """Looks at every node's log again and again; all times are `time.monotonic`, as fine as a turn takes (`turns_s`).

    `losses`: node → container → when its loss alert was first seen in that node's log. `lags_s`: from when records were first seen in the
    log of the port that appended them until they were in another port's.
    """

    def __init__(self, underway: Underway) -> None:
        self.losses: dict[str, dict[str, float]] = {node: {} for node in NODES}
        self.lags_s: list[float] = []
        self.turns_s: list[float] = []
        self._logs = {node: underway.log(node) for node in NODES}
        self._alerts = {node: Position() for node in NODES}
        self._ends: dict[tuple[str, Origin], int] = {}
        self._waiting: dict[tuple[str, str, Origin], list[tuple[int, float]]] = defaultdict(list)
        for stream, _port, origin, end in self._own():
            self._ends[stream, origin] = end

    def close(self) -> None:
        """Release the logs."""
        for log in self._logs.values():
            log.close()

    def turn(self) -> None:
        """One look at every log, and a short rest."""
        began_s = time.monotonic()
        for node, log in self._logs.items():
            self._look_for_losses(node, log)
        for stream, port, origin, end in self._own():
            if end > self._ends.get((stream, origin), 0):
                self._ends[stream, origin] = end
                for other in QUAYS:
                    if other != port:
                        self._waiting[other, stream, origin].append((end, time.monotonic()))
        for (other, stream, origin), waiting in self._waiting.items():
            while waiting and self._logs[other].position(stream)[origin] >= waiting[0][0]:
                self.lags_s.append(time.monotonic() - waiting.pop(0)[1])
        self.turns_s.append(time.monotonic() - began_s)
        time.sleep(TURN_S)

    def run_for(self, seconds: float) -> None:
        """So many seconds of turns."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < seconds:
            self.turn()

    def _own(self) -> list[tuple[str, str, Origin, int]]:
        """(stream, port, its own origin, how far that goes in its own log)."""
        positions = [(stream, port, self._logs[port].position(stream)) for port in QUAYS for stream in LAGGING]
        return [
            (stream, port, origin, end) for stream, port, position in positions for origin, end in position.items() if origin.node == port
        ]

    def _look_for_losses(self, node: str, log: FileLogReader) -> None:
        reached = log.position("alerts")
        if reached == self._alerts[node]:
            return
        for batch in log.read("alerts", self._alerts[node]):
            for row in batch.rows():
                if (row.record.body or {}).get("rule") == "lost_container":
                    self.losses[node].setdefault(row.record.topic, time.monotonic())
        self._alerts[node] = reached


def spread(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Median, 99th percentile and maximum, and of how many."""
    if not values:
        return {"count": 0}
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)]
    return {"count": len(ordered), "p50": round(at[0], digits), "p99": round(at[1], digits), "max": round(ordered[-1], digits)}
