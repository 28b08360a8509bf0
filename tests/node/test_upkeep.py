"""Goal: a running node merges its small blocks by itself, and nothing of its records changes by it; a failing disk does not end it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from landfall.node.node import Node
from landfall.storage.merge_levels import LEVELS
from landfall.storage.segments import file_path
from streams.model.identifiers import Position
from tests.support.fleet import readings, started, unreadable, until


async def test_a_node_merges_what_comes_in_small_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.services.upkeep_job.IDLE_S", 0.01)
    ship = await started("ship-a", tmp_path)
    pieces = LEVELS[0].pieces
    for commit in range(pieces):
        await ship.append([readings(10 * commit, 10)])
    before = ship.log.history("MSKU1234565").rows
    await until(lambda: sum(1 for _ in ship.log.spans("containers", ship.log.origin)) < pieces)
    assert ship.log.history("MSKU1234565").rows.equals(before)
    await ship.stop()


async def test_files_that_can_not_be_read_end_no_background_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder is in the place of the first segment: it opens, and no byte of it is read. Appending goes on, and all when it is back."""
    monkeypatch.setattr("landfall.node.services.upkeep_job.IDLE_S", 0.01)
    monkeypatch.setattr("landfall.node.services.signing_job.SIGNED_EVERY_S", 0.05)
    monkeypatch.setattr("landfall.node.services.verify_job.REST_S_MIN", 0.01)
    monkeypatch.setattr("landfall.node.services.verify_job.AGAIN_S", 0.01)
    monkeypatch.setattr("landfall.node.services.verify_job.ROUND_S_MIN", 0.01)
    ship = await started("ship-a", tmp_path)
    await ship.append([readings(0, 10)])
    path = file_path(tmp_path / "ship-a" / "log", 1)
    give = unreadable(path)
    pieces = LEVELS[0].pieces
    for commit in range(1, pieces):
        await ship.append([readings(10 * commit, 10)])
    await until(lambda: min(count(ship, "upkeep_refused"), count(ship, "verifying_interrupted")) >= 5)
    await until(lambda: "'code': 'signing_failed'" in caplog.text)
    await ship.append([readings(10 * pieces, 10)])
    assert sum(1 for _ in ship.log.spans("containers", ship.log.origin)) == pieces + 1
    give()
    await until(lambda: sum(1 for _ in ship.log.spans("containers", ship.log.origin)) < pieces)
    assert ship.log.history("MSKU1234565").rows.num_rows == 10 * (pieces + 1)
    verified = count(ship, "verified_rounds")
    await until(lambda: count(ship, "verified_rounds") > verified)
    for code in ("upkeep_refused", "log_not_verified", "signing_failed"):
        [problem] = reasons(ship, code)
        assert "0000000001.segment" in problem
        assert os.strerror(errno.EISDIR) in problem
    await ship.stop()


def count(node: Node, name: str) -> int:
    found: int = node.metrics.body(0, 0)["counts"].get(name, 0)
    return found


def reasons(node: Node, code: str) -> list[str]:
    """The problems that `exceptions` report with this code."""
    bodies = [row.record.body or {} for batch in node.log.read("exceptions", Position()) for row in batch.rows()]
    return [str(body["problem"]) for body in bodies if body.get("code") == code]
