"""Goal: whatever a peer says over a real link, what honest nodes hold and will take is unharmed, and the peer is named in `exceptions`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from landfall.access import wrong_secrets
from landfall.node.node import Node
from landfall.node.peers.peer_identification import PEER_UNKNOWN
from landfall.transport.dialer import Dialler
from landfall.transport.websocket import RECEIVE_BYTES_MAX, Wire
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import digest
from streams.model.clock import WallClock
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from streams.replication import BROKE_RULES
from streams.replication import sync_messages as m
from tests.streams.logkit import rows, stamped
from tests.support.fleet import ROLES, address, readings, settings, started, until

ENDLESS = (1 << 63) - 1


class Liar:
    """A peer that says whatever a test wants to a real node, over a socket, under a name that the node knows."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self.name = wire, name
        self.heard: list[m.Message] = []

    async def greet(self) -> None:
        role, identity = ROLES[self.name]
        hello = m.Hello(m.PROTOCOL, m.PROTOCOL, self.name, role, identity, 1, ["*"], [], self._wire.nonces.theirs)
        await self.say(hello, m.Digests([], last=True))

    async def say(self, *messages: m.Message) -> bool:
        for message in messages:
            if not await self._wire.send(m.encode(message)):
                return False
            await asyncio.sleep(0)
        return True

    async def listen(self) -> None:
        async for data in self._wire.messages():
            message = m.decode(data)
            self.heard.append(message)
            if isinstance(message, m.Ping):
                await self.say(m.Pong(message.stamp))


@asynccontextmanager
async def lying(node: Node, name: str = "tokyo", greets: bool = True) -> AsyncIterator[Liar]:
    dialler = Dialler(name)
    liar = Liar(await dialler.dial(node.url, node.settings.node, f"token-of-{name}", "lan"), name)
    if greets:
        await liar.greet()
    listening = asyncio.create_task(liar.listen())
    try:
        yield liar
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await dialler.close()


@asynccontextmanager
async def nodes(folder: Path, *names: str) -> AsyncIterator[list[Node]]:
    running: list[Node] = []
    try:
        for name in names:
            running.append(await started(name, folder))
        yield running
    finally:
        for node in running:
            await node.stop()


def told(node: Node) -> list[dict[str, Any]]:
    return [dict(row.record.body or {}) for batch in node.log.read("exceptions", Position()) for row in batch.rows()]


def named(node: Node, peer: str, word: str) -> bool:
    """Whether `exceptions` name the peer with a code, reason or problem that has `word` in it."""
    return any(peer in str(body) and word in str(body) for body in told(node))


def broken(node: Node, peer: str) -> list[str]:
    """The code of each broken rule for which `exceptions` name the peer, in their order."""
    return [str(body["code"]) for body in told(node) if body["reason"] == BROKE_RULES and body["peer"] == peer]


def held(node: Node, stream: str, origin: Origin) -> int:
    one = node.log.ledger(stream).get(origin)
    return one.held.count() if one else 0


def alert(number: int) -> Append:
    return Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": str(number), "state": "raised", "rule": "lost"})]))


def track(number: int, stream: str, origin: Origin) -> m.Track:
    return m.Track(number, stream, origin.node, origin.generation)


async def test_a_relay_can_not_have_what_is_yet_to_be_written_passed_over(tmp_path: Path) -> None:
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq), lying(hq) as liar:
        for number, stream in enumerate(("alerts", "containers")):
            await liar.say(track(number, stream, ship.log.origin), m.Gone(number, "lost", [(0, ENDLESS)]))
        await until(lambda: "tokyo" in hq.links.status())
        ship.link([address("ship-a", "hq", hq.url)])
        await ship.append([alert(1), readings(0, 100)])
        await until(lambda: held(hq, "containers", ship.log.origin) == 100 and held(hq, "alerts", ship.log.origin) == 1)
        assert not hq.log.ledger("containers")[ship.log.origin].gone


async def test_what_a_relay_has_called_gone_is_taken_from_its_origin_and_the_relay_named(tmp_path: Path) -> None:
    """It holds a later record, so its word counts, until the ship comes and says better: the ship drops nothing for it."""
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq), lying(hq) as liar:
        await ship.append([readings(0, 100)])
        await ship.append([readings(100, 5)])
        origin = ship.log.origin
        [last] = ship.log.blocks("containers", origin, 100, 105)
        data = last.to_bytes()
        await liar.say(track(0, "containers", origin), m.Begin(1, 0, 100, 105, len(data), digest(data), 0, data))
        await until(lambda: held(hq, "containers", origin) == 5)
        await liar.say(m.Gone(0, "lost", [(0, 100), (200, ENDLESS)]))
        await until(lambda: bool(hq.log.ledger("containers")[origin].gone))
        assert hq.log.position("containers")[origin] == 105
        ship.link([address("ship-a", "hq", hq.url)])
        await until(lambda: held(hq, "containers", origin) == 105)
        assert not any(hq.log.ledger("containers")[origin].gone.values())
        await until(lambda: named(hq, "tokyo", "gone_refuted"))


