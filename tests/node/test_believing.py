"""Goal: what nodes act upon is believed only as its origin signed it, wherever that origin's key is known; a forger is named and harms
nobody, and what honest nodes wrote comes through.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landfall.node.node import Node
from landfall.node.services.signing_job import KEY_NAME, load_or_make_key
from landfall.node.settings import KnownPeer
from streams.integrity.copy_reader import Copy
from streams.integrity.signing_keys import SigningKey, key_text
from streams.integrity.statements import Statement, last_statement, statements
from streams.log import Append, Log
from streams.model.block import digest
from streams.model.clock import WallClock
from streams.model.errors import NotAllowed
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import Record, body_text, to_batch
from streams.replication import sync_messages as m
from streams.replication.receiver import FORGED, UNCOVERED
from streams.retention.droppable_runs import RUN
from streams.retention.known_holdings import AtHome
from tests.node.test_definitions import bodies
from tests.node.test_hostile import lying, track
from tests.node.test_proving import alert
from tests.proof.kit import CODEC, KEY, STRANGER, SigningNode, all_blocks, forged
from tests.streams.logkit import content, open_log
from tests.support.fleet import ROLES, address, readings, settings, until
from tests.support.refusals import refusal

OPENED = {"type": "stream", "id": "customers/*", "version": 10**6, "at_ms": 0, "by": "hq", "value": {"replicate": ["customer/{}", "port"]}}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.block_store.GRACE_S", 0.5)
    monkeypatch.setattr("landfall.node.block_store.LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 0.05)


async def node(name: str, folder: Path, keys: dict[str, SigningKey] | None = None, **more: Any) -> Node:
    """A node that was told these nodes' keys."""
    plain, keys = settings(name, folder), keys or {}
    texts = {n: (key_text(key.public),) for n, key in keys.items()}
    known = tuple(
        KnownPeer(
            node=n,
            role=role,
            identity=who,
            keys=texts.get(n, ()),
        )
        for n, (role, who) in ROLES.items()
        if n != name
    )
    one = Node(plain.model_copy(update={"known": known, **more}), WallClock())
    await one.start()
    return one


def key_of(one: Node) -> SigningKey:
    return load_or_make_key(one.settings.folder / KEY_NAME)


def named(one: Node) -> list[dict[str, Any]]:
    """The forgeries it told of in `exceptions`."""
    return [body for body in map(json.loads, bodies(one, "exceptions")) if body["reason"] in (FORGED, UNCOVERED)]


def waiting(one: Node) -> int:
    """How many blocks wait for what was signed of them."""
    return len(one._store._doubted) if one._store else 0


def rounds(one: Node) -> int:
    return int(one.metrics.body(0, 0)["counts"].get("retention_rounds", 0))


def forgery(folder: Path, of: str, append: Append, key: SigningKey | None) -> SigningNode:
    """A log in the name of `of` with this record, signed with a key of the forger's, or not at all."""
    forger = SigningNode(folder / "forger", of, key or KEY)
    if key is None:
        forger.log.witnessed_by(lambda stream, origin, batches, ends: None)
    forger.log.append([append])
    return forger


def relay(liar: Node, log: Log, streams: Sequence[str]) -> None:
    """The liar's log holds these as if it had been brought them."""
    for stream in [s for one in streams for s in (one, f"{one}.heads")]:
        for origin in log.ledger(stream):
            liar.log.admit(all_blocks(log, stream, origin))


@pytest.mark.parametrize("key", [None, STRANGER], ids=["unsigned", "signed-by-a-stranger"])
async def test_headquarters_obeys_no_registry_that_it_did_not_sign(tmp_path: Path, key: SigningKey | None) -> None:
    hq, tokyo = await node("hq", tmp_path), await node("tokyo", tmp_path)
    await hq.append([Append("customers/duckworks", to_batch([Record("MSKU1234565", body={"secret": 1})]))])
    forger = forgery(tmp_path, "hq", Append("registry", to_batch([Record("stream/customers/*", body=OPENED)])), key)
    relay(tokyo, forger.log, ["registry"])
    tokyo.link([address("tokyo", "hq", hq.url)])
    streams = {"registry", "registry.heads"} if key else {"registry"}
    await until(lambda: {told["stream"] for told in named(hq)} == streams)
    assert {(told["peer"], told["origin"]) for told in named(hq)} == {("tokyo", str(forger.log.origin))}
    assert {told["reason"] for told in named(hq) if told["stream"] == "registry"} == {UNCOVERED}, "its statement might lie on a bad sector"
    assert {told["reason"] for told in named(hq) if told["stream"] != "registry"} <= {FORGED}
    assert hq.definitions.of("customers/duckworks").replicate == ("customer/duckworks",)
    assert (hq.log.position("registry"), hq.log.position("registry.heads")) == (Position(), Position())
    assert not tokyo.log.position("customers/duckworks")
    forger.log.close()
    for one in (hq, tokyo):
        await one.stop()


