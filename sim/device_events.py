"""What devices report at once, between their regular reports: doors, power, handling, the sea's knocks, and the fall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cargo.loss.loss_classifier import SHOCK_G
from cargo.rules.storm_mode import AFTER_BLOW_INTERVAL_MS, AFTER_BLOW_MS, PROMISES_MS
from sim.arrays import DAY_MS, MINUTE_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.spells import Spells
from sim.stages import StageState
from sim.stateless_random import Chance
from sim.world import World

HANDLED_HARD_SHARE = 0.5
"""Share of lifts that give a shock above 2 g."""
SEA_SHOCKS_PER_DAY = 0.07
YARD_KNOCKS_MAX = 4
"""Maximum number of knocks in one stay."""
HAPPENING_SIGNALS = ("shock_g", "tilt_deg", "free_fall_ms", "motion", "door_open", "power_on", "again_in_s")
_TIME_BITS = 42
"""Times (UTC ms) take fewer until 2109."""


@dataclass(frozen=True, slots=True)
class Happenings:
    """All of one world, in order of time; arrays of one length. `signals` hold NaN where a happening does not carry one."""

    at_ms: Ints
    box: Ints
    signals: Mapping[str, Floats]

    def between(self, from_at_ms: int, until_at_ms: int) -> slice:
        """Return those with from <= time < until, as a slice of the arrays."""
        first, last = np.searchsorted(self.at_ms, [from_at_ms, until_at_ms])
        return slice(int(first), int(last))


class _Gathered:
    """Happenings being gathered, in any order."""

    def __init__(self) -> None:
        self._at: list[Ints] = []
        self._box: list[Ints] = []
        self._signals: list[dict[str, Floats]] = []

    def add(self, boxes: Ints, at_ms: Ints, **signals: Floats | float) -> None:
        """Add one happening for each of `boxes` that has a time; `signals` are one value for all, or one for each."""
        happens = at_ms < NEVER_MS
        self._box.append(boxes[happens])
        self._at.append(at_ms[happens])
        whole = {name: np.broadcast_to(np.asarray(values, dtype=np.float64), boxes.shape) for name, values in signals.items()}
        self._signals.append({name: values[happens] for name, values in whole.items()})

    def sorted(self) -> Happenings:
        at_ms, box = np.concatenate(self._at), np.concatenate(self._box)
        order = np.lexsort((box, at_ms))
        signals = {
            name: np.concatenate([part.get(name, np.full(len(at), np.nan)) for part, at in zip(self._signals, self._at, strict=True)])[
                order
            ]
            for name in HAPPENING_SIGNALS
        }
        return Happenings(at_ms[order], box[order], signals)


def happenings_of(world: World, power_off: Spells, doors_open: Spells, listens: Flags) -> Happenings:
    """Return everything devices report at once in `world`, received or not; devices that `listens` marks keep reporting after a blow."""
    gathered = _Gathered()
    _switches(doors_open, "door_open", 1.0, gathered)
    _switches(power_off, "power_on", 0.0, gathered)
    _lifts(world, gathered)
    _knocks(world, gathered)
    _ashore(world, gathered)
    _falls(world, gathered)
    _topples(world, gathered)
    return _with_reports_after_blows(gathered.sorted(), listens)


def _with_reports_after_blows(happened: Happenings, listens: Flags) -> Happenings:
    """Add the messages of listening devices after a blow: one each five seconds for a minute after the last of several blows.

    In the first half of the minute a message announces the next one."""
    order = np.lexsort((happened.at_ms, happened.box))
    box, at_ms = happened.box[order], happened.at_ms[order]
    struck = np.flatnonzero((happened.signals["shock_g"][order] > SHOCK_G) & listens[box])
    if not len(struck):
        return happened
    when = (box << _TIME_BITS) + at_ms
    last = np.searchsorted(when[struck], when, side="right") - 1
    blow = struck[np.maximum(last, 0)]
    promises = happened.signals["again_in_s"].copy()
    promises[order[(last >= 0) & (when - when[blow] <= PROMISES_MS)]] = AFTER_BLOW_INTERVAL_MS / SECOND_MS
    ends = struck[np.diff(when[struck], append=np.iinfo(np.int64).max) >= AFTER_BLOW_MS]
    gathered = _Gathered()
    gathered.add(happened.box, happened.at_ms, **{**happened.signals, "again_in_s": promises})
    for later_ms in range(AFTER_BLOW_INTERVAL_MS, AFTER_BLOW_MS + 1, AFTER_BLOW_INTERVAL_MS):
        promise = AFTER_BLOW_INTERVAL_MS / SECOND_MS if later_ms <= PROMISES_MS else np.nan
        gathered.add(box[ends], at_ms[ends] + later_ms, motion=0.0, again_in_s=promise)
    return gathered.sorted()


def _switches(spells: Spells, signal: str, within: float, gathered: _Gathered) -> None:
    """Report a signal at the beginning and the end of each spell: it is `within` in the spells, and the other of 0.0 and 1.0 outside."""
    for since, until in zip(spells.from_at_ms.T, spells.until_at_ms.T, strict=True):
        boxes = np.flatnonzero(since < NEVER_MS)
        gathered.add(boxes, since[boxes], **{signal: within})
        gathered.add(boxes, until[boxes], **{signal: 1.0 - within})


def _lifts(world: World, gathered: _Gathered) -> None:
    """Add the shocks of lifts: a lift begins with a jerk where the box stood and ends with a bump where it is set down."""
    chance, stages = world.chance, world.stages
    for column in range(1, stages.state.shape[1]):
        lifted = np.flatnonzero((stages.state[:, column] == StageState.SHIP) | (stages.state[:, column - 1] == StageState.SHIP))
        lifted = lifted[np.isin(stages.state[lifted, column], (StageState.SHIP, StageState.QUAY))]
        at_ms = stages.starts_at_ms[lifted, column]
        gathered.add(lifted, at_ms - 2 * MINUTE_MS, motion=1.0, tilt_deg=np.round(3.0 * chance.normal("swing", lifted, column), 1))
        hard = chance.uniform("hard", lifted, column) < HANDLED_HARD_SHARE
        bump_g = 2.0 + 9.0 * chance.uniform("bump", lifted, column) ** 3
        set_down = at_ms + MINUTE_MS + (chance.uniform("set down", lifted, column) * MINUTE_MS).astype(np.int64)
        gathered.add(lifted[hard], set_down[hard], motion=1.0, shock_g=np.round(bump_g, 1)[hard])


def _knocks(world: World, gathered: _Gathered) -> None:
    """Add the shocks at sea: one above 2 g comes once in a fortnight and never reaches 3.5 g (DOMAIN.md 5)."""
    times, boxes = world.timeline, np.arange(len(world.boxes))
    days = (times.ends_at_ms - times.begins_at_ms) / DAY_MS
    for knock in range(3):
        comes = world.chance.uniform("knock", boxes, knock) < SEA_SHOCKS_PER_DAY * days / 3
        at_ms = (times.begins_at_ms + world.chance.between("knock at", 0, days * DAY_MS, boxes, knock)).astype(np.int64)
        column = world.stages.column_at(boxes, at_ms)
        aboard = world.stages.state[boxes, column] == StageState.SHIP
        shock_g = np.round(2.0 + 1.4 * world.chance.uniform("knock g", boxes, knock) ** 2, 1)
        gathered.add(boxes, np.where(comes & aboard, at_ms, NEVER_MS), shock_g=shock_g)


def _ashore(world: World, gathered: _Gathered) -> None:
    """Add the knocks of yard vehicles, which come at intervals, and of every other truck: above 2 g, never as hard as a fall."""
    chance, stages, often = world.chance, world.stages, world.knocks_per_day_ashore
    for column in range(stages.state.shape[1] - 1) if often else ():
        since, until = stages.starts_at_ms[:, column], stages.starts_at_ms[:, column + 1]
        for state, kind in ((StageState.QUAY, "yard"), (StageState.ROAD, "road")):
            boxes = np.flatnonzero((stages.state[:, column] == state) & (until < NEVER_MS))
            stays_ms = (until - since)[boxes]
            for knock in range(YARD_KNOCKS_MAX if kind == "yard" else 1):
                likely = stays_ms / DAY_MS * often / YARD_KNOCKS_MAX if kind == "yard" else 0.5
                comes = chance.uniform(f"{kind} knock", boxes, column * 10 + knock) < likely
                at_ms = since[boxes] + (chance.uniform(f"{kind} knock at", boxes, column * 10 + knock) * stays_ms).astype(np.int64)
                shock_g = np.round(2.0 + 2.0 * chance.uniform(f"{kind} knock g", boxes, column * 10 + knock) ** 2, 1)
                gathered.add(boxes, np.where(comes, at_ms, NEVER_MS), shock_g=shock_g, motion=1.0)


def _falls(world: World, gathered: _Gathered) -> None:
    """Up to three messages from each box: it slides and strikes the next stack, it falls, it hits the water; then nothing more."""
    for felt in ("shock", "shock and fall"):
        losses = [loss for loss in world.losses if loss.felt == felt]
        boxes, at_ms = np.array([loss.box for loss in losses], dtype=np.int64), np.array([loss.at_ms for loss in losses], dtype=np.int64)
        _slide(world.chance, boxes, at_ms, gathered)
        if felt == "shock and fall":
            _fall(world.chance, boxes, at_ms, np.array([loss.fell_ms for loss in losses], dtype=np.int64), gathered)


def _topples(world: World, gathered: _Gathered) -> None:
    """Three messages from each box of a stack that is down: it is struck, it falls, it strikes the deck, and there it lies."""
    chance, down = world.chance, world.toppled
    boxes, at_ms = np.array([one.box for one in down], dtype=np.int64), np.array([one.at_ms for one in down], dtype=np.int64)
    falls_ms, lies_deg = np.array([one.fell_ms for one in down], dtype=np.int64), np.array([one.lies_deg for one in down])
    struck_g, hits_g = (np.round(chance.between(what, 4.2, 9.0, boxes), 1) for what in ("struck g", "hits deck g"))
    gathered.add(boxes, at_ms, shock_g=struck_g, tilt_deg=lies_deg, motion=1.0)
    gathered.add(boxes, at_ms + falls_ms, free_fall_ms=falls_ms.astype(np.float64), tilt_deg=lies_deg, motion=1.0)
    gathered.add(boxes, at_ms + falls_ms + 300, shock_g=hits_g, tilt_deg=lies_deg, motion=1.0)


def _slide(chance: Chance, boxes: Ints, at_ms: Ints, gathered: _Gathered) -> None:
    slides_g, tilt = chance.between("slide g", 4.4, 7.0, boxes), chance.between("slide tilt", 32, 48, boxes)
    gathered.add(boxes, at_ms, shock_g=np.round(slides_g, 1), tilt_deg=np.round(tilt, 1), motion=1.0)


def _fall(chance: Chance, boxes: Ints, at_ms: Ints, falls_ms: Ints, gathered: _Gathered) -> None:
    hits_g, turned = chance.between("hit g", 7.5, 12.0, boxes), chance.between("fall tilt", 70, 130, boxes)
    gathered.add(boxes, at_ms + falls_ms, free_fall_ms=falls_ms.astype(np.float64), tilt_deg=np.round(turned, 1), motion=1.0)
    gathered.add(boxes, at_ms + falls_ms + SECOND_MS // 2, shock_g=np.round(hits_g, 1), motion=1.0)
