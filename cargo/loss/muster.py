"""The muster: every box that should be aboard, accounted for or not and why, by bay. Boxes without a tracker are counted apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cargo.errors import BadEntry
from cargo.loss import accounted_boxes
from cargo.loss.accounted_boxes import Account, BoxReport, account, age_band, in_time
from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import GONE_STATES, REPORTED_STATES
from cargo.loss.watch_outcome import MadeRecord, event
from cargo.loss.watch_state import BOXES_MAX, WatchState

Reason = Literal[
    "heard",
    "below_deck_not_due",
    "not_due",
    "collapsed",
    "seen",
    "ashore",
    "not_heard",
    "late",
    "gateway_silent",
    "missing",
    "gone",
    "not_instrumented",
]
ACCOUNTED: frozenset[Reason] = frozenset({"heard", "below_deck_not_due", "not_due", "collapsed", "seen", "ashore"})
"""Reasons for which a box is accounted for. They include boxes whose device is silent, but that a person saw or knows to be ashore."""
NAMED_MAX = 500
STATEMENT = "muster"
"""The field of a record's body that holds a statement."""
STATED = ("accounted", "not_due", *accounted_boxes.AGE_BANDS, "never", "missing", "no_tracker")
"""Counts of a statement.

Boxes accounted for, and how many of these are not due; those not accounted for, by the age of their last reading, never heard, and missing;
those without a tracker."""


@dataclass(frozen=True, slots=True)
class Roll:
    """One line of the muster: the box, its slot, its state, and when and by which gateway it was last heard (UTC ms; 0: never aboard)."""

    container: str
    slot: str | None
    reason: Reason
    last_heard_at_ms: int
    gateway: str


def muster(state: WatchState, at_ms: int) -> list[Roll]:
    """Return a line for every box on the list in force and every box heard aboard that is on no list, in order of slot. Changes nothing."""
    lines = []
    for number, stowed in state.stowage.boxes.items():
        box = state.memory.boxes.get(number)
        if not stowed.tracker and (box is None or not box.heard_at_ms):
            lines.append(Roll(number, stowed.slot, "not_instrumented", 0, ""))
        elif box is None:
            lines.append(Roll(number, stowed.slot, "missing", 0, ""))
        else:
            lines.append(Roll(number, stowed.slot, _reason(state, box, at_ms), box.heard_at_ms, box.gateway))
    lines += [Roll(box.number, None, _reason(state, box, at_ms), box.heard_at_ms, box.gateway) for box in unlisted(state)]
    return sorted(lines, key=lambda line: (line.slot or "~", line.container))


def unlisted(state: WatchState) -> list[Box]:
    """Return the boxes heard aboard that are on no list, and those carried past the port of their discharge."""
    listed = state.stowage.boxes
    there = (box for number, box in sorted(state.memory.boxes.items()) if box.aboard and number not in listed)
    return [box for box in there if not state.discharges(box.number) or any(reported.startswith("X_OVERCARRIED") for reported in box.told)]


def muster_event(state: WatchState, at_ms: int, why: str, lines: Sequence[Roll] = ()) -> MadeRecord:
    """Return the X_MUSTER record: N of M accounted for, by reason and by bay (`{"018": [accounted, instrumented]}`), and the boxes that are
    not.

    A box is accounted for if it was heard aboard and has missed nothing since, or if a person saw it. `not_heard`: not due yet; `reported`:
    those of `gone` whose loss was reported. The lists have at most 500 numbers for each reason; the counts are complete. `lines`: the
    muster of that instant, if it exists already."""
    lines = lines or muster(state, at_ms)
    expected = [line for line in lines if line.slot is not None]
    instrumented = [line for line in expected if line.reason != "not_instrumented"]
    bays: dict[str, list[int]] = {}
    for line in instrumented:
        count = bays.setdefault((line.slot or "")[:3], [0, 0])
        count[0] += line.reason in ACCOUNTED
        count[1] += 1
    listed = state.current_list()
    body: dict[str, Any] = {
        "why": why,
        "call": None if listed is None else listed.call,
        "total": len(expected),
        "instrumented": len(instrumented),
        "accounted": sum(line.reason in ACCOUNTED for line in instrumented),
        "reasons": dict(sorted(Counter(line.reason for line in expected).items())),
        "bays": bays,
        "not_on_list": [line.container for line in lines if line.slot is None][:NAMED_MAX],
    }
    for reason in ("not_heard", "late", "gateway_silent", "missing", "gone"):
        body[reason] = [line.container for line in expected if line.reason == reason][:NAMED_MAX]
    states = ((line.container, state.memory.boxes.get(line.container)) for line in expected if line.reason == "gone")
    body["reported"] = [number for number, box in states if box is not None and box.state in REPORTED_STATES][:NAMED_MAX]
    never = [line.container for line in instrumented if not line.last_heard_at_ms and state.loads(line.container)]
    body["not_heard_since_loading"] = never[:NAMED_MAX]
    return event(state.settings.place, state.settings.place.log_topic, "X_MUSTER", at_ms, **body)


def _reason(state: WatchState, box: Box, at_ms: int) -> Reason:
    if box.state in GONE_STATES:
        return "gone"
    if box.state == "COLLAPSED_ON_BOARD":
        return "collapsed"
    if box.state == "DISCHARGED":
        return "ashore"
    if box.by_hand:
        return "seen"
    known = BoxReport(
        box.heard_at_ms or None,
        state.interval_ms(box, at_ms),
        silent_from_ms=state.silent_from_ms(box),
        below_deck=state.stowage.on_deck(box.number) is False,
    )
    counts = account(known, at_ms)
    if counts in accounted_boxes.ACCOUNTED:
        return _REASONS[counts]
    never_came = box.state == "MISSING" and not box.heard_at_ms
    if not box.heard_at_ms and not never_came and in_time(at_ms - state.silent_from_ms(box), known.interval_ms):
        return "not_heard"
    return _BY_STATE.get(box.state, "late")


_REASONS: dict[Account, Reason] = {"heard": "heard", "below_deck_not_due": "below_deck_not_due", "not_due": "not_due"}
_BY_STATE: dict[str, Reason] = {"GATEWAY_OUTAGE": "gateway_silent", "MISSING": "missing", "DEVICE_FAULT": "missing"}


def statement(lines: Sequence[Roll], at_ms: int) -> list[int]:
    """Return what the ship states of its muster, in the order of STATED; nothing where no box is aboard.

    Boxes that are lost or ashore are in no count."""
    counted: Counter[str] = Counter()
    for line in lines:
        if line.reason in ("gone", "ashore"):
            continue
        if line.reason in ACCOUNTED:
            counted["accounted"] += 1
            counted["not_due"] += line.reason in ("below_deck_not_due", "not_due")
        elif line.reason == "not_instrumented":
            counted["no_tracker"] += 1
        elif line.reason == "missing":
            counted["missing"] += 1
        else:
            counted[age_band(at_ms - line.last_heard_at_ms) if line.last_heard_at_ms else "never"] += 1
    return [counted[name] for name in STATED] if counted else []


def read_statement(counts: object) -> dict[str, int]:
    """Return the counts of a statement by name. Raises BadEntry for any other value."""
    are_counts = isinstance(counts, list) and all(type(one) is int and 0 <= one <= BOXES_MAX for one in counts)
    if not isinstance(counts, list) or not are_counts or len(counts) != len(STATED):
        raise BadEntry(f"a statement of a muster has {len(STATED)} counts", code="statement_unreadable")
    return dict(zip(STATED, counts, strict=True))
