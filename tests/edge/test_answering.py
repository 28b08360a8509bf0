"""Goal: a ship at sea that is asked brings one container's very records over the dear link, within her budget; in port they are known."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cargo.vocabulary.trade_codes import make_container
from edge.services.backlog_reporter import BacklogReporter
from edge.services.query_responder import QueryResponder, _Unsent
from landfall.node.node import Node
from landfall.node.settings import LinkSettings
from landfall.transport.byte_meter import OPENING_BYTES
from shore.query_result_ingester import QueryResultIngester
from streams.body_reader import Bodies
from streams.codec import BlockCodec
from streams.config.roles import Peer
from streams.integrity.canonical_bytes import row_digests
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import Batch, Record, to_batch
from streams.replication import exchange_member
from streams.row_subset import CARRIER, pack
from tests.support.fleet import ROLES, SINCE_AT_MS, address, settings, until
from tests.support.proxy import Proxy

IMO = "9321483"
BOXES = [make_container("DUCU", serial) for serial in range(8)]
ASKED = BOXES[3]
ROUNDS = 60
MINUTE_MS = 60_000
DAY_MS = 86_400_000
BUDGET, RESERVE = 600_000, 100_000
DAY = 200_000
"""Twice what a link is opened for, so that one that was cut is opened again."""
NOISY = 2_800


def aboard(first: int, rounds: int) -> Append:
    """Every box speaks each minute; of each the values are its own. One signal comes whole and broken, as sensors have it."""
    rows = []
    for at in range(first, first + rounds):
        for box, number in enumerate(BOXES):
            signals: dict[str, Any] = {"return_c": 4 + box + at / 8, "shock_g": 1 if at % 2 else 0.5}
            rows.append(Record(number, f"TRK-{box}", SINCE_AT_MS + at * MINUTE_MS + box, signals, {"note": f"{at}"} if box == 3 else None))
    return Append("containers", to_batch(rows))


def asking(ask_id: str, spend: str = "budget", since_min: int = 0, until_min: int = ROUNDS, at_most: float | None = None) -> Append:
    since, end = SINCE_AT_MS + since_min * MINUTE_MS, SINCE_AT_MS + until_min * MINUTE_MS
    body = {"ask_id": ask_id, "ship": IMO, "container": ASKED, "since_at_ms": since, "until_at_ms": end, "spend": spend, "at_most": at_most}
    return Append(f"aboard/{IMO}", to_batch([Record(f"ask/{ask_id}", body={**body, "at_ms": SINCE_AT_MS, "by": "Mira"})]))


@asynccontextmanager
async def ashore(folder: Path, name: str = "hq") -> AsyncIterator[Node]:
    """Headquarters, or a port, which takes answers."""
    node = Node(settings(name, folder))
    node.add_background("answers", QueryResultIngester(node, lambda stream: None).run)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def at_sea(folder: Path, wall: StillClock, budget: int | None = BUDGET, price: float = 8.0) -> AsyncIterator[Node]:
    """A ship that answers; her satellite link has so many bytes a day, and costs so much per MB."""
    reserve = RESERVE if budget else 0
    satellite = LinkSettings(budget_bytes_per_day=budget, alerts_reserve_bytes=reserve, price_per_mb=price)
    ship = Node(settings("ship-a", folder).model_copy(update={"links": {"satellite": satellite}}), wall=wall)
    ship.add_background("answers", QueryResponder(ship, BacklogReporter(ship, every_s=3_600)).run)
    await ship.start()
    try:
        yield ship
    finally:
        await ship.stop()


def answers(node: Node) -> dict[str, dict[str, Any]]:
    """By ask: what the ship said, as `node` has it."""
    return {body["ask_id"]: body for _, body in Bodies(node.log, CARRIER).news() if "ask_id" in body}


def digests(node: Node, topic: str) -> dict[tuple[str, int], bytes]:
    """The topic's readings here: coordinates, and the canonical digest of all that each says."""
    found = {}
    for batch in node.log.topic_rows("containers", topic):
        for offset, digest in zip(batch.records.column("offset").to_pylist(), row_digests(batch.records), strict=True):
            found[str(batch.origin), offset] = digest
    return found


