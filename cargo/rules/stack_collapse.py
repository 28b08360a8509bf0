"""A stack that collapsed aboard: a box that lies tilted for minutes and still reports is no loss, and the crew should know."""

from __future__ import annotations

from cargo.alerts.alert_log import Alert, AlertState, alert_id
from cargo.alerts.alert_timestamps import record_change
from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import Evidence, Witness
from cargo.loss.watch_outcome import event
from cargo.loss.watch_state import WatchState

COLLAPSE_MS = 2 * 60_000


def stack_down(state: WatchState, box: Box, at_ms: int) -> None:
    """Raise COLLAPSED_ON_BOARD when the residual tilt lasts for 2 minutes at sea and the box is heard; clear it when the box stands
    upright."""
    lying = box.tilt is not None and box.tilt[1] - box.tilt_from_ms >= COLLAPSE_MS
    if lying and box.state != "COLLAPSED_ON_BOARD" and state.memory.voyage.at_sea:
        box.state = "COLLAPSED_ON_BOARD"
        report_collapse(state, box, at_ms, "raised")
        tilt = round(box.tilt[0], 1) if box.tilt is not None else 0.0
        state.outcome.events.append(event(state.settings.place, box.number, "X_TILT", box.tilt_from_ms, tilt_deg=tilt))
        state.recount(at_ms)
    elif box.state == "COLLAPSED_ON_BOARD" and box.tilt is None and box.tilt_rest_deg is not None:
        stands_again(state, box, at_ms)


def stands_again(state: WatchState, box: Box, at_ms: int) -> None:
    """Clear the alert of a collapsed box: it stands upright, or the ship sails again from a port where it was put right."""
    report_collapse(state, box, at_ms, "cleared")
    box.state, box.alert_id = "ONBOARD", ""
    state.recount(at_ms)


def report_collapse(state: WatchState, box: Box, at_ms: int, change: AlertState, witness: Witness | None = None) -> None:
    """Report the alert of rule `stack_down` for this box: from its tilt, or from a witness."""
    tilt = box.tilt[0] if box.tilt is not None else 0.0
    detail = f"lies tilted {tilt:.0f}° and still speaks" if change == "raised" else "stands upright again"
    proof = witness.proof if witness else Evidence("kinematic", "tilt", 0.0, detail, box.tilt_from_ms or at_ms)
    if change == "raised":
        box.alert_id = alert_id(state.settings.place.side, "stack_down", box.number, proof)
    alert = Alert(
        alert_id=box.alert_id,
        topic=box.number,
        rule="stack_down",
        severity="ALARM",
        state=change,
        at_ms=at_ms,
        title=f"{box.number}: a stack is down",
        detail=proof.detail,
        ship=state.settings.place.ship,
        slot=state.slot_text(box.number),
        status="COLLAPSED_ON_BOARD",
        evidence=(proof,),
        by=witness.by if witness else None,
    )
    record_change(state, alert)
