"""What befalls a trial's boxes: losses by cause, and all that looks like one and is none. Each is drawn from the trial's own seed."""

from __future__ import annotations

from typing import Literal

import numpy as np

from cargo.loss.loss_classifier import SHOCK_G
from cargo.loss.reading_rows import Value
from sim.arrays import HOUR_MS, MINUTE_MS, SECOND_MS
from sim.fall_time import FREEBOARD_M, above_deck_m, fall_ms
from sim.trial import BEGINS_MS, SAILS_H, Trial

Felt = Literal["shock and fall", "shock", "nothing", "mixed"]


def lose(trial: Trial, boxes: int, felt: Felt) -> None:
    """Drop `boxes` of neighbouring outer deck stacks over the side within a minute or two, some time into the worst hours.

    `felt`: what their trackers report of it: they slide and strike (over 4 g), fall and hit the water; only the first; or nothing."""
    chance = trial.chance
    begins = trial.storm_ms + int(chance.uniform(20, 35) * MINUTE_MS)
    for order, box in enumerate(_from_the_side(trial, boxes)):
        at_ms = begins + int(order * min(1_500, 90_000 / boxes) + chance.integers(0, 800))
        says = felt if felt != "mixed" else str(chance.choice(["shock and fall", "shock", "nothing"], p=[0.6, 0.2, 0.2]))
        trial.lost[box] = at_ms
        if not trial.ship.tracker[box] or says == "nothing":
            continue
        slide_g = round(float(chance.uniform(4.2, 7.0)), 1)
        slides_deg = round(float(chance.uniform(32, 60)), 1)
        if says == "shock":
            trial.struck(box, at_ms, shock_g=slide_g, tilt_deg=slides_deg)
        else:
            fell_ms = int(fall_ms(above_deck_m(trial.ship.slots[box].tier) + chance.uniform(*FREEBOARD_M)))
            falls: dict[str, Value] = {"free_fall_ms": fell_ms, "tilt_deg": 95.0}
            hits: dict[str, Value] = {"shock_g": round(float(chance.uniform(7.5, 12.0)), 1)}
            trial.struck(box, at_ms, (fell_ms, falls), (fell_ms + 400, hits), shock_g=slide_g, tilt_deg=slides_deg)
            trial.lost[box] = at_ms + fell_ms + SECOND_MS


def devices_fail(trial: Trial, share: float = 0.03, outages: float = 1.0) -> None:
    """Add every fault of devices and gateways at once: deaths (half of them of the battery, some in the worst hours), fading signals, and
    blows in port. With the chance `outages` each, add an outage of a gateway and one that keeps its readings and sends them later.

    Repeats, wrong clocks and losses on the air are in every trial."""
    chance = trial.chance
    for box in np.flatnonzero(chance.random(trial.boxes) < share).tolist():
        begins, ends = (trial.storm_ms, trial.storm_ends_ms) if chance.random() < 0.4 else (BEGINS_MS, trial.ends_ms)
        trial.dies_ms[box] = int(chance.uniform(begins, ends))
        if chance.random() < 0.5:
            trial.battery_falls_ms[box] = int(trial.dies_ms[box])
    trial.fades.update(np.flatnonzero(chance.random(trial.boxes) < 0.02).tolist())
    for gaps in (trial.mute, trial.heaps):
        if chance.random() >= outages:
            continue
        stormy = chance.random() < 0.5
        since = int(chance.uniform(trial.storm_ms - HOUR_MS, trial.storm_ends_ms) if stormy else chance.uniform(BEGINS_MS, trial.ends_ms))
        gaps.append((int(chance.integers(trial.gateways)), since, since + int(chance.uniform(5, 120) * MINUTE_MS)))
    for box in np.flatnonzero(chance.random(trial.boxes) < 0.3).tolist():
        handled_ms, shock_g = BEGINS_MS + int(chance.uniform(0, SAILS_H) * HOUR_MS), round(2.0 + 9.0 * float(chance.random()) ** 3, 1)
        if trial.ship.tracker[box]:
            if shock_g > SHOCK_G:
                trial.struck(box, handled_ms, shock_g=shock_g)
            else:
                trial.said.add(box, handled_ms, shock_g=shock_g)