@pytest.mark.parametrize("known", [True, False])
async def test_a_reading_made_up_far_ahead_lifts_no_word_of_a_relay(tmp_path: Path, known: bool) -> None:
    """Readings are taken before they are proven. The relay's word that all before its own is gone counts only below what the ship has
    signed, where her key is known; and there as soon as that is here.
    """
    ship, ahead = SigningNode(tmp_path / "ship"), 900
    ship.append(readings(0, 100).records)
    ship.sign()
    ship.append(readings(100, ahead).records)
    origin, hq = ship.log.origin, await node("hq", tmp_path, {"ship-a": KEY} if known else {})

    def gone() -> list[tuple[int, int]]:
        ledger = hq.log.ledger("containers").get(origin)
        return list(ledger.gone.get("lost", ())) if ledger else []

    async with lying(hq) as liar:
        [made_up] = ship.log.blocks("containers", origin, ahead, ahead + 1)
        data = made_up.to_bytes()
        begin = m.Begin(1, 0, ahead, ahead + 1, len(data), digest(data), 0, data)
        await liar.say(track(0, "containers", origin), begin)
        await until(lambda: bool(hq.log.ledger("containers")))
        await liar.say(m.Gone(0, "lost", [(40, 60), (200, ahead)]), m.Ping(7))
        await until(lambda: m.Pong(7) in liar.heard and (known or gone() != []))
        assert gone() == ([] if known else [(40, 60), (200, ahead)])
        hq.log.admit(all_blocks(ship.log, "containers.heads", origin))
        await until(lambda: gone() == ([(40, 60)] if known else [(40, 60), (200, ahead)]))
    ship.log.close()
    await hq.stop()


@pytest.mark.parametrize("by_registry", [False, True], ids=["given", "in-the-registry"])
async def test_an_alert_that_its_ship_did_not_sign_is_not_there(tmp_path: Path, by_registry: bool) -> None:
    """And the ship's own, given the same offset, is there nevertheless, from another peer."""
    hq = await node("hq", tmp_path, {} if by_registry else {"ship-a": KEY})
    if by_registry:
        pinned = {"type": "node", "id": "ship-a", "version": 1, "value": {"keys": [key_text(KEY.public)]}}
        await hq.append([Append("registry", to_batch([Record("node/ship-a", body=pinned)]))])
    tokyo, sydney = await node("tokyo", tmp_path), await node("sydney", tmp_path)
    await tokyo._end(["checking"])  # or it would notice itself
    ship = SigningNode(tmp_path / "ship")
    for number in range(3):
        ship.append(alert(number).records, "alerts")
    origin, truth = ship.log.origin, content(ship.log, ["alerts"])
    tokyo.log.admit(forged(all_blocks(ship.log, "alerts", origin), 1, "body", '{"alert_id":"7"}'))
    tokyo.log.admit(all_blocks(ship.log, "alerts.heads", origin))
    relay(sydney, ship.log, ["alerts"])
    ship.log.close()
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: named(hq) != [])
    assert (named(hq)[0]["peer"], named(hq)[0]["reason"], named(hq)[0]["passed_on"]) == ("tokyo", FORGED, True)
    assert '{"alert_id":"7"}' not in bodies(hq, "alerts")
    sydney.link([address("sydney", "hq", hq.url)])
    await until(lambda: hq.log.position("alerts")[origin] == 3)
    assert content(hq.log, ["alerts"]) == truth
    for one in (hq, tokyo, sydney):
        await one.stop()


