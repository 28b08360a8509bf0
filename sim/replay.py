"""Replay: recorded readings published through one intake, at their own pace or as fast as it acknowledges them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from landfall.runtime.health_server import serve_health
from landfall.runtime.service import running
from sim.publish import Publisher
from sim.recorded import Recorded, read_recorded
from sim.settings import ReplaySettings
from streams.model.clock import WallClock
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics

TURN_S = 0.02
SILENCE_S_MAX = 30.0
"""Maximum time without an acknowledgement, while some are due, before a replay is given up, seconds."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """Outcome of the rows: `read` = `published` = `acknowledged` when all went well; `repeats`: exact duplicates among them. `containers`:
    rows per container number."""

    read: int
    published: int
    acknowledged: int
    repeats: int
    containers: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        per_box = "\n".join(f"  {container}: {count:,} readings" for container, count in sorted(self.containers.items()))
        return (
            f"{self.read:,} rows read, {self.published:,} published, {self.acknowledged:,} acknowledged in {self.seconds:.1f} s; "
            f"{self.repeats:,} of them exact repeats\n{per_box}"
        )


def replay(settings: ReplaySettings, path: Path) -> ReplayOutcome:
    """Publish every row of `path` and wait until all are acknowledged.

    Raises Misuse for a file that does not read, RetryLater when the intake stays silent for SILENCE_S_MAX.
    """
    metrics = Metrics("replay")

    def health() -> tuple[bool, dict[str, Any]]:
        at_ms = time.time_ns() // 1_000_000
        return True, {"process": metrics.process, "at_ms": at_ms, **metrics.body(at_ms, at_ms)["counts"]}

    with running(metrics, settings) as under_way, serve_health(settings.host, settings.health_port, health, settings):
        rows = read_recorded(path)[: settings.rows_max]
        began_s = time.monotonic()
        report = partial(under_way.telemetry.report, outcome="tried again")
        publisher = Publisher([settings.intake.at], {settings.intake.at: settings.intake}, WallClock(), report, name="replay")
        try:
            acknowledged = _play(rows, publisher, settings.speed, metrics)
        finally:
            publisher.close()
    repeated = len(rows) - len({(row.topic, row.payload) for row in rows})
    containers = dict(Counter(row.container for row in rows))
    return ReplayOutcome(len(rows), len(rows), acknowledged, repeated, containers, time.monotonic() - began_s)


def _play(rows: list[Recorded], publisher: Publisher, speed: float, metrics: Metrics) -> int:
    """Publish row for row at `speed`, and return how many are acknowledged: all."""
    acknowledged, under_way = 0, dict[int, float]()
    began_s = heard_s = time.monotonic()
    while acknowledged < len(rows):
        now_s = time.monotonic()
        sent = acknowledged + len(under_way)
        while sent < len(rows) and (speed == 0 or rows[sent].at_ms - rows[0].at_ms <= (now_s - began_s) * speed * 1_000):
            if not publisher.offer(0, rows[sent].topic, rows[sent].payload, sent):
                break
            under_way[sent] = now_s
            metrics.count("replay_published")
            sent += 1
        publisher.turn(TURN_S)
        heard_at_s = time.monotonic()
        taken = publisher.taken_acknowledgements()
        for ticket in taken:
            metrics.observe("replay_acknowledged_ms", (heard_at_s - under_way.pop(ticket)) * 1_000)
        metrics.count("replay_acknowledged", len(taken))
        acknowledged += len(taken)
        if taken or (sent and not under_way):
            heard_s = now_s
        if now_s - heard_s > SILENCE_S_MAX:
            raise RetryLater(
                f"the intake acknowledged {acknowledged} of {sent} readings and then nothing", hint="look at its log", code="replay_stalled"
            )
    return acknowledged
