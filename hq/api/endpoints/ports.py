"""A port's view: what is due in, what a call is to load and discharge, what the sensors say became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from sqlalchemy import select

from cargo.vocabulary.load_list_lines import LISTED
from cargo.vocabulary.trade_codes import is_container
from hq.api.access import Right
from hq.api.container_rows import DELIVERED, LOST
from hq.api.error_answers import not_found
from hq.api.map_picture import port_drawn
from hq.api.muster_answers import boxes_judged, judge_of, musters_by_place
from hq.api.services import Asking, StoreView

router = APIRouter()
CALLS_MAX = 10
NAMES_MAX = 500
CALL_SPAN_MS = 96 * 3_600_000
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standings:
    """Facts in addition to the load lists. `off`: container → (standing, place) of those that are on no ship; `berthed`: ship → (port,
    since when) of those that lie in port, UTC ms."""

    off: Mapping[str, tuple[str, str | None]]
    berthed: Mapping[str, tuple[str, int]]


@router.get("/ports/{locode}")
def port(ask: Asking, locode: str) -> Fields:
    """Return what a port expects and has: containers due in by ship, containers on the quay, and the last 10 calls. Staff only.

    `in_port`: ships in port, with the containers still to be discharged. `unknown_pod`: containers at sea without a port of discharge.
    `lost`: containers for this port that were lost on the way; they are in no other list.
    """
    ask.need(Right.SEE_PORTS)
    with ask.look() as look:
        ports = look.sight.ports().subquery()
        known = look.rows(select(ports).where(ports.c.id == locode))
        if not known:
            raise not_found("port_unknown", "port")
        lists = sorted(look.rows(look.sight.load_lists()), key=lambda row: (row["ship"], row["call"]))
        standings = _standings(look, {row["ship"] for row in lists})
        here = sorted((row for row in lists if row["port"] == locode), key=lambda row: row["departs_at_ms"], reverse=True)
        due, lost = due_in(lists, locode, look.now_at_ms, standings)
        on_quay = (number for number, stands in standings.off.items() if stands == ("quay", locode) and is_container(number))
        return look.framed(
            port=port_drawn(known[0]),
            due_in=[one for one in due if one["arrived_at_ms"] is None],
            in_port=[one for one in due if one["arrived_at_ms"] is not None],
            unknown_pod=due_in(lists, "", look.now_at_ms, standings)[0],
            lost=named(lost),
            on_quay=named(on_quay),
            muster=_muster_of(look, locode),
            calls=[_call(look, row, standings) for row in here[:CALLS_MAX]],
        )


def _muster_of(look: StoreView, locode: str) -> Fields:
    """Return how many of the boxes on the quay are accounted for."""
    judge = judge_of(look)
    place = ("quay", locode)
    return musters_by_place(boxes_judged(look, judge), judge).get(place) or judge.muster(place, Counter())


def _standings(look: StoreView, ships: Collection[str]) -> Standings:
    own = look.sight.containers().subquery()
    rows = look.rows(select(own.c.number, own.c.standing, own.c.place_id).where(own.c.standing.in_((LOST, DELIVERED, "quay"))))
    last: dict[str, Fields] = {}
    for event in sorted(look.rows(look.sight.voyages(ships)), key=lambda event: int(event["event_at_ms"])):
        last[event["ship"]] = event
    berthed = {ship: (event["place"], event["event_at_ms"]) for ship, event in last.items() if event["event"] == "ARRI"}
    return Standings({row["number"]: (row["standing"], row["place_id"]) for row in rows}, berthed)


def due_in(lists: list[Fields], locode: str, now_at_ms: int, standings: Standings) -> tuple[list[Fields], set[str]]:
    """Return by ship the boxes that are to come off at `locode` by the list of the last port it has sailed from; and the lost ones.

    `arrived_at_ms`: since when the ship lies at `locode`, or None. A box that was lost, is on a quay or was delivered is not due.
    """
    sailed = {row["ship"]: row for row in lists if row["departs_at_ms"] <= now_at_ms}
    expected, lost = [], set()
    for ship, row in sorted(sailed.items()):
        boxes = {box["container"] for box in row["value"]["aboard"] if box["pod"] == locode}
        if boxes and row["port"] != locode:
            at, since_at_ms = standings.berthed.get(ship, (None, None))
            times = {"sailed_at_ms": row["departs_at_ms"], "arrived_at_ms": since_at_ms if at == locode else None}
            expected.append({"ship": ship, "from": row["port"], **times, "boxes": named(boxes - standings.off.keys())})
            lost |= {box for box in boxes if box in standings.off and standings.off[box][0] == LOST}
    return expected, lost


def named(numbers: Iterable[str]) -> Fields:
    """Return the number of containers, and the first of them by number."""
    known = sorted(set(numbers))
    return {"count": len(known), "containers": known[:NAMES_MAX]}


def _call(look: StoreView, row: Fields, standings: Standings) -> Fields:
    """Return one call's list and what was reported of it: loaded, discharged, left behind, new aboard, and the ship's last muster of it. A
    box that the ship loaded before it had the call's list is new aboard if it is not on that list."""
    value = row["value"]
    events = [event for event in _events(look, row) if _is_of_call(event, row)]
    loads = [(event["topic"], event["body"].get("listed")) for event in events if event["event"] == "LOAD"]
    on_list = {*value["load"], *(box["container"] for box in value["aboard"])}
    unlisted = {box for box, listed in loads if listed is False or (listed is None and box not in on_list)}
    discharged = {event["topic"] for event in events if event["event"] == "DISC"}
    left = {event["topic"] for event in events if event["event"] == "X_LEFT_BEHIND"}
    musters = [event for event in events if event["event"] == "X_MUSTER" and event["body"].get("call") == row["call"]]
    calls = {event["event"]: event["event_at_ms"] for event in events}
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
        "lost": named({box for box in value["discharge"] if standings.off.get(box, ("",))[0] == LOST} - discharged),
        "left_behind": named(left),
        "new_aboard": named(unlisted),
        "muster": _muster(musters[-1]) if musters else None,
        "unknown": _unknown(value["aboard"]),
    }


def _unknown(aboard: Sequence[Fields]) -> dict[str, int]:
    """Return how many boxes of a list lack a field; `container`: how many have a number that is none of ISO 6346."""
    lacking = [name for box in aboard for name in LISTED if not box[name]]
    return Counter([*lacking, *("container" for box in aboard if not is_container(box["container"]))])


def _events(look: StoreView, row: Fields) -> list[Fields]:
    """Return the events of the ship's boxes at this port, and its musters, in order of time."""
    events = look.sight.port_events(row["ship"], row["port"]).subquery()
    rows = look.rows(select(events).order_by(events.c.event_at_ms, events.c.origin, events.c.offset))
    return [{**one, "body": json.loads(one["body"])} for one in rows]


def _is_of_call(event: Fields, row: Fields) -> bool:
    """Return whether it is of the call: by its number, else by its time."""
    call = event["body"].get("call")
    return bool(call == row["call"] if call is not None else abs(event["event_at_ms"] - row["departs_at_ms"]) <= CALL_SPAN_MS)


def _muster(event: Fields) -> Fields:
    body = event["body"]
    names = ("total", "instrumented", "accounted", "reasons", "not_on_list", "not_heard_since_loading", "missing", "late", "gone")
    return {"at_ms": event["event_at_ms"], **{name: body.get(name) for name in names}}
