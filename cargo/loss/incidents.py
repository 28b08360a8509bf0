"""Losses gathered into incidents (one ship, neighbouring bays, ten minutes), and the alerts that report and retract them.

The FINAL report completes an incident: it clears the alert of each box in the report, and the incident's with the last of them. The boxes
stay lost, as the status of their alerts shows. Later facts change the cleared alert, or retract it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cargo.alerts.alert_log import Alert, AlertState, Figure, alert_id
from cargo.alerts.alert_timestamps import record_change, replace_change
from cargo.loss.container_state import Box, BoxLoss
from cargo.loss.loss_classifier import (
    GONE_STATES,
    LAST_WORDS_MS,
    REPORTED_STATES,
    ROLL_WINDOW_MS,
    Decision,
    Evidence,
    State,
    Witness,
    counted,
)
from cargo.loss.state_changes import found, heard_again, pieces
from cargo.loss.watch_outcome import digest, event
from cargo.loss.watch_state import Incident, WatchState
from cargo.vocabulary.geo import distance_nm
from cargo.vocabulary.instants import time_text, window_text

INCIDENT_WINDOW_MS = 10 * 60_000
INCIDENT_BAYS = 4
CORRECTED_NM = 1.0
"""Error of an estimated position of a loss above which it is reported again, nautical miles."""
SPOKE_ON_MS = LAST_WORDS_MS + 30_000
"""Maximum time between the first message of a fall and its last, ms: the clocks are up to half a minute wrong (DOMAIN.md 6)."""
REPORTED_WORDS: dict[State, str] = {"REPORTED_INITIAL": ", reported", "REPORTED_FINAL": ", reported for good"}
FINALLY = "finally_reported"
"""Signal of the evidence that a FINAL report was sent (`cargo.alerts.crew_decisions.Word`)."""


def probably_lost(state: WatchState, box: Box, at_ms: int, decision: Decision) -> None:
    """Raise the alert of one box as part of an incident, with the time and place of the loss, and raise or update the incident's own
    alert."""
    lost_at = _lost_at_ms(box, decision)
    first = min(decision.evidence, key=lambda piece: (piece.at_ms, piece.signal))
    until = lost_until_ms(lost_at, ((piece.family, piece.at_ms) for piece in decision.evidence), at_ms)
    incident = _incident_of(state, box.number, lost_at, until)
    rolled_deg, rolled_at_ms, _ = state.memory.voyage.roll(lost_at - ROLL_WINDOW_MS, lost_at)
    incident.rolled = max(incident.rolled, (rolled_deg, rolled_at_ms))
    box.incident_id, box.lost_at_ms = incident.id, lost_at
    box.alert_id = alert_id(state.settings.place.side, "lost_container", box.number, first)
    detail = "; ".join([f"lost {window_text(lost_at, until)}", *(piece.detail for piece in decision.evidence)])
    box.loss = BoxLoss(detail, decision.posterior, decision.evidence)
    record_change(state, _box_alert(state, box, "raised", at_ms))
    more = {
        "incident_id": incident.id,
        "alert_id": box.alert_id,
        "slot": state.slot_text(box.number),
        "position": position_of(state, lost_at),
        "last_heard_at_ms": box.heard_at_ms or None,
        "first_missed_at_ms": box.base_ms() + state.interval_ms(box, at_ms),
        "decided_at_ms": at_ms,
        "posterior": round(decision.posterior, 6),
        "evidence": pieces(decision.evidence),
    }
    state.outcome.events.append(event(state.settings.place, box.number, "X_PROBABLE_OVERBOARD", lost_at, **more))
    _report_incident(state, incident, at_ms)


def confirmed(state: WatchState, box: Box, at_ms: int, witness: Witness) -> None:
    """Record that a witness confirmed the loss of this box (whose state is set already), in its alert and its incident's."""
    known = box.loss or BoxLoss("", 0.0, ())
    evidence = (witness.proof, *(piece for piece in known.evidence if piece.family != "person" or piece.signal in {"reported", FINALLY}))
    box.loss = BoxLoss(known.detail, 1.0, evidence)
    replace_change(state, replace(_box_alert(state, box, _still(box), at_ms), by=witness.by))
    lost_at = box.lost_at_ms or box.heard_at_ms
    sure = {"by": witness.by, "evidence": pieces(evidence)}
    state.outcome.events.append(event(state.settings.place, box.number, "X_LOST_OVERBOARD", lost_at, **sure))
    if box.incident_id:
        _report_incident(state, state.memory.incidents[box.incident_id], at_ms, witness.by)


