"""One side over a slow link: quiet, with alerts past the backlog, then cut again and again; at last opened wide, and compared.

Every side gets the first so many of the same readings, enough to last. Bytes are what TCP carried, both ways, as the proxy gave them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from bench.duel.ours import Ours
from bench.duel.side import BOXES, Given, Shoreward, Side, wait_until
from bench.machine import machine
from tests.support.proxy import LoopThread, Shape

RATE_BIT_S, ROUND_TRIP_S = 128_000, 0.6
CUT_S, CUT_EVERY_S = 5.0, 60.0
ALERT_EVERY_S = 1.5
RESUMED_BYTES = 2_000
"""More than any side says of itself before it goes on with what it was sending."""
SPARE = 1.3
DRAINED_S_MAX, FIRST_S_MAX = 1_200.0, 180.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each phase lasts, in seconds; `cuts_s` is made of whole CUT_EVERY_S."""

    quiet_s: float
    alerts_s: float
    cuts: int

    def readings(self, bytes_reading_least: float) -> int:
        """How many readings last as long, at so few bytes each."""
        seconds = self.quiet_s + self.alerts_s + self.cuts * (CUT_EVERY_S - CUT_S)
        return round(SPARE * seconds * RATE_BIT_S / 8 / bytes_reading_least)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a link stood at some moment."""

    at_s: float
    shoreward_bytes: int
    all_bytes: int
    arrived: int
    moved: int


def slow_link(side: Side, plan: Plan, thread: LoopThread, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures of one side. It is started and stopped here."""
    shape = Shape(RATE_BIT_S, ROUND_TRIP_S / 2)
    link = Shoreward(thread, side.proxy, side.shoreward_is_out)
    link.reshape(shape)
    thread.wait(side.proxy.reserve())
    given = Given(plan.readings(side.bytes_reading_least), BOXES)
    figures: dict[str, Any] = {"machine": machine(), "readings": given.readings, "json_bytes_reading": round(given.json_bytes, 1)}
    try:
        figures["side"] = side.start()
        side.load(given)
        report(f"{side.name}: {given.readings:,} readings are aboard")
        link.up()
        try:
            figures |= _phases(side, link, plan, given, report)
        except TimeoutError as problem:
            figures["ended_by"] = str(problem)
        figures["arrived"] = side.arrived()
        figures["bytes_reading"] = round(link.all_bytes() / max(1, figures["arrived"]), 2)
        figures |= asdict(side.compared(given))
        if isinstance(side, Ours):
            figures |= _blocks(side)
    finally:
        side.stop()
        thread.wait(side.proxy.stop())
    return figures


def _phases(side: Side, link: Shoreward, plan: Plan, given: Given, report: Callable[[str], None]) -> dict[str, Any]:
    """Run the phases one after another, and report each phase when it ends.

    Then open the link wide until all readings are ashore. Raises TimeoutError.
    """
    first_s = wait_until(lambda: side.moved() > 0, "the backlog moves", FIRST_S_MAX)
    quiet = _phase(side, link, lambda: time.sleep(plan.quiet_s))
    report(f"{side.name}: quiet {quiet}")
    alerts, published = _alerts(side, link, plan, quiet)
    report(f"{side.name}: alerts {alerts}, so far {_waited(side, published)}")
    cuts = _cuts(side, link, plan)
    report(f"{side.name}: cuts {cuts}")
    link.reshape(Shape())
    drained_s = wait_until(lambda: side.arrived() >= given.readings, "all of it is ashore", DRAINED_S_MAX, 0.5)
    alerts |= _waited(side, published)
    return {"first_moved_s": round(first_s, 2), "quiet": quiet, "alerts": alerts, "cuts": cuts, "drained_s": round(drained_s, 1)}


def _mark(side: Side, link: Shoreward) -> Mark:
    return Mark(time.monotonic(), link.shoreward_bytes(), link.all_bytes(), side.arrived(), side.moved())


