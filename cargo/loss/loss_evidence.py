"""Puts one silent box before the lost-container decision: gathers its case from the watch's memory, and acts on the change of state."""

from __future__ import annotations

from itertools import islice

import msgspec

from cargo.loss.container_state import Box
from cargo.loss.incidents import INCIDENT_BAYS, found_again, probably_lost
from cargo.loss.loss_classifier import (
    GONE_STATES,
    GROUP_MIN,
    GROUP_WINDOW_MS,
    KINEMATIC_WINDOW_MS,
    ROLL_WINDOW_MS,
    Case,
    Decision,
    decide,
    shortcut_armed,
    shortcut_silence_ms,
)
from cargo.loss.report_interval import GRACE_MS_MIN, INTERVAL_MS_MIN, grace_ms
from cargo.loss.roll_call import LOOK_AGAIN_MS, WAITED_FOR_MS, announces_next_report, silent_fellows, unanswered_at_ms, unanswered_ms
from cargo.loss.state_changes import device_fault, found, gateway_back, gateway_out, heard_again, missing, pieces
from cargo.loss.watch_outcome import event
from cargo.loss.watch_state import WatchState
from cargo.rules.silence import end_silence, end_switches, note_silence

PEERS_MIN = 5
OFF_TRACK_MAX, OFF_TOGETHER_MS = 2, 3 * 3_600_000
AROUND_MS = 10 * 60_000
"""Maximum time in which a box may have fallen silent for a loss next to it to count, milliseconds.

If the box may have fallen silent at any time within an hour, a loss next to it says little: it may have been any dead device."""
LIKE_INTERVAL = 1.25
MOTION_SPAN_MS_MAX = 60 * 60_000
AGAIN_MS_MIN = 60_000
OUTAGE_AGAIN_MS = 5 * 60_000
AGAIN_MS_MAX = 6 * 3_600_000
_ABSENT = frozenset({"MISSING", "DEVICE_FAULT"})


def judge(state: WatchState, box: Box, at_ms: int) -> None:
    """Decide on one box as of `at_ms`, and wake it again when there is more to decide.

    At the berth boxes come and go: none is missing there."""
    if box.by_hand or box.state in GONE_STATES or (box.state == "DISCHARGED" and not box.aboard):
        return
    if box.fixes:
        judge_fixes(state, box)
    if box.state == "ONBOARD" and box.shock is None and at_ms >= box.call_until_ms:
        first = state.missed_at_ms(box, at_ms, 1)
        if at_ms < first:
            state.wake(box, first)
            return
    decision = decide(case_of(state, box, at_ms), state.settings.weights)
    if decision.state == "MISSING" and not state.memory.voyage.at_sea:
        decision = msgspec.structs.replace(decision, state="LATE")
    if decision.state != box.state and not _stays(state, box, decision):
        _turn(state, box, at_ms, decision)
    wake_next(state, box, at_ms)
    note_silence(state, box, at_ms)


def _stays(state: WatchState, box: Box, decision: Decision) -> bool:
    """Return whether the box keeps its state: a fallen box while it lies; a missing one in port; one never heard until it is heard or
    discharged."""
    if box.state == "MISSING" and not box.heard_at_ms:
        return decision.state != "DISCHARGED"
    kept = box.state == "COLLAPSED_ON_BOARD" or (box.state == "MISSING" and not state.memory.voyage.at_sea)
    return kept and decision.state in {"ONBOARD", "LATE"}


