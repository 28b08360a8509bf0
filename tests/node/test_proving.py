"""Goal: a node makes its key once and keeps it to itself, and what it appends is proven on other nodes without anybody's doing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from streams.codec import BlockCodec
from streams.errors import Misuse
from streams.log import Append
from streams.node.proving import KEY_NAME, load_or_make_key
from streams.proof.reading import Copy
from streams.proof.trust import GIVEN, Trust
from streams.proof.verifying import verify
from streams.records import Record, to_batch
from streams.words import Position
from tests.node.fleet import address, readings, started, until
from tests.proof.kit import SigningNode, all_blocks, forged
from tests.streams.logkit import rows


def test_a_key_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    previous = os.umask(0)
    try:
        key = load_or_make_key(path)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make_key(path).public == key.public
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    load_or_make_key(path)
    path.chmod(0o640)
    with pytest.raises(Misuse, match="chmod 600"):
        load_or_make_key(path)
    path.chmod(0o600)
    path.write_bytes(b"something else")
    with pytest.raises(Misuse, match="no private key"):
        load_or_make_key(path)


async def test_what_a_ship_appends_is_proven_at_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.node.proving.SIGNED_EVERY_S", 0.05)
    ship, tokyo = await started("ship-a", tmp_path), await started("tokyo", tmp_path)
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await ship.append([readings(0, 5_000), Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    trust = Trust({"ship-a": frozenset([load_or_make_key(ship.settings.folder / KEY_NAME).public])}, GIVEN)

    def proven(stream: str) -> int:
        return verify(Copy(tokyo.log, BlockCodec()), stream, ship.log.origin, trust).proven.count()

    await until(lambda: proven("alerts") == 1)
    await until(lambda: proven("containers") == 5_000)
    await ship.stop()
    await tokyo.stop()


async def test_a_record_that_its_origin_never_signed_so_is_told_in_exceptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.node.proving.CHECKED_EVERY_S", 0.05)
    ship = SigningNode(tmp_path / "elsewhere")
    ship.append(rows(20), "alerts")
    tokyo = await started("tokyo", tmp_path)
    tokyo.log.admit(forged(all_blocks(ship.log, "alerts", ship.log.origin), 5, "return_c", 99.0))
    tokyo.log.admit(all_blocks(ship.log, "alerts.heads", ship.log.origin))
    origin = str(ship.log.origin)
    ship.log.close()

    def told() -> list[dict[str, Any]]:
        return [dict(row.record.body or {}) for batch in tokyo.log.read("exceptions", Position()) for row in batch.rows()]

    await until(lambda: any(body["reason"] == "records are not what the origin signed" for body in told()))
    [body] = [body for body in told() if body.get("stream") == "alerts"]
    assert (body["first"], body["end"], body["origin"]) == (0, 20, origin)
    await tokyo.stop()
