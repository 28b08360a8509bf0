"""Facts of a loss report as a real watch over the test's sea makes them: one stack falls in a storm, off Tokyo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from cargo.alerts.alert_log import AlertBook
from cargo.loss.muster import muster_event
from cargo.loss.watch import advance, step
from cargo.report.loss_draft import Facts
from cargo.report.search_line import drift_line
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Dangerous, Entry, Ship
from cargo.vocabulary.registry_fold import Registry
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, SHIP, START_MS, Sea, fall, number, watch

LOST_AT_MS = SAILS_MS + 2 * HOUR_MS
UNTIL_MS = LOST_AT_MS + 10 * MINUTE_MS
STACK = (0, 1, 2)
UNTRACKED = 3
"""A box of the stack beside: without tracker it is at risk only where its own stack fell."""


def booking(reference: str, shipper: str, boxes: list[int], cargo: str, un_number: str | None = None) -> Entry:
    """A booking of these boxes, from the voyage's start on."""
    spans = tuple(BookedContainer(number(at), START_MS) for at in boxes)
    value = Booking(reference, shipper, "Toys of London", cargo, "JPTYO", "GBLON", un_number=un_number, containers=spans)
    return Entry("booking", reference, 1, START_MS, "clerk", value)


def papers(sea: Sea) -> list[Entry]:
    """The ship, her load list with what a bay plan tells of some boxes, and two owners' bookings."""
    listed = sea.load_list()
    told: dict[str, dict[str, Any]] = {
        number(0): {"empty": False, "dangerous": (Dangerous("1263", "3"),)},
        number(1): {"empty": True, "dangerous": ()},
    }
    aboard = tuple(msgspec.structs.replace(box, **told.get(box.container, {})) for box in listed.aboard)
    listed = msgspec.structs.replace(listed, aboard=aboard)
    ship = Ship(SHIP, "Big Blue One", "9V1234", "563012345", "SG", 2_000, "Moe Teal")
    return [
        Entry("ship", SHIP, 1, START_MS, "clerk", ship),
        Entry("load_list", listed.id, 2, START_MS, "clerk", listed),
        booking("BK-1", "duckworks", [0, 2, 9], "toy ducks"),
        booking("BK-2", "merlion", [1, 10], "furniture"),
    ]


def voyage(*, blows: bool = True, heard_again: bool = False, untracked: frozenset[int] = frozenset()) -> Facts:
    """The facts ten minutes after the stack fell; `heard_again`: its first box spoke once more since."""
    storm = (LOST_AT_MS - 20 * MINUTE_MS, LOST_AT_MS + 20 * MINUTE_MS)
    fallen = [at for at in STACK if at not in untracked]
    sea = Sea(boxes=24, storms=[storm], silent={at: [(LOST_AT_MS, UNTIL_MS + HOUR_MS)] for at in fallen}, untracked=untracked)
    said = [heard for at in fallen for heard in fall(sea, at, LOST_AT_MS - (10 - at) * SECOND_MS)] if blows else []
    readings = sea.readings(UNTIL_MS, said)
    state, made = watch(sea, readings)
    if heard_again:
        made.add(step(state, [sea.says(0, UNTIL_MS + MINUTE_MS, battery_mv=3_600)]))
        made.add(advance(state, UNTIL_MS + 2 * MINUTE_MS))
    book = AlertBook((one.topic, one.body) for one in made.alerts)
    standing = [one for one in book.standing() if one.body["incident_id"]]
    ship = {
        kind: [(one.order_at_ms, one.signals) for one in readings if one.topic == f"{SHIP}.{kind}"] for kind in ("location", "environment")
    }
    incident = next(one for one in standing if one.body["rule"] == "incident")
    span = incident.body["incident"]
    facts = Facts(
        ship=SHIP,
        incident=incident,
        boxes=tuple(one for one in standing if one.body["rule"] == "lost_container"),
        registry=Registry([*sea.entries(), *papers(sea)]),
        track=ship["location"],
        air=ship["environment"],
        muster=muster_event(state, state.memory.settled_at_ms, "asked").body,
        now_at_ms=UNTIL_MS + 3 * MINUTE_MS,
        drift=drift_line(ship["location"], ship["environment"], span["from_at_ms"], span["until_at_ms"]),
    )
    return facts


def more_lost(facts: Facts, *numbers: str) -> Facts:
    """The same incident, a minute later, with these lost too."""
    body = dict(facts.incident.body)
    body["incident"] = {**body["incident"], "containers": sorted([*body["incident"]["containers"], *numbers])}
    return replace(facts, incident=replace(facts.incident, body=body), now_at_ms=facts.now_at_ms + MINUTE_MS)