def held(node: Node) -> int:
    """How many readings are here."""
    return sum(one.held.count() for one in node.log.ledger("containers").values())


async def asked(hq: Node, ask: Append, ask_id: str) -> Mapping[str, Any]:
    await hq.append([ask])
    while True:
        reached = hq.log.position(CARRIER)
        if (said := answers(hq).get(ask_id)) is not None:
            return said
        await until(lambda: hq.log.position(CARRIER) != reached)  # noqa: B023


async def test_ports_take_the_answer_themselves_and_nothing_of_it_is_passed_on_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one box lie apart: each would be a block of its own. What is new waits longer here than any node needs to take an answer."""
    monkeypatch.setattr(exchange_member, "LINGER_S", 3_600.0)
    async with ashore(tmp_path) as hq, ashore(tmp_path, "tokyo") as tokyo, at_sea(tmp_path, StillClock()) as ship:
        await ship.append([aboard(0, ROUNDS)])
        tokyo.link([address("tokyo", "hq", hq.url)])
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        said = await asked(hq, asking("all"), "all")
        assert said["records"] == ROUNDS
        await until(lambda: held(hq) == held(tokyo) == ROUNDS)
        assert digests(tokyo, ASKED) == digests(ship, ASKED)
        sent = {
            node.settings.node: node.links._live[other].drive.session.sender.sent_up_to() for node, other in ((hq, "tokyo"), (tokyo, "hq"))
        }
        assert not any("containers:" in streams for streams in sent.values()), sent


async def test_the_very_records_come_now_and_in_port_they_are_known(tmp_path: Path) -> None:
    """Half of a box's readings over the satellite; what is asked again is not sent again; in port the rest comes and all of it verifies."""
    async with ashore(tmp_path) as hq, at_sea(tmp_path, StillClock()) as ship:
        for turn in range(4):
            await ship.append([aboard(turn * 15, 15)])
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        said = await asked(hq, asking("half", until_min=30), "half")
        assert (said["state"], said["records"], said["sent_before"], said["link"]) == ("answered", 30, 0, "satellite")
        wanted = {key: digest for key, digest in digests(ship, ASKED).items() if key[1] < 30 * len(BOXES)}
        await until(lambda: held(hq) == 30)
        assert digests(hq, ASKED) == wanted
        assert not hq.log.position("containers"), "they lie behind a hole, at their own offsets"
        assert said["cost"] == pytest.approx(said["bytes"] * 8 / 1e6, abs=1e-4)

        again = await asked(hq, asking("again"), "again")
        assert (again["records"], again["sent_before"]) == (30, 30)
        await until(lambda: held(hq) == ROUNDS)
        assert digests(hq, ASKED) == digests(ship, ASKED)
        nothing = await asked(hq, asking("thrice"), "thrice")
        assert (nothing["state"], nothing["records"], nothing["bytes"]) == ("answered", 0, 0)

        ship.link([address("ship-a", "hq", hq.url, "port")])
        await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
        assert all(digests(hq, box) == digests(ship, box) for box in BOXES)
        assert held(hq) == ROUNDS * len(BOXES)
        ended = await asked(hq, asking("ashore", until_min=ROUNDS + 1), "ashore")
        assert (ended["records"], ended["link"]) == (0, None)


async def test_what_a_port_says_it_has_is_sent_all_the_same(tmp_path: Path) -> None:
    """It has nothing: who asks is not to be told that the records are there."""
    async with ashore(tmp_path) as hq, at_sea(tmp_path, StillClock()) as ship:
        await ship.append([aboard(0, ROUNDS)])
        said_has = RangeSet([(0, ROUNDS * len(BOXES))])
        ship.links._ashore._said[Peer("tokyo", "port", "JPTYO")] = {("containers", ship.log.origin): said_has}
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        said = await asked(hq, asking("all"), "all")
        assert (said["records"], said["sent_before"]) == (ROUNDS, 0)