def reported(state: WatchState, box: Box, at_ms: int, witness: Witness) -> None:
    """Record that a report of the loss of this box (whose state is set already) was sent, in its alert and its incident's.

    The alerts name who recorded it, and are cleared where the report was the FINAL. The probability of the loss does not change by it."""
    known = box.loss or BoxLoss("", 0.0, ())
    earlier = (piece for piece in known.evidence if piece.family != "person" or piece.signal == "gone")
    box.loss = BoxLoss(known.detail, known.posterior, (witness.proof, *earlier))
    replace_change(state, replace(_box_alert(state, box, _still(box), at_ms), by=witness.by))
    if box.incident_id:
        _report_incident(state, state.memory.incidents[box.incident_id], at_ms, witness.by)


def found_again(state: WatchState, box: Box, at_ms: int, witness: Witness | None = None) -> None:
    """Retract the alert of a box that was heard again, or that a witness saw, and update its incident's alert.

    The incident's alert is retracted too when no box of it is left."""
    proof = witness.proof if witness else heard_again(box, at_ms)
    retracted = _box_alert(state, box, "retracted", at_ms)
    retraction = replace(
        retracted, detail=proof.detail, evidence=(proof,), posterior=0.0, status="FOUND", by=witness.by if witness else None
    )
    record_change(state, retraction)
    found(state, box, at_ms, [proof], incident_id=box.incident_id, alert_id=box.alert_id)
    incident = state.memory.incidents[box.incident_id]
    incident.found = sorted({*incident.found, box.number})
    box.incident_id, box.alert_id, box.loss = "", "", None
    _report_incident(state, incident, at_ms, retraction.by)


def closed_text(at_ms: int, why: str) -> str:
    """Return the end of an incident's text once its FINAL report is sent: when (UTC ms), and why in words."""
    return f"; closed at {time_text(at_ms)}: {why}"


def position_of(state: WatchState, at_ms: int) -> dict[str, Any] | None:
    """Return where the ship was at that time, as an alert's position: an estimate of where a box lost then fell."""
    where = state.memory.voyage.position_at(at_ms)
    if where is None:
        return None
    return {"latitude_deg": round(where[0], 6), "longitude_deg": round(where[1], 6), "basis": "ESTIMATED", "at_ms": at_ms}


def run_on_positions(state: WatchState) -> dict[str, tuple[float, float] | None]:
    """Return the estimated positions of the lost boxes that fell after the ship's last fix, from its last speed and course."""
    voyage = state.memory.voyage
    return {
        number: voyage.position_at(lost_at_ms)
        for incident in state.memory.incidents.values()
        for number, lost_at_ms in incident.lost.items()
        if lost_at_ms > voyage.fixed_until_ms() and number not in incident.found
    }


def correct_positions(state: WatchState, run_on: dict[str, tuple[float, float] | None], at_ms: int) -> None:
    """Report the losses again whose position, now that the ship's next fix is known, is more than `CORRECTED_NM` from the estimate."""
    for incident in state.memory.incidents.values():
        corrected = False
        for number in sorted(run_on.keys() & incident.lost.keys()):
            estimate, position = run_on[number], state.memory.voyage.position_at(incident.lost[number])
            if position is None or (estimate is not None and distance_nm(*estimate, *position) <= CORRECTED_NM):
                continue
            corrected = True
            if (box := state.memory.boxes.get(number)) is not None and box.alert_id:
                replace_change(state, _box_alert(state, box, _still(box), at_ms))
        if corrected:
            _report_incident(state, incident, at_ms)