def _summaries(hq: Node) -> list[m.Message]:
    origins = [m.OriginSummary(f"x{n}", 1, 5, 0, [], []) for n in range(8)]
    return [m.Summary("containers", origins, last=False)] * 5


def _gone_of_ranges(hq: Node) -> list[m.Message]:
    """More separate ranges than anybody may have us remember."""
    chunks = [[(2 * at, 2 * at + 1) for at in range(64 * n, 64 * n + 64)] for n in range(200)]
    return [m.Track(0, "containers", "singapore", 1), *(m.Gone(0, "lost", chunk) for chunk in chunks)]


def _have_of_ranges(hq: Node) -> list[m.Message]:
    chunks = [[(2 * at, 2 * at + 1) for at in range(64 * n, 64 * n + 64)] for n in range(800)]
    return [m.Track(0, "containers", "singapore", 1), *(m.Have(0, chunk) for chunk in chunks)]


def _fragments(hq: Node) -> list[m.Message]:
    return [m.Track(0, "containers", "singapore", 1), m.Begin(1, 0, 0, 9, 10, bytes(16), 0, b"x"), m.Fragment(1, bytes(20))]


def _damage(hq: Node) -> list[m.Message]:
    begins = [m.Begin(n, 0, n, n + 1, 5, n.to_bytes(16, "big"), 0, b"xxxxx") for n in range(1, 12)]
    return [m.Track(0, "containers", "singapore", 1), *begins]


def _more_than_there_is(hq: Node) -> list[m.Message]:
    return [m.Track(0, "containers", "hq", hq.log.origin.generation + 1), m.Begin(1, 1, 0, 1, 1, bytes(16), 0, b"x")]


def _claims_of_nothing(hq: Node) -> list[m.Message]:
    return [m.Track(0, "containers", "singapore", 1), m.Claim(0, 9, 3)]


BREACHES = [
    (_summaries, "message_unexpected"),
    (_gone_of_ranges, "peer_limit_passed"),
    (_have_of_ranges, "peer_limit_passed"),
    (_fragments, "transfer_invalid"),
    (_damage, "blocks_damaged"),
    (_more_than_there_is, "message_unexpected"),
    (_claims_of_nothing, "message_corrupt"),
]


@pytest.fixture
def forgiving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who broke the rules may come again at once."""
    monkeypatch.setattr("landfall.node.peers.peer_penalties.FIRST_S", 0.0)
    monkeypatch.setattr("landfall.node.peers.peer_penalties.MOST_S", 0.0)
    monkeypatch.setattr("landfall.node.peers.peer_penalties.REPORTED_AT_ONCE", 100)


@pytest.mark.usefixtures("forgiving")
async def test_who_floods_or_breaks_the_rules_is_left_and_named(tmp_path: Path) -> None:
    async with nodes(tmp_path, "hq") as (hq,):
        await hq.append([readings(0, 10)])
        before = hq.log.ledger("containers")
        codes = [code for _, code in BREACHES]
        for number, (says, _) in enumerate(BREACHES, 1):
            async with lying(hq) as liar:
                await liar.say(*says(hq))
                await until(lambda number=number: broken(hq, "tokyo") == codes[:number])  # type: ignore[misc]
                await until(lambda: "tokyo" not in hq.links.status())
            assert hq.log.ledger("containers") == before, "nothing of it stands in the log"


@pytest.mark.usefixtures("forgiving")
async def test_what_is_no_message_of_a_session_is_named(tmp_path: Path) -> None:
    """More than a message may be long, and a text."""
    async with nodes(tmp_path, "hq") as (hq,):
        for count, long in enumerate((True, False), 1):
            async with lying(hq) as liar:
                await until(lambda: "tokyo" in hq.links.status())
                await (liar._wire._socket.send_bytes(bytes(2 * RECEIVE_BYTES_MAX)) if long else liar._wire._socket.send_str("hello"))
                await until(lambda count=count: sum("message_corrupt" in str(body) for body in told(hq)) == count)  # type: ignore[misc]
                await until(lambda: "tokyo" not in hq.links.status())
        assert named(hq, "tokyo", "message_corrupt")


async def test_invented_origins_that_are_said_to_be_gone_stand_nowhere(tmp_path: Path) -> None:
    async with nodes(tmp_path, "hq") as (hq,), lying(hq) as liar:
        for number in range(300):
            await liar.say(m.Track(number, "containers", f"y{number}", 1), m.Gone(number, "lost", [(0, 9)]))
        await liar.say(m.Ping(7))
        await until(lambda: m.Pong(7) in liar.heard)
        assert not hq.log.ledger("containers")


async def test_invented_origins_are_brought_no_more_than_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stands on disk for good. In all its sessions a peer may begin so many; what is here it may go on with, others begin theirs."""
    monkeypatch.setattr("streams.replication.exchange.BROUGHT_MAX", 3)
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq):

        async def bring(liar: Liar, number: int, first: int, transfer: int) -> None:
            source = Origin(f"y{number}", 1)
            block = BlockCodec().encode("containers", source, stamped(rows(5, first), first))
            data = block.to_bytes()
            begin = m.Begin(transfer, number, first, first + 5, len(data), digest(data), 0, data)
            await liar.say(track(number, "containers", source), begin)

        for _ in range(2):
            async with lying(hq) as liar:
                for number in range(6):
                    await bring(liar, number, 0, number + 1)
                await liar.say(m.Ping(7))
                await until(lambda: m.Pong(7) in liar.heard and len(hq.log.ledger("containers")) == 3)
        await until(lambda: named(hq, "tokyo", "peer_origins_too_many"))
        async with lying(hq) as liar:
            await bring(liar, 0, 5, 1)
            await until(lambda: held(hq, "containers", Origin("y0", 1)) == 10)
        ship.link([address("ship-a", "hq", hq.url)])
        await ship.append([readings(0, 100)])
        await until(lambda: held(hq, "containers", ship.log.origin) == 100)
        assert len(hq.log.ledger("containers")) == 4