def gateway_dies(trial: Trial) -> None:
    """Let a gateway die in the worst hours and stay dead."""
    since = trial.storm_ms + int(trial.chance.uniform(5, 60) * MINUTE_MS)
    trial.mute.append((int(trial.chance.integers(trial.gateways)), since, trial.ends_ms))


def batteries_die(trial: Trial) -> None:
    """Run out the batteries of a tenth of the boxes on deck through the worst hours, of some without a warning."""
    deck = np.flatnonzero(trial.ship.on_deck & trial.ship.tracker & ~trial.ship.reefer)
    for box in trial.chance.choice(deck, max(1, len(deck) // 10), replace=False).tolist():
        trial.dies_ms[box] = int(trial.chance.uniform(trial.storm_ms, trial.storm_ends_ms))
        if trial.chance.random() < 0.7:
            trial.battery_falls_ms[box] = int(trial.dies_ms[box])


def discharged_unlisted(trial: Trial) -> None:
    """Discharge boxes at the call as listed, and a stack more that is on no list; the storm comes hours later."""
    deck = [box for box in range(trial.boxes) if trial.ship.on_deck[box]]
    at = int(trial.chance.integers(0, len(deck) - 12))
    trial.listed_ashore = deck[at : at + 6]
    trial.ashore = deck[at : at + 12]


def stack_falls_aboard(trial: Trial, crushed: float = 0.0) -> None:
    """Let a stack go down and stay aboard: struck, fallen onto the deck, tilted, and still reporting, except for the share `crushed` of
    trackers."""
    chance = trial.chance
    at_ms = trial.storm_ms + int(chance.uniform(15, 45) * MINUTE_MS)
    for box in _from_the_side(trial, int(chance.integers(2, 11))):
        if not trial.ship.tracker[box]:
            continue
        fell_ms = int(fall_ms(above_deck_m(trial.ship.slots[box].tier)) * chance.uniform(0.4, 0.95))
        lies_deg = round(float(chance.uniform(35, 95)), 1)
        trial.tilted[box] = (at_ms, lies_deg)
        struck_g, hits_g = (round(float(chance.uniform(4.2, 9.0)), 1) for _ in range(2))
        falls: dict[str, Value] = {"free_fall_ms": fell_ms, "tilt_deg": lies_deg}
        hits: dict[str, Value] = {"shock_g": hits_g, "tilt_deg": lies_deg}
        trial.struck(box, at_ms, (fell_ms, falls), (fell_ms + 300, hits), shock_g=struck_g, tilt_deg=lies_deg)
        if chance.random() < crushed:
            trial.dies_ms[box] = at_ms + fell_ms + SECOND_MS


def sockets_trip(trial: Trial) -> None:
    """Trip a breaker in the worst hours: the reefers of some bays lose power together, and keep reporting so."""
    since = trial.storm_ms + int(trial.chance.uniform(5, 60) * MINUTE_MS)
    for box in np.flatnonzero(trial.ship.reefer & trial.ship.tracker).tolist():
        trial.power_off[box] = (since, since + int(trial.chance.uniform(20, 90) * MINUTE_MS))
        trial.said.add(box, since + 200, power_on=False)


def radio_shadow(trial: Trial) -> None:
    """Shadow two adjacent stacks from their gateway for half an hour of the worst hours; the gateway still receives the others."""
    since = trial.storm_ms + int(trial.chance.uniform(15, 45) * MINUTE_MS)
    trial.shadow.append((_from_the_side(trial, 10), since, since + 30 * MINUTE_MS))


def _from_the_side(trial: Trial, boxes: int) -> list[int]:
    """Return so many boxes of neighbouring deck stacks, the outermost stacks of one side and bay first, each from the top."""
    slots = trial.ship.slots
    bays = sorted({slot.bay for slot in slots})
    first = int(trial.chance.choice(bays))
    side = 1 if trial.chance.random() < 0.5 else -1

    def order(box: int) -> tuple[int, int, int]:
        slot = slots[box]
        return (abs(slot.bay - first) // 4 * 2 + (max(s.across for s in slots) - side * slot.across), abs(slot.bay - first), -slot.tier)

    return sorted((box for box in range(trial.boxes) if slots[box].on_deck), key=order)[:boxes]