@pytest.mark.parametrize("up", ["hq", "ship-a2", ""])
async def test_over_a_link_with_a_price_and_no_budget_nothing_is_sent_before_that_is_agreed_to(
    tmp_path: Path, up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where she has no link as she hears of it, or one to her own other node: it would go over that one once it is up."""
    monkeypatch.setitem(ROLES, "ship-a2", ("ship", IMO))
    async with ashore(tmp_path) as hq, at_sea(tmp_path, StillClock(), budget=None) as ship, AsyncExitStack() as stack:
        await ship.append([aboard(0, ROUNDS)])
        link = address("ship-a", "hq", hq.url, "satellite")
        if up == "hq":
            ship.link([link])
            await until(lambda: "hq" in ship.links.status())
        elif up:
            second = Node(settings(up, tmp_path))
            stack.push_async_callback(second.stop)
            await second.start()
            ship.link([address("ship-a", up, second.url)])
            await until(lambda: up in ship.links.status())
        await hq.append([asking("first"), asking("little", at_most=0.0), asking("enough", at_most=99.0)])
        if up != "hq":
            ship.log.admit(list(hq.log.blocks(f"aboard/{IMO}", hq.log.origin, 0, 3)))
            await until(lambda: len(answers(ship)) == 3)
            ship.link([link])
        await until(lambda: len(answers(hq)) == 3)
        told = answers(hq)
        assert {name: one["state"] for name, one in told.items()} == {"first": "priced", "little": "priced", "enough": "answered"}
        assert told["first"]["cost"] == pytest.approx(told["enough"]["cost"], rel=0.01)
        assert told["first"]["cost"] > 0
        assert told["first"]["told"].endswith(" (--at-most)")
        await until(lambda: held(hq) == ROUNDS)
        assert all(body["ask_id"] == "enough" for _, body in Bodies(hq.log, CARRIER).news() if body.get("state") == "answered")


async def test_the_price_is_told_first_and_what_the_day_has_not_left_is_not_sent(tmp_path: Path) -> None:
    wall = StillClock()
    async with ashore(tmp_path) as hq, at_sea(tmp_path, wall, budget=RESERVE + DAY) as ship:
        await ship.append([noisy(NOISY)])
        proxy = Proxy(int(hq.url.rpartition(":")[2]))
        ship.link([address("ship-a", "hq", await proxy.start(), "satellite")])
        price = await asked(hq, asking("price", "nothing", until_min=4_000), "price")
        assert (price["state"], price["records"]) == ("priced", NOISY)
        assert "cost" in price["told"]
        before = proxy.carried_bytes
        dear = await asked(hq, asking("dear", until_min=4_000), "dear")
        assert dear["state"] == "priced"
        assert dear["bytes"] > dear["free_bytes"]
        assert f"{DAY:,} bytes" in dear["told"]
        assert "(--at-most)" in dear["told"]
        assert not digests(hq, ASKED)

        sent = await asked(hq, asking("anyway", until_min=4_000, at_most=1.01 * dear["cost"]), "anyway")
        assert (sent["state"], sent["granted_bytes"]) == ("answered", sent["bytes"] - sent["free_bytes"] + OPENING_BYTES)
        await until(lambda: held(hq) == NOISY)
        assert digests(hq, ASKED) == digests(ship, ASKED)
        assert 0.9 * sent["bytes"] < proxy.carried_bytes - before < 1.1 * sent["bytes"] + 30_000, "what was said is what it took"
        told = ship.links.budgets()["satellite"]
        assert told["granted_bytes"] == sent["granted_bytes"]
        assert told["spent_bytes"] <= DAY + told["granted_bytes"]
        await proxy.stop()
    async with at_sea(tmp_path, wall, budget=RESERVE + DAY) as ship:
        await until(lambda: ship.links.budgets()["satellite"]["granted_bytes"] == sent["granted_bytes"])
        wall.advance(DAY_MS / 1000)
        assert ship.links.budgets()["satellite"]["granted_bytes"] == 0


def noisy(rows: int) -> Append:
    """Readings of one box that do not pack."""
    chance = random.Random(1)
    made = [Record(ASKED, "TRK", SINCE_AT_MS + at * MINUTE_MS, {f"s{n}": chance.gauss(0, 9) for n in range(10)}) for at in range(rows)]
    return Append("containers", to_batch(made))


async def test_an_answer_brings_what_its_ship_wrote_and_nothing_else(tmp_path: Path) -> None:
    """Another's readings, streams no ship writes, rubbish, what she was not asked for: told, gone past, and what is right is taken."""
    codec = BlockCodec()
    async with ashore(tmp_path) as hq:
        ship = Node(settings("ship-a", tmp_path))
        await ship.start()
        await ship.append([aboard(0, 3)])
        [rows], [other] = (ship.log.topic_rows("containers", box) for box in (ASKED, BOXES[0]))
        await hq.append([asking("x", since_min=1)])
        [late] = ship.log.topic_rows("containers", ASKED, SINCE_AT_MS + MINUTE_MS)
        forged = [
            pack(codec, Batch("containers", Origin("tokyo", 7), rows.records)),
            pack(codec, Batch("registry", rows.origin, rows.records)),
            {"block": "AAAA", **{name: pack(codec, rows)[name] for name in ("stream", "origin", "offsets")}},
            {**pack(codec, rows), "offsets": "Bg=="},
            {**pack(codec, rows), "offsets": "/////w"},
            {"block": 7},
            pack(codec, other),
            pack(codec, rows),
        ]
        await ship.append([Append(CARRIER, to_batch([Record("ask/x", body=body) for body in (*forged, pack(codec, late))]))])
        await ship.append([Append(CARRIER, to_batch([Record("ask/y", body=pack(codec, late))]))])
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        await until(lambda: held(hq) == 2)
        assert digests(hq, ASKED).items() <= digests(ship, ASKED).items()
        assert [str(origin) for origin in hq.log.ledger("containers")] == [str(ship.log.origin)]
        await until(lambda: outcomes(hq).count("not taken") == len(forged) + 1)
        problems = [str(body.get("problem")) for _, body in Bodies(hq.log, "exceptions").news()]
        assert problems.count("'ship-a' was not asked for these") == 2
        assert problems.count("no such question to 'ship-a' is known here") == 1, "who has not heard of one accuses nobody"
        await ship.stop()


def outcomes(node: Node) -> list[str]:
    """What was done about all that `exceptions` tells."""
    return [body["outcome"] for _, body in Bodies(node.log, "exceptions").news()]


@pytest.mark.parametrize(
    ("home", "links", "told", "passed"),
    [
        (0, {"tokyo": "port"}, {"tokyo": 5}, False),
        (0, {"tokyo": "port", "hq": "satellite"}, {"tokyo": 5, "hq": 4}, False),
        (0, {"hq": "satellite"}, {"hq": 5}, True),
        (0, {"tokyo": "satellite"}, {"tokyo": 5}, True),
        (5, {}, {}, True),
        (4, {}, {}, False),
    ],
)
def test_an_answer_counts_until_its_home_or_who_is_at_the_end_of_its_link_has_it(
    home: int, links: dict[str, str], told: dict[str, int], passed: bool
) -> None:
    """What another port says it has takes nothing off what is still to pass a link that is paid for."""
    at = Origin("ship-a", 7)
    said = SimpleNamespace(
        at_home=lambda: {CARRIER: {at: RangeSet([(0, home)])}},
        status=lambda: {peer: {"link": link} for peer, link in links.items()},
        settled=lambda key: {peer: RangeSet([(0, end)]) for peer, end in told.items()},
    )
    node = SimpleNamespace(settings=SimpleNamespace(identity="9321483"), links=said)
    answering = QueryResponder(cast(Node, node), cast(BacklogReporter, None))
    answering._unsent = [_Unsent(at, 5, "satellite", 100)]
    assert (answering._still_unsent() == []) is passed
