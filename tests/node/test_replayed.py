"""Goal: an old session played back over a real link changes nothing, ends nobody's session, and is named in `exceptions`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from landfall.cli.main import main
from landfall.node.node import Node
from landfall.node.peers.peer_penalties import REPORTED_AT_ONCE
from landfall.node.settings import PeerAddress
from landfall.transport.dialer import Dialler
from streams.replication import sync_messages as m
from tests.node.test_certificates import node_of, secured
from tests.node.test_hostile import held, lying, nodes, told
from tests.support.fleet import address, readings, until

STREAMS = ("containers", "alerts", "registry")


class Tap:
    """Carries bytes between who dials it and `port`, and keeps all that each of those who dialled has said."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.said: list[bytearray] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    @asynccontextmanager
    async def up(self, scheme: str = "http") -> AsyncIterator[Tap]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

    async def _carry(self, source: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, target = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += back, target
        self.said.append(said := bytearray())

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
            while data := await reader.read(1 << 16):
                kept += data
                writer.write(data)
            writer.close()

        with suppress(ConnectionError):
            await asyncio.gather(carry(source, target, said), carry(answers, back, bytearray()))


async def played_back(port: int, said: bytes) -> bytes:
    """Say it all to a node's door again, until it hangs up; returns what it answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with suppress(ConnectionError):
        writer.write(said)
        async with asyncio.timeout(60):
            answer = await reader.read(-1)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def replays(node: Node) -> list[dict[str, Any]]:
    return [body for body in told(node) if body["reason"] == "an old session is played back in a peer's name"]


async def recorded(tokyo: Node, hq: Node, tap: Tap) -> bytes:
    """What Tokyo says to headquarters in a session in which it brings 50 readings."""
    tokyo.link([PeerAddress(node="hq", url=tap.url) if tap.url.startswith("https") else address("tokyo", "hq", tap.url)])
    await tokyo.append([readings(0, 50)])
    await until(lambda: held(hq, "containers", tokyo.log.origin) == 50)
    tokyo.link([])
    await until(lambda: not hq.links.status())
    return bytes(tap.said[0])


async def test_bytes_played_back_are_refused_and_named_and_the_peers_own_session_goes_on(tmp_path: Path) -> None:
    async with nodes(tmp_path, "tokyo", "hq") as (tokyo, hq), Tap(port_of(hq.url)).up() as tap:
        said = await recorded(tokyo, hq, tap)
        tokyo.link([address("tokyo", "hq", hq.url)])
        await until(lambda: bool(hq.links.status()) and hq.links.status()["tokyo"]["open"])
        before, live = {stream: hq.log.ledger(stream) for stream in STREAMS}, hq.links._live["tokyo"]
        answer = await played_back(port_of(hq.url), said)
        assert b"'tokyo' answers the opening of another link" in answer
        await until(lambda: len(replays(hq)) == 1)
        [body] = replays(hq)
        assert (body["peer"], body["outcome"], body["address"]) == ("tokyo", "session ended", "127.0.0.1")
        assert {stream: hq.log.ledger(stream) for stream in STREAMS} == before
        assert hq.links._live["tokyo"] is live
        assert live.drive.session.open, "the session of before is the one that is up"
        await tokyo.append([readings(50, 5)])
        await until(lambda: held(hq, "containers", tokyo.log.origin) == 55)


async def test_who_plays_back_again_and_again_is_told_so_many_times_and_bars_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, "tokyo", "hq") as (tokyo, hq), Tap(port_of(hq.url)).up() as tap:
        said = await recorded(tokyo, hq, tap)
        for _ in range(REPORTED_AT_ONCE + 6):
            await played_back(port_of(hq.url), said)
        await until(lambda: len(replays(hq)) == REPORTED_AT_ONCE)
        tokyo.link([address("tokyo", "hq", hq.url)])
        await tokyo.append([readings(50, 5)])
        await until(lambda: held(hq, "containers", tokyo.log.origin) == 55)
        assert len(replays(hq)) == REPORTED_AT_ONCE


async def test_messages_of_an_old_session_within_a_new_one_are_refused_from_their_hello_on(tmp_path: Path) -> None:
    """Who has the token can open a link that is new; what it then plays back begins with another link's Hello."""
    async with nodes(tmp_path, "hq") as (hq,):
        old = m.Hello(m.PROTOCOL, m.PROTOCOL, "tokyo", "port", "JPTYO", 1, ["*"], [], b"of another link")
        for first in (True, False):
            async with lying(hq, greets=not first) as liar:
                await liar.say(old, m.Digests([], last=True))
                await until(lambda: any(isinstance(message, m.Refuse) for message in liar.heard))
        await until(lambda: len(replays(hq)) == 2)


async def test_who_dials_is_not_taken_in_by_what_another_link_was_answered(tmp_path: Path) -> None:
    """The same the other way: who is dialled says Hello too."""
    async with nodes(tmp_path, "tokyo", "hq") as (tokyo, _):
        dialler, greeted = Dialler("hq"), list[bytes]()
        wire = await dialler.dial(tokyo.url, "tokyo", "token-of-hq", "lan")
        async for data in wire.messages():
            greeted.append(data)
            break
        await dialler.close()
        hello = m.decode(greeted[0])
        assert isinstance(hello, m.Hello)
        assert hello.answers == wire.nonces.mine
        assert hello.answers != wire.nonces.theirs


async def test_a_link_over_tls_that_is_played_back_does_not_open(tmp_path: Path) -> None:
    """Whoever does not have the keys gets no further than the handshake: no name has been shown, and so none is told."""
    certs = tmp_path / "certs"
    for words in (("authority", str(certs)), ("node", "tokyo", "hq", "--folder", str(certs), "--host", "127.0.0.1")):
        with pytest.raises(SystemExit):
            main(("certs", *words))
    hq, tokyo = await node_of(secured("hq", tmp_path, certs)), await node_of(secured("tokyo", tmp_path, certs))
    async with Tap(port_of(hq.tls_url)).up("https") as tap:
        said = await recorded(tokyo, hq, tap)
    before, opened = {stream: hq.log.ledger(stream) for stream in STREAMS}, hq.metrics.body(0, 0)["counts"]["sessions_opened"]
    await played_back(port_of(hq.tls_url), said)
    assert {stream: hq.log.ledger(stream) for stream in STREAMS} == before
    assert hq.metrics.body(0, 0)["counts"]["sessions_opened"] == opened
    for node in (tokyo, hq):
        await node.stop()
