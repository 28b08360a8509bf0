"""Goal: a node makes its key once and keeps it to itself, and what it appends is proven on other nodes without anybody's doing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landfall.node.node import Node
from landfall.node.services.audit_job import ASKED_AGAIN
from landfall.node.services.signing_job import KEY_NAME, load_or_make_key
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import verify
from streams.integrity.key_trust import GIVEN, Trust
from streams.integrity.statements import Statement
from streams.log import Append
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin, Position
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from streams.model.records import BODY, DEVICE_AT, SOURCE_OFFSET, SOURCE_ORIGIN, Record, body_text, to_batch
from tests.node.test_definitions import bodies
from tests.proof.kit import CODEC, SigningNode, all_blocks, forged
from tests.streams.logkit import content, rows
from tests.support.fleet import SINCE_AT_MS, address, readings, started, until
from tests.support.refusals import refusal


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


def test_a_key_that_can_not_be_kept_or_read_is_told(tmp_path: Path) -> None:
    with refusal(RetryLater, "key_unavailable", "made", os.strerror(errno.ENOENT)):
        load_or_make_key(tmp_path / "nowhere" / "key")
    (tmp_path / "key").mkdir(mode=0o700)
    with refusal(RetryLater, "key_unavailable", "read", os.strerror(errno.EISDIR)):
        load_or_make_key(tmp_path / "key")


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    load_or_make_key(path)
    path.chmod(0o640)
    with refusal(Misuse, "file_open"):
        load_or_make_key(path)
    path.chmod(0o600)
    path.write_bytes(b"something else")
    with refusal(Misuse, "private_key_invalid"):
        load_or_make_key(path)


async def test_what_a_ship_appends_is_proven_at_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.services.signing_job.SIGNED_EVERY_S", 0.05)
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


def alert(number: int) -> Append:
    return Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": str(number)})]))


def proven_count(node: Node, stream: str, origin: Origin) -> int:
    return verify(Copy(node.log, BlockCodec()), stream, origin, Trust()).proven.count()


def told_of_fork(node: Node, stream: str) -> int:
    bodies = [dict(row.record.body or {}) for batch in node.log.read("exceptions", Position()) for row in batch.rows()]
    return sum(body.get("stream") == stream and "appended again" in str(body["outcome"]) for body in bodies)


async def test_a_record_that_its_origin_never_signed_so_is_told_in_exceptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 0.05)
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
    assert (body["first"], body["end"], body["offsets"], body["origin"]) == (0, 20, "5", origin)
    await tokyo.stop()


async def test_a_fork_is_cured_by_the_nodes_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ship's disk is copied with its marker, and both machines go on. Tokyo hears the twin first; the ship's own come again, once."""
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 0.05)
    monkeypatch.setattr("landfall.node.services.signing_job.SIGNED_EVERY_S", 0.05)
    ship = await started("ship-a", tmp_path)
    await ship.append([readings(0, 10)])
    await ship.append([alert(0)])
    await until(lambda: ship.log.position("containers.heads") != Position())
    forked = ship.log.origin
    await ship.stop()
    shutil.copytree(tmp_path / "ship-a", tmp_path / "elsewhere" / "ship-a")
    twin, tokyo = await started("ship-a", tmp_path / "elsewhere"), await started("tokyo", tmp_path)
    assert twin.log.origin == forked
    await twin.append([readings(500, 2)])
    await until(lambda: proven_count(twin, "containers", forked) == 12)
    await twin.append([readings(502, 2)])
    for number in range(500, 504):
        await twin.append([alert(number)])
    await until(lambda: proven_count(twin, "containers", forked) == 14)
    twin.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: proven_count(tokyo, "containers", forked) == 14 and proven_count(tokyo, "alerts", forked) == 5)
    await twin.stop()

    ship = await started("ship-a", tmp_path)
    assert ship.log.origin == forked
    await ship.append([readings(900, 2)])
    await ship.append([alert(900)])
    await until(lambda: proven_count(ship, "containers", forked) == 12)
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: ship.log.origin != forked)
    again = ship.log.origin
    await until(lambda: proven_count(tokyo, "containers", again) == 2 and proven_count(tokyo, "alerts", again) == 1)
    [batch] = tokyo.log.run("containers", again, 0, 2)
    assert batch.records.column(SOURCE_OFFSET).to_pylist() == [10, 11]
    assert batch.records.column(SOURCE_ORIGIN).to_pylist() == [str(forked)] * 2
    assert batch.records.column(DEVICE_AT).to_pylist() == [SINCE_AT_MS + 1000 * at for at in (900, 901)]
    held = content(tokyo.log, ["containers"])
    assert len(held) == 16, "ten of both, four of the twin's, two of hers"
    await ship.stop()
    ship = await started("ship-a", tmp_path)
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: told_of_fork(ship, "containers") == 1 and told_of_fork(ship, "alerts") == 1)
    await ship.append([readings(950, 1)])
    await until(lambda: len(content(tokyo.log, ["containers"])) == 17)
    assert told_of_fork(ship, "containers") == 1, "after a restart it is not appended once more"
    for node in (ship, tokyo):
        await node.stop()


