"""Which boxes are accounted for, by ship, quay and fleet, as `cargo.loss.accounted_boxes` judges each: for every page alike.

The ship's own statement counts where it is newer than the newest reading of its boxes that is here: at sea, where readings wait on board.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import func, select

from cargo.alerts.alert_log import CLOSED_STATES
from cargo.loss.accounted_boxes import (
    ACCOUNTED,
    DRY_INTERVAL_MS,
    PRESENT,
    QUAY_INTERVAL_MS,
    REEFER_INTERVAL_MS,
    Account,
    BoxReport,
    account,
    held_to,
    is_overdue,
    total,
)
from cargo.rules.silence import SEVERITIES
from cargo.vocabulary.trade_codes import is_container
from hq.api.container_rows import DELIVERED, LOST
from hq.api.services import StoreView
from hq.api.stowage_cache import UNLISTED, Stowing

Fields = dict[str, Any]
Place = tuple[str | None, str | None]
"""Kind and id; null where no box of it has been heard."""
SILENCES = tuple(sorted(SEVERITIES))
"""Rules of alerts that a box is silent: its ship's statement does not cover it."""
LAG_WALL_S = 30.0
"""Maximum age of Spark's results that is no delay, by the wall: the clock of a simulated fleet runs thousands of times as fast."""
_is_right = lru_cache(maxsize=1 << 16)(is_container)


@dataclass(frozen=True, slots=True)
class MusterStatement:
    """A ship's statement of its muster, of `at_ms` (UTC ms). `accounted`: of how many boxes; None if the viewer may not know."""

    at_ms: int
    accounted: int | None


@dataclass(frozen=True, slots=True)
class Judge:
    """Facts for judging a viewer's boxes, in addition to their rows of `Sight.containers`."""

    now_at_ms: int
    stowed: Mapping[str, Stowing]
    silent: frozenset[str]
    statements: Mapping[str, MusterStatement]

    def account(self, row: Mapping[str, Any]) -> Account:
        """Return how the box of a row counts."""
        stowing = self.stowed.get(row["number"], UNLISTED)
        statement = self.statements.get(row["place_id"]) if row["place_kind"] == "ship" and row["number"] not in self.silent else None
        aboard_ms = REEFER_INTERVAL_MS if stowing.reefer else DRY_INTERVAL_MS
        known = BoxReport(
            heard_at_ms=row["at_ms"] if row["digest_at_ms"] is None else row["digest_at_ms"],
            interval_ms=QUAY_INTERVAL_MS if row["place_kind"] == "quay" else aboard_ms,
            below_deck=stowing.below_deck and row["place_kind"] == "ship",
            tracker=stowing.tracker,
            lost=row["standing"] == LOST,
            delivered=row["standing"] == DELIVERED,
            stated_at_ms=None if statement is None else statement.at_ms,
        )
        return account(known, self.now_at_ms)

    def muster(self, place: Place, counted: Counter[Account]) -> Fields:
        """Return the muster of one place as answers carry it."""
        statement = self.statements.get(place[1] or "") if place[0] == "ship" else None
        if statement is not None and statement.accounted is not None:
            counted = held_to(counted, statement.accounted)
        stated_at_ms = None if statement is None else statement.at_ms
        overdue = stated_at_ms is not None and is_overdue(stated_at_ms, self.now_at_ms)
        return {**summed(counted), "stated_at_ms": stated_at_ms, "overdue": overdue}


def judge_of(look: StoreView) -> Judge:
    """Return what judges the viewer's boxes."""
    alerts, own = look.sight.alerts().subquery(), look.sight.containers().subquery()
    silent = select(alerts.c.topic).where(alerts.c.rule.in_(SILENCES), alerts.c.state.not_in(CLOSED_STATES))
    newest = select(own.c.place_id, func.max(own.c.at_ms).label("at_ms")).where(own.c.place_kind == "ship").group_by(own.c.place_id)
    heard = {row["place_id"]: row["at_ms"] or 0 for row in look.rows(newest)}
    stated = {
        row["ship"]: MusterStatement(row["at_ms"], row["counts"] and row["counts"]["accounted"])
        for row in look.rows(look.sight.musters())
        if row["at_ms"] > heard.get(row["ship"], 0)
    }
    topics = frozenset(row["topic"] for row in look.rows(silent))
    heads = look.rows(look.sight.list_heads())
    stowed = look.services.stowages.stowed(heads, lambda ids: look.rows(look.sight.list_values(ids)), look.now_at_ms)
    speed = look.services.clock.fleet_time.speed
    return Judge(judged_at_ms(look.now_at_ms, look.fresh.spark_at_ms, speed), stowed, topics, stated)


def judged_at_ms(now_at_ms: int, as_of_at_ms: int | None, speed: float) -> int:
    """Return the time of which boxes are judged: that of Spark's results while they are no older than LAG_WALL_S by the wall at the
    clock's speed, and then a time as much before now: a fleet that stands still at headquarters does not stay accounted for."""
    earliest_ms = now_at_ms - round(LAG_WALL_S * 1_000 * speed)
    return now_at_ms if as_of_at_ms is None else min(now_at_ms, max(as_of_at_ms, earliest_ms))


def boxes_judged(look: StoreView, judge: Judge) -> list[Fields]:
    """Return the viewer's boxes with a right number, as rows of `Sight.containers` without their signals, each with its `account`."""
    own = look.sight.containers().subquery()
    columns = (own.c.number, own.c.standing, own.c.place_kind, own.c.place_id, own.c.owner_told, own.c.customer)
    misread = misread_numbers(look)
    rows = look.rows(select(*columns, own.c.at_ms, own.c.digest_at_ms))
    return [{**row, "account": judge.account(row)} for row in rows if row["number"] not in misread]


def misread_numbers(look: StoreView) -> set[str]:
    """Return the numbers with a wrong check digit: sensors name them, no paper can, so they stand for boxes that are counted already."""
    return {row["number"] for row in look.rows(look.sight.unlisted()) if not _is_right(row["number"])}


def musters_by_place(boxes: Iterable[Fields], judge: Judge) -> dict[Place, Fields]:
    """Return the muster of each place: of the boxes that stand there; under a null place that of boxes that stand nowhere."""
    by_place: defaultdict[Place, Counter[Account]] = defaultdict(Counter)
    for box in boxes:
        place = (box["place_kind"], box["place_id"]) if box["account"] in PRESENT or box["account"] == "no_tracker" else (None, None)
        by_place[place][box["account"]] += 1
    return {place: judge.muster(place, counted) for place, counted in by_place.items()}


def whole(musters: Iterable[Fields]) -> Fields:
    """Return the muster of all these places together; `stated_at_ms`: that of the oldest statement among them."""
    counted: Counter[Account] = Counter()
    musters = list(musters)
    for muster in musters:
        counted.update(muster["accounts"])
    stated = [muster["stated_at_ms"] for muster in musters if muster["stated_at_ms"] is not None]
    return {**summed(counted), "stated_at_ms": min(stated, default=None), "overdue": any(muster["overdue"] for muster in musters)}


def summed(counted: Mapping[Account, int]) -> Fields:
    """Return `boxes` that can be accounted for, how many are (`accounted`), and how each counts (`accounts`)."""
    accounts = {name: boxes for name, boxes in sorted(counted.items()) if boxes}
    return {"boxes": total(counted, PRESENT), "accounted": total(counted, ACCOUNTED), "accounts": accounts}
