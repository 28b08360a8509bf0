"""Goal: each change of a box's state is in the log with its evidence, also those that raise no alert; of a gateway that is out once."""

from __future__ import annotations

from typing import Any

import pytest

from cargo.alerts.crew_decisions import CrewDecision, take_said
from cargo.loss.muster import muster
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from tests.cargo.faults import of_boxes, of_gateway, without
from tests.cargo.test_presence import CALL_MS, second_call, voyage
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, number, settings, told, watch

SILENT_MS = SAILS_MS + 6 * HOUR_MS
END_MS = SAILS_MS + 16 * HOUR_MS


def signals_of(made: MadeRecord) -> set[str]:
    """The signals of an event's evidence, each piece of which is whole."""
    evidence: list[dict[str, Any]] = made.body["evidence"]
    assert evidence
    assert all(set(piece) == {"family", "signal", "weight", "detail", "at_ms"} and piece["detail"] for piece in evidence)
    return {piece["signal"] for piece in evidence}


def test_a_gateway_that_is_out_is_told_once_with_its_evidence_and_when_it_is_back() -> None:
    """Through a restart of the watch too."""
    sea = Sea(boxes=96)
    rows = without(sea.readings(END_MS), of_gateway("GW-1"), SILENT_MS, SILENT_MS + 5 * HOUR_MS)
    half_ms = SILENT_MS + 4 * HOUR_MS
    state, made = watch(sea, [row for row in rows if row.order_at_ms <= half_ms])
    (out,) = told(made.events, event="X_GATEWAY_OUTAGE")
    assert (out.topic, out.body["gateway"]) == (f"{SHIP}.log", "GW-1")
    assert SILENT_MS - 2 * HOUR_MS <= out.body["since_at_ms"] <= SILENT_MS < out.body["event_at_ms"]
    assert signals_of(out) >= {"silence", "gateway"}
    silent = {line.container for line in muster(state, half_ms) if line.reason == "gateway_silent"}
    assert out.body["container"] in silent
    assert len(silent) > 10
    again = from_snapshot(snapshot_of(state), settings())
    made = step(again, [row for row in rows if row.order_at_ms > half_ms])
    made.add(advance(again, END_MS + MINUTE_MS))
    (back,) = told(made.events, event="X_GATEWAY_BACK")
    assert (back.body["gateway"], back.body["since_at_ms"]) == ("GW-1", out.body["event_at_ms"])
    assert signals_of(back) == {"heard_again"}
    assert not told(made.events, event="X_GATEWAY_OUTAGE")
    assert back.body["event_id"] != out.body["event_id"]


def test_a_device_that_fails_is_told_and_found_with_evidence() -> None:
    """Its battery ran low before it fell silent: a fault of the device; heard again it is found, and from what is said."""
    sea = Sea(boxes=96)
    low = [sea.says(5, SILENT_MS - 30 * MINUTE_MS, battery_mv=3_000)]
    rows = without(sea.readings(END_MS, low), of_boxes(5), SILENT_MS - 10 * MINUTE_MS, SILENT_MS + 6 * HOUR_MS)
    _, made = watch(sea, rows)
    (fault,) = [one for one in told(made.events, event="X_DEVICE_FAULT") if one.topic == number(5)]
    assert signals_of(fault) >= {"silence", "battery"}
    assert 0 < fault.body["posterior"] < 0.5
    (found,) = [one for one in told(made.events, event="X_FOUND") if one.topic == number(5)]
    assert (found.body["status"], signals_of(found)) == ("DEVICE_FAULT", {"heard_again"})


def test_a_missing_box_that_is_heard_again_is_found_with_evidence() -> None:
    sea = Sea(boxes=96)
    _, made = watch(sea, without(sea.readings(END_MS), of_boxes(5), SILENT_MS, SILENT_MS + 6 * HOUR_MS))
    (found,) = told(made.events, event="X_FOUND")
    assert (found.topic, found.body["status"], signals_of(found)) == (number(5), "MISSING", {"heard_again"})


def test_who_is_put_ashore_is_discharged_with_evidence() -> None:
    """By the list and its silence at the call, and by a person's word."""
    sea = Sea(boxes=24)
    end = CALL_MS + 30 * HOUR_MS
    boxes = [heard for heard in sea.readings(end) if "." not in heard.topic]
    made = voyage(sea, second_call(sea, range(8)), without(boxes, of_boxes(*range(8)), CALL_MS + 2 * HOUR_MS, 1 << 62), end)
    discharged = told(made.events, event="DISC")
    assert len(discharged) == 8
    assert all("discharge" in signals_of(one) for one in discharged)


@pytest.mark.parametrize(("word", "code"), [("ashore", "DISC"), ("seen", "X_FOUND"), ("gone", "X_LOST_OVERBOARD")])
def test_what_a_person_says_is_the_evidence(word: Any, code: str) -> None:
    sea = Sea(boxes=24)
    state, _ = watch(sea, without(sea.readings(END_MS), of_boxes(5), SILENT_MS, 1 << 62))
    made: WatchOutcome = take_said(state, CrewDecision(number(5), SHIP, word, END_MS, "Mate Meyer"))
    (one,) = told(made.events, event=code)
    assert (one.topic, one.body["by"]) == (number(5), "Mate Meyer")
    assert word in signals_of(one)
