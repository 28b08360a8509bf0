"""Goal: a customer's own node has its stream, whole, proven and for as long as it likes, and nothing of anyone else; headquarters can end
that at any time, and nobody but headquarters can make it more.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

import landfall
from cargo.vocabulary.registry_entries import Customer, Entry, Stream, entry_body
from cargo.vocabulary.registry_entries import NodeKeys as NodeKeys
from landfall.node.node import Node
from landfall.node.services.signing_job import KEY_NAME, load_or_make_key
from landfall.node.settings import KeepSettings, KnownPeer, NodeSettings
from shore.customer_node import CustomerNode
from shore.port import PortNode
from shore.settings import CustomerSettings, PortSettings
from streams.codec import BlockCodec
from streams.integrity.copy_reader import Copy
from streams.integrity.copy_verifier import verify
from streams.integrity.key_trust import TOLD_TO_CUSTOMER, registry_trust
from streams.integrity.signing_keys import key_text
from streams.log import Append
from streams.model.clock import Clock, WallClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.landfall.commands import run
from tests.support.credentials import allow_all
from tests.support.fleet import SINCE_AT_MS, Calendar, address, until
from tests.support.refusals import refusal

MINE, TERMS = "customers/duckworks", "terms/duckworks"
OTHERS = ("containers", "alerts", "events", "states", "customers/cogs", "aboard/9321483", "quays")
DAY_MS = 86_400_000
RUN = 4096


def node_settings(name: str, role: str, identity: str, folder: Path, known: list[KnownPeer]) -> NodeSettings:
    allow_all(folder / name, f"door-of-{name}", {peer.node: f"token-of-{peer.node}" for peer in known})
    return NodeSettings(
        node=name,
        role=role,  # type: ignore[arg-type]
        identity=identity,
        folder=folder / name,
        known=tuple(known),
        retention_every_s=0.05,
        reserve_bytes=0,
    )


def peer(node: str, role: str, identity: str) -> KnownPeer:
    return KnownPeer(node=node, role=role, identity=identity)  # type: ignore[arg-type]


async def headquarters(folder: Path, clock: Clock | None = None) -> Node:
    known = [peer("ducks", "customer", "duckworks"), peer("cogs", "customer", "cogs"), peer("tokyo", "port", "JPTYO")]
    hq = PortNode(PortSettings(node=node_settings("hq", "hq", "", folder, known)), clock or WallClock())
    await hq.start()
    return hq.node


async def customer(folder: Path, hq: Node, clock: Clock | None = None, *, identity: str = "duckworks", **more: Any) -> CustomerNode:
    name = {"duckworks": "ducks", "cogs": "cogs"}[identity]
    settings = node_settings(name, "customer", identity, folder, [peer("hq", "hq", "")])
    node = CustomerNode(CustomerSettings(node=settings, **more), clock or WallClock())
    await node.start()
    node.node.link([address(name, "hq", hq.url)])
    return node


def rows(first: int, count: int, at_ms: int = SINCE_AT_MS) -> Any:
    return to_batch([Record("DUCU0000017", "TRK-1", at_ms + n, {"return_c": 4.0}) for n in range(first, first + count)])


async def say(hq: Node, *streams: str) -> None:
    await hq.append([Append(stream, rows(0, 3)) for stream in streams])


async def enter(hq: Node, type_: str, name: str, version: int, value: Any) -> None:
    entry = Entry(type_, name, version, 1, "olga", value)
    await hq.append([Append("registry", to_batch([Record(entry.topic, body=entry_body(entry))]))])


def told(node: Node, stream: str) -> list[dict[str, Any]]:
    return [dict(row.record.body or {}) for batch in node.log.read(stream, Position()) for row in batch.rows()]


def theirs(node: Node) -> set[str]:
    """The streams of which it has anything that it did not write."""
    return {stream for stream in node.log.streams() for origin in node.log.ledger(stream) if origin.node != node.settings.node}


def held(node: Node, hq: Node, stream: str = MINE) -> int:
    ledger = node.log.ledger(stream).get(hq.log.origin)
    return ledger.held.count() if ledger else 0


def counted(node: Node, what: str) -> int:
    return int(node.metrics.body(0, 0)["counts"].get(what, 0))


def follow(url: str) -> landfall.StreamFollower:
    """What a program of the customer does."""
    return landfall.connect([landfall.NodeDoor(url, "door-of-ducks")]).follow(MINE, consumer="warehouse")


async def test_it_holds_its_stream_follows_it_proves_it_and_hears_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("landfall.node.services.signing_job.SIGNED_EVERY_S", 0.05)
    hq = await headquarters(tmp_path)
    key = load_or_make_key(hq.settings.folder / KEY_NAME).public
    await enter(hq, "node", "hq", 1, NodeKeys((key_text(key),)))
    await enter(hq, "customer", "cogs", 1, Customer("Cog Works", (1, 2, 3), "shipper"))
    await enter(hq, "stream", "customers/cogs", 1, Stream(retention={"age_days": 4711}))
    await enter(hq, "stream", "customers/*", 1, Stream(retention={"age_days": 3_000}))
    await say(hq, MINE, *OTHERS)
    ducks, cogs = await customer(tmp_path, hq), await customer(tmp_path, hq, identity="cogs")
    following = await asyncio.to_thread(follow, ducks.node.url)
    first = await asyncio.to_thread(lambda: [next(following) for _ in range(3)])
    assert [row["offset"] for row in first] == [0, 1, 2]
    await say(hq, MINE)
    assert (await asyncio.to_thread(next, following))["offset"] == 3, "it follows what comes"
    await asyncio.to_thread(following.commit)
    following.close()
    origin = hq.log.origin
    copy = Copy(ducks.node.log, BlockCodec())
    await until(lambda: verify(copy, MINE, origin, registry_trust(ducks.node.log)).proven.count() == 6)
    assert registry_trust(ducks.node.log).of("hq") == TOLD_TO_CUSTOMER
    await until(lambda: ducks.node.definitions.versions() == {MINE: 2})
    await until(lambda: held(cogs.node, hq, "customers/cogs") == 3)
    assert theirs(ducks.node) == {MINE, f"{MINE}.heads", TERMS, f"{TERMS}.heads"}
    assert theirs(cogs.node) == {"customers/cogs", "customers/cogs.heads", "terms/cogs", "terms/cogs.heads"}
    known = json.dumps([batch.records.to_pylist() for stream in (MINE, TERMS) for batch in ducks.node.log.read(stream, Position())])
    assert [word for word in ("cogs", "olga", "9321483", "quays", "4711") if word in known] == []
    assert ducks.node.definitions.of(MINE).retention.age_days is None, "its copy is its own to keep"
    for node in (ducks.node, cogs.node, hq):
        await node.stop()
    ls = run(capsys, "log", "ls", "-f", tmp_path / "ducks", "--format", "json")
    assert ls[0] == 0
    assert "cogs" not in ls[1]
    assert run(capsys, "log", "verify", "-f", tmp_path / "ducks", "--stream", MINE, "--strict", "--key", f"hq={key_text(key)}")[0] == 0
    assert run(capsys, "log", "verify", "-f", tmp_path / "ducks", "--stream", MINE, "--key", f"hq=ed25519:{'A' * 43}")[0] == 1
    for words in (("cat", MINE), ("history", "DUCU0000017"), ("export", MINE, "--format", "csv", "-o", tmp_path / "mine.csv")):
        code, out, err = run(capsys, "log", *words, "-f", tmp_path / "ducks")
        assert code == 0, (out, err)
    assert len((tmp_path / "mine.csv").read_text().splitlines()) == 7
    shown = run(capsys, "stream", "show", MINE, "-f", tmp_path / "ducks", "--json")[1]
    assert json.loads(shown)["value"]["retention"]["age_days"] == 3_000, "what headquarters keeps it for"


async def test_what_headquarters_takes_away_comes_no_more_until_it_gives_it_again(tmp_path: Path) -> None:
    hq = await headquarters(tmp_path)
    ducks = await customer(tmp_path, hq)
    await say(hq, MINE)
    await until(lambda: held(ducks.node, hq) == 3)
    await enter(hq, "stream", MINE, 1, Stream(replicate=("hq",)))
    await until(lambda: not ducks.may_have_it())
    await say(hq, MINE)
    await until(lambda: any("gives this node customers/duckworks no more" in one["reason"] for one in told(ducks.node, "exceptions")))
    async with aiohttp.ClientSession() as client, client.get(f"{ducks.node.url}/healthz") as answer:
        health = await answer.json()
        assert (answer.status, health["waits_for"]) == (503, [f"headquarters to give it {MINE} again"])
    assert held(ducks.node, hq) == 3
    await ducks.stop()
    ducks = await customer(tmp_path, hq)
    assert not ducks.may_have_it(), "it has not forgotten"
    await until(lambda: "ducks" in hq.links.status() and hq.links.status()["ducks"]["open"])
    assert held(ducks.node, hq) == 3, "what it has it keeps, and gets no more"
    await enter(hq, "stream", MINE, 2, Stream(replicate=("customer/{}",)))
    await until(lambda: held(ducks.node, hq) == 6)
    assert not [one for one in told(hq, "exceptions") if "broke the rules" in one["reason"]], "who hears it later is not accused"
    await ducks.stop()
    await hq.stop()


async def test_who_is_withdrawn_is_out_at_once_and_in_again_when_that_is_taken_back(tmp_path: Path) -> None:
    """By an entry of the registry, without a restart; others' sessions go on, and headquarters itself can not be withdrawn."""
    hq = await headquarters(tmp_path)
    ducks, cogs = await customer(tmp_path, hq), await customer(tmp_path, hq, identity="cogs")
    await say(hq, MINE)
    await until(lambda: held(ducks.node, hq) == 3 and "cogs" in hq.links.status())
    opened = counted(hq, "sessions_opened")
    await enter(hq, "node", "hq", 1, NodeKeys(withdrawn=True))
    await enter(hq, "node", "ducks", 1, NodeKeys(withdrawn=True))
    await until(lambda: "ducks" not in hq.links.status())
    await say(hq, MINE)
    await until(lambda: counted(hq, "links_refused") > 0)
    assert (held(ducks.node, hq), "cogs" in hq.links.status()) == (3, True)
    assert counted(hq, "sessions_opened") == opened, "it is not let in to be sent away"
    await hq.stop()
    hq = await headquarters(tmp_path)
    ducks.node.link([address("ducks", "hq", hq.url)])
    await until(lambda: counted(hq, "links_refused") > 0)
    assert "ducks" not in hq.links.status(), "a restart forgets nothing"
    await enter(hq, "node", "ducks", 3, NodeKeys(("ed25519:" + "A" * 43,)))
    await enter(hq, "node", "ducks", 2, NodeKeys(withdrawn=True))
    await until(lambda: held(ducks.node, hq) == 6)
    for node in (ducks.node, cogs.node, hq):
        await node.stop()


