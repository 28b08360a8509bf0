"""How long what falls is in the air: from a ship's deck to the water, or onto the deck. One physics for every world that is made up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cargo.vocabulary.slots import DECK_TIER
from cargo.vocabulary.stowage_plan import BELOW_M, TIER_M
from sim.arrays import Floats, Ints

FREEBOARD_M = (10.0, 15.0)
"""Height from the water to the main deck next to the hatches of a container ship, metres [A]."""
GRAVITY_MS2 = 9.81


def above_deck_m(tier: npt.ArrayLike) -> Floats:
    """Return the height from the main deck up to a box that stands on this tier, or these, of the deck (82, 84, …)."""
    return np.asarray((np.asarray(tier) - DECK_TIER) / 2 * TIER_M + BELOW_M, dtype=np.float64)


def fall_ms(height_m: npt.ArrayLike) -> Ints:
    """Return how long a fall of this height, or these, lasts, rounded down; without the air's resistance."""
    return np.asarray(1_000 * np.sqrt(2 * np.asarray(height_m) / GRAVITY_MS2)).astype(np.int64)
