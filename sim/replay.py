"""Replay: recorded readings published through one intake, at their own pace or as fast as it acknowledges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sim.publish import Publisher
from sim.recorded import Recorded, read_recorded
from sim.settings import ReplaySettings
from streams.clock import Clock, WallClock
from streams.errors import RetryLater

TURN_S = 0.02
SILENCE_S_MAX = 30.0
"""Without an acknowledgement for so long, while some are due, a replay is given up."""

Telling = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of the rows: `read` = `published` = `acknowledged` when all went well; `repeats`: exact duplicates among them.

    `containers`: rows per container number.
    """

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


def replay(settings: ReplaySettings, path: Path, wall: Clock | None = None, told: Telling | None = None) -> ReplayOutcome:
    """Publish every row of `path` and wait until all are acknowledged. `told` hears (acknowledged, of) now and then.

    Raises Misuse for a file that does not read, RetryLater when the intake stays silent for SILENCE_S_MAX.
    """
    wall = wall or WallClock()
    rows = read_recorded(path)[: settings.rows_max]
    publisher = Publisher([settings.intake.at], {settings.intake.at: settings.intake}, wall, name="replay")
    began_s = wall.monotonic_s()
    try:
        acknowledged = _play(rows, publisher, settings.speed, wall, told)
    finally:
        publisher.close()
    repeated = len(rows) - len({(row.topic, row.payload) for row in rows})
    containers = dict(Counter(row.container for row in rows))
    return ReplayOutcome(len(rows), len(rows), acknowledged, repeated, containers, wall.monotonic_s() - began_s)


def _play(rows: list[Recorded], publisher: Publisher, speed: float, wall: Clock, told: Telling | None) -> int:
    sent = acknowledged = 0
    began_s = heard_s = wall.monotonic_s()
    while acknowledged < len(rows):
        now_s = wall.monotonic_s()
        while sent < len(rows) and (speed == 0 or rows[sent].at_ms - rows[0].at_ms <= (now_s - began_s) * speed * 1_000):
            if not publisher.offer(0, rows[sent].topic, rows[sent].payload, sent):
                break
            sent += 1
        publisher.turn(TURN_S)
        new = len(publisher.taken_acknowledgements())
        acknowledged += new
        if new or (sent == acknowledged and sent):
            heard_s = now_s
        if now_s - heard_s > SILENCE_S_MAX:
            raise RetryLater(f"the intake acknowledged {acknowledged} of {sent} readings and then nothing", hint="look at its log")
        if told is not None and new:
            told(acknowledged, len(rows))
    return acknowledged