async def test_own_generations_that_are_said_to_be_gone_are_no_more_than_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's own word of its own generations is believed at once, and stands on disk for good: in all its sessions of so many, counted
    apart from those it brings of others. Of what is here already it is believed however many it has invented."""
    monkeypatch.setattr("streams.replication.exchange.OWN_MAX", 3)
    async with nodes(tmp_path, "hq") as (hq,):
        true = Origin("tokyo", 900)
        hq.log.admit([BlockCodec().encode("containers", true, stamped(rows(5)))])
        for session in range(2):
            async with lying(hq) as liar:
                for number in range(100 * session, 100 * session + 100):
                    await liar.say(track(number % 100, "containers", Origin("tokyo", 1 + number)), m.Gone(number % 100, "lost", [(0, 9)]))
                await liar.say(track(100, "containers", true), m.Gone(100, "lost", [(5, 9)]), m.Ping(7))
                await until(lambda: m.Pong(7) in liar.heard)
        await until(lambda: named(hq, "tokyo", "peer_origins_too_many"))
        await until(lambda: hq.log.ledger("containers")[true].all_gone() == RangeSet([(5, 9)]))
        assert len(hq.log.ledger("containers")) == 4, "the true one, and three of 200"


async def test_one_new_generation_at_most_for_who_says_it_has_more_and_brings_nothing(tmp_path: Path) -> None:
    async with nodes(tmp_path, "hq") as (hq,):
        await hq.append([readings(0, 10)])
        first = hq.log.origin

        async def claim() -> None:
            async with lying(hq) as liar:
                await liar.say(track(0, "containers", hq.log.origin), m.Have(0, [(0, 1000)]), m.Ping(7))
                await until(lambda: m.Pong(7) in liar.heard)

        await claim()
        await until(lambda: hq.log.origin != first)
        second = hq.log.origin
        await until(lambda: named(hq, "tokyo", "log_older_copy"))
        for _ in range(3):
            await claim()
        await until(lambda: named(hq, "tokyo", "peer_claims_more"))
        assert hq.log.origin == second
        async with lying(hq, "ship-a") as ship:
            await ship.say(track(0, "containers", second), m.Have(0, [(0, 1000)]))
            await until(lambda: named(hq, "ship-a", ""))
        assert hq.log.origin == second, "who may not bring them is not believed at all"


async def test_who_sends_byte_by_byte_holds_up_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq), lying(hq) as liar:
        await ship.append([readings(0, 2000)])
        origin = ship.log.origin
        await liar.say(track(0, "containers", origin), m.Begin(1, 0, 0, 100_000, 1 << 20, bytes(16), 0, b"x"))
        ship.link([address("ship-a", "hq", hq.url)])
        await until(lambda: held(hq, "containers", origin) == 2000)
        await liar.say(m.Fragment(1, b"x"))
        assert "tokyo" in hq.links.status()


async def test_who_comes_in_a_nodes_name_with_a_wrong_token_is_counted_slowed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known name or not. A flood fills nothing; a caller without any secret is refused, and no more."""
    monkeypatch.setattr(wrong_secrets, "SLOWED_S", 0.001)
    hq = await started("hq", tmp_path)

    async def knock(name: str, times: int, **shown: str) -> None:
        async with aiohttp.ClientSession(headers={"X-Landfall-Node": name, **shown}) as http:
            for _ in range(times):
                async with http.get(f"{hq.url}/sync") as answer:
                    assert (answer.status, (await answer.json())["code"]) == (403, PEER_UNKNOWN)

    for name in ("tokyo", "stranger"):
        await knock(name, 30, Authorization="Bearer wrong")
        await knock(name, 1, Authorization="Bearer token-of-sydney")
    await knock("ship-a", 2)
    reported = [("node:tokyo", "127.0.0.1"), ("node:stranger", "127.0.0.1")]
    await until(lambda: [(b["user"], b["address"]) for b in told(hq) if "wrong secret" in b["reason"]] == reported)
    counts = hq.metrics.body(0, 0)["counts"]
    assert (counts["links_refused"], counts["secrets_wrong"]) == (64, 62)
    await hq.stop()