async def test_a_record_that_a_relay_altered_is_set_aside_and_fetched_from_another_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokyo forges; headquarters takes the record from Sydney in the end, and never again from Tokyo."""
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 0.05)
    ship = SigningNode(tmp_path / "elsewhere")
    for start in range(0, 60, 20):
        ship.append(rows(20, start))
        ship.sign()
    origin = ship.log.origin
    liar, honest, hq = await started("tokyo", tmp_path), await started("sydney", tmp_path), await started("hq", tmp_path)
    await liar._end(["checking"])  # or it would notice itself
    blocks, heads = (all_blocks(ship.log, stream, origin) for stream in ("containers", "containers.heads"))
    liar.log.admit([*forged(forged(blocks, 25, "return_c", 99.0), 33, "return_c", 99.0), *heads])
    honest.log.admit([*blocks, *heads])
    truth = content(ship.log, ["containers"])
    ship.log.close()
    hq.link([address("hq", "tokyo", liar.url)])
    await until(lambda: 25 in hq.log.ledger("containers").get(origin, OriginLedger()).held)
    await until(lambda: hq.log.ledger("containers")[origin].held == RangeSet([(0, 25), (26, 33), (34, 60)]))
    hq.link([address("hq", "tokyo", liar.url), address("hq", "sydney", honest.url)])
    await until(lambda: hq.log.ledger("containers")[origin].held == RangeSet([(0, 60)]))
    assert content(hq.log, ["containers"]) == truth
    await until(lambda: verify(Copy(hq.log, BlockCodec()), "containers", origin, Trust()).proven.count() == 60)

    def told_by_hq() -> list[dict[str, Any]]:
        return [dict(row.record.body or {}) for batch in hq.log.read("exceptions", Position()) for row in batch.rows()]

    await until(lambda: len(told_by_hq()) >= 3)
    told = told_by_hq()
    [body] = [body for body in told if body["reason"] == "records are not what the origin signed"]
    assert (body["offsets"], body["outcome"]) == ("25 33", ASKED_AGAIN)
    assert any("brought by tokyo" in str(body) for body in told)
    assert len(list((tmp_path / "hq" / "log" / "aside").iterdir())) == 1
    for node in (hq, honest, liar):
        await node.stop()


async def test_a_statement_that_a_relay_altered_is_set_aside_and_fetched_from_another_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokyo alters what the ship signed of an alert; headquarters, which knows no key of hers, has it from Sydney in the end."""
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 0.05)
    ship = SigningNode(tmp_path / "elsewhere")
    for number in range(3):
        ship.append(alert(number).records, "alerts")
    origin = ship.log.origin
    liar, honest, hq = await started("tokyo", tmp_path), await started("sydney", tmp_path), await started("hq", tmp_path)
    await liar._end(["checking"])  # or it would notice itself
    alerts, heads = (all_blocks(ship.log, stream, origin) for stream in ("alerts", "alerts.heads"))
    true = Statement.from_body("alerts", origin, CODEC.decode(heads[1]).column(BODY)[0].as_py())
    liar.log.admit([*alerts, *forged(heads, 1, BODY, body_text(replace(true, at_ms=true.at_ms + 1).body()))])
    honest.log.admit([*alerts, *heads])
    truth = content(ship.log, ["alerts.heads"])
    ship.log.close()
    hq.link([address("hq", "tokyo", liar.url)])
    await until(lambda: hq.log.ledger("alerts.heads").get(origin, OriginLedger()).held == RangeSet([(0, 1), (2, 3)]))
    hq.link([address("hq", "tokyo", liar.url), address("hq", "sydney", honest.url)])
    await until(lambda: hq.log.ledger("alerts.heads")[origin].held == RangeSet([(0, 3)]))
    assert content(hq.log, ["alerts.heads"]) == truth

    def told() -> list[str]:
        said = [json.loads(text) for text in bodies(hq, "exceptions")]
        return [body["outcome"] for body in said if body["reason"] == "a signature is not what it should be"]

    await until(lambda: told() != [])
    assert told() == [ASKED_AGAIN]
    for node in (hq, honest, liar):
        await node.stop()
