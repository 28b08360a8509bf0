"""`python -m bench.watchtable [quiet] [lossy] [--part PART] [--real FILE]`: the validation of the watch (`bench.watchdoc` shows it).

`quiet` voyages with every fault and no loss, and `lossy` voyages for each cause of losses: how many losses are found, how soon on the
bridge, and how often the watch cries wolf; then the same cases under other weights. Voyages that judge and voyages that calibrate are of
different seeds; readings of real devices (`--real`) are a table of their own. Prints Markdown; a run of exactly the
command that a table of `bench/results/watch` names also replaces it. One core, no time limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from typing import get_args

import numpy as np

from bench.machine import machine
from bench.results import Measured, write
from bench.watchdoc import keep
from bench.watchreal import real_rows
from bench.watchrows import LOSS_HEAD, QUIET_HEAD, WEIGHTS_HEAD, Seen, curve, likelihoods, quiet_row, recall_row
from cargo.loss.loss_classifier import SHOCK_G
from cargo.loss.loss_evidence import case_of
from cargo.loss.reading_rows import Heard
from cargo.loss.roll_call import to_call
from cargo.loss.watch import advance, arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import Outcome, Place
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.rules.storm_mode import Asking, StormRules
from sim.mishaps import (
    Felt,
    batteries_die,
    devices_fail,
    discharged_unlisted,
    gateway_dies,
    lose,
    radio_shadow,
    sockets_trip,
    stack_falls_aboard,
)
from sim.roll_call_answers import Answering
from sim.storms import Weather
from sim.trial import SHIP, STORM_MODE_DEG, Trial

JUDGING, CALIBRATING = 20_000_000, 0
"""Where the seeds of the voyages that judge and of those that calibrate begin. Who looks into one that judges, to mend what it shows, moves
the judging ones on to seeds that nobody has looked at: those from 1,000,000, 3,000,000 and 10,000,000 on calibrate by now."""
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
WATCHED_MS = 12 * MINUTE_MS
SEEN_OUT_H = 74.0
"""A voyage with a loss lasts until a box that reports daily has missed two reports, whenever it last spoke."""
CONSIDERED = {"MISSING", "PROBABLE_OVERBOARD", "DEVICE_FAULT", "GATEWAY_OUTAGE"}
CASES_MAX = 6
CALIBRATION_HEAD = "| signal | lost boxes whose case has it | silent boxes aboard | log10 ratio | weight |"
CLOSE_MS, CLOSE_EVERY_MS = 3 * MINUTE_MS, 5 * SECOND_MS
"""So long after its loss a box's case is kept so often: what its delay under other weights is read from."""
PARTS = ("causes", "sizes", "quiet", "weights")
WEATHERS: tuple[Weather, ...] = get_args(Weather)
FELT: tuple[str, ...] = get_args(Felt)


def watched(trial: Trial) -> Seen:
    """The voyage before the watch of the ship, its readings taken in as they arrive: by the second around a loss, else by the minute."""
    ship = trial.ship
    seen = Seen({ship.numbers[box]: at_ms for box, at_ms in trial.lost.items() if ship.tracker[box]})
    for box in trial.lost:
        stormy = trial.roll_deg > STORM_MODE_DEG and ship.on_deck[box] and ship.storm_mode[box]
        seen.interval_ms[ship.numbers[box]] = MINUTE_MS if stormy else int(ship.habit_ms[box])
    state = WatchState(WatchSettings(Place(f"ship-{SHIP}", ship=SHIP)))
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
    devices, asking = Answering(trial), Asking(SHIP, rules)
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


def _note(seen: Seen, made: Outcome, now_ms: int) -> None:
    for alert in made.alerts:
        if alert.body["rule"] == "lost_container":
            if alert.body["state"] == "raised":
                seen.told.setdefault(alert.topic, now_ms)
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
    """A voyage with a loss of `boxes` (0: of any size up to 40), a hundredth of the devices failing, now and then an outage. `deaf`: see
    `by_cause`."""
    many = boxes or int(np.random.default_rng(seed).choice(SIZES))
    trial = Trial(seed, weather, boxes=max(200, 4 * many), ends_h=SEEN_OUT_H)
    if deaf:
        trial.ship = replace(trial.ship, storm_mode=np.zeros(trial.boxes, dtype=np.bool_))
    devices_fail(trial, 0.01, 0.1)
    lose(trial, many, felt)  # type: ignore[arg-type]
    return trial


def table(name: str, head: str, rows: Iterable[str], arguments: list[str]) -> None:
    """Print a table as it is made, and keep it where it is of this run's command."""
    columns = head.count("|") - 1
    print(f"\n{name}\n{head}\n|{'---|' * columns}", flush=True)
    made = []
    for row in rows:
        print(row, flush=True)
        made.append(row)
    keep(name, made, arguments)


