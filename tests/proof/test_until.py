"""Goal: what a copy holds past the last statement to be believed of its origin is told to be not proven, by whatever keys are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streams.config.companion_streams import HEADS
from streams.integrity.copy_reader import Copy
from streams.integrity.key_trust import NOBODY
from streams.integrity.signed_watermark import SignedUntil, Until
from streams.integrity.statements import last_statement
from streams.model.records import BODY, body_text
from tests.proof.kit import CODEC, STRANGER, SigningNode, all_blocks, forged, trust
from tests.streams.logkit import NOW_MS, open_log, rows


def test_it_moves_with_each_statement(tmp_path: Path) -> None:
    ship = SigningNode(tmp_path)
    of = SignedUntil(Copy(ship.log, CODEC), lambda _: trust())
    for count, signed in ((5, 0), (7, 5), (0, 12)):
        if count:
            ship.append(rows(count))
        assert of.of("containers", ship.log.origin) == Until(signed, NOW_MS if signed else None)
        ship.sign()
    assert of.of("containers", ship.log.origin) == Until(12, NOW_MS)
    assert of.of("metrics", ship.log.origin) is None, "never signed"
    assert of.of("containers" + HEADS, ship.log.origin) is None
    ship.log.close()


def test_a_strangers_statement_proves_nothing(tmp_path: Path) -> None:
    """Of a key that is not the node's: passed over where the node's key is known; the true one counts as soon as it stands there."""
    ship, hq = SigningNode(tmp_path / "ship"), open_log(tmp_path / "hq", "hq")
    for _ in range(2):
        ship.append(rows(4))
        ship.sign()
    heads, origin = "containers" + HEADS, ship.log.origin
    true, last = all_blocks(ship.log, heads, origin), last_statement(ship.log, "containers", origin)
    assert last is not None
    hq.admit(forged(true, 1, BODY, body_text(replace(last, key=STRANGER.public).by(STRANGER).body())))
    known, unknown = SignedUntil(Copy(hq, CODEC), lambda _: trust()), SignedUntil(Copy(hq, CODEC), lambda _: NOBODY)
    assert (known.of("containers", origin), unknown.of("containers", origin)) == (Until(4, NOW_MS), Until(8, NOW_MS))
    hq.set_aside(heads, origin, 1, 2, "no statement to be believed")
    hq.admit(true)
    assert known.of("containers", origin) == Until(8, NOW_MS)
    for log in (ship.log, hq):
        log.close()
