"""Devices of a trial that answer roll calls: who hears the ship's node and listens speaks as often as it is asked, and no longer."""

from __future__ import annotations

import numpy as np

from cargo.loss.reading_rows import Heard
from cargo.rules.storm_mode import Request
from sim.arrays import Ints
from sim.trial import Trial


class RollCallAnswers:
    """The boxes on deck of `trial` that know storm mode. Those who do not report as they always do. Times UTC ms.

    A call reaches whom a message would: not through a gateway that is out, keeps its readings or has no line of sight, nor one whose device
    is dead, and now and then it is lost on the air.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._chance = np.random.default_rng((20261124, trial.seed))
        self._phase = self._chance.random(trial.boxes)
        self._row_of = {number: row for row, number in enumerate(trial.ship.numbers)}
        self._listens = trial.ship.tracker & trial.ship.storm_mode & trial.ship.on_deck
        self._every_ms = np.ones(trial.boxes, dtype=np.int64)
        self._until_ms = np.zeros(trial.boxes, dtype=np.int64)
        self._made_until_ms = 0

    def hear(self, request: Request, at_ms: int) -> None:
        """Receive the node's request at `at_ms`."""
        hearers = np.flatnonzero(self._listens)
        hearers = hearers[self._trial.reached(np.full(len(hearers), at_ms), hearers, self._chance)]
        self._until_ms[hearers] = np.minimum(self._until_ms[hearers], at_ms)
        asked = request.roll_call
        if asked is not None:
            named = None if asked.containers is None else [self._row_of[number] for number in asked.containers]
            boxes = hearers if named is None else hearers[np.isin(hearers, named)]
            self._every_ms[boxes] = asked.interval_s * 1_000
            self._until_ms[boxes] = at_ms + asked.holds_s * 1_000

    def answers(self, until_ms: int) -> list[Heard]:
        """Return the boxes' messages from where the last call of this left off, before `until_ms`, in order of arrival at the node."""
        since_ms, self._made_until_ms = self._made_until_ms, max(self._made_until_ms, until_ms)
        if self._until_ms.max() <= since_ms:
            return []
        at_ms, box = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for one in np.flatnonzero(self._until_ms > since_ms).tolist():
            at = self._times(one, since_ms, min(until_ms, int(self._until_ms[one])))
            at_ms.append(at)
            box.append(np.full(len(at), one))
        made, said = np.concatenate(at_ms), np.concatenate(box)
        kept = self._trial.reached(made, said, self._chance)
        return self._trial.answered(made[kept], said[kept], self._chance)

    def _times(self, box: int, since_ms: int, until_ms: int) -> Ints:
        every = int(self._every_ms[box])
        first = since_ms + (int(self._phase[box] * every) - since_ms) % every
        return np.arange(first, until_ms, every, dtype=np.int64)
