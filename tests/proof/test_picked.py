"""Goal: rows picked out of a log and made blocks again are, to the byte, what their origin signed; what is no such packing is refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import PARTLY_HELD
from streams.integrity.online_audit import Watch
from streams.model.records import Batch, Record, to_batch
from streams.row_subset import blocks_of, pack, place_of, unpack
from tests.proof.kit import CODEC, SigningNode, all_blocks, held_against
from tests.streams.logkit import NOW_MS, open_log

ROWS = 4_100
"""A closed run of the chain, and the beginning of the next."""


def filled(folder: Path) -> SigningNode:
    """A signing ship, every hundredth row of one box; signals sparse, whole in one commit and broken in the next; bodies as they came."""
    ship = SigningNode(folder / "ship")
    for commit, value in enumerate((1, 0.1)):
        rows = []
        for at in range(commit * ROWS // 2, (commit + 1) * ROWS // 2):
            box = "asked" if at % 100 == 3 else f"box-{at % 10}"
            body = {"note": "\u00fc" * (at % 3)} if at % 4 == 0 else None
            signals = {"x": value * at, **({"open": True} if at % 6 == 0 else {})}
            rows.append(Record(box, f"TRK-{at % 7}", NOW_MS - ROWS + at, signals, body))
        ship.append(to_batch(rows))
    return ship


def test_what_was_picked_is_what_was_signed_before_and_after_the_rest_comes(tmp_path: Path) -> None:
    ship, hq = filled(tmp_path), open_log(tmp_path / "hq", "hq")
    origin, watch = ship.log.origin, Watch(Copy(hq, CODEC))
    for batch in ship.log.topic_rows("containers", "asked"):
        for _ in range(2):
            hq.admit(list(blocks_of(CODEC, unpack(CODEC, pack(CODEC, batch)))))
    assert hq.ledger("containers")[origin].held.count() == ROWS // 100
    ship.sign()
    hq.admit(all_blocks(ship.log, "containers.heads", origin))
    early = held_against(hq, origin)
    assert (early.holds, early.proven.count(), {doubt.why for doubt in early.unproven} >= {PARTLY_HELD}) == (True, 0, True)
    assert not watch.step()
    hq.admit(all_blocks(ship.log, "containers", origin))
    late = held_against(hq, origin)
    assert (late.holds, late.proven.count(), late.unproven) == (True, ROWS, [])
    assert not watch.step()
    ship.log.close()
    hq.close()


def test_what_is_no_packing_is_refused(tmp_path: Path) -> None:
    ship = filled(tmp_path)
    [batch, *_] = ship.log.topic_rows("containers", "asked")
    good = pack(CODEC, batch)
    whole = next(ship.log.blocks("containers", ship.log.origin, 0, batch.records.num_rows))
    own = base64.urlsafe_b64encode(whole.to_bytes()).decode()
    wrong: list[dict[str, Any]] = [
        {},
        {**good, "block": good["block"][:-8]},
        {**good, "block": own},
        {**good, "block": "\u00fc"},
        {**good, "offsets": good["offsets"][:-4]},
        {**good, "offsets": "AAAA"},
        {**good, "offsets": "gICAgICAgICAgICAgAE="},
        {**good, "stream": "a b"},
        {**good, "origin": "ship-a"},
        {**good, "origin": None},
    ]
    for body in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            unpack(CODEC, body)
    assert place_of(good) == ("containers", ship.log.origin, batch.records.column("offset").to_pylist())
    with pytest.raises(ValueError, match="ascending"):
        pack(CODEC, Batch(batch.stream, batch.origin, batch.records.take(list(range(3))[::-1])))
    ship.log.close()
