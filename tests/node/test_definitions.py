"""Goal: what headquarters sets of a stream holds at every node at once, without a restart: who gets it, who writes it, in which lane."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from cargo.vocabulary.registry_entries import Entry, RegistryValue, Ship, Stream, entry_body
from cargo.vocabulary.registry_entries import NodeKeys as NodeKeys
from landfall.node.node import Node
from landfall.node.services.definition_watcher import Defining
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.segments import file_path
from shore.ship_feed import ShipsDesk
from shore.ship_forwarder import Forwarding
from streams.config.roles import Lane, Peer
from streams.config.stream_definitions import Definitions
from streams.log import Append
from streams.model.errors import NotAllowed
from streams.model.records import Record, to_batch
from tests.streams.damagekit import flip_bit
from tests.streams.logkit import copy_all, open_log
from tests.support.fleet import address, readings, started, until
from tests.support.refusals import refusal

SHIP = "9321483"


async def define(hq: Node, name: str, version: int, **fields: Any) -> None:
    await enter(hq, "stream", name, version, Stream(**fields))


async def enter(hq: Node, kind: str, name: str, version: int, value: RegistryValue) -> None:
    entry = Entry(kind, name, version, 1, "olga", value)
    await hq.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry))]))])


async def say(node: Node, stream: str, number: int) -> None:
    await node.append([Append(stream, to_batch([Record("quay", body={"number": number})]))])


async def test_a_stream_goes_to_one_port_then_to_another(tmp_path: Path) -> None:
    hq, tokyo, singapore = [await started(name, tmp_path) for name in ("hq", "tokyo", "singapore")]
    tokyo.link([address("tokyo", "hq", hq.url)])
    singapore.link([address("singapore", "hq", hq.url)])
    await define(hq, "quays", 1, replicate=("hq", "port/SGSIN"))
    for port in (tokyo, singapore):
        await until(lambda port=port: bool(port.definitions.versions()))  # type: ignore[misc]
    await say(hq, "quays", 1)
    await until(lambda: singapore.log.position("quays") == hq.log.position("quays"))
    await define(hq, "quays", 2, replicate=("hq", "port/JPTYO"))
    await until(lambda: tokyo.log.position("quays") == hq.log.position("quays"))
    assert tokyo.log.ledger("quays")[hq.log.origin].held.count() == 1, "also what was written before it was meant"
    await say(hq, "quays", 2)
    await until(lambda: tokyo.log.position("quays") == hq.log.position("quays"))
    await until(lambda: singapore.log.position("registry") == hq.log.position("registry"))
    await until(lambda: singapore.definitions.versions() == {"quays": 2})
    assert singapore.log.position("quays")[hq.log.origin] == 1, "what it has it keeps, and gets no more"
    told = [body for node in (hq, tokyo, singapore) for body in bodies(node, "exceptions") if "broke the rules" in body]
    assert not told, "a change that has not arrived everywhere is nobody's fault"
    for node in (tokyo, singapore, hq):
        await node.stop()


async def test_a_lane_changes_while_the_session_goes_on(tmp_path: Path) -> None:
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: "tokyo" in hq.links.status())
    opened = hq.metrics.body(0, 0)["counts"]["sessions_opened"]
    await define(hq, "containers", 1, lane="alerts", patience_s=5)
    await until(lambda: tokyo.definitions.of("containers").lane == Lane.ALERTS)
    assert tokyo.definitions.of("containers").patience_s == 5
    await tokyo.append([readings(0, 100)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    assert hq.metrics.body(0, 0)["counts"]["sessions_opened"] == opened, "nothing is shared otherwise: no need to meet again"
    await tokyo.stop()
    await hq.stop()


async def test_a_ship_hears_what_concerns_her_and_it_outlives_a_restart(tmp_path: Path) -> None:
    hq, ship = await started("hq", tmp_path), await started("ship-a", tmp_path)
    forwarding = Forwarding(hq.report)
    hq._begin("forwarding", lambda: forwarding.run(hq.log, hq))
    ship.link([address("ship-a", "hq", hq.url, "satellite")])
    her = Entry("ship", SHIP, 1, 1, "clerk", Ship(SHIP, "Big Blue", "3FOF8", "370123000", "PA", 2000))
    await hq.append([Append("registry", to_batch([Record(her.topic, body=entry_body(her))]))])
    await define(hq, "containers", 1, retention={"age_days": 30})
    await define(hq, "customers/duckworks", 1, retention={"age_days": 365})
    await until(lambda: ship.definitions.of("containers").retention.age_days == 30)
    assert ship.definitions.versions() == {"containers": 1}
    await ship.stop()
    ship = await started("ship-a", tmp_path)
    assert ship.definitions.versions() == {"containers": 1}, "before any session"
    await ship.stop()
    await hq.stop()


async def test_a_ship_turns_away_from_a_port_that_is_withdrawn_until_that_is_taken_back(tmp_path: Path) -> None:
    """Headquarters tells her, over whatever link she has."""
    hq, tokyo, ship = [await started(name, tmp_path) for name in ("hq", "tokyo", "ship-a")]
    forwarding = Forwarding(hq.report, ships=ShipsDesk([known.peer() for known in hq.settings.known]))
    hq._begin("forwarding", lambda: forwarding.run(hq.log, hq))
    ship.link([address("ship-a", "hq", hq.url, "satellite"), address("ship-a", "tokyo", tokyo.url, "port")])
    await enter(hq, "ship", SHIP, 1, Ship(SHIP, "Big Blue", "3FOF8", "370123000", "PA", 2000))
    await until(lambda: sorted(ship.links.status()) == ["hq", "tokyo"])
    await enter(hq, "node", "tokyo", 1, NodeKeys(withdrawn=True))
    await until(lambda: list(ship.links.status()) == ["hq"])
    with refusal(NotAllowed, "node_withdrawn", "tokyo"):
        ship.links.who("tokyo", None, "token-of-tokyo")
    await ship.append([readings(0, 100)])
    await enter(hq, "node", "tokyo", 2, NodeKeys(withdrawn=False))
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    for node in (ship, tokyo, hq):
        await node.stop()


async def test_a_customers_boxes_in_a_stream_of_their_own_with_other_settings(tmp_path: Path) -> None:
    hq, ducks = await started("hq", tmp_path), await started("ducks", tmp_path)
    ducks.link([address("ducks", "hq", hq.url)])
    mine = {"home": "port/JPTYO", "replicate": ("customer/duckworks", "port/JPTYO")}
    await define(hq, "customers/duckworks", 1, retention={"age_days": 3650, "bytes": None}, **mine)
    await until(lambda: hq.definitions.of("customers/duckworks").home == "port/JPTYO")
    await say(hq, "customers/duckworks", 1)
    await say(hq, "customers/cogs", 2)
    await until(lambda: ducks.log.position("customers/duckworks") == hq.log.position("customers/duckworks"))
    assert [stream for stream in ducks.log.streams() if stream.startswith("customers/")] == ["customers/duckworks"]
    theirs = hq.definitions.of("customers/duckworks")
    assert (theirs.retention.age_days, theirs.home, theirs.originate) == (3650, "port/JPTYO", ("hq",))
    assert hq.definitions.of("customers/cogs").retention.age_days is None
    await ducks.stop()
    await hq.stop()


def test_a_setting_in_a_damaged_block_is_learnt_once_it_is_fetched_again(tmp_path: Path) -> None:
    """And what was read around it in the meantime: without a restart."""
    hq, tokyo = open_log(tmp_path / "hq", "hq"), open_log(tmp_path / "tokyo", "tokyo")
    for name in ("quays", "cranes", "gates"):
        entry = Entry("stream", name, 1, 1, "olga", Stream(patience_s=7))
        hq.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry))]))])
    copy_all(hq, tokyo, ["registry"])
    with closing(IndexReader.open(tmp_path / "tokyo" / "log" / INDEX_NAME)) as index:
        [piece] = index.pieces(("registry", hq.origin), 1, 2)
    place = piece.location
    flip_bit(file_path(tmp_path / "tokyo" / "log", place.segment), place.at + place.length // 2)
    definitions = Definitions()
    defining = Defining(Peer("tokyo", "port", "JPTYO"), definitions, lambda *_, **__: None)
    defining.take_up(tokyo)
    assert (set(definitions.versions()), 1 in tokyo.ledger("registry")[hq.origin].held) == ({"quays"}, False)
    copy_all(hq, tokyo, ["registry"])
    defining.take_up(tokyo)
    assert set(definitions.versions()) == {"quays", "cranes", "gates"}
    tokyo.close()
    hq.close()


def bodies(node: Node, stream: str) -> list[str]:
    batches = [batch for origin, ledger in node.log.ledger(stream).items() for batch in node.log.run(stream, origin, 0, ledger.end())]
    return [text for batch in batches for text in batch.records.column("body").to_pylist()]
