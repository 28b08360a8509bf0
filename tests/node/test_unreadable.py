"""Goal: a block that the disk does not give holds up nothing behind it, is sent once it is given, and comes from a peer once that lasts."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from landfall.node.node import Node
from streams.model.identifiers import Position
from tests.streams.badsector import BadSector
from tests.streams.logkit import content
from tests.support.fleet import address, readings, started, until


def told(node: Node, code: str) -> list[Mapping[str, object]]:
    """The bodies in `exceptions` with this code."""
    rows = (row for batch in node.log.read("exceptions", Position()) for row in batch.rows())
    return [row.record.body for row in rows if row.record.body and row.record.body.get("code") == code]


def held(node: Node, of: Node) -> list[tuple[int, int]]:
    ledger = node.log.ledger("containers").get(of.log.origin)
    return list(ledger.held) if ledger else []


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """What takes minutes takes parts of a second."""

    def lasting(lasting_s: float) -> None:
        monkeypatch.setattr("streams.replication.unreadable_blocks.FIRST_S", 0.05)
        monkeypatch.setattr("streams.replication.unreadable_blocks.MOST_S", 0.2)
        monkeypatch.setattr("streams.replication.unreadable_blocks.LASTING_S", lasting_s)
        monkeypatch.setattr("landfall.node.block_loader.LOOK_EVERY_S", 0.05)

    return lasting


async def test_a_passing_fault_holds_up_nothing_and_is_made_up_for_in_the_same_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: Callable[[float], None]
) -> None:
    hasty(60.0)
    tokyo, hq = await started("tokyo", tmp_path), await started("hq", tmp_path)
    for commit in range(3):
        await tokyo.append([readings(10 * commit, 10)])
    sector = BadSector(tokyo.log, tokyo.settings.folder / "log", ("containers", tokyo.log.origin), (10, 20), monkeypatch)
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: held(hq, tokyo) == [(0, 10), (20, 30)])
    await tokyo.append([readings(30, 10)])
    await until(lambda: held(hq, tokyo) == [(0, 10), (20, 40)] and sector.asked >= 3)
    assert tokyo.metrics.body(0, 0)["gauges"]["unreadable_records"] == 10
    sector.bad = False
    await until(lambda: held(hq, tokyo) == [(0, 40)])
    assert content(hq.log, ["containers"]) == content(tokyo.log, ["containers"])
    await until(lambda: bool(told(tokyo, "block_readable_again")))
    [first] = told(tokyo, "block_unreadable")
    assert (first["first"], first["end"]) == (10, 20)
    assert os.strerror(errno.EIO) in str(first["problem"])
    assert not told(tokyo, "session_failed")
    assert tokyo.metrics.body(0, 0)["counts"]["sessions_opened"] == 1
    assert tokyo.metrics.body(0, 0)["gauges"]["unreadable_records"] == 0
    await tokyo.stop()
    await hq.stop()


async def test_what_can_not_be_read_for_good_comes_again_from_a_peer_and_goes_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: Callable[[float], None]
) -> None:
    hasty(0.5)
    tokyo, hq, sydney = [await started(name, tmp_path) for name in ("tokyo", "hq", "sydney")]
    for commit in range(3):
        await tokyo.append([readings(10 * commit, 10)])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: held(hq, tokyo) == [(0, 30)])
    truth = content(tokyo.log, ["containers"])
    sector = BadSector(tokyo.log, tokyo.settings.folder / "log", ("containers", tokyo.log.origin), (10, 20), monkeypatch)
    sydney.link([address("sydney", "tokyo", tokyo.url)])
    await until(lambda: held(sydney, tokyo) == [(0, 30)])
    assert content(sydney.log, ["containers"]) == truth
    asked = sector.asked
    assert content(tokyo.log, ["containers"]) == truth, "it is elsewhere on the disk now"
    assert sector.asked == asked > 0
    await until(lambda: bool(told(tokyo, "block_unreadable_lasts")))
    assert not told(tokyo, "log_older_copy")
    assert tokyo.metrics.body(0, 0)["gauges"]["unreadable_records"] == 0
    for node in (tokyo, hq, sydney):
        await node.stop()


async def test_what_nobody_else_has_is_let_go_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: Callable[[float], None]
) -> None:
    """It lasts, is wanted from peers that have it not, and is held and sent once it is given after all."""
    hasty(0.3)
    tokyo, hq = await started("tokyo", tmp_path), await started("hq", tmp_path)
    for commit in range(3):
        await tokyo.append([readings(10 * commit, 10)])
    sector = BadSector(tokyo.log, tokyo.settings.folder / "log", ("containers", tokyo.log.origin), (10, 20), monkeypatch)
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: bool(told(tokyo, "block_unreadable_lasts")))
    assert held(tokyo, tokyo) == [(0, 30)]
    assert held(hq, tokyo) == [(0, 10), (20, 30)]
    sector.bad = False
    await until(lambda: held(hq, tokyo) == [(0, 30)])
    assert content(hq.log, ["containers"]) == content(tokyo.log, ["containers"])
    await tokyo.stop()
    await hq.stop()
