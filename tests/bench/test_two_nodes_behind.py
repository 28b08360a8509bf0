"""Goal: behind a broker, whichever of a ship's two nodes with `ack = two_nodes` is killed at any instant, and whichever disk is taken away:
all that the broker took is on either disk, once of each origin; and where it is killed too, all that the nodes acknowledged to it.

`LANDFALL_KILLS` says how often in all (50).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from bench.lossbehind import struck_pair_behind

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.torture]


@pytest.mark.parametrize("broker_too", [False, True], ids=["the nodes", "the broker too"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_and_robbed_again_and_again(tmp_path: Path, seed: int, broker_too: bool) -> None:
    strikes = int(os.environ.get("LANDFALL_KILLS", "50")) // 5
    tally = struck_pair_behind(tmp_path, strikes, random.Random(seed), cutting=False, broker_too=broker_too)
    assert tally.acknowledged >= strikes
    assert (tally.lost, tally.twice) == (0, 0)
