"""Simulated voyages, with losses or with what looks like one, and what the watch of the ship makes of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from typing import get_args

import numpy as np

from cargo.loss.loss_classifier import SHOCK_G, Case
from cargo.loss.loss_evidence import case_of
from cargo.loss.reading_rows import Heard
from cargo.loss.roll_call import to_call
from cargo.loss.watch import advance, arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.rules.storm_mode import StormRequests, StormRules
from sim.mishaps import (
    batteries_die,
    devices_fail,
    discharged_unlisted,
    gateway_dies,
    lose,
    radio_shadow,
    sockets_trip,
    stack_falls_aboard,
)
from sim.roll_call_answers import RollCallAnswers
from sim.storms import Weather
from sim.trial import SHIP, STORM_MODE_DEG, Trial

SECOND_MS, MINUTE_MS = 1_000, 60_000
WATCHED_MS = 12 * MINUTE_MS
SEEN_OUT_H = 74.0
"""A voyage with a loss lasts until a box that reports daily has missed two reports, whenever it last spoke."""
CONSIDERED = {"MISSING", "PROBABLE_OVERBOARD", "DEVICE_FAULT", "GATEWAY_OUTAGE"}
CASES_MAX = 6
CLOSE_MS, CLOSE_EVERY_MS = 3 * MINUTE_MS, 5 * SECOND_MS
"""So long after its loss a box's case is kept so often: what its delay under other weights is read from."""
WEATHERS: tuple[Weather, ...] = get_args(Weather)


@dataclass
class Seen:
    """What the watch made of one voyage: its losses (container → UTC ms), when the bridge was told of which container, the intervals that
    were expected of the lost, and the cases it had to decide, each with when it stood so (UTC ms)."""

    lost: dict[str, int]
    reported_at_ms: dict[str, int] = field(default_factory=dict)
    retracted: set[str] = field(default_factory=set)
    interval_ms: dict[str, int] = field(default_factory=dict)
    cases: dict[str, list[tuple[int, Case]]] = field(default_factory=lambda: defaultdict(list))
    readings: int = 0

    @property
    def false(self) -> set[str]:
        """Boxes told as probably overboard that were not."""
        return self.reported_at_ms.keys() - self.lost.keys()


def watched(trial: Trial) -> Seen:
    """The voyage before the watch of the ship, its readings taken in as they arrive: by the second around a loss, else by the minute."""
    ship = trial.ship
    seen = Seen({ship.numbers[box]: at_ms for box, at_ms in trial.lost.items() if ship.tracker[box]})
    for box in trial.lost:
        stormy = trial.roll_deg > STORM_MODE_DEG and ship.on_deck[box] and ship.storm_mode[box]
        seen.interval_ms[ship.numbers[box]] = MINUTE_MS if stormy else int(ship.habit_ms[box])
    state = WatchState(WatchSettings(WatchPlace(f"ship-{SHIP}", ship=SHIP)))
    learn(state, trial.entries())
    sampled_ms = closely_ms = 0
    for part, now_ms in _by_arrival(trial, state):
        seen.readings += len(part)
        _note(seen, step(state, part), now_ms)
        _note(seen, arrived(state, None if part else now_ms), now_ms)
        if now_ms - closely_ms >= CLOSE_EVERY_MS:
            closely_ms = now_ms
            _sample_lost(seen, state, now_ms)
        if now_ms - sampled_ms >= (MINUTE_MS if trial.storm_ms <= now_ms < trial.storm_ends_ms else 20 * MINUTE_MS):
            sampled_ms = now_ms
            _sample(seen, state, now_ms)
    _note(seen, advance(state, trial.ends_ms), trial.ends_ms)
    return seen