async def test_who_comes_back_after_weeks_learns_where_the_stream_begins_and_why_and_keeps_what_it_has(tmp_path: Path) -> None:
    clock = Calendar(SINCE_AT_MS)
    hq = await headquarters(tmp_path, clock)
    ducks = await customer(tmp_path, hq, clock)
    await hq.append([Append(MINE, rows(0, 100))])
    await until(lambda: held(ducks.node, hq) == 100)
    await ducks.stop()
    await hq.append([Append(MINE, rows(100, 2 * RUN))])
    clock.advance(40 * DAY_MS / 1000)
    await hq.append([Append(MINE, rows(0, 10, SINCE_AT_MS + 40 * DAY_MS))])
    await enter(hq, "stream", MINE, 1, Stream(retention={"age_days": 30}))
    late = await customer(tmp_path / "late", hq, clock, identity="cogs")  # its clock confirms headquarters'
    await until(lambda: hq.log.ledger(MINE)[hq.log.origin].floor == 2 * RUN)
    ducks = await customer(tmp_path, hq, clock)
    await until(lambda: ducks.node.log.position(MINE) == hq.log.position(MINE))
    mine = ducks.node.log.ledger(MINE)[hq.log.origin]
    assert list(mine.gone["expired"]) == [(100, 2 * RUN)], "why what it lacks never comes"
    assert list(mine.held) == [(0, 100), (2 * RUN, 2 * RUN + 110)], "its own copy goes further back than headquarters'"
    assert late.node.log.position(MINE) == Position()
    await ducks.stop()
    short = await customer(tmp_path, hq, clock, keep=KeepSettings(age_days=20))
    await until(lambda: short.node.log.ledger(MINE)[hq.log.origin].floor > 0)
    for node in (short.node, late.node, hq):
        await node.stop()