def _lost_at_ms(box: Box, decision: Decision) -> int:
    """Return the time of the first blow when there was one, else when it was last heard (both on the ship's clock)."""
    blows = [piece.at_ms for piece in decision.evidence if piece.family == "kinematic"]
    return min(min(blows), box.heard_at_ms) if blows else box.heard_at_ms or box.waiting_from_ms


def lost_until_ms(lost_at_ms: int, evidence: Iterable[tuple[str, int]], decided_at_ms: int) -> int:
    """Return the end of the window of a box's loss, which begins at `lost_at_ms`; times UTC ms.

    It is `lost_at_ms` where the box measured a blow and sent no message more than SPOKE_ON_MS after it, else when the loss was decided.
    `evidence`: family and time of each piece.
    """
    known = list(evidence)
    blows = [at_ms for family, at_ms in known if family == "kinematic"]
    last_heard = max((at_ms for family, at_ms in known if family == "presence"), default=0)
    return lost_at_ms if blows and last_heard - min(blows) <= SPOKE_ON_MS else decided_at_ms


def incident_id(raiser: str, number: str, lost_at_ms: int) -> str:
    """Return the incident's id: its raiser, as in an alert's id, and a hash of its first loss."""
    return f"{raiser}-{digest('incident', raiser, number, lost_at_ms)}"


def _incident_of(state: WatchState, number: str, lost_at_ms: int, until_at_ms: int) -> Incident:
    """Return the incident of this loss: within ten minutes of it and four bays; otherwise a new one.

    `until_at_ms`: the end of the window of the loss (UTC ms)."""
    slot = state.stowage.slots.get(number)
    for incident in sorted(state.memory.incidents.values(), key=lambda known: (known.first_at_ms, known.id)):
        in_time = incident.first_at_ms - INCIDENT_WINDOW_MS <= lost_at_ms <= incident.last_at_ms + INCIDENT_WINDOW_MS
        adjacent = slot is None or not incident.bays or any(abs(slot.bay - bay) <= INCIDENT_BAYS for bay in incident.bays)
        if in_time and adjacent:
            break
    else:
        id_ = incident_id(state.settings.place.side, number, lost_at_ms)
        incident = state.memory.incidents[id_] = Incident(id_, lost_at_ms, lost_at_ms, until_at_ms, [], {})
    incident.first_at_ms = min(incident.first_at_ms, lost_at_ms)
    incident.last_at_ms = max(incident.last_at_ms, lost_at_ms)
    incident.until_at_ms = max(incident.until_at_ms, until_at_ms)
    incident.lost[number] = lost_at_ms
    incident.found = [found for found in incident.found if found != number]
    if slot is not None and slot.bay not in incident.bays:
        incident.bays = sorted([*incident.bays, slot.bay])
    return incident


def _still(box: Box) -> AlertState:
    """Return the change of a lost box's alert that adds to it: the alert stays cleared once the FINAL report is sent."""
    return "cleared" if box.state == "REPORTED_FINAL" else "updated"


def _box_alert(state: WatchState, box: Box, change: AlertState, at_ms: int) -> Alert:
    loss = box.loss or BoxLoss("", 0.0, ())
    words = "lost overboard" if counted(loss.evidence) else "probably overboard"
    return Alert(
        alert_id=box.alert_id,
        topic=box.number,
        rule="lost_container",
        severity="CRITICAL",
        state=change,
        at_ms=at_ms,
        title=f"{box.number} {words}{REPORTED_WORDS.get(box.state, '')}",
        detail="; ".join([*(piece.detail for piece in loss.evidence if piece.family == "person"), loss.detail]),
        ship=state.settings.place.ship,
        incident_id=box.incident_id,
        slot=state.slot_text(box.number),
        status=box.state if box.state in GONE_STATES else "PROBABLE_OVERBOARD",
        position=position_of(state, box.lost_at_ms),
        evidence=loss.evidence,
        posterior=loss.posterior,
    )