def wake_next(state: WatchState, box: Box, at_ms: int) -> None:
    """Schedule the decision on the box for the next instant at which its silence can change its state."""
    if box.by_hand or box.state in GONE_STATES or box.state == "DISCHARGED":
        return
    silence_ms = armed_ms(state, box)
    if silence_ms:
        short = at_ms - state.silent_ms(box, at_ms) + silence_ms + 1
        if short > at_ms:
            state.wake(box, short)
    called = unanswered_at_ms(state, box, at_ms)
    if called and at_ms < called + WAITED_FOR_MS:
        state.wake(box, called if called > at_ms else at_ms + LOOK_AGAIN_MS)
    first = state.missed_at_ms(box, at_ms, 1)
    second = state.missed_at_ms(box, at_ms, state.patience(box))
    patience = OUTAGE_AGAIN_MS if box.state == "GATEWAY_OUTAGE" else AGAIN_MS_MIN
    again = at_ms + min(max(patience, state.interval_ms(box, at_ms) // 2, state.silent_ms(box, at_ms) // 4), AGAIN_MS_MAX)
    state.wake(box, first if first > at_ms else second if second > at_ms else again)


def wake_after_news(state: WatchState, box: Box, at_ms: int) -> None:
    """Schedule the decision on the box after it reported; an earlier schedule that is early enough stays."""
    if box.due_at_ms and box.due_at_ms <= at_ms + INTERVAL_MS_MIN + GRACE_MS_MIN and box.shock is None:
        return
    if box.state == "ONBOARD" and box.shock is None and at_ms >= box.call_until_ms:
        state.wake(box, state.missed_at_ms(box, at_ms, 1))
    else:
        wake_next(state, box, at_ms)


def armed_ms(state: WatchState, box: Box) -> int:
    """Return the silence that completes the shortcut; 0 when more than silence is missing."""
    if box.shock is None or box.free_fall is None:
        return 0
    case = _bare_case(state, box, box.heard_at_ms)
    return shortcut_silence_ms(case) if shortcut_armed(case) else 0


def case_of(state: WatchState, box: Box, at_ms: int) -> Case:
    """Return the case of one box as of `at_ms`. Facts that only an open case needs are gathered only then."""
    bare = _bare_case(state, box, at_ms)
    serious = (
        bare.unanswered_ms
        or bare.silent_ms >= bare.patience * bare.interval_ms + bare.grace_ms
        or (shortcut_armed(bare) and bare.silent_ms > shortcut_silence_ms(bare))
    )
    return _full_case(state, box, bare) if serious else bare


def _bare_case(state: WatchState, box: Box, at_ms: int) -> Case:
    interval = state.interval_ms(box, at_ms)
    return Case(
        now_at_ms=at_ms,
        newest_at_ms=box.newest_at_ms,
        heard_at_ms=box.heard_at_ms,
        silent_ms=max(0, state.silent_ms(box, at_ms)),
        interval_ms=interval,
        grace_ms=grace_ms(interval),
        gateway_alive=True,
        heard_share=None,
        at_sea=state.memory.voyage.at_sea,
        leaving=state.discharges(box.number),
        unanswered_ms=unanswered_ms(state, box, at_ms),
        patience=state.patience(box),
        on_deck=state.stowage.on_deck(box.number),
        exposed=False,
        deck_fall_ms=state.stowage.deck_fall_ms(box.number),
        shock=box.shock if box.shock is not None and _since_sailing(state, box.shock[1]) else None,
        free_fall=box.free_fall if box.free_fall is not None and _since_sailing(state, box.free_fall[1]) else None,
    )


def _since_sailing(state: WatchState, at_ms: int) -> bool:
    """Return whether a blow was measured on this leg: a blow at the berth was handling."""
    return at_ms >= state.memory.voyage.sailed_at_ms


def _full_case(state: WatchState, box: Box, bare: Case) -> Case:
    now, heard = bare.now_at_ms, box.heard_at_ms
    roll, roll_at, growing = state.memory.voyage.roll(heard - ROLL_WINDOW_MS, min(now, heard + min(bare.interval_ms, MOTION_SPAN_MS_MAX)))
    gateway = state.memory.gateways.get(box.gateway)
    group = silent_together(state, box, now)
    with_them, then = _rolled_with(state, group)
    if with_them > roll:  # it went when they did, not when it last spoke
        roll, roll_at = with_them, then
    never = not box.heard_at_ms
    spoke_at = state.memory.spoke_at_ms if never else gateway.heard_at_ms if gateway is not None else 0
    share, all_gone = (None, False) if never else heard_share(state, box, now, bare.interval_ms)
    alive = now - spoke_at <= bare.interval_ms + bare.grace_ms or all_gone
    return msgspec.structs.replace(
        bare,
        gateway_alive=alive,
        heard_share=share if alive else None,
        gateway_restarted=not never and ((box.state == "GATEWAY_OUTAGE" and not all_gone) or state.began_in_an_outage(box)),
        exposed=state.stowage.exposed(box.number),
        tilt=box.tilt,
        tilt_lasts_ms=box.tilt[1] - box.tilt_from_ms if box.tilt is not None else 0,
        group=group,
        roll_deg=roll,
        roll_growing=growing,
        roll_at_ms=roll_at,
        sockets=sockets_dead(state, box),
        down=fell_and_speak(state, box),
        fixes_nm=box.fixes_nm,
        promised_ms=box.again_ms if announces_next_report(state, box) else 0,
        fellows=silent_fellows(state, box, now),
        below=lost_below(state, box),
        carries=carried_by(state, box, now),
        battery_low=box.battery_low,
        rssi_sliding=box.rssi_sliding,
    )


def heard_share(state: WatchState, box: Box, at_ms: int, interval_ms: int) -> tuple[float | None, bool]:
    """Return the share of boxes that missed nothing, and whether a measured loss explains the silence of all that are silent.

    The share is of the gateway's other boxes that report as often as this one: None for fewer than 5 of them. In the second case no box is
    left to report, and the gateway's silence is no outage.

    Boxes already known as lost are left out. So is the cluster of neighbours on deck that fell silent with this one, while it is no more
    than half of them, or one of it was struck: an outage silences others too, and strikes none. So are other clusters of which at least
    half were struck."""
    count = state.count_like(box, at_ms, interval_ms * LIKE_INTERVAL)
    total = count.heard + count.silent - count.elsewhere
    if total >= PEERS_MIN and (count.struck or 2 * count.together <= total):
        total -= count.together
    return (count.heard / total, False) if total >= PEERS_MIN else (None, count.felt)


def silent_together(state: WatchState, box: Box, at_ms: int) -> tuple[str, ...]:
    """Return the boxes of its stack and of the stacks next to it, itself included, that fell silent within 2 minutes of it.

    See `_silent_with`. Boxes lost in the time in which it must have fallen silent count too. Where all these are fewer than a group, the
    boxes of an incident known by then count (`_lost_around`)."""
    first_missed_ms = box.heard_at_ms + state.interval_ms(box, box.heard_at_ms)
    found = []
    for number in state.stowage.near(box.number):
        other = state.memory.boxes.get(number)
        if other is None or not other.heard_at_ms:
            continue
        went_then = other.state in GONE_STATES and box.heard_at_ms - GROUP_WINDOW_MS <= other.lost_at_ms <= first_missed_ms
        if (went_then and other is not box) or _silent_with(state, box, other, at_ms):
            found.append(number)
    around = () if len(found) >= GROUP_MIN else _lost_around(state, box, first_missed_ms)
    return around if len(around) >= GROUP_MIN else tuple(found)


def _silent_with(state: WatchState, box: Box, other: Box, at_ms: int) -> bool:
    """Return whether `other` fell silent within 2 minutes of this box, and neither radio losses nor a fault of its device explain it."""
    if abs(other.heard_at_ms - box.heard_at_ms) > GROUP_WINDOW_MS:
        return False
    if other.state in GONE_STATES:
        return True
    if at_ms < state.missed_at_ms(other, at_ms, state.patience(other)) and not unanswered_ms(state, other, at_ms):
        return False
    return other is box or not (other.battery_low or other.rssi_sliding)


def _rolled_with(state: WatchState, group: tuple[str, ...]) -> tuple[float, int]:
    """Return the largest roll (degrees) shortly before the loss of those of the group that are reported lost, and its time."""
    incidents = {state.memory.boxes[number].incident_id for number in group if state.memory.boxes[number].state in GONE_STATES}
    return max((state.memory.incidents[id_].rolled for id_ in incidents if id_), default=(0.0, 0))


def _lost_around(state: WatchState, box: Box, first_missed_ms: int) -> tuple[str, ...]:
    """Return the boxes of the bays around, of any stack, that are reported lost in the time in which this box on deck must have fallen
    silent.

    Return none where that time is longer than AROUND_MS."""
    slot = state.stowage.slots.get(box.number)
    if slot is None or not slot.on_deck or not box.heard_at_ms or first_missed_ms - box.heard_at_ms > AROUND_MS:
        return ()
    lost_numbers = []
    for incident in state.memory.incidents.values():
        for number, lost_at_ms in incident.lost.items():
            other_slot = state.stowage.slots.get(number)
            adjacent = other_slot is not None and number not in incident.found and abs(other_slot.bay - slot.bay) <= INCIDENT_BAYS
            if adjacent and number != box.number and box.heard_at_ms - GROUP_WINDOW_MS <= lost_at_ms <= first_missed_ms:
                lost_numbers.append(number)
    return tuple(sorted(lost_numbers))


def sockets_dead(state: WatchState, box: Box) -> tuple[str, ...]:
    """Return the reefers of its stack that lost power within 2 minutes of its own power off or last message, if there are at least 2."""
    found = []
    for number in state.stowage.stack_of(box.number):
        other = state.memory.boxes.get(number)
        if other is not None and other.power_off_at_ms and abs(other.power_off_at_ms - box.newest_at_ms) <= GROUP_WINDOW_MS:
            found.append(number)
    return tuple(found)


def judge_fixes(state: WatchState, box: Box) -> None:
    """Check its waiting positions against the ship's track.

    If the positions of two more boxes, which stand elsewhere, leave the track too, the ship's own position is wrong, and no box's position
    counts."""
    box.judge_fixes(state.memory.voyage)
    state.changed(box)
    if not box.off_at_ms:
        state.off_track.pop(box.number, None)
        return
    state.off_track[box.number] = None
    near = {*state.stowage.near(box.number), box.number}
    others = (state.memory.boxes[number] for number in state.off_track if number not in near and number in state.memory.boxes)
    apart = islice((one for one in others if abs(one.off_at_ms - box.off_at_ms) <= OFF_TOGETHER_MS), OFF_TRACK_MAX)
    if len(list(apart)) == OFF_TRACK_MAX:
        box.fixes_nm, box.off_since_ms = (), 0


def lost_below(state: WatchState, box: Box) -> tuple[str, ...]:
    """Return the boxes under it that are reported lost, at or after the time of its last message."""
    under = (state.memory.boxes.get(number) for number in state.stowage.under(box.number))
    since_ms = box.heard_at_ms - KINEMATIC_WINDOW_MS
    return tuple(one.number for one in under if one is not None and one.state in GONE_STATES and one.lost_at_ms >= since_ms)


def carried_by(state: WatchState, box: Box, at_ms: int) -> tuple[str, ...]:
    """Return the boxes that stand on it and report since its message was due.

    They were neither struck nor tilted, so it is still under them."""
    every_ms = box.again_ms if announces_next_report(state, box) else state.interval_ms(box, at_ms)
    since_ms = box.heard_at_ms + every_ms + grace_ms(every_ms)
    upper_boxes = (state.memory.boxes.get(number) for number in state.stowage.over(box.number))
    return tuple(
        upper_box.number
        for upper_box in upper_boxes
        if upper_box is not None
        and upper_box.state == "ONBOARD"
        and upper_box.heard_at_ms > since_ms
        and upper_box.tilt is None
        and (upper_box.shock is None or upper_box.shock[1] < box.newest_at_ms - KINEMATIC_WINDOW_MS)
    )


def fell_and_speak(state: WatchState, box: Box) -> tuple[str, ...]:
    """Return the boxes of its stack and next to it that were struck within 2 minutes of its fall and spoke after that: they lie aboard."""
    if box.free_fall is None:
        return ()
    found = []
    for number in state.stowage.near(box.number):
        other = state.memory.boxes.get(number)
        if other is None or other is box or other.shock is None or other.state in GONE_STATES:
            continue
        if abs(other.shock[1] - box.free_fall[1]) <= KINEMATIC_WINDOW_MS and other.said_more():
            found.append(number)
    return tuple(found)


def _turn(state: WatchState, box: Box, at_ms: int, decision: Decision) -> None:
    """Apply a change of state."""
    state.changed(box)
    before, box.state = box.state, decision.state
    if decision.state == "PROBABLE_OVERBOARD":
        if not box.heard_at_ms:
            box.state = before
            return
        end_silence(state, box, at_ms, "now probably overboard")
        end_switches(state, box, at_ms, "now probably overboard")
        probably_lost(state, box, at_ms, decision)
        state.recount(at_ms)
    elif decision.state == "DISCHARGED":
        end_silence(state, box, at_ms, "discharged")
        _discharged(state, box, decision)
        state.recount(at_ms)
    elif decision.state == "MISSING":
        missing(state, box, decision)
        state.recount(at_ms)
    elif decision.state == "DEVICE_FAULT":
        device_fault(state, box, at_ms, decision)
    elif decision.state == "GATEWAY_OUTAGE":
        gateway_out(state, box, at_ms, decision)
    elif before in _ABSENT and decision.state in {"ONBOARD", "LATE"}:
        found(state, box, at_ms, decision.evidence, status=before)  # it was not due after all (a storm's end, an outage)
        state.recount(at_ms)
    if decision.state in {"MISSING", "PROBABLE_OVERBOARD"}:
        for number in state.stowage.near(box.number):
            other = state.memory.boxes.get(number)
            if other is not None and other is not box and other.state in {"MISSING", "DEVICE_FAULT", "GATEWAY_OUTAGE"}:
                state.wake(other, at_ms)


def _discharged(state: WatchState, box: Box, decision: Decision) -> None:
    listed = state.current_list()
    box.aboard, box.first_at_ms = False, 0
    if listed is None or f"DISC {listed.id}" in box.told:
        return
    box.told = (*box.told, f"DISC {listed.id}")
    at_ms = box.heard_at_ms or box.waiting_from_ms
    more = {"place": listed.port, "call": listed.call, "listed": True, "basis": "list", "evidence": pieces(decision.evidence)}
    discharge = event(state.settings.place, box.number, "DISC", at_ms, **more)
    state.outcome.events.append(discharge)


def refuted(state: WatchState, box: Box, at_ms: int, said_at_ms: int) -> None:
    """Withdraw the results of its silence, because the box was heard aboard at `at_ms`, with a message of `said_at_ms` by its own clock.

    A message that it sent as it fell, and that comes only now, withdraws nothing."""
    if box.state in GONE_STATES:
        if box.fell_with(said_at_ms):
            return
        found_again(state, box, at_ms)
        box.state = "FOUND"
        state.recount(at_ms)
    elif box.state in _ABSENT:
        found(state, box, at_ms, [heard_again(box, at_ms)], status=box.state)
        box.state = "ONBOARD"
        state.recount(at_ms)
    elif box.state == "GATEWAY_OUTAGE":
        gateway_back(state, box, at_ms)
        box.state = "ONBOARD"
    elif box.state in {"LATE", "FOUND", "DISCHARGED"}:
        box.state = "ONBOARD"