def by_cause(
    count: int, severe: list[Seen], causes: Sequence[str] = FELT, weathers: Sequence[Weather] = WEATHERS, *, deaf: bool = False
) -> Iterator[str]:
    """The lines of the table by cause and weather; `severe` takes the voyages of severe and extreme weather. `deaf`: no tracker knows
    storm mode, roll calls, or of telling on after a blow."""
    for felt in causes:
        for weather in weathers:
            seen = [watched(lossy(JUDGING + n, weather, felt, deaf=deaf)) for n in range(count)]
            if weather in ("severe", "extreme"):
                severe.extend(seen)
            yield recall_row(f"{felt}, {weather}", seen)
    if severe:
        yield recall_row("**all of these in severe and extreme weather**", severe)


def by_size(count: int) -> Iterator[str]:
    """The lines of the table by size; of the largest a tenth as many, but two at least."""
    for boxes in (1, 3, 10, 50, 500):
        few = max(2, count // 10) if boxes == 500 else count
        yield recall_row(
            f"mixed, severe, {boxes} boxes", [watched(lossy(JUDGING + 500_000 + n, "severe", "mixed", boxes)) for n in range(few)]
        )


def by_look(count: int, alikes: int, quiets: list[Seen]) -> Iterator[str]:
    """The lines of the table without a loss; `quiets` takes the voyages with every fault."""
    quiets.extend(watched(quiet(JUDGING + n)) for n in range(count))
    for at, weather in enumerate(WEATHERS):
        yield quiet_row(f"every fault of devices, {weather}", [seen for n, seen in enumerate(quiets) if (JUDGING + n) % 4 == at])
    yield quiet_row("**every fault of devices, all**", quiets)
    for name in LOOK_ALIKES:
        yield quiet_row(name, [watched(alike(name, JUDGING + 600_000 + n)) for n in range(alikes)])


def goals(losses: Sequence[Seen], quiets: Sequence[Seen]) -> dict[str, Measured]:
    """Return the rows of the table of goals, of the voyages in severe and extreme weather and of those without a loss."""
    rows: dict[str, Measured] = {}
    if lost := sum(len(seen.lost) for seen in losses):
        found = sum(len(seen.told.keys() & seen.lost.keys()) for seen in losses)
        rows["detected"] = Measured(f"{found / lost:.1%}", found >= 0.95 * lost)
    if quiets:
        crying = sum(bool(seen.false) for seen in quiets)
        rows["false_alarms"] = Measured(str(crying), crying == 0)
    return rows


def main() -> None:
    """Runs what was asked for and prints. The other weights are held against the voyages of the parts that were run."""
    parser = argparse.ArgumentParser(prog="python -m bench.watchtable", description=__doc__)
    parser.add_argument("quiet", type=int, nargs="?", default=1_000)
    parser.add_argument("lossy", type=int, nargs="?", default=30)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part, or these")
    parser.add_argument("--felt", choices=FELT, action="append", help="of the part `causes` this cause only, or these")
    parser.add_argument("--weather", choices=WEATHERS, action="append", help="and this weather only, or these")
    parser.add_argument(
        "--deaf", action="store_true", help="of the part `causes`: no tracker does as it is asked, or tells on after a blow"
    )
    parser.add_argument("--real", metavar="FILE")
    given = parser.parse_args()
    parts, began_s = given.part or PARTS, time.process_time()
    arguments = ["FILE" if word == given.real else word for word in sys.argv[1:]]
    losses: list[Seen] = []
    quiets: list[Seen] = []
    if "causes" in parts:
        rows = by_cause(given.lossy, losses, given.felt or FELT, given.weather or WEATHERS, deaf=given.deaf)
        table("deaf" if given.deaf else "causes", LOSS_HEAD, rows, arguments)
    if "sizes" in parts:
        table("sizes", LOSS_HEAD, by_size(given.lossy), arguments)
    if "quiet" in parts:
        table("quiet", QUIET_HEAD, by_look(given.quiet, given.lossy, quiets), arguments)
    write("watchtable", goals(losses, quiets), arguments)
    if "weights" in parts:
        losses = losses or [watched(lossy(JUDGING + n, WEATHERS[2 + n % 2], "mixed")) for n in range(given.lossy)]
        quiets = quiets or [watched(quiet(JUDGING + n)) for n in range(given.quiet)]
        table("weights", WEIGHTS_HEAD, curve(losses, quiets), arguments)
        own = [watched(quiet(CALIBRATING + n)) for n in range(given.quiet // 10)]
        own += [watched(lossy(CALIBRATING + n, WEATHERS[2 + n % 2], "mixed")) for n in range(2 * given.lossy)]
        table("calibration", CALIBRATION_HEAD, likelihoods(own), arguments)
    if given.real:
        table("real", "| readings | rows | PROBABLE |", real_rows(given.real), arguments)
    print(f"\nCPU {time.process_time() - began_s:.0f} s; {json.dumps(machine())}")


if __name__ == "__main__":
    main()
