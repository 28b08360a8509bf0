"""What a person aboard says of a silent or lost box: the record that keeps it, and what the watch makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cargo.boxes import Box
from cargo.errors import Unreadable
from cargo.incidents import probably_lost
from cargo.judge import case_of, refuted
from cargo.lost import DECIDED_BY_PEOPLE, Evidence, State, decide
from cargo.outcome import Made, Outcome, event
from cargo.registry import AtMs, need_plain
from cargo.state import WatchState

Word = Literal["seen", "collapsed", "gone", "ashore"]
MEANS: Mapping[Word, tuple[State, ...]] = {
    "seen": ("FOUND", "DEVICE_FAULT"),
    "collapsed": ("COLLAPSED_ON_BOARD",),
    "gone": ("CONFIRMED_LOST",),
    "ashore": ("DISCHARGED",),
}
"""What a box becomes by a person's word: the first of these that follows from its present state."""
WORDS: Mapping[Word, str] = {
    "seen": "seen on board",
    "collapsed": "seen on board, its stack collapsed",
    "gone": "count taken: gone",
    "ashore": "was put ashore",
}
CHARS_MAX = 200
_Short = Annotated[str, Meta(max_length=CHARS_MAX)]


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a record of `decisions`: of which container, on which ship (IMO number), what was said, when (fleet time, UTC ms), by
    whom, and a note."""

    container: _Short
    ship: str
    said: Word
    at_ms: AtMs
    by: Annotated[str, Meta(min_length=1, max_length=CHARS_MAX)]
    note: _Short = ""

    def made(self) -> Made:
        """The record."""
        return Made(self.container, self.at_ms, msgspec.to_builtins(self))


def read_said(body: Mapping[str, Any]) -> Said:
    """`body` (a JSON object already read). Raises Unreadable, naming field and reason."""
    try:
        need_plain(body)
        said = msgspec.convert(body, Said)
        if not said.by.strip() or not f"{said.by}{said.note}".isprintable():
            raise ValueError("who says it gives a name, and name and note are printable")
        return said
    except ValueError as problem:
        raise Unreadable(f"what a person says of a box does not read: {problem}") from problem


def may_say(box_state: State | None) -> list[Word]:
    """What a person may say of a box in this state (None: never heard of)."""
    follows = DECIDED_BY_PEOPLE.get(box_state, frozenset()) if box_state else frozenset()
    return [word for word, states in MEANS.items() if follows.intersection(states)]


def take_said(state: WatchState, said: Said) -> Outcome:
    """What the watch makes of it. The same record in the same place of the log makes the same again. Raises ValueError when it does not
    follow from the box's present state: it spoke since, or somebody else was first."""
    box = state.memory.boxes.get(said.container)
    follows = DECIDED_BY_PEOPLE.get(box.state, frozenset()) if box else frozenset()
    to = next((one for one in MEANS[said.said] if one in follows), None)
    if box is None or to is None:
        raise ValueError(f"{said.container} is {box.state if box else 'unknown'}: of that nobody can say {WORDS[said.said]!r}")
    at_ms = max(said.at_ms, state.memory.settled_at_ms)
    detail = f"{WORDS[said.said]}, says {said.by}" + (f": {said.note}" if said.note else "")
    person = Evidence("person", said.said, 0.0, detail, said.at_ms)
    if to == "CONFIRMED_LOST" and not box.alert_id and box.heard_at_ms:
        decision = decide(case_of(state, box, at_ms), state.settings.weights)
        probably_lost(state, box, at_ms, msgspec.structs.replace(decision, posterior=1.0, evidence=(person, *decision.evidence)))
        box.state = "PROBABLE_OVERBOARD"
    outcome = decide_by_hand(state, said.container, to, at_ms, said.by)
    outcome.alerts = [_signed(made, person, said) for made in outcome.alerts]
    return outcome


def decide_by_hand(state: WatchState, number: str, to: State, at_ms: int, by: str) -> Outcome:
    """What a person decides about a silent or lost box: confirmed lost, reported, found, a fault of the device.

    Raises ValueError when that does not follow from its present state.
    """
    box = state.memory.boxes.get(number)
    if box is None or to not in DECIDED_BY_PEOPLE.get(box.state, ()):
        raise ValueError(f"{number} is {box.state if box else 'unknown'}: it can not become {to}")
    _take_back(state, box, to, at_ms)
    box.state = to
    if to == "CONFIRMED_LOST":
        state.outcome.events.append(event(state.settings.place, number, "X_LOST_OVERBOARD", box.lost_at_ms or box.heard_at_ms, by=by))
    state.recount(at_ms)
    made, state.outcome = state.outcome, Outcome()
    return made


def _take_back(state: WatchState, box: Box, to: State, at_ms: int) -> None:
    if box.alert_id and to in {"FOUND", "DEVICE_FAULT", "COLLAPSED_ON_BOARD"}:
        refuted(state, box, at_ms)


def _signed(made: Made, person: Evidence, said: Said) -> Made:
    """An alert that a person's word raised or took back says so; the incident's stays as it is, of all its boxes."""
    if made.topic != said.container:
        return made
    if made.body["state"] != "retracted":
        return replace(made, body={**made.body, "by": said.by, "status": "CONFIRMED_LOST"})
    told = {"by": said.by, "detail": person.detail, "evidence": [msgspec.to_builtins(person)]}
    return replace(made, body={**made.body, **told})