def _report_incident(state: WatchState, incident: Incident, at_ms: int, by: str | None = None) -> None:
    """Write the incident's alert to the ship's log: how many boxes, how many of them confirmed, which bays, when and where.

    The alert lists the boxes without a working tracker that are at risk. `by`: the person who changes it. The alert is cleared where the
    FINAL report contains all boxes that stay lost: it then says who sent the report and when."""
    lost = sorted(set(incident.lost) - set(incident.found))
    boxes = [state.memory.boxes[number] for number in lost if number in state.memory.boxes]
    sure = sum(box.loss is not None and counted(box.loss.evidence) for box in boxes)
    reported_count = sum(box.state in REPORTED_STATES for box in boxes)
    status = _incident_status(boxes, len(lost), sure)
    over = status == "REPORTED_FINAL"
    change: AlertState = "retracted" if not lost else "cleared" if over else "updated" if incident.raised else "raised"
    incident.raised = True
    bays = ", ".join(f"{bay:03d}" for bay in incident.bays) or "unknown"
    mute = {box.number for box in state.memory.boxes.values() if box.by_hand}
    at_risk = state.stowage.at_risk(lost, mute)
    is_at_risk = "is at risk" if len(at_risk) == 1 else "are at risk"
    at_risk_text = f"; {len(at_risk)} without a working tracker in the same stacks {is_at_risk}" if at_risk else ""
    detail = f"bay {bays}, {window_text(incident.first_at_ms, incident.until_at_ms)}{at_risk_text}"
    first = Evidence("incident", incident.id, 0.0, detail, incident.first_at_ms)
    sent = [(piece.at_ms, piece.detail) for box in boxes if box.loss for piece in box.loss.evidence if piece.signal == FINALLY]
    closed = closed_text(*max(sent)) if over and sent else ""
    alert = Alert(
        alert_id=f"{state.settings.place.side}-{digest('alert', 'incident', incident.id)}",
        topic=state.settings.place.log_topic,
        rule="incident",
        severity="CRITICAL",
        state=change,
        at_ms=at_ms,
        title=_incident_title(len(lost), sure, reported_count, over=over),
        detail=f"{detail}{closed}" if lost else f"all {len(incident.found)} were found",
        ship=state.settings.place.ship,
        incident_id=incident.id,
        status=status,
        position=position_of(state, incident.first_at_ms),
        evidence=(first,),
        by=by,
        figure=Figure(len(lost), "containers", 0.0, "up") if lost else None,
        incident={
            "containers": lost,
            "at_risk": at_risk,
            "bays": incident.bays,
            "from_at_ms": incident.first_at_ms,
            "until_at_ms": incident.until_at_ms,
        },
    )
    replace_change(state, alert)


def _incident_status(boxes: list[Box], lost: int, sure: int) -> State:
    """Return the state of the incident: the state that each of its boxes has reached."""
    states = {box.state for box in boxes} if len(boxes) == lost else set()
    if not lost:
        return "FOUND"
    if states and states <= REPORTED_STATES:
        return "REPORTED_FINAL" if states == {"REPORTED_FINAL"} else "REPORTED_INITIAL"
    return "CONFIRMED_LOST" if sure == lost else "PROBABLE_OVERBOARD"


def _incident_title(lost: int, sure: int, reported: int, *, over: bool) -> str:
    boxes = f"{lost} container{'s' if lost != 1 else ''}"
    certain = "lost overboard" if lost and sure == lost else "probably overboard"
    some = f", {sure} of them for certain" if 0 < sure < lost else ""
    if over:
        return f"{boxes} {certain}{some}{REPORTED_WORDS['REPORTED_FINAL']}"
    sent = "" if not reported else ", reported" if reported == lost else f", {reported} of them reported"
    return f"{boxes} {certain}{some}{sent}"