async def test_a_forged_statement_is_out_of_an_alerts_way_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken before the ship's key was known, it stands where the true one belongs. While something waits to be believed, nobody waits for
    the next round of checking.
    """
    monkeypatch.setattr("landfall.node.services.audit_job.CHECKED_EVERY_S", 3600.0)
    hq, tokyo, sydney = [await node(name, tmp_path) for name in ("hq", "tokyo", "sydney")]
    ship = SigningNode(tmp_path / "ship")
    ship.append(alert(0).records, "alerts")
    origin, heads = ship.log.origin, all_blocks(ship.log, "alerts.heads", ship.log.origin)
    said = last_statement(ship.log, "alerts", origin)
    assert said is not None
    hq.log.admit(forged(heads, 0, "body", body_text(replace(said, key=STRANGER.public).by(STRANGER).body())))
    pinned = {"type": "node", "id": "ship-a", "version": 1, "value": {"keys": [key_text(KEY.public)]}}
    await hq.append([Append("registry", to_batch([Record("node/ship-a", body=pinned)]))])
    tokyo.log.admit(all_blocks(ship.log, "alerts", origin))
    relay(sydney, ship.log, ["alerts"])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: "a signature is not what it should be" in str(bodies(hq, "exceptions")))
    sydney.link([address("sydney", "hq", hq.url)])
    await until(lambda: hq.log.position("alerts")[origin] == 1)
    ship.log.close()
    for one in (hq, tokyo, sydney):
        await one.stop()


@pytest.mark.parametrize("key", [None, STRANGER], ids=["altered", "by-a-key-of-its-own"])
async def test_a_forged_statement_is_not_taken_and_those_beside_it_are(tmp_path: Path, key: SigningKey | None) -> None:
    """Tokyo alters one of three, or signs it in the ship's name; it is named, and headquarters has the true one from Sydney."""
    hq = await node("hq", tmp_path, {"ship-a": KEY})
    tokyo, sydney = await node("tokyo", tmp_path), await node("sydney", tmp_path)
    await tokyo._end(["checking"])  # or it would notice itself
    ship = SigningNode(tmp_path / "ship")
    for number in range(3):
        ship.append(alert(number).records, "alerts")
    origin, heads = ship.log.origin, all_blocks(ship.log, "alerts.heads", ship.log.origin)
    [_, (_, true), _] = statements(Copy(ship.log, CODEC), "alerts", origin)
    assert isinstance(true, Statement)
    false = replace(true, at_ms=true.at_ms + 1)
    relay(sydney, ship.log, ["alerts"])
    tokyo.log.admit(
        [*all_blocks(ship.log, "alerts", origin), *forged(heads, 1, "body", body_text((false.by(key) if key else false).body()))]
    )
    truth = content(ship.log, ["alerts", "alerts.heads"])
    ship.log.close()
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: "alerts.heads" in {told["stream"] for told in named(hq)})
    assert {told["peer"] for told in named(hq)} == {"tokyo"}
    await until(lambda: hq.log.ledger("alerts.heads")[origin].held == RangeSet([(0, 1), (2, 3)]))
    sydney.link([address("sydney", "hq", hq.url)])
    await until(lambda: hq.log.position("alerts")[origin] == 3 and hq.log.position("alerts.heads")[origin] == 3)
    assert content(hq.log, ["alerts", "alerts.heads"]) == truth
    for one in (hq, tokyo, sydney):
        await one.stop()


async def test_a_home_that_did_not_sign_makes_nobody_drop_anything(tmp_path: Path) -> None:
    hq = SigningKey.made()
    tokyo = await node("tokyo", tmp_path)
    sydney = await node("sydney", tmp_path, {"hq": hq}, retention_every_s=0.05)
    sydney.definitions.take("containers", 1, {"retention": {"age_days": 365}})
    await sydney.append([readings(0, 8192)])
    origin = sydney.log.origin
    everything = Position({origin: 8192})
    forger = forgery(tmp_path, "hq", AtHome(everything, everything).append_to("homes", "containers"), STRANGER)
    relay(tokyo, forger.log, ["homes"])
    old = open_log(tmp_path / "old", "hq")
    old.append([AtHome(everything, everything).append_to("consumers", "containers")])
    tokyo.log.admit(all_blocks(old, "consumers", old.origin))
    tokyo.link([address("tokyo", "sydney", sydney.url)])
    await until(lambda: named(sydney) != [] and bool(sydney.log.position("consumers")))
    assert named(sydney)[0]["peer"] == "tokyo"
    seen = rounds(sydney)
    await until(lambda: rounds(sydney) >= seen + 2)
    assert sydney.log.ledger("containers")[origin].held == RangeSet([(0, 8192)])
    for log in (old, forger.log):
        log.close()
    for one in (tokyo, sydney):
        await one.stop()


