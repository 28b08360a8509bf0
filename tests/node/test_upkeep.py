"""Goal: a running node merges its small blocks by itself, and nothing of its records changes by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.logs.levels import LEVELS
from tests.node.fleet import readings, started, until


async def test_a_node_merges_what_comes_in_small_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.node.upkeep.IDLE_S", 0.01)
    ship = await started("ship-a", tmp_path)
    pieces = LEVELS[0].pieces
    for commit in range(pieces):
        await ship.append([readings(10 * commit, 10)])
    before = ship.log.history("MSKU1234565").rows
    await until(lambda: sum(1 for _ in ship.log.spans("containers", ship.log.origin)) < pieces)
    assert ship.log.history("MSKU1234565").rows.equals(before)
    await ship.stop()
