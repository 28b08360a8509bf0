"""Goal: where no key was given or pinned, a node is known by the first key that it shows in its own session. What others bring in its name
before that, and is acted upon, is believed from those alone who may say it anyway; after that a forger is named, and harms nobody.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from landfall.node.node import Node
from landfall.node.peers.trust_on_first_use import FILE_NAME, OTHER_KEY, introduced_to
from landfall.node.services.signing_job import KEY_NAME
from streams.integrity.signing_keys import key_text
from streams.log import Append
from streams.model.errors import Misuse, NotAllowed
from streams.model.records import Record, to_batch
from streams.replication.receiver import FORGED, UNCOVERED
from tests.landfall.commands import run
from tests.node.test_believing import forgery, key_of, named, node, relay
from tests.node.test_companions import started
from tests.node.test_definitions import bodies
from tests.node.test_proving import alert
from tests.proof.kit import STRANGER, SigningNode, all_blocks
from tests.support.fleet import address, introduced, until
from tests.support.refusals import refusal


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.block_store.GRACE_S", 0.5)
    monkeypatch.setattr("landfall.node.block_store.LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr("landfall.node.peers.trust_on_first_use.LOOK_EVERY_S", 0.05)


async def stop(*nodes: Node) -> None:
    for one in nodes:
        await one.stop()


async def test_a_loss_that_another_makes_up_in_her_name_is_refused_once_she_was_met(tmp_path: Path) -> None:
    """Though nobody gave her key, and over a start of headquarters' node too."""
    hq, tokyo, ship = await node("hq", tmp_path), await node("tokyo", tmp_path), await node("ship-a", tmp_path)
    await introduced(ship, hq)
    assert f"ship-a={key_text(key_of(ship).public)}\n" in (tmp_path / "hq" / FILE_NAME).read_text()
    await stop(hq)
    hq = await node("hq", tmp_path)
    forger = forgery(tmp_path, "ship-a", alert(7), STRANGER)
    relay(tokyo, forger.log, ["alerts"])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: {told["stream"] for told in named(hq)} == {"alerts", "alerts.heads"})
    assert {(told["peer"], told["reason"]) for told in named(hq) if told["stream"] == "alerts.heads"} == {("tokyo", FORGED)}
    assert not hq.log.position("alerts")
    await ship.append([alert(1)])
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: bool(hq.log.position("alerts")))
    assert set(hq.log.position("alerts")) == {ship.log.origin}
    forger.log.close()
    await stop(hq, tokyo, ship)