async def test_what_honest_nodes_signed_comes_through_a_relay_and_nobody_is_named(tmp_path: Path) -> None:
    """In one commit more than a run; to a node that was away, and joins behind a relay that proved it all before."""
    for name in ("ship-a", "hq"):
        (tmp_path / name).mkdir()
    keys = {name: load_or_make_key(tmp_path / name / KEY_NAME) for name in ("ship-a", "hq")}
    ship, hq = await node("ship-a", tmp_path, keys), await node("hq", tmp_path, keys)
    tokyo = await node("tokyo", tmp_path, keys)
    entries = [Record(f"custody/BOX{n}", body={"type": "custody", "id": f"BOX{n}", "version": 1, "value": {}}) for n in range(RUN + 100)]
    await hq.append([Append("registry", to_batch(entries))])
    for number in range(20):
        await ship.append([alert(number), Append("events", to_batch([Record("MSKU1234565", body={"event_id": str(number)})]))])
    hq.link([address("hq", "tokyo", tokyo.url)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "satellite")])
    await until(lambda: hq.log.position("alerts")[ship.log.origin] == 20)
    await hq.append([Append("aboard/9321483", to_batch([Record("port/SGSIN", body={"value": {}})]))])
    await until(lambda: bool(ship.log.position("aboard/9321483")))
    await until(lambda: tokyo.log.position("registry")[hq.log.origin] == RUN + 100)
    late = await node("sydney", tmp_path, keys)
    late.link([address("sydney", "tokyo", tokyo.url)])
    await ship.append([alert(20)])
    await until(lambda: late.log.position("registry")[hq.log.origin] == RUN + 100 and late.log.position("alerts")[ship.log.origin] == 21)
    nodes = (ship, hq, tokyo, late)
    assert [named(one) for one in nodes] == [[], [], [], []]
    for one in nodes:
        await one.stop()


async def test_what_waits_for_its_proof_is_asked_for_again_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokyo brings the alert before what was signed of it; headquarters ends meanwhile, and has acknowledged nothing."""
    monkeypatch.setattr("landfall.node.block_store.GRACE_S", 3600.0)
    hq, tokyo = await node("hq", tmp_path, {"ship-a": KEY}), await node("tokyo", tmp_path)
    ship = SigningNode(tmp_path / "ship")
    ship.append(alert(0).records, "alerts")
    origin = ship.log.origin
    tokyo.log.admit(all_blocks(ship.log, "alerts", origin))
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: waiting(hq) == 1)
    assert not hq.log.position("alerts")
    await hq.stop()
    hq = await node("hq", tmp_path, {"ship-a": KEY})
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: waiting(hq) == 1)
    tokyo.log.admit(all_blocks(ship.log, "alerts.heads", origin))
    await until(lambda: hq.log.position("alerts")[origin] == 1)
    assert named(hq) == []
    ship.log.close()
    for one in (hq, tokyo):
        await one.stop()


async def test_what_comes_through_the_door_is_believed_no_sooner(tmp_path: Path) -> None:
    """A carried file brings alerts with what was signed of them, or in vain."""
    hq = await node("hq", tmp_path, {"ship-a": KEY})
    ship = SigningNode(tmp_path / "ship")
    ship.append(alert(0).records, "alerts")
    origin = ship.log.origin
    blocks, heads = all_blocks(ship.log, "alerts", origin), all_blocks(ship.log, "alerts.heads", origin)
    with refusal(NotAllowed, "not_proven"):
        await hq.admit(blocks)
    with refusal(NotAllowed, "not_proven"):
        await hq.admit([*forged(blocks, 0, "body", "{}"), *heads])
    assert not hq.log.position("alerts")
    assert await hq.admit(blocks) == 1
    ship.log.close()
    await hq.stop()
