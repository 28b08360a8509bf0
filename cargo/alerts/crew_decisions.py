"""Reports of people aboard on silent or lost boxes, and on the sending of a loss report: their record, and their effect on the watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cargo.errors import BadEntry, CargoError
from cargo.loss.container_state import Box
from cargo.loss.incidents import confirmed, found_again, probably_lost, reported
from cargo.loss.loss_classifier import DECIDED_BY_PEOPLE, GONE_STATES, REPORTED_STATES, Decision, Evidence, State, Witness, decide
from cargo.loss.loss_evidence import case_of
from cargo.loss.state_changes import found, pieces
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, event
from cargo.loss.watch_state import WatchState
from cargo.rules.silence import end_silence
from cargo.rules.stack_collapse import report_collapse
from cargo.vocabulary.registry_entries import AtMs, need_plain

Word = Literal["seen", "collapsed", "gone", "ashore", "reported", "finally_reported"]
MEANS: Mapping[Word, tuple[State, ...]] = {
    "seen": ("FOUND", "DEVICE_FAULT"),
    "collapsed": ("COLLAPSED_ON_BOARD",),
    "gone": ("CONFIRMED_LOST",),
    "ashore": ("DISCHARGED",),
    "reported": ("REPORTED_INITIAL",),
    "finally_reported": ("REPORTED_FINAL",),
}
"""State of a box after a person's report: the first of these that may follow its present state."""
WORDS: Mapping[Word, str] = {
    "seen": "seen on board",
    "collapsed": "seen on board, its stack collapsed",
    "gone": "count taken: gone",
    "ashore": "was put ashore",
    "reported": "its loss was reported",
    "finally_reported": "its loss was reported for good",
}
BY_REPORT: frozenset[Word] = frozenset({"reported", "finally_reported"})
"""Reports that no person makes directly: the ship's node writes them with the sending of a loss report."""
CHARS_MAX = 200
_Short = Annotated[str, Meta(max_length=CHARS_MAX)]


class CrewDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's report on a silent or lost container of a ship (IMO number), at fleet time `at_ms` (UTC ms), with a note.

    The node itself writes `reported` and `finally_reported` when a loss report is sent. `clock_doubted`: it doubted its own clock then."""

    container: _Short
    ship: str
    said: Word
    at_ms: AtMs
    by: Annotated[str, Meta(min_length=1, max_length=CHARS_MAX)]
    note: _Short = ""
    clock_doubted: bool | UnsetType = UNSET

    def made(self) -> MadeRecord:
        """Return the record."""
        return MadeRecord(self.container, self.at_ms, msgspec.to_builtins(self))


def read_said(body: Mapping[str, Any]) -> CrewDecision:
    """Return the decision in `body` (a JSON object already read). Raises BadEntry, which names field and reason."""
    try:
        need_plain(body)
        said = msgspec.convert(body, CrewDecision)
        if not said.by.strip() or not f"{said.by}{said.note}".isprintable():
            raise CargoError("who says it gives a name, and name and note are printable", code="by_invalid")
        return said
    except ValueError as problem:
        raise BadEntry(f"what a person says of a box does not read: {problem}", code="decision_unreadable") from problem


def may_say(box_state: State | None) -> list[Word]:
    """Return what a person may report of a box in this state (None: an unknown box)."""
    follows = DECIDED_BY_PEOPLE.get(box_state, frozenset()) if box_state else frozenset()
    return [word for word, states in MEANS.items() if word not in BY_REPORT and follows.intersection(states)]


def said_by_report(box_state: State | None, *, final: bool) -> list[Word]:
    """Return what the sending of a report records of a box in this state, in order; nothing for a box not lost, or already recorded so."""
    if box_state not in GONE_STATES:
        return []
    first: list[Word] = [] if box_state in REPORTED_STATES else ["reported"]
    return [*first, "finally_reported"] if final and box_state != "REPORTED_FINAL" else first


def take_said(state: WatchState, said: CrewDecision) -> WatchOutcome:
    """Apply a person's decision and return the outcome. The same record in the same place of the log gives the same outcome.

    Where the node doubted its clock, the decision is of the time that the ship's readings show. Raises ValueError when it does not follow
    from the box's present state: the box reported since, or another person was first."""
    box = state.memory.boxes.get(said.container)
    follows = DECIDED_BY_PEOPLE.get(box.state, frozenset()) if box else frozenset()
    to = next((one for one in MEANS[said.said] if one in follows), None)
    if box is None or to is None:
        raise CargoError(
            f"{said.container} is {box.state if box else 'unknown'}: of that nobody can say {WORDS[said.said]!r}", code="said_not_possible"
        )
    settled_at_ms = state.memory.settled_at_ms
    said_at_ms = settled_at_ms if said.clock_doubted is True else said.at_ms  # a time of years ahead would outlast all later changes
    at_ms = max(said_at_ms, settled_at_ms)
    detail = f"{WORDS[said.said]}, says {said.by}" + (f": {said.note}" if said.note else "")
    witness = Witness(said.by, Evidence("person", said.said, 0.0, detail, said_at_ms))
    return decide_by_hand(state, said.container, to, at_ms, witness)


def decide_by_hand(state: WatchState, number: str, to: State, at_ms: int, witness: Witness) -> WatchOutcome:
    """Apply a person's decision about a silent or lost box: confirmed lost, reported, found, a fault of the device, fallen, ashore.

    It stays until the box is heard, or the ship sails from the next port. Raises ValueError when it does not follow from its present
    state."""
    box = state.memory.boxes.get(number)
    if box is None or to not in DECIDED_BY_PEOPLE.get(box.state, ()):
        raise CargoError(f"{number} is {box.state if box else 'unknown'}: it can not become {to}", code="said_not_possible")
    end_silence(state, box, at_ms, witness.proof.detail)
    if to in GONE_STATES:
        _gone(state, box, to, at_ms, witness)
    else:
        _accounted_for(state, box, to, at_ms, witness)
    state.changed(box)
    state.recount(at_ms)
    made, state.outcome = state.outcome, WatchOutcome()
    return made


def _gone(state: WatchState, box: Box, to: State, at_ms: int, witness: Witness) -> None:
    """Record a loss that a person confirms or reports, and raise the alert first for a box that was only missing."""
    if not box.alert_id:
        known = decide(case_of(state, box, at_ms), state.settings.weights)
        evidence = known.evidence if box.heard_at_ms else (witness.proof,)
        probably_lost(state, box, at_ms, Decision("PROBABLE_OVERBOARD", known.posterior, evidence))
    if to in REPORTED_STATES:
        box.state = to
        reported(state, box, at_ms, witness)
        return
    box.state = to if box.state not in REPORTED_STATES else box.state
    confirmed(state, box, at_ms, witness)


def _accounted_for(state: WatchState, box: Box, to: State, at_ms: int, witness: Witness) -> None:
    if box.alert_id:
        found_again(state, box, at_ms, witness)
    elif to == "DISCHARGED":
        more = {"place": None, "listed": False, "basis": "person", "by": witness.by, "evidence": pieces([witness.proof])}
        state.outcome.events.append(event(state.settings.place, box.number, "DISC", at_ms, **more))
    else:
        found(state, box, at_ms, [witness.proof], gateway=None, status="MISSING", by=witness.by)
    box.state, box.by_hand = to, True
    if to == "COLLAPSED_ON_BOARD":
        report_collapse(state, box, at_ms, "raised", witness)
    if to == "DISCHARGED":
        box.aboard, box.first_at_ms = False, 0
