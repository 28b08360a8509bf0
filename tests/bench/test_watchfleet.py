"""Goal: the bench of a whole fleet finds of a small one what its ground truth has: the losses told, and nobody wrongly."""

from __future__ import annotations

from bench.watchfleet import told_of
from sim.fleets import Preset
from sim.stowage import Hull


def test_a_small_fleets_losses_are_told_and_nobody_is_told_wrongly() -> None:
    told = told_of(Preset(1, 60, Hull(12), "domain"), 4)
    assert told.readings > 2_000
    assert told.lost.total() > 0
    assert told.told["shock and fall"] == told.lost["shock and fall"]
    assert all(0 < delay_s < 180 for delay_s in told.delays_s["shock and fall"])
    assert told.wrong == []
