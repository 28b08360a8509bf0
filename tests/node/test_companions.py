"""Goal: two nodes of one ship are two copies of her: what either wrote is at both, comes ashore once whoever brings it, and a disk that is
lost comes back from the other.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from landfall.access.credentials import CredentialFile
from landfall.node.node import Node
from landfall.node.peers.catch_up import lacked
from landfall.node.settings import KnownPeer, NodeSettings
from streams.config.roles import LAN, Peer, Role, companions, may_send
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.identifiers import Origin
from streams.model.records import Record, to_batch
from streams.replication import Terms
from tests.support.credentials import allow_peers
from tests.support.fleet import address, introduced, readings, until

IMO = "9321483"
FLEET: dict[str, tuple[Role, str]] = {
    "bridge": ("ship", IMO),
    "engine": ("ship", IMO),
    "mast": ("ship", IMO),
    "other": ("ship", "9074729"),
    "tokyo": ("port", "JPTYO"),
    "hq": ("hq", ""),
}


def settings(name: str, folder: Path) -> NodeSettings:
    known = tuple(KnownPeer(node=node, role=role, identity=identity) for node, (role, identity) in FLEET.items() if node != name)
    role, identity = FLEET[name]
    allow_peers(folder / name, {node: f"token-of-{node}" for node in FLEET if node != name})
    return NodeSettings(node=name, role=role, identity=identity, folder=folder / name, known=known)


async def started(name: str, folder: Path) -> Node:
    node = Node(settings(name, folder), WallClock())
    await node.start()
    return node


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    """The two nodes of a ship in session, and a port that neither is in session with."""
    bridge, engine, tokyo = [await started(name, tmp_path) for name in ("bridge", "engine", "tokyo")]
    bridge.link([address("bridge", "engine", engine.url)])
    await until(lambda: "engine" in bridge.links.status() and "bridge" in engine.links.status())
    yield bridge, engine, tokyo
    for node in (bridge, engine, tokyo):
        await node.stop()


def has(node: Node, stream: str) -> int:
    """How many records of `stream` it has."""
    return sum(node.log.position(stream).values())


def alert(number: int) -> Append:
    return Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": str(number)})]))


def alike(stream: str, *nodes: Node) -> bool:
    """Whether they have the same of `stream`, and not nothing."""
    positions = [node.log.position(stream) for node in nodes]
    return bool(positions[0]) and all(one == positions[0] for one in positions)


async def test_what_either_took_in_is_at_both(pair: tuple[Node, Node, Node]) -> None:
    bridge, engine, _ = pair
    await bridge.append([readings(0, 3_000), alert(1)])
    await engine.append([readings(5_000, 2_000)])
    await until(lambda: alike("alerts", bridge, engine) and alike("containers", bridge, engine) and has(bridge, "containers") == 5_000)
    assert bridge.log.history("MSKU1234565").rows.num_rows == engine.log.history("MSKU1234565").rows.num_rows == 5_001


async def test_one_brings_ashore_what_the_other_wrote(pair: tuple[Node, Node, Node]) -> None:
    bridge, engine, tokyo = pair
    await bridge.append([readings(0, 3_000), alert(1)])
    await until(lambda: has(engine, "containers") == 3_000 and has(engine, "alerts") == 1)
    await bridge.stop()
    engine.link([address("engine", "tokyo", tokyo.url, "port")])
    await until(lambda: alike("containers", engine, tokyo) and alike("alerts", engine, tokyo))
    assert tokyo.log.history("MSKU1234565").rows.num_rows == 3_001


async def test_what_both_can_bring_comes_ashore_once(pair: tuple[Node, Node, Node]) -> None:
    bridge, engine, tokyo = pair
    bridge.link([address("bridge", "engine", engine.url), address("bridge", "tokyo", tokyo.url, "port")])
    engine.link([address("engine", "tokyo", tokyo.url, "port")])
    await until(lambda: set(tokyo.links.status()) == {"bridge", "engine"})
    for first in range(0, 2_000, 500):
        await bridge.append([readings(first, 500)])
        await engine.append([readings(20_000 + first, 500)])
    await until(lambda: alike("containers", bridge, engine, tokyo) and has(tokyo, "containers") == 4_000)
    assert tokyo.log.history("MSKU1234565").rows.num_rows == 4_000


async def test_a_lost_disk_comes_back_from_the_other(tmp_path: Path, pair: tuple[Node, Node, Node]) -> None:
    bridge, engine, _ = pair
    await engine.append([readings(0, 3_000)])
    await until(lambda: has(bridge, "containers") == 3_000)
    lost = engine.log.origin
    await engine.stop()
    shutil.rmtree(tmp_path / "engine")
    again = await started("engine", tmp_path)
    again.link([address("engine", "bridge", bridge.url)])
    await until(lambda: again.log.position("containers")[lost] == 3_000)
    assert again.log.origin != lost
    assert again.log.history("MSKU1234565").rows.num_rows == 3_000
    await again.stop()


async def test_who_is_started_again_knows_what_it_lacks_of_the_other_s(tmp_path: Path, pair: tuple[Node, Node, Node]) -> None:
    """What the other wrote meanwhile, until it is here; nobody knows while none is in session."""
    bridge, engine, _ = pair
    await engine.append([readings(0, 100)])
    await until(lambda: has(bridge, "containers") == 100 and lacked(bridge, ("containers",)) == 0)
    await engine.stop()
    assert lacked(bridge, ("containers",)) is None
    await bridge.append([readings(1_000, 20_000), alert(1)])
    again, seen = await started("engine", tmp_path), set[int | None]()
    assert lacked(again, ("containers", "ships")) is None
    again.link([address("engine", "bridge", bridge.url)])

    def there() -> bool:
        seen.add(now := lacked(again, ("containers", "ships")))
        return now == 0

    await until(there)
    assert has(again, "containers") == 20_100
    assert max(one for one in seen if one is not None) == 20_000
    await again.stop()


async def test_what_headquarters_told_the_ship_is_told_on(tmp_path: Path, pair: tuple[Node, Node, Node]) -> None:
    """Whichever of them has the link."""
    bridge, engine, tokyo = pair
    hq = await started("hq", tmp_path)
    await introduced(hq, bridge)
    await hq.append([Append(f"aboard/{IMO}", to_batch([Record("port/JPTYO", body={"value": {}})]))])
    engine.link([address("engine", "hq", hq.url, "satellite")])
    await until(lambda: has(bridge, f"aboard/{IMO}") == 1)
    await hq.stop()
    assert not tokyo.log.streams() or f"aboard/{IMO}" not in tokyo.log.streams()


SHIPS = {"bridge": IMO, "engine": IMO, "other": "9074729"}
BRIDGE, ENGINE, OTHER, TOKYO = (Peer(node, *FLEET[node]) for node in ("bridge", "engine", "other", "tokyo"))


def test_who_may_bring_what() -> None:
    assert may_send(ENGINE, "bridge", SHIPS)
    assert not may_send(ENGINE, "other", SHIPS)
    assert not may_send(ENGINE, "hq", SHIPS)
    assert not may_send(Peer("engine", "ship"), "bridge", SHIPS), "a ship of which no number is known speaks for itself alone"
    assert companions(BRIDGE, ENGINE)
    assert not companions(ENGINE, OTHER)
    assert not companions(Peer("a", "customer", "ducks"), Peer("b", "customer", "ducks"))


@pytest.mark.parametrize(
    ("me", "other", "key", "incoming", "outgoing"),
    [
        (BRIDGE, ENGINE, ("containers", Origin("engine", 1)), True, True),
        (BRIDGE, ENGINE, ("containers", Origin("other", 1)), False, False),
        (BRIDGE, OTHER, ("containers", Origin("engine", 1)), False, False),
        (BRIDGE, OTHER, ("containers", Origin("other", 1)), False, False),
        (TOKYO, ENGINE, ("containers", Origin("bridge", 1)), True, True),
        (TOKYO, ENGINE, ("containers", Origin("other", 1)), False, False),
        (BRIDGE, ENGINE, (f"aboard/{IMO}", Origin("hq", 1)), True, True),
        (BRIDGE, ENGINE, ("registry", Origin("hq", 1)), False, False),
    ],
)
def test_terms_of_a_ships_nodes(me: Peer, other: Peer, key: tuple[str, Origin], incoming: bool, outgoing: bool) -> None:
    roles: dict[str, Role] = {node: role for node, (role, _) in FLEET.items()}
    terms = Terms(me, other, LAN, roles, ships=SHIPS)
    assert (terms.incoming(key), terms.outgoing(key)) == (incoming, outgoing)


async def test_a_credential_given_or_withdrawn_at_one_node_is_so_at_both(pair: tuple[Node, Node, Node]) -> None:
    """And at no port that they are in session with."""
    bridge, engine, tokyo = pair
    bridge.link([address("bridge", "engine", engine.url), address("bridge", "tokyo", tokyo.url)])
    await until(lambda: "tokyo" in bridge.links.status())
    files = [CredentialFile(node.settings.folder) for node in pair]
    own = [file.read() for file in files]
    token = files[0].give_token("gateway:bay-1", {"produce": ("landfall/#",)})
    await until(lambda: engine.credentials.is_gateways("bay-1", token.encode()))
    files[1].withdraw("gateway:bay-1")
    await until(lambda: not bridge.credentials.is_gateways("bay-1", token.encode()))
    assert [file.read() for file in files] == own, "what peers show at each node stays its own"
    assert "gateway:bay-1" not in {one.principal for one in files[2].read_all()}
