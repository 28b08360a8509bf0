"""Events in the log for a box's changes of state that raise no alert, each with its evidence.

A gateway that is out silences hundreds of boxes. The log then has one event when the first of them changes, and one when one is heard
again; the musters list the boxes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import Decision, Evidence
from cargo.loss.watch_outcome import MadeRecord, digest, event
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.instants import time_text

OUT, BACK = "X_GATEWAY_OUTAGE", "X_GATEWAY_BACK"


def heard_again(box: Box, at_ms: int) -> Evidence:
    """Return the evidence that the box is there: it was heard at that time (UTC ms)."""
    return Evidence("presence", "heard_again", 0.0, f"heard again at {time_text(at_ms)} by {box.gateway or 'the ship'}", at_ms)


def pieces(evidence: Iterable[Evidence]) -> list[dict[str, Any]]:
    """Return evidence in the form it has in a body."""
    return [msgspec.to_builtins(piece) for piece in evidence]


def missing(state: WatchState, box: Box, decision: Decision) -> None:
    """Write the event that the box is missing since it fell silent."""
    _silent(state, box, "X_MISSING", box.base_ms(), decision)


def device_fault(state: WatchState, box: Box, at_ms: int, decision: Decision) -> None:
    """Write the event that its device is considered faulty, as of `at_ms` (UTC ms)."""
    _silent(state, box, "X_DEVICE_FAULT", at_ms, decision)


def found(state: WatchState, box: Box, at_ms: int, evidence: Iterable[Evidence], **more: Any) -> None:
    """Write the event that the box, which was in the state `status` of `more`, is aboard."""
    fields = {"gateway": box.gateway or None, **more, "evidence": pieces(evidence)}
    state.outcome.events.append(event(state.settings.place, box.number, "X_FOUND", at_ms, **fields))


def gateway_out(state: WatchState, box: Box, at_ms: int, decision: Decision) -> None:
    """Write the event that a gateway is out, with the evidence of the first box that is silent for that reason since its last outage."""
    gateway = state.memory.gateways.get(box.gateway)
    if gateway is not None and not gateway.out_told_ms:
        gateway.out_told_ms = at_ms
        _of_gateway(state, box, OUT, at_ms, decision.evidence, since_at_ms=box.base_ms())


def gateway_back(state: WatchState, box: Box, at_ms: int) -> None:
    """Write the event that a gateway is back: a box that was silent because of its outage is heard again."""
    gateway = state.memory.gateways.get(box.gateway)
    if gateway is not None and gateway.out_told_ms:
        since_ms, gateway.out_told_ms = gateway.out_told_ms, 0
        _of_gateway(state, box, BACK, at_ms, [heard_again(box, at_ms)], since_at_ms=since_ms)


def _silent(state: WatchState, box: Box, code: str, at_ms: int, decision: Decision) -> None:
    made = event(
        state.settings.place,
        box.number,
        code,
        at_ms,
        last_heard_at_ms=box.heard_at_ms or None,
        gateway=box.gateway or None,
        slot=state.slot_text(box.number),
        posterior=round(decision.posterior, 6),
        evidence=pieces(decision.evidence),
    )
    state.outcome.events.append(made)


def _of_gateway(state: WatchState, box: Box, code: str, at_ms: int, evidence: Iterable[Evidence], **more: Any) -> None:
    place = state.settings.place
    made = event(place, place.log_topic, code, at_ms, gateway=box.gateway, container=box.number, evidence=pieces(evidence), **more)
    id_ = digest(place.side, place.log_topic, code, box.gateway, at_ms)
    state.outcome.events.append(MadeRecord(made.topic, made.at_ms, {**made.body, "event_id": id_}))
