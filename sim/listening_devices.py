"""Devices that do as they are asked: in storm mode those on deck report as often as the node of their ship wants, in a roll call those who
are called oftener still."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from cargo.rules.storm_mode import Request, RollCall
from sim.reading_columns import SimulatedReadings
from sim.sensors import ReportSpan, Sensors
from sim.tape import Tape
from sim.truth import Truth


class Listening:
    """The boxes that listen, and what each intake asked of them last. Belongs to the tape's thread.

    A request counts from the fleet time up to which the tape was played when it was heard, for as long as it says. What was asked before a
    restart is reported again as it was, from the truth; so an intake knows it as a repeat.
    """

    def __init__(self, sensors: Sensors, truth: Truth, from_at_ms: int) -> None:
        self._sensors, self._truth = sensors, truth
        self.boxes = np.flatnonzero(sensors.listens)
        self._numbers = {sensors.world.boxes.numbers[box]: box for box in self.boxes.tolist()}
        self._again = [span for span in truth.asked() if span.until_ms > from_at_ms]
        self._repeats_until_ms = max((span.until_ms for span in self._again), default=from_at_ms)
        self._made_until_ms = from_at_ms
        self._asked: dict[int, ReportSpan] = {}
        self._called: dict[int, ReportSpan] = {}

    def hear(self, requests: Iterable[tuple[int, Request]]) -> None:
        """Receive these requests, each at the intake with that index."""
        since_ms = max(self._made_until_ms, self._repeats_until_ms)
        for intake, request in requests:
            self._asked.pop(intake, None)
            self._called.pop(intake, None)
            if request.interval_s is not None:
                self._asked[intake] = ReportSpan(since_ms, since_ms + request.holds_s * 1_000, intake, request.interval_s * 1_000)
            call = request.roll_call
            if call is not None and (only := self._who(call)):
                self._called[intake] = ReportSpan(since_ms, since_ms + call.holds_s * 1_000, intake, call.interval_s * 1_000, only)

    def play(self, tape: Tape, until_at_ms: int) -> None:
        """Play the tape up to then, as far as the outlet takes it, with what listening devices report in its place."""
        while self._made_until_ms <= until_at_ms:
            if not tape.play(self._made_until_ms):
                return
            until_ms = min(until_at_ms + 1, tape.piece_ends_at_ms)
            for readings in self._due(self._made_until_ms, until_ms):
                tape.interject(readings)
            self._made_until_ms = until_ms
        tape.play(until_at_ms)

    def _due(self, since_ms: int, until_ms: int) -> Iterator[SimulatedReadings]:
        for span in self._again:
            if (cut := _cut(span, since_ms, until_ms)) is not None:
                yield self._sensors.asked(cut, self.boxes)
        uncalled = [part for asked in self._asked.values() for part in self._uncalled(asked)]
        for span in (*self._called.values(), *uncalled):
            if (cut := _cut(span, since_ms, until_ms)) is not None:
                readings = self._sensors.asked(cut, self.boxes)
                self._truth.write_asked(cut, readings)
                yield readings

    def _uncalled(self, span: ReportSpan) -> Iterator[ReportSpan]:
        """Yield the parts of the span without those who are called meanwhile: their answers are their reports."""
        call = self._called.get(span.intake)
        if call is None:
            yield span
            return
        others = tuple(np.setdiff1d(self.boxes, call.only).tolist())
        if others:
            yield replace(span, until_ms=min(span.until_ms, call.until_ms), only=others)
        yield replace(span, since_ms=max(span.since_ms, call.until_ms))

    def _who(self, call: RollCall) -> tuple[int, ...]:
        if call.containers is None:
            return tuple(self.boxes.tolist())
        return tuple(sorted(self._numbers[number] for number in call.containers if number in self._numbers))


def _cut(span: ReportSpan, since_ms: int, until_ms: int) -> ReportSpan | None:
    since, until = max(span.since_ms, since_ms), min(span.until_ms, until_ms)
    return replace(span, since_ms=since, until_ms=until) if since < until else None
