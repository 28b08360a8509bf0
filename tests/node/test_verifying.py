"""Goal: a block that rots is found though nobody reads it, told in words, fetched again from a peer, and the copies are equal again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streams.block import MAGIC
from streams.node import verifying
from streams.node.verifying import Rounds
from streams.ranges import RangeSet
from tests.node.fleet import address, readings, started, until
from tests.node.test_definitions import bodies
from tests.streams.logkit import append_rows, content, open_log, rows

BLOCKS, ROWS = 6, 50


def rot(folder: Path, block: int) -> int:
    """One bit of the `block`-th block of the first segment; where that block begins."""
    segment = min((folder / "log" / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    at = [place for place in range(len(data)) if data[place : place + 4] == MAGIC][block]
    data[at + 150] ^= 8
    segment.write_bytes(data)
    return at


async def test_a_block_nobody_reads_is_found_told_and_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "REST_S_MIN", 0.05)
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    for number in range(BLOCKS):
        await tokyo.append([readings(number * ROWS, ROWS)])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    truth, origin = content(tokyo.log, ["containers"]), tokyo.log.origin
    await tokyo.stop()
    rot(tmp_path / "tokyo", BLOCKS // 2)

    tokyo = await started("tokyo", tmp_path)
    await until(lambda: tokyo.log.ledger("containers")[origin].held.count() == (BLOCKS - 1) * ROWS)
    [(first, end)] = RangeSet([(0, BLOCKS * ROWS)]).without(tokyo.log.ledger("containers")[origin].held)
    lost = f"containers:{origin} offsets {first}..{end - 1}: "
    await until(lambda: any("0000000001.segment byte " in told and lost in told for told in bodies(tokyo, "exceptions")))
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: tokyo.log.ledger("containers")[origin].held.count() == BLOCKS * ROWS)
    assert content(tokyo.log, ["containers"]) == truth == content(hq.log, ["containers"])
    await asyncio.gather(tokyo.stop(), hq.stop())


@pytest.mark.parametrize("limits", [{"PIECE_BLOCKS": 1}, {"PIECE_BYTES": 1}, {}])
def test_a_round_reads_everything_once_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(verifying, name, value)
    log = open_log(tmp_path)
    for commit in range(BLOCKS):
        append_rows(log, rows(ROWS, start=ROWS * commit))
    stored = sum(span.stored_bytes for stream in log.streams() for origin in log.ledger(stream) for span in log.spans(stream, origin))
    rounds = Rounds(log)
    for _ in range(2):
        pieces = [rounds.piece()]
        while not pieces[-1].round_ended:
            pieces.append(rounds.piece())
        assert sum(piece.bytes_ for piece in pieces) == stored
        assert len(pieces) == (BLOCKS + 1 if limits else 1)
    log.close()