async def test_beyond_the_answers_that_wait_a_wrong_token_of_a_node_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_secrets, "SLOWED_MAX", 0)
    hq = await started("hq", tmp_path)
    headers = {"X-Landfall-Node": "tokyo", "Authorization": "Bearer wrong"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(f"{hq.url}/sync") as answer:
        assert (answer.status, (await answer.json())["code"], answer.headers["Retry-After"]) == (429, "secrets_too_many", "5")
    await hq.stop()


async def test_who_dials_anew_while_its_old_link_still_seems_up_goes_on_with_half_a_block(tmp_path: Path) -> None:
    """A cut shows at one end first. The old session goes once the new one is known to be the peer's own; its halves are told before."""
    async with nodes(tmp_path, "hq") as (hq,), lying(hq) as before:
        data = BlockCodec().encode("containers", Origin("tokyo", 1), stamped(rows(500))).to_bytes()
        await before.say(track(0, "containers", Origin("tokyo", 1)), m.Begin(1, 0, 0, 500, len(data), digest(data), 0, data[:100]))
        await before.say(m.Ping(7))
        await until(lambda: m.Pong(7) in before.heard)
        async with lying(hq) as after:
            await until(lambda: any(isinstance(message, m.Hello) for message in after.heard))
            [hello] = [message for message in after.heard if isinstance(message, m.Hello)]
            assert [(half.digest, half.held_bytes) for half in hello.partials] == [(digest(data), 100)]
            await after.say(track(0, "containers", Origin("tokyo", 1)), m.Begin(1, 0, 0, 500, len(data), digest(data), 100, data[100:]))
            await until(lambda: held(hq, "containers", Origin("tokyo", 1)) == 500)
            assert any(isinstance(message, m.Refuse) and message.code == "session_replaced" for message in before.heard)


def answered(liar: Liar) -> int:
    """How many of its blocks have been taken, or not."""
    return sum(len(one.transfers) if isinstance(one, m.Ack) else isinstance(one, m.Reject) for one in liar.heard)


async def test_records_without_end_that_read_are_taken_up_to_so_many_bytes_a_day(tmp_path: Path) -> None:
    """As the settings have it, in whatever sessions; and what others bring goes on."""
    mine = settings("hq", tmp_path)
    known = tuple(peer.model_copy(update={"bytes_per_day": 1_000 if peer.node == "tokyo" else None}) for peer in mine.known)
    hq = Node(mine.model_copy(update={"known": known}), WallClock())
    await hq.start()
    ship, source, sizes = await started("ship-a", tmp_path), Origin("tokyo", 1), list[int]()
    for session in range(3):
        async with lying(hq) as liar:
            await liar.say(track(0, "containers", source))
            for number in range(30):
                at = 30 * session + number
                data = BlockCodec().encode("containers", source, stamped(rows(20, 20 * at), 20 * at)).to_bytes()
                sizes.append(len(data))
                await liar.say(m.Begin(number + 1, 0, 20 * at, 20 * at + 20, len(data), digest(data), 0, data))
            await until(lambda: answered(liar) == 30)
    taken = held(hq, "containers", source) // 20
    assert sum(sizes[: taken - 1]) < 10_000 <= sum(sizes[:taken]) < sum(sizes), "what ten days make, the last block whole"
    await until(lambda: named(hq, "tokyo", "peer_bytes_too_many"))
    ship.link([address("ship-a", "hq", hq.url)])
    await ship.append([readings(0, 10_000)])
    await until(lambda: held(hq, "containers", ship.log.origin) == 10_000)
    for node in (ship, hq):
        await node.stop()
