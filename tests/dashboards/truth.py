"""Where each box of a simulated world is in truth, to hold the pages' and the API's sums against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.stages import StageState
from sim.world import World

ABSENT, LOST, DELIVERED = "absent", "lost", "delivered"
_ELSEWHERE = {StageState.ABSENT: ABSENT, StageState.LOST: LOST, StageState.ROAD: DELIVERED, StageState.SHOP: DELIVERED}


@dataclass(frozen=True, slots=True)
class Truth:
    """A world at `at_ms` (UTC ms)."""

    world: World
    at_ms: int

    def standing(self) -> dict[str, str]:
        """Box → `ship/<imo>`, `quay/<locode>`, LOST, DELIVERED or ABSENT."""
        boxes = np.arange(len(self.world.boxes))
        column = self.world.stages.column_at(boxes, np.full(len(boxes), self.at_ms))
        places = self.world.places.names
        return {
            number: _ELSEWHERE.get(StageState(state)) or places[place]
            for number, state, place in zip(
                self.world.boxes.numbers,
                self.world.stages.state[boxes, column].tolist(),
                self.world.stages.place[boxes, column].tolist(),
                strict=True,
            )
        }

    def owned(self, customer: str) -> dict[str, str]:
        """As `standing`, of the boxes that a customer has had a right to; its right ends as they are stripped."""
        boxes, standing = self.world.boxes, self.standing()
        owned = {}
        for box, number in enumerate(boxes.numbers):
            mine = self.world.bookings[boxes.booking[box]].shipper.id == customer
            if mine and boxes.stuffed_at_ms[box] <= self.at_ms:
                owned[number] = DELIVERED if boxes.stripped_at_ms[box] <= self.at_ms and standing[number] != LOST else standing[number]
        return owned

    def to_come_off(self, imo: str, locode: str) -> set[str]:
        """The boxes aboard the ship that it will put ashore at its next call, at `locode`."""
        aboard = [number for number, place in self.standing().items() if place == f"ship/{imo}"]
        voyage = next(one for one in self.world.timeline.voyages if one.ship.imo == imo)
        call = next(one for one in voyage.calls if one.locode == locode and one.departs_at_ms > self.at_ms)
        later = Truth(self.world, call.departs_at_ms).standing()
        return {number for number in aboard if later[number] != f"ship/{imo}"}
