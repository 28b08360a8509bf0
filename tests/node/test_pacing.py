"""Goal: a link with a rate is used to the full and not beyond, and what is urgent waits behind one fragment on it, counted in bytes."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from landfall.node.node import Node
from landfall.node.peers.session_runner import BURST_S, Pacer
from landfall.node.settings import LinkSettings
from landfall.transport.websocket import SEGMENT_BYTES, UNSENT_BYTES_MAX, unsent_bytes
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.records import Record, to_batch
from streams.replication.sender import FRAGMENT_BYTES_MIN
from streams.replication.sync_messages import Begin, Message, Track, decode
from tests.support.fleet import address, settings, until
from tests.support.proxy import Connection, Piece, Proxy, Shape

LINE_BIT_S, KEPT_BIT_S = 80_000, 64_000
LITTLE_BYTES = 128
"""What a message of data takes beside the data, with its frame."""


async def started(name: str, folder: Path, link: LinkClass, rate_bit_s: int | None) -> Node:
    node = Node(settings(name, folder).model_copy(update={"links": {link: LinkSettings(rate_bit_s=rate_bit_s)}}))
    await node.start()
    return node


@pytest.mark.parametrize("rate_bit_s", [256_000, 2_000_000, 10_000_000, 50_000_000, 100_000_000])
def test_timers_that_ring_late_cost_nothing_and_the_rate_is_not_passed(rate_bit_s: int) -> None:
    chance, pacer = random.Random(rate_bit_s), Pacer(rate_bit_s, 5.0)
    now_s, sent_bytes, bytes_s = 5.0, 0, rate_bit_s / 8
    fragment = max(FRAGMENT_BYTES_MIN, int(bytes_s * 0.005))
    while now_s < 65.0:
        while wait_s := pacer.wait_s(now_s):
            now_s += wait_s + chance.uniform(0, 0.02)
        pacer.sent(fragment)
        sent_bytes += fragment
        assert sent_bytes <= (now_s - 5.0 + BURST_S) * bytes_s + fragment
    assert sent_bytes >= 0.99 * (now_s - 5.0) * bytes_s


def test_after_a_rest_no_more_than_a_burst_goes_at_once() -> None:
    pacer = Pacer(1_000_000, 0.0)
    now_s, sent_bytes = 3_600.0, 0
    while not pacer.wait_s(now_s):
        pacer.sent(1_000)
        sent_bytes += 1_000
    assert sent_bytes == pytest.approx(BURST_S * 125_000, abs=1_000)
    assert Pacer(None, 0.0).wait_s(1.0) == 0


@pytest.mark.parametrize(
    ("link", "rate_bit_s", "unsent"),
    [("lan", None, UNSENT_BYTES_MAX), ("port", 64_000, SEGMENT_BYTES), ("satellite", None, unsent_bytes(128_000))],
)
async def test_the_system_holds_no_more_unsent_than_suits_the_link(
    tmp_path: Path, link: LinkClass, rate_bit_s: int | None, unsent: int
) -> None:
    ship, tokyo = [await started(name, tmp_path, link, rate_bit_s) for name in ("ship-a", "tokyo")]
    ship.link([address("ship-a", "tokyo", tokyo.url, link)])
    await until(lambda: bool(ship.links.status() and tokyo.links.status()))
    for node in (ship, tokyo):
        [live] = node.links._live.values()
        real = live.wire._socket.get_extra_info("socket")
        assert real.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == unsent
    await ship.stop()
    await tokyo.stop()


def test_what_is_held_unsent_goes_by_the_rate_within_bounds() -> None:
    assert [unsent_bytes(rate_bit_s) for rate_bit_s in (64_000, 256_000, 20_000_000)] == [SEGMENT_BYTES, 3_200, UNSENT_BYTES_MAX]


@dataclass
class Overheard:
    """What the node that was dialled says over a proxy, message by message, with the bytes that had been said by the end of each."""

    said: list[tuple[int, Message]] = field(default_factory=list)
    _rest: bytes = b""
    _at: int = 0
    _greeted: bool = False

    def hear(self, connection: Connection, piece: Piece) -> None:
        if piece.outward:
            return
        self._rest += piece.data
        if not self._greeted and b"\r\n\r\n" in self._rest:
            self._drop(self._rest.index(b"\r\n\r\n") + 4)
            self._greeted = True
        while self._greeted and (frame := self._frame()) is not None:
            head, size = frame
            body = self._rest[head : head + size]
            self._drop(head + size)
            self.said.append((self._at, decode(body)))

    def _frame(self) -> tuple[int, int] | None:
        """Where the next whole frame's payload begins, and its size (RFC 6455, 5.2; who was dialled does not mask)."""
        if len(self._rest) < 4:
            return None
        size, head = self._rest[1], 2
        if size == 126:
            size, head = int.from_bytes(self._rest[2:4], "big"), 4
        assert size != 127, "no message is so large on a slow line"
        return (head, size) if len(self._rest) >= head + size else None

    def _drop(self, bytes_: int) -> None:
        self._rest, self._at = self._rest[bytes_:], self._at + bytes_

    def begun(self, stream: str) -> int | None:
        """How many bytes had been said by the end of the first block's beginning of this stream."""
        tracks = {one.number for _, one in self.said if isinstance(one, Track) and one.stream == stream}
        return next((at for at, one in self.said if isinstance(one, Begin) and one.track in tracks), None)


async def test_an_alert_is_overtaken_by_one_fragment_at_most_on_a_slow_line(tmp_path: Path) -> None:
    """The port dials, so that what the ship says can be read; it goes on a line that is a little quicker than what she keeps to."""
    ship, tokyo = await started("ship-a", tmp_path, "port", KEPT_BIT_S), await started("tokyo", tmp_path, "port", KEPT_BIT_S)
    chance = random.Random(1)
    for _ in range(3):
        rows = [Record("MSKU1234565", body={"x": chance.randbytes(1_000).hex()}) for _ in range(200)]
        await ship.append([Append("events", to_batch(rows))])
    overheard = Overheard()
    proxy = Proxy(int(ship.url.rpartition(":")[2]), Shape(LINE_BIT_S, 0.3))
    proxy.ear = overheard.hear
    tokyo.link([address("tokyo", "ship-a", await proxy.start(), "port")])
    await until(lambda: proxy.back.taken_bytes > 12_000)
    before = proxy.back.taken_bytes
    await until(lambda: proxy.back.taken_bytes > before)  # a fragment has just gone: the next is chosen when that is paid for
    await ship.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    at_append_bytes = proxy.back.taken_bytes
    await until(lambda: overheard.begun("alerts") is not None)
    assert tokyo.log.position("events") != ship.log.position("events"), "the backlog is under way"
    arrived_bytes = overheard.begun("alerts")
    assert arrived_bytes is not None
    assert arrived_bytes - at_append_bytes <= FRAGMENT_BYTES_MIN + LITTLE_BYTES + 2_000
    await until(lambda: "alerts" in tokyo.log.streams() and tokyo.log.position("alerts") == ship.log.position("alerts"))
    for end in (ship, tokyo, proxy):
        await end.stop()
