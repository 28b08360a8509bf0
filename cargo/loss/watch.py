"""The watch of a ship or a quay: readings in, events and alerts out, in the time of the readings themselves.

It is a discrete-event loop. Each reading is put in order of its time and held back for the allowed lateness. It is then processed together
with the timers (a box falling due, a muster) as the trusted clock passes them. So the outcome depends on what was measured. It does not
depend on batches, on repeats, on restarts, or on an order disturbed by less than the lateness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

import msgspec

from cargo.alerts.alert_log import Alert
from cargo.alerts.alert_timestamps import record_change
from cargo.loss.container_state import Box, Gateway
from cargo.loss.event_time import SOUND_MS
from cargo.loss.incidents import correct_positions, run_on_positions
from cargo.loss.loss_classifier import FREE_FALL_MS, GONE_STATES, SHOCK_G, State
from cargo.loss.loss_evidence import judge, judge_fixes, refuted, wake_after_news
from cargo.loss.muster import muster_event
from cargo.loss.presence import expect_aboard, find_call, heard_aboard, heard_on_quay, judge_on_quay, ship_called
from cargo.loss.reading_rows import Heard, Value, ship_topic
from cargo.loss.report_interval import LIKE_PART, grace_ms
from cargo.loss.roll_call import ANSWER_MS_MAX, STRUCK_WORDS, call, expect_again, note_answer
from cargo.loss.state_pruner import forget
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, event
from cargo.loss.watch_state import OUTAGE_MS_MIN, PENDING_MAX, BookingTerms, WatchState
from cargo.rules.episodes import RuleMemory, Where
from cargo.rules.reading_rules import judge_reading
from cargo.rules.silence import end_silence
from cargo.rules.stack_collapse import stack_down
from cargo.rules.temperature import TEMPERATURE, Late, correct_reading
from cargo.vocabulary.registry_entries import Booking, Entry, LoadList, Port, SizeType

FOREVER = 1 << 62
NO_GATEWAY = ""
GATEWAYS_MAX = 2_000
"""Maximum number of gateways remembered. Beyond it, readings count as received by no gateway, so that made-up names take no more memory."""
OUTAGE_READINGS = 10
PROMPT_MS = 30_000
"""Maximum delay at which a reading counts as not stored on its way, milliseconds: device clocks are wrong by up to this."""
BLOWS = (("X_SHOCK", "shock_g", SHOCK_G + 1e-9), ("X_FREE_FALL", "free_fall_ms", FREE_FALL_MS))
"""Blows that are events: the code, the signal, and its minimum value."""


SPANS_MAX = 4
_OPEN: frozenset[State] = frozenset({"ONBOARD", "LATE"})


def hear_again(state: WatchState, row: Heard) -> None:
    """Process the next reading of a watch that was down (`EventClock.resume`): no box is silent for time in which no node listened.

    Readings that other nodes of the ship or port received meanwhile come first: in that time a node listened. In the rest, a box may have
    sent messages that no node received. Its silence before that time counts. A box whose reading was due in that time counts as heard at
    its end."""
    span = state.memory.clock.unheard(row)
    if span is not None:
        _leave_out(state, *span)


def leave_out_again(state: WatchState, box: Box) -> None:
    """Exclude the spans in which no node listened from the silence of a box whose last message, sent before such a span, is processed only
    now."""
    box.listened_from_ms = 0
    for since_ms, until_ms in state.memory.down:
        _leave_out_of(state, box, since_ms, until_ms)


def _leave_out(state: WatchState, since_ms: int, until_ms: int) -> None:
    """Exclude a span (UTC ms by the node's clock) in which no node listened.

    Earlier decisions on a box stand: a missing box stays missing."""
    memory = state.memory
    memory.down = [*memory.down[1 - SPANS_MAX :], (since_ms, until_ms)]
    if until_ms - since_ms < state.settings.deaf_ms:
        memory.voyage.unfelt(since_ms, until_ms)
    for box in memory.boxes.values():
        if box.state in _OPEN:
            _leave_out_of(state, box, since_ms, until_ms)
    state.all_changed()


def _leave_out_of(state: WatchState, box: Box, since_ms: int, until_ms: int) -> None:
    from_ms = state.silent_from_ms(box)
    if 0 < from_ms < until_ms:
        again = from_ms > since_ms or _was_due(state, box, since_ms, until_ms)
        box.listened_from_ms = until_ms if again else from_ms + until_ms - since_ms
    if box.heard_at_ms < until_ms and until_ms - since_ms >= (STRUCK_WORDS - 1) * box.again_ms:
        box.again_ms = 0  # what it promised after a blow it may have kept, and all words that end the promise have said so unheard


def _was_due(state: WatchState, box: Box, since_ms: int, until_ms: int) -> bool:
    """Return whether the box may have sent in the span: a message was due by its own announcement or by its habit, or the box was
    called."""
    if not box.heard_at_ms:
        return False
    interval_ms = box.again_ms or state.interval_ms(box, since_ms)
    before_ms, after_ms = since_ms - box.heard_at_ms, until_ms - box.heard_at_ms
    missed = max(0, before_ms - grace_ms(interval_ms)) // interval_ms
    return since_ms < box.call_until_ms or after_ms >= (missed + 1) * interval_ms * (1 - LIKE_PART)


def step(state: WatchState, heard: Iterable[Heard]) -> WatchOutcome:
    """Process readings in the order of the log (or of arrival) and return the records that they cause.

    Changes `state`. The caller appends the outcome and then stores the snapshot: a repetition after a crash makes the same records with the
    same ids."""
    lateness, pending = state.settings.lateness_ms, state.memory.pending
    clock, ship = state.memory.clock, f"{state.settings.place.ship}."
    for row in heard:
        if clock.resumes_at_ms:
            hear_again(state, row)
        at_ms = clock.hear(row, from_ship=row.topic.startswith(ship))
        if at_ms > state.memory.settled_at_ms:
            heappush(pending, (at_ms, row))
            state.note_waiting(at_ms, row)
            if len(pending) > PENDING_MAX:
                clock.advance(pending[0][0] + lateness)
        else:
            _take(state, at_ms, row, late=True)
        if clock.now_at_ms - lateness > state.memory.settled_at_ms:
            _settle(state, clock.now_at_ms - lateness)
    return _handed_over(state)


def arrived(state: WatchState, at_ms: int | None = None) -> WatchOutcome:
    """Record that all readings that the node received by `at_ms` have been processed, and return the outcome.

    `at_ms`: UTC ms by the node's clock; None: the time of the last reading. Timers that fall due meanwhile run, although no reading gives
    the time. Without readings, the time advances for one minute at most."""
    clock = state.memory.clock
    clock.arrive(clock.arrived_at_ms if at_ms is None else at_ms)
    if clock.now_at_ms - state.settings.lateness_ms > state.memory.settled_at_ms:
        _settle(state, clock.now_at_ms - state.settings.lateness_ms)
    return _handed_over(state)


def falls_due_ms(state: WatchState) -> int | None:
    """Return when to call `arrived` although nothing arrives (UTC ms by the node's clock): a timer fires, or a blow is processed.

    None: a reading must arrive first."""
    memory = state.memory
    due_at_ms = _next_timer(state, FOREVER)
    blow_at_ms = state.waiting.next_blow_at_ms(memory.settled_at_ms)
    due_at_ms = due_at_ms if blow_at_ms is None else min(due_at_ms, blow_at_ms)
    return memory.clock.arrives_ms(max(due_at_ms, memory.settled_at_ms + 1) + state.settings.lateness_ms)


def advance(state: WatchState, at_ms: int) -> WatchOutcome:
    """Advance the trusted clock to at least `at_ms` (UTC ms, fleet time), for a node that has read all its records and knows the time."""
    state.memory.clock.advance(at_ms)
    _settle(state, state.memory.clock.now_at_ms - state.settings.lateness_ms)
    return _handed_over(state)


def learn(state: WatchState, entries: Iterable[Entry]) -> WatchOutcome:
    """Apply registry entries: load lists of this ship (or calling at this quay), ports, bookings, sizes and types.

    All other entries are ignored. Later versions win."""
    memory, place = state.memory, state.settings.place
    for entry in entries:
        if isinstance(entry.value, Port):
            memory.ports[entry.value.locode] = entry.value
        elif isinstance(entry.value, Booking):
            asked = None if entry.value.limits is msgspec.UNSET else entry.value.limits
            state.book(entry.id, entry.value.containers, BookingTerms(entry.value.setpoint_c, asked))
        elif isinstance(entry.value, SizeType):
            state.set_size_type(entry.id, entry.value.limits)
        elif isinstance(entry.value, LoadList) and (entry.value.ship == place.ship or entry.value.port == place.port):
            memory.lists[entry.value.id] = entry.value
            state.restow()
            if place.ship is not None:
                _choose_list(state)
    return _handed_over(state)


def _handed_over(state: WatchState) -> WatchOutcome:
    made, state.outcome = state.outcome, WatchOutcome()
    return made


def _choose_list(state: WatchState) -> None:
    """Choose the list in force after a load list arrived: it may be the list of this call, the first list in force, or a new version of
    it."""
    memory = state.memory
    if memory.voyage.berth:
        find_call(state, memory.settled_at_ms)
    elif not memory.listed and memory.settled_at_ms:
        left = [listed for listed in memory.lists.values() if listed.departs_at_ms <= memory.settled_at_ms]
        memory.listed = max(left, key=lambda listed: listed.call).id if left else ""
        state.restow()
    if memory.listed:
        expect_aboard(state, memory.settled_at_ms, sailing=False)


def _settle(state: WatchState, until_ms: int) -> None:
    """Process readings and timers in order of time, up to and including `until_ms`. A reading comes before a timer of the same instant.

    Timers wait while the node itself receives nothing: readings that a deaf node misses are no silence."""
    memory, pending = state.memory, state.memory.pending
    while True:
        reading_at = pending[0][0] if pending else FOREVER
        timer_at = _next_timer(state, min(reading_at, until_ms))
        if timer_at > memory.spoke_at_ms + state.settings.deaf_ms:
            timer_at = FOREVER
        at_ms = min(reading_at, timer_at)
        if at_ms > until_ms:
            break
        if at_ms > memory.settled_at_ms:
            memory.settled_at_ms = at_ms
        if reading_at <= timer_at:
            _, row = heappop(pending)
            while pending and pending[0][0] == at_ms and pending[0][1].repeats(row):
                heappop(pending)
            _take(state, at_ms, row, late=False)
        else:
            _ring(state, max(timer_at, memory.deaf_until_ms))
    memory.settled_at_ms = max(memory.settled_at_ms, until_ms)


def _next_timer(state: WatchState, until_ms: int) -> int:
    """Return when the earliest timer fires, if that is up to `until_ms`; else a later time."""
    memory, timers = state.memory, state.timers
    timer_at = _box_timer(state) if timers and timers[0][0] <= until_ms else FOREVER
    if 0 < memory.muster_at_ms < timer_at:
        timer_at = memory.muster_at_ms
    if 0 < memory.recount_at_ms < timer_at:
        timer_at = memory.recount_at_ms
    return timer_at


def _box_timer(state: WatchState) -> int:
    """Return when the next box falls due, and drop timers that were moved."""
    while state.timers:
        at_ms, number = state.timers[0]
        box = state.memory.boxes.get(number)
        if box is not None and box.due_at_ms == at_ms:
            return at_ms
        heappop(state.timers)
    return FOREVER


def _ring(state: WatchState, at_ms: int) -> None:
    """Run the earliest timer: a muster, or the decision on a box."""
    memory = state.memory
    if memory.muster_at_ms and memory.muster_at_ms <= min(at_ms, _box_timer(state)):
        forget(state, at_ms)
        _muster(state, at_ms, "six_hours")
        _next_muster(state, at_ms)
    elif memory.recount_at_ms and memory.recount_at_ms <= min(at_ms, _box_timer(state)):
        _muster(state, at_ms, "change")
    else:
        _, number = heappop(state.timers)
        box = memory.boxes[number]
        box.due_at_ms = 0
        if state.settings.place.ship is not None:
            judge(state, box, at_ms)
        else:
            judge_on_quay(state, box, at_ms)


def _muster(state: WatchState, at_ms: int, why: str) -> None:
    state.memory.recount_at_ms = 0
    if state.settings.place.ship is not None and state.memory.voyage.at_sea and state.stowage.boxes:
        state.outcome.events.append(muster_event(state, at_ms, why))


def _next_muster(state: WatchState, at_ms: int) -> None:
    every = state.settings.muster_every_ms
    state.memory.muster_at_ms = (at_ms // every + 1) * every


def _take(state: WatchState, at_ms: int, row: Heard, *, late: bool) -> None:
    """Process one reading of the time `at_ms` at its turn. `late`: its turn has passed."""
    memory = state.memory
    now = max(at_ms, memory.settled_at_ms) if late else at_ms
    if now - memory.spoke_at_ms > state.settings.deaf_ms:
        memory.deaf_until_ms = now
        _next_muster(state, now)
    if now > memory.spoke_at_ms:
        memory.spoke_at_ms = now
    kind = ship_topic(row.topic)
    if kind is None:
        _take_box(state, at_ms, row, late=late)
    elif row.topic.startswith(f"{state.settings.place.ship}."):
        _take_ship(state, at_ms, kind, row.signals)


def _take_ship(state: WatchState, at_ms: int, kind: str, signals: Mapping[str, Value]) -> None:
    voyage = state.memory.voyage
    if kind == "location" and at_ms > voyage.fixed_until_ms():
        run_on = run_on_positions(state)
        call = voyage.locate(at_ms, signals, state.memory.ports)
        correct_positions(state, run_on, max(at_ms, state.memory.settled_at_ms))
        if call is not None:
            ship_called(state, call)
            if call.code == "DEPA":
                now = max(at_ms, state.memory.settled_at_ms)
                _muster(state, now, "departure")
                _next_muster(state, now)
        elif not state.memory.listed and not state.memory.call:
            _choose_list(state)
    elif kind == "environment" and (not voyage.rolls or at_ms > voyage.rolls[-1][0]) and voyage.feel(at_ms, signals):
        for box in state.memory.boxes.values():
            box.habit.storm_begins()
        state.all_changed()


def _take_box(state: WatchState, at_ms: int, row: Heard, *, late: bool) -> None:
    """Process a reading of a box.

    Its facts always count. It counts as heard, and the rules apply, only when the reading is newer than the last."""
    if not state.has_room(row.topic):
        state.outcome.unwatched += 1
        return
    box, row = state.box(row.topic), state.memory.clock.less_old(row)
    state.changed(box)
    before, promised = box.newest_at_ms, box.again_ms > 0
    box.fold(at_ms, row.signals, state.memory.voyage)
    settled = state.memory.settled_at_ms
    if at_ms < before:
        _correct(state, box, at_ms, settled, row.signals)
        if state.settings.place.ship is not None and any(float(row.signals.get(blow, 0.0)) >= least for _, blow, least in BLOWS):
            state.wake(box, settled)  # the messages of a fall overtook one another, by a clock that is behind: nothing newer may come
        return
    _judge_now(state, box, at_ms, row.signals, historical=late and settled - at_ms > state.settings.historical_ms)
    if at_ms == before:
        return
    heard_at = _heard_at(state, at_ms, row, late=late)
    kept = late and settled - at_ms > OUTAGE_MS_MIN
    _note_gateway(state, box, heard_at, str(row.signals.get("gateway", box.gateway)), kept=kept)
    if not promised:
        _note_gap(state, box, before, at_ms, heard_at)
    box.newest_at_ms, box.heard_at_ms = at_ms, max(box.heard_at_ms, heard_at)
    if state.memory.down and box.heard_at_ms < state.memory.down[-1][1]:
        leave_out_again(state, box)
    if late and settled - at_ms > PROMPT_MS:
        box.again_ms = 0  # what it said since may be on its way as well
    if float(row.signals.get("shock_g", 0.0)) > SHOCK_G:
        call(state, box, heard_at)
        expect_again(state, box, heard_at)
    if not box.aboard and not box.first_at_ms:
        box.first_at_ms = heard_at
    if state.settings.place.ship is not None:
        _aboard_again(state, box, heard_at, at_ms)
    else:
        heard_on_quay(state, box, heard_at)
        state.wake(box, state.missed_at_ms(box, heard_at, 2))


def _heard_at(state: WatchState, at_ms: int, row: Heard, *, late: bool) -> int:
    """Return when the node received the reading; silence is measured from this time.

    The device's clock is accepted as far as the arrival confirms it: not after the arrival, nor more than the lateness before it. A reading
    that comes more than 20 minutes late keeps its own time."""
    lateness, settled = state.settings.lateness_ms, state.memory.settled_at_ms
    if 0 <= row.received_at_ms - at_ms <= SOUND_MS:
        at_ms = max(at_ms, row.received_at_ms - lateness)
    elif -SOUND_MS <= row.received_at_ms - at_ms < 0:
        at_ms = row.received_at_ms
    return max(at_ms, settled) if late and settled - at_ms <= SOUND_MS else at_ms


def _note_gap(state: WatchState, box: Box, before_ms: int, at_ms: int, heard_at_ms: int) -> None:
    """Learn the box's habit from the gap between two readings.

    Skip a gap across an outage or across the beginning of a storm. Skip also a gap so short that the box was answering a call or kept
    reporting after a blow: else its next regular message would count as many lost on the air."""
    gateway, storm, gap_ms = state.memory.gateways[box.gateway], state.memory.voyage.storm(at_ms), at_ms - before_ms
    since_ms = max(1, gateway.back_at_ms, state.memory.deaf_until_ms, box.listened_from_ms, storm * state.memory.voyage.storm_from_ms)
    if before_ms < since_ms or (storm and note_answer(box, gap_ms, heard_at_ms)) or gap_ms <= ANSWER_MS_MAX:
        return
    regular = box.habit.storm_ms if storm else box.habit.calm_ms
    if regular and gap_ms > regular // 2:
        gateway.note(gap_ms, regular)
    box.habit.note(gap_ms, storm=storm)


def _aboard_again(state: WatchState, box: Box, at_ms: int, said_at_ms: int) -> None:
    if box.fixes and (box.off_since_ms or box.state in GONE_STATES):
        judge_fixes(state, box)
    if not box.off_since_ms:
        box.by_hand = False
        if box.rules.episodes:
            end_silence(state, box, at_ms, "heard again")
        if box.state != "ONBOARD" and box.state != "COLLAPSED_ON_BOARD":
            refuted(state, box, at_ms, said_at_ms)
        heard_aboard(state, box, at_ms)
    stack_down(state, box, at_ms)
    wake_after_news(state, box, at_ms)


def _note_gateway(state: WatchState, box: Box, at_ms: int, name: str, *, kept: bool) -> None:
    """Record that the gateway passed a reading on (`kept`: minutes late).

    If ten boxes were due since its previous reading and none was received, the gateway was out: their silence begins now."""
    gateways = state.memory.gateways
    if name not in gateways and len(gateways) >= GATEWAYS_MAX:
        name = NO_GATEWAY
    gateway = gateways.get(name)
    if gateway is None:
        gateway = gateways[name] = Gateway()
    last = gateway.heard_at_ms
    if last and at_ms - last > OUTAGE_MS_MIN and state.were_due(name, last, at_ms) >= OUTAGE_READINGS:
        gateway.back_at_ms = at_ms
    gateway.heard_at_ms = max(gateway.heard_at_ms, at_ms)
    gateway.arrive(late=kept, now_ms=state.memory.settled_at_ms)
    state.put_on(box, name)


def _correct(state: WatchState, box: Box, at_ms: int, now_ms: int, signals: Mapping[str, Value]) -> None:
    """Correct what was reported, by a reading older than the box's newest; raise no alarm."""
    if signals.keys().isdisjoint(TEMPERATURE) or not state.laden(box.number, at_ms):
        return
    _, limits = state.terms_of(box.number, at_ms)
    place = state.settings.place
    where = Where(box.number, place.ship, state.slot_text(box.number), at_sea=False, side=place.side, historical=True)
    changes = correct_reading(limits, box.rules, where, Late(at_ms, max(now_ms, at_ms), signals))
    for change in changes:
        record_change(state, change)
    _record_excursions(state, box.number, box.rules, max(now_ms, at_ms))


def _record_excursions(state: WatchState, number: str, rules: RuleMemory, now_ms: int) -> None:
    """Write the records of excursions that ended or are corrected. A correction is a later version of the same event."""
    for excursion in rules.ended:
        more = {
            "event_at_ms": excursion.since_ms,
            "until_at_ms": excursion.until_ms,
            "peak_c": round(excursion.peak_c, 2),
            "degree_minutes": round(excursion.degree_minutes, 1),
            "unmeasured_ms": excursion.unmeasured_ms,
            "alert_id": excursion.alert_id or None,
            "updated_at_ms": now_ms,
        }
        excursion_event = event(
            state.settings.place, number, "X_EXCURSION", excursion.first_ms, **({"retracted": True} if excursion.retracted else {})
        )
        state.outcome.events.append(MadeRecord(number, now_ms, {**excursion_event.body, **more}))
    rules.ended = ()


def _judge_now(state: WatchState, box: Box, at_ms: int, signals: Mapping[str, Value], *, historical: bool) -> None:
    """Apply the rules to one reading, and record its blows as events unless it is historical.

    A reading of a fall that is already reported as a loss raises no alarm."""
    place = state.settings.place
    at_sea = place.ship is not None and state.memory.voyage.at_sea
    booked_c, limits = state.terms_of(box.number, at_ms)
    where = Where(
        container=box.number,
        ship=place.ship,
        slot=state.slot_text(box.number),
        at_sea=at_sea,
        side=place.side,
        laden=state.laden(box.number, at_ms),
        booked_c=booked_c,
        tilted=box.tilt is not None if "tilt_deg" in signals and not at_sea else None,
        historical=historical or box.fell_with(at_ms),
        interval_ms=state.interval_ms(box, at_ms) if box.rules.episodes else 0,
    )
    changes: list[Alert] = judge_reading(limits, box.rules, where, at_ms, signals)
    for change in changes:
        record_change(state, change)
    if box.rules.ended:
        _record_excursions(state, box.number, box.rules, max(at_ms, state.memory.settled_at_ms))
    if historical:
        return
    for code, signal, least in BLOWS:
        value = signals.get(signal)
        if value is not None and float(value) >= least and at_ms > box.felt.get(code, 0):
            box.felt[code] = at_ms
            port = place.port or state.memory.voyage.berth or None
            state.outcome.events.append(event(place, box.number, code, at_ms, place=port, **{signal: value}))