def _by_arrival(trial: Trial, state: WatchState) -> Iterator[tuple[list[Heard], int]]:
    """The readings of the voyage in parts, as they arrive, and what time it is then (UTC ms); none where something falls due before the
    next of them, by the second. In between the node asks devices for what follows from how `state` then stands, and those that listen do
    so."""
    rows, answers = deque(trial.heard()), deque[Heard]()
    losses = sorted(trial.lost.values()) or [0]
    rules = StormRules()
    devices, asking = RollCallAnswers(trial), StormRequests(SHIP, rules)
    closely_until_ms, stormy = 0, False
    while rows:
        since_ms = _next(rows, answers)[0].received_at_ms
        while (due_ms := falls_due_ms(state)) is not None and (looks_ms := -(-due_ms // SECOND_MS) * SECOND_MS) < since_ms:
            yield [], looks_ms
        closely = since_ms < closely_until_ms or losses[0] <= since_ms < losses[-1] + WATCHED_MS
        until_ms = since_ms + (SECOND_MS if closely else MINUTE_MS)
        part: list[Heard] = []
        while (first := _next(rows, answers)) and first[0].received_at_ms < until_ms:
            row = first.popleft()
            part.append(row)
            begins = not stormy and abs(float(row.signals.get("roll_deg", 0.0))) > rules.begins_deg
            if begins or float(row.signals.get("shock_g", 0.0)) > SHOCK_G:
                until_ms, closely_until_ms = row.received_at_ms, row.received_at_ms + MINUTE_MS
        yield part, part[-1].received_at_ms
        request = asking.due(state.memory.voyage.rolls, state.memory.settled_at_ms, to_call(state))
        if request is not None:
            devices.hear(request, until_ms + SECOND_MS)
            stormy = request.interval_s is not None
            closely_until_ms = max(closely_until_ms, until_ms + MINUTE_MS * (request.roll_call is not None))
        said = devices.answers(until_ms + 2 * SECOND_MS)
        if said:
            answers = deque(merge(answers, said, key=lambda row: row.received_at_ms))


def _next(rows: deque[Heard], answers: deque[Heard]) -> deque[Heard]:
    """Which of the two arrives next."""
    return answers if answers and (not rows or answers[0].received_at_ms < rows[0].received_at_ms) else rows


def _note(seen: Seen, made: WatchOutcome, now_ms: int) -> None:
    for alert in made.alerts:
        if alert.body["rule"] == "lost_container":
            if alert.body["state"] == "raised":
                seen.reported_at_ms.setdefault(alert.topic, now_ms)
            elif alert.body["state"] == "retracted":
                seen.retracted.add(alert.topic)


def _sample(seen: Seen, state: WatchState, now_ms: int) -> None:
    """Keeps the cases of the boxes that are silent, as they stand now: what other weights are held against."""
    for box in state.memory.boxes.values():
        if box.state not in CONSIDERED:
            continue
        cases, fell_ms = seen.cases[box.number], seen.lost.get(box.number)
        if sum(fell_ms is None or at > fell_ms + CLOSE_MS for at, _ in cases) < CASES_MAX:
            cases.append((now_ms, case_of(state, box, state.memory.settled_at_ms)))


def _sample_lost(seen: Seen, state: WatchState, now_ms: int) -> None:
    """Keeps the cases of the boxes that were lost just now, whatever the watch makes of them."""
    for number, fell_ms in seen.lost.items():
        box = state.memory.boxes.get(number)
        if box is not None and fell_ms <= now_ms <= fell_ms + CLOSE_MS:
            seen.cases[number].append((now_ms, case_of(state, box, state.memory.settled_at_ms)))


def quiet(seed: int) -> Trial:
    """A voyage with every fault of devices, and much that looks like a loss and is none."""
    trial = Trial(seed, WEATHERS[seed % 4])
    devices_fail(trial)
    for mishap in (gateway_dies, batteries_die, discharged_unlisted, stack_falls_aboard, sockets_trip):
        if trial.chance.random() < 0.15:
            mishap(trial)
    return trial


LOOK_ALIKES: dict[str, Callable[[Trial], None]] = {
    "a gateway dies in the storm": gateway_dies,
    "batteries die on deck": batteries_die,
    "a stack discharged, on no list": discharged_unlisted,
    "a stack falls and stays aboard": stack_falls_aboard,
    "the breakers of the reefers trip": sockets_trip,
    "a stack falls aboard, half its trackers crushed": lambda trial: stack_falls_aboard(trial, crushed=0.5),
    "two stacks in a radio shadow for half an hour": radio_shadow,
}
"""The last two are no faults of devices: nothing a ship's node hears tells them from a loss before the boxes speak again."""
SIZES = (1, 2, 4, 8, 16, 40)


def alike(name: str, seed: int) -> Trial:
    """A severe or extreme voyage in which this happens, and nothing is lost."""
    trial = Trial(seed, WEATHERS[2 + seed % 2])
    devices_fail(trial, 0.01, 0.0)
    LOOK_ALIKES[name](trial)
    return trial


def lossy(seed: int, weather: Weather, felt: str, boxes: int = 0, *, deaf: bool = False) -> Trial:
    """A voyage with a loss of `boxes` (0: of any size up to 40), a hundredth of the devices failing, now and then an outage. `deaf`: no
    device hears of storm mode."""
    many = boxes or int(np.random.default_rng(seed).choice(SIZES))
    trial = Trial(seed, weather, boxes=max(200, 4 * many), ends_h=SEEN_OUT_H)
    if deaf:
        trial.ship = replace(trial.ship, storm_mode=np.zeros(trial.boxes, dtype=np.bool_))
    devices_fail(trial, 0.01, 0.1)
    lose(trial, many, felt)  # type: ignore[arg-type]
    return trial
