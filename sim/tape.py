"""The readings as a tape: made piece by piece, written to the truth, published in order up to now, ticked off as acknowledged."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from sim.arrays import HOUR_MS, MINUTE_MS
from sim.reading_columns import SimulatedReadings
from sim.sensors import Sensors
from sim.truth import Truth

PIECES_MS = 3 * HOUR_MS, HOUR_MS, 15 * MINUTE_MS
PIECE_BOX_MS = 24_000 * HOUR_MS
"""Boxes times milliseconds in a piece, unless it is the shortest: an intake waits for a word while a piece is made."""


def piece_ms(boxes: int) -> int:
    """Return how much of a world with so many boxes is made at once, in ms; pieces begin at whole multiples of it, so that a restart makes
    the same ones."""
    return next((piece for piece in PIECES_MS if boxes * piece <= PIECE_BOX_MS), PIECES_MS[-1])


class Outlet(Protocol):
    """Receiver of messages: `Publisher`, or a fault of one in a test."""

    def offer(self, intake: int, topic: str, payload: bytes, ticket: int) -> bool:
        """Send one message, as `Publisher.offer`."""
        ...

    def taken_acknowledgements(self) -> list[int]:
        """Return acknowledged tickets, as `Publisher.taken_acknowledgements`."""
        ...


class Tape:
    """Plays the readings heard at or after `from_at_ms` (UTC ms). Belongs to one thread.

    Messages are offered strictly in order: an intake that is down holds up all that comes after, so that acknowledged time has no gap.
    """

    def __init__(self, sensors: Sensors, truth: Truth, outlet: Outlet, from_at_ms: int) -> None:
        self._sensors, self._truth, self._outlet = sensors, truth, outlet
        self._from_at_ms = from_at_ms
        self._piece_ms = piece_ms(len(sensors.world.boxes))
        self._piece_ends_at_ms = from_at_ms // self._piece_ms * self._piece_ms
        self._heard_at_ms: list[int] = []
        self._messages: list[tuple[int, str, bytes]] = []
        self._next = 0
        self._under_way: OrderedDict[int, int] = OrderedDict()
        self.published = 0
        """Messages handed over since the start; their tickets count on from 0."""
        self.acknowledged = 0

    def play(self, until_at_ms: int) -> bool:
        """Hand over what is heard at or before `until_at_ms`, as far as the outlet takes it, and return whether that was all."""
        while True:
            while self._next < len(self._messages) and self._heard_at_ms[self._next] <= until_at_ms:
                if not self._outlet.offer(*self._messages[self._next], self.published):
                    return False
                self._under_way[self.published] = self._heard_at_ms[self._next]
                self.published += 1
                self._next += 1
            if self._next < len(self._messages) or until_at_ms < self._piece_ends_at_ms:
                return True
            self._make_piece()

    @property
    def piece_ends_at_ms(self) -> int:
        """End of the piece that is being played, UTC ms: what is interjected lies before it."""
        return self._piece_ends_at_ms

    def interject(self, readings: SimulatedReadings) -> None:
        """Play these too, each in its place in time: all are heard after what was played so far, and within the piece being played."""
        topics = [self._sensors.topics[thing] for thing in readings.thing.tolist()]
        more = list(zip(readings.intake.tolist(), topics, self._sensors.payloads(readings), strict=True))
        rest = [*zip(self._heard_at_ms[self._next :], self._messages[self._next :], strict=True)]
        rest = sorted([*rest, *zip(readings.heard_at_ms.tolist(), more, strict=True)], key=lambda one: one[0])
        self._heard_at_ms, self._messages, self._next = [at_ms for at_ms, _ in rest], [message for _, message in rest], 0

    def acknowledged_before_ms(self, played_until_ms: int) -> int:
        """Return the fleet time before which everything received is acknowledged, given that `play(played_until_ms)` was called last."""
        for ticket in self._outlet.taken_acknowledgements():
            del self._under_way[ticket]
            self.acknowledged += 1
        if self._under_way:
            return next(iter(self._under_way.values()))
        if self._next < len(self._messages):
            return max(min(played_until_ms + 1, self._heard_at_ms[self._next]), self._from_at_ms)
        return max(played_until_ms + 1, self._from_at_ms)

    def _make_piece(self) -> None:
        since, until = self._piece_ends_at_ms, self._piece_ends_at_ms + self._piece_ms
        piece = self._sensors.heard(since, until)
        self._truth.write(since, piece)
        piece = piece.taken(piece.heard_at_ms >= self._from_at_ms)
        topics = [self._sensors.topics[thing] for thing in piece.thing.tolist()]
        self._heard_at_ms = piece.heard_at_ms.tolist()
        self._messages = list(zip(piece.intake.tolist(), topics, self._sensors.payloads(piece), strict=True))
        self._next = 0
        self._piece_ends_at_ms = until