async def test_what_a_port_brings_of_a_ship_that_was_never_met_waits_for_her(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forged or true: the port is named with why, and may bring the true ones again in the same session once she has shown her key."""
    monkeypatch.setattr("streams.replication.sender.CLAIM_S", 1.0)  # what was refused is brought again then
    hq, tokyo, ship = await node("hq", tmp_path), await node("tokyo", tmp_path), await node("ship-a", tmp_path)
    await ship.append([alert(1)])
    ship.link([address("ship-a", "tokyo", tokyo.url)])
    await until(lambda: bool(tokyo.log.position("alerts")))
    forger = forgery(tmp_path, "ship-a", alert(7), STRANGER)
    tokyo.log.admit(all_blocks(forger.log, "alerts", forger.log.origin))
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: len(named(hq)) >= 2)
    assert {(told["peer"], told["reason"]) for told in named(hq)} == {("tokyo", UNCOVERED)}
    assert "ship-a" in named(hq)[0]["problem"]
    assert not hq.log.position("alerts")
    ship.link([])
    await until(lambda: not ship.links.status())
    await introduced(ship, hq)
    await until(lambda: set(hq.log.position("alerts")) == {ship.log.origin})
    forger.log.close()
    await stop(hq, tokyo, ship)


async def test_who_may_say_it_anyway_brings_it_of_nodes_that_were_never_met(tmp_path: Path) -> None:
    """Headquarters brings Sydney a ship's alerts, and one node of a ship the other's."""
    hq, sydney, ship = await node("hq", tmp_path), await node("sydney", tmp_path), await node("ship-a", tmp_path)
    await ship.append([alert(1)])
    ship.link([address("ship-a", "hq", hq.url)])
    hq.link([address("hq", "sydney", sydney.url)])
    await until(lambda: bool(sydney.log.position("alerts")))
    assert not sydney.has_met("ship-a")
    await stop(hq, sydney, ship)
    bridge, engine, tokyo = [await started(name, tmp_path / "pair") for name in ("bridge", "engine", "tokyo")]
    await engine.append([alert(1)])
    engine.link([address("engine", "bridge", bridge.url)])
    bridge.link([address("bridge", "tokyo", tokyo.url)])
    await until(lambda: bool(tokyo.log.position("alerts")))
    assert not tokyo.has_met("engine")
    await stop(bridge, engine, tokyo)


async def test_another_key_than_the_first_is_named_and_not_believed_until_somebody_says_so(tmp_path: Path) -> None:
    """A ship that lost all she had, her key too; the registry says which is hers now."""
    hq, ship = await node("hq", tmp_path), await node("ship-a", tmp_path)
    first = key_text(key_of(ship).public)
    await introduced(ship, hq)
    await stop(ship)
    (tmp_path / "ship-a" / KEY_NAME).unlink()
    ship = await node("ship-a", tmp_path)
    second = key_text(key_of(ship).public)
    await ship.append([alert(1)])
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: OTHER_KEY in str(bodies(hq, "exceptions")) and named(hq) != [])
    [told] = [body for body in bodies(hq, "exceptions") if OTHER_KEY in body]
    assert first in told
    assert second in told
    assert not hq.log.position("alerts")
    pinned = {"type": "node", "id": "ship-a", "version": 1, "value": {"keys": [second]}}
    await hq.append([Append("registry", to_batch([Record("node/ship-a", body=pinned)]))])
    ship.link([])
    await until(lambda: not ship.links.status())
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: bool(hq.log.position("alerts")))
    await stop(hq, ship)


async def test_a_key_that_is_accepted_on_the_spot_is_believed_beside_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the node runs, and after a start."""
    hq, ship = await node("hq", tmp_path), await node("ship-a", tmp_path)
    first = key_of(ship).public
    await introduced(ship, hq)
    await stop(ship)
    (tmp_path / "ship-a" / KEY_NAME).unlink()
    ship = await node("ship-a", tmp_path)
    second = key_of(ship).public
    await ship.append([alert(1)])
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: OTHER_KEY in str(bodies(hq, "exceptions")) and named(hq) != [])
    folder = ("--folder", str(tmp_path / "hq"))
    assert run(capsys, "keys", "accept", "ship-a", key_text(second), *folder)[0] == 0
    await until(lambda: introduced_to(tmp_path / "hq").keys["ship-a"] == {first, second})
    await until(lambda: hq._introductions is not None and hq._introductions.trust().keys["ship-a"] == {first, second})
    ship.link([])
    await until(lambda: not ship.links.status())
    ship.link([address("ship-a", "hq", hq.url)])
    await until(lambda: bool(hq.log.position("alerts")))
    await stop(hq, ship)
    assert run(capsys, "keys", "accept", "Ship A", key_text(second), *folder)[0] == 2
    assert run(capsys, "keys", "accept", "ship-a", "ed25519:x", *folder)[0] == 2
    assert run(capsys, "keys", "accept", "ship-a", key_text(second), "--folder", str(tmp_path / "none"))[0] == 2


async def test_a_file_that_a_port_wrote_is_believed_no_more_than_the_port(tmp_path: Path) -> None:
    hq, ship = await node("hq", tmp_path), SigningNode(tmp_path / "ship")
    ship.append(alert(0).records, "alerts")
    blocks = [*all_blocks(ship.log, "alerts.heads", ship.log.origin), *all_blocks(ship.log, "alerts", ship.log.origin)]
    with refusal(NotAllowed, "key_unknown", "ship-a"):
        await hq.admit(blocks, "tokyo")
    assert not hq.log.position("alerts")
    assert await hq.admit(blocks, "ship-a") == 1
    ship.log.close()
    await stop(hq)


async def test_a_line_that_is_no_key_is_told_of_and_stops_no_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "hq").mkdir()
    tokyo = key_text(STRANGER.public)
    (tmp_path / "hq" / FILE_NAME).write_text(f"ship-a=quack\ntokyo={tokyo}\n")
    hq = await node("hq", tmp_path)
    path = tmp_path / "hq" / FILE_NAME
    problems = [record.args[1] for record in caplog.records if isinstance(record.args, tuple) and path in record.args]
    assert {problem.code for problem in problems if isinstance(problem, Misuse)} == {"public_key_invalid"}
    assert (hq.has_met("ship-a"), hq.has_met("tokyo")) == (False, True)
    await hq.stop()