def _phase(side: Side, link: Shoreward, work: Callable[[], object], cut_s: float = 0.0) -> dict[str, Any]:
    """What the link did meanwhile. `share`: of what it could have carried shoreward while it was there."""
    before = _mark(side, link)
    work()
    after = _mark(side, link)
    seconds, arrived = after.at_s - before.at_s - cut_s, after.arrived - before.arrived
    return {
        "seconds": round(seconds, 1),
        "share": round((after.shoreward_bytes - before.shoreward_bytes) * 8 / RATE_BIT_S / seconds, 4),
        "readings": arrived,
        "moved_s": round((after.moved - before.moved) / seconds, 1),
        "bytes_reading": round((after.all_bytes - before.all_bytes) / arrived, 2) if arrived else None,
    }


def _alerts(side: Side, link: Shoreward, plan: Plan, quiet: dict[str, Any]) -> tuple[dict[str, Any], dict[int, float]]:
    """An alert every ALERT_EVERY_S past the backlog: what the backlog lost by them, and when each was published."""
    published: dict[int, float] = {}

    def publish() -> None:
        begins_s = time.monotonic()
        for number in range(int(plan.alerts_s / ALERT_EVERY_S)):
            time.sleep(max(0.0, begins_s + number * ALERT_EVERY_S - time.monotonic()))
            published[number] = time.monotonic()
            side.alert(number)
        time.sleep(max(0.0, begins_s + plan.alerts_s - time.monotonic()))

    phase = _phase(side, link, publish)
    slowed = round(1 - phase["moved_s"] / quiet["moved_s"], 4) if quiet["moved_s"] else None
    return {**phase, "heard_meanwhile": len(side.alerts_heard_s()), "backlog_slowed": slowed}, published


def _waited(side: Side, published: dict[int, float]) -> dict[str, Any]:
    """How long each alert took that came at all; those that came after the link was opened wide would have taken longer."""
    heard = dict(side.alerts_heard_s())
    waited = sorted(heard[number] - at_s for number, at_s in published.items() if number in heard)
    figures: dict[str, Any] = {"published": len(published), "heard": len(waited)}
    if waited:
        figures |= {"p50_s": round(statistics.median(waited), 3), "max_s": round(waited[-1], 3)}
        figures["p99_s"] = round(waited[ceil(0.99 * len(waited)) - 1], 3)
        figures["longest_s"] = [round(delay_s, 3) for delay_s in waited[-5:]]
    return figures


def _cuts(side: Side, link: Shoreward, plan: Plan) -> dict[str, Any]:
    """CUT_S of every CUT_EVERY_S nothing passes; how soon after each the backlog moves again, and what was lost on the way."""
    resumed_s: list[float | None] = []

    def cut() -> None:
        for _ in range(plan.cuts):
            ended_s = link.outage(CUT_S)
            before = link.shoreward_bytes()
            try:
                wait_until(lambda before=before: link.shoreward_bytes() > before + RESUMED_BYTES, "it goes on", CUT_EVERY_S - CUT_S)
                resumed_s.append(round(time.monotonic() - ended_s, 2))
            except TimeoutError:
                resumed_s.append(None)
            time.sleep(max(0.0, ended_s + CUT_EVERY_S - CUT_S - time.monotonic()))

    lost = link.lost_bytes()
    phase = _phase(side, link, cut, plan.cuts * CUT_S)
    return {**phase, "resumed_s": resumed_s, "lost_on_the_way_bytes": link.lost_bytes() - lost}


def _blocks(side: Ours) -> dict[str, Any]:
    """Of ours alone, whose messages the proxy's ear can read: what blocks' bytes came twice, and how soon the first came."""
    tap = side.tap
    again = [talk for talk in list(tap.talks.values())[1:] if talk.upgraded_s is not None and talk.first_block_came_s is not None]
    left = [round(talk.first_block_left_s - talk.upgraded_s, 3) for talk in again if talk.first_block_left_s and talk.upgraded_s]
    came = [round(talk.first_block_came_s - talk.upgraded_s, 3) for talk in again if talk.first_block_came_s and talk.upgraded_s]
    return {
        "block_bytes": tap.block_bytes,
        "resent_block_bytes": tap.resent_bytes(),
        "resent_share": round(tap.resent_bytes() / max(1, tap.block_bytes), 5),
        "first_block_left_after_upgrade_s": left,
        "first_block_came_after_upgrade_s": came,
    }