async def test_who_joins_late_learns_where_the_stream_begins(tmp_path: Path) -> None:
    clock = Calendar(SINCE_AT_MS)
    hq = await headquarters(tmp_path, clock)
    await hq.append([Append(MINE, rows(0, RUN))])
    clock.advance(40 * DAY_MS / 1000)
    await hq.append([Append(MINE, rows(0, 10, SINCE_AT_MS + 40 * DAY_MS))])
    await enter(hq, "stream", MINE, 1, Stream(retention={"age_days": 30}))
    cogs = await customer(tmp_path, hq, clock, identity="cogs")  # its clock confirms headquarters'
    await until(lambda: hq.log.ledger(MINE)[hq.log.origin].floor == RUN)
    ducks = await customer(tmp_path, hq, clock)
    await until(lambda: ducks.node.log.position(MINE) == hq.log.position(MINE))
    assert list(ducks.node.log.ledger(MINE)[hq.log.origin].gone["expired"]) == [(0, RUN)]
    for node in (ducks.node, cogs.node, hq):
        await node.stop()


async def test_what_it_appends_stays_with_it(tmp_path: Path) -> None:
    """Through its own door anybody who has its token may write: nobody else ever hears of it."""
    hq = await headquarters(tmp_path)
    ducks = await customer(tmp_path, hq)
    await say(hq, MINE)
    await until(lambda: held(ducks.node, hq) == 3)
    await ducks.node.append([Append(stream, rows(0, 3)) for stream in (MINE, "alerts", "registry", TERMS)])
    await say(hq, MINE)
    await until(lambda: held(ducks.node, hq) == 6)
    assert not [stream for stream in hq.log.streams() for origin in hq.log.ledger(stream) if origin.node == "ducks"]
    assert not ducks.node.definitions.versions().get("alerts")
    assert not [one for one in told(hq, "exceptions") if "broke the rules" in one["reason"]]
    await ducks.stop()
    await hq.stop()


