"""A port's view: what is due in, what a call is to load and discharge, what the sensors say became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy import select

from cargo.identifiers import is_container
from cargo.loadlines import LISTED
from hq.api.access import Right
from hq.api.errors import not_found
from hq.api.picture import port_drawn
from hq.api.services import Asking, Look

router = APIRouter()
CALLS_MAX = 10
NAMES_MAX = 500
CALL_SPAN_MS = 96 * 3_600_000
Fields = dict[str, Any]


@router.get("/ports/{locode}")
def port(ask: Asking, locode: str) -> Fields:
    """What `locode` expects and what was heard there: boxes due in by ship, on the quay, each call's list against the sensors.

    `unknown_pod`: as `due_in`, the boxes at sea whose list says no port of discharge: any of them may be for here.
    """
    ask.need(Right.SEE_PORTS)
    with ask.look() as look:
        ports = look.sight.ports().subquery()
        known = look.rows(select(ports).where(ports.c.id == locode))
        if not known:
            raise not_found("port")
        lists = sorted(look.rows(look.sight.load_lists()), key=lambda row: (row["ship"], row["call"]))
        boxes = look.sight.containers().subquery()
        quay = select(boxes.c.number).where(boxes.c.place_kind == "quay", boxes.c.place_id == locode).order_by(boxes.c.number)
        here = sorted((row for row in lists if row["port"] == locode), key=lambda row: row["departs_at_ms"], reverse=True)
        return look.framed(
            port=port_drawn(known[0]),
            due_in=due_in(lists, locode, look.now_at_ms),
            unknown_pod=due_in(lists, "", look.now_at_ms),
            on_quay=named(row["number"] for row in look.rows(quay) if is_container(row["number"])),
            calls=[_call(look, row) for row in here[:CALLS_MAX]],
        )


def due_in(lists: list[Fields], locode: str, now_at_ms: int) -> list[Fields]:
    """By ship: the boxes aboard, by the list of the last port she has sailed from, that are to come off at `locode`."""
    sailed = {row["ship"]: row for row in lists if row["departs_at_ms"] <= now_at_ms}
    expected = []
    for ship, row in sorted(sailed.items()):
        boxes = [box["container"] for box in row["value"]["aboard"] if box["pod"] == locode]
        if boxes and row["port"] != locode:
            expected.append({"ship": ship, "from": row["port"], "sailed_at_ms": row["departs_at_ms"], "boxes": named(boxes)})
    return expected


def named(numbers: Iterable[str]) -> Fields:
    """How many, and the first of them by number."""
    known = sorted(set(numbers))
    return {"count": len(known), "containers": known[:NAMES_MAX]}


def _call(look: Look, row: Fields) -> Fields:
    """One call's list, and what was heard: loaded, discharged, left behind, new aboard, and the ship's last muster of it.

    What a ship loaded before she had the call's list is new aboard if it is not on it.
    """
    value = row["value"]
    told = [event for event in _events(look, row) if _is_of_call(event, row)]
    loads = [(event["topic"], event["body"].get("listed")) for event in told if event["event"] == "LOAD"]
    on_list = {*value["load"], *(box["container"] for box in value["aboard"])}
    unlisted = {box for box, listed in loads if listed is False or (listed is None and box not in on_list)}
    discharged = {event["topic"] for event in told if event["event"] == "DISC"}
    left = {event["topic"] for event in told if event["event"] == "X_LEFT_BEHIND"}
    musters = [event for event in told if event["event"] == "X_MUSTER" and event["body"].get("call") == row["call"]]
    calls = {event["event"]: event["event_at_ms"] for event in told}
    return {
        "ship": row["ship"],
        "call": row["call"],
        "departs_at_ms": row["departs_at_ms"],
        "arrived_at_ms": calls.get("ARRI"),
        "sailed_at_ms": calls.get("DEPA"),
        "to_load": named(value["load"]),
        "to_discharge": named(value["discharge"]),
        "loaded": named({box for box, _ in loads} & set(value["load"])),
        "discharged": named(discharged & set(value["discharge"])),
        "left_behind": named(left),
        "new_aboard": named(unlisted),
        "muster": _muster(musters[-1]) if musters else None,
        "unknown": _unknown(value["aboard"]),
    }


def _unknown(aboard: Sequence[Fields]) -> dict[str, int]:
    """How many boxes of a list lack a field; `container`: have a number that is none of ISO 6346."""
    lacking = [name for box in aboard for name in LISTED if not box[name]]
    return Counter([*lacking, *("container" for box in aboard if not is_container(box["container"]))])


def _events(look: Look, row: Fields) -> list[Fields]:
    """What the ship's boxes did at this port, and her musters, in order of time."""
    events = look.sight.port_events(row["ship"], row["port"]).subquery()
    rows = look.rows(select(events).order_by(events.c.event_at_ms, events.c.origin, events.c.offset))
    return [{**one, "body": json.loads(one["body"])} for one in rows]


def _is_of_call(event: Fields, row: Fields) -> bool:
    """By its number, else by its time."""
    call = event["body"].get("call")
    return bool(call == row["call"] if call is not None else abs(event["event_at_ms"] - row["departs_at_ms"]) <= CALL_SPAN_MS)


def _muster(event: Fields) -> Fields:
    body = event["body"]
    names = ("total", "instrumented", "accounted", "reasons", "not_on_list", "not_heard_since_loading", "missing", "late", "gone")
    return {"at_ms": event["event_at_ms"], **{name: body.get(name) for name in names}}