async def test_headquarters_door_tells_strangers_nothing_of_its_peers(tmp_path: Path) -> None:
    hq = await headquarters(tmp_path)
    cogs = await customer(tmp_path, hq, identity="cogs")
    await until(lambda: "cogs" in hq.links.status())
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{hq.url}/healthz") as answer:
            assert await answer.json() == {"ready": True, "waits_for": [], "node": "hq", "role": "hq"}
        async with client.get(f"{hq.url}/healthz", headers={"Authorization": "Bearer door-of-hq"}) as answer:
            assert "cogs" in (await answer.json())["peers"]
        for path in ("/streams", f"/read/{MINE}", f"/ledger/{MINE}", "/history/DUCU0000017"):
            async with client.get(f"{hq.url}{path}", headers={"Authorization": "Bearer token-of-ducks"}) as answer:
                assert answer.status == 403, "what a node shows to sync opens nothing else"
        async with client.get(f"{hq.url}/healthz", headers={"Authorization": "Bearer token-of-cogs"}) as answer:
            assert "peers" not in await answer.json()
    await cogs.stop()
    await hq.stop()


def test_settings_of_a_customers_node(tmp_path: Path) -> None:
    good = node_settings("ducks", "customer", "duckworks", tmp_path, [peer("hq", "hq", "")])
    assert CustomerSettings(node=good).keep.retention().age_days is None
    ship = peer("ship-a", "ship", "9321483")
    for wrong, setting in (
        ({"node": good.model_copy(update={"role": "port"})}, "node.role"),
        ({"node": good.model_copy(update={"known": (ship,)})}, "node.known.0.role"),
    ):
        with refusal(ValidationError, setting):
            CustomerSettings.model_validate(wrong)
    with pytest.raises(ValidationError) as refused:
        CustomerSettings.model_validate({"node": good, "keep": {"age_days": 0}})
    assert [(one["loc"], one["type"]) for one in refused.value.errors()] == [(("keep", "age_days"), "greater_than")]
    with refusal(ValidationError, "identity"):
        KnownPeer(node="ducks", role="customer")
