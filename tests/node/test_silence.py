"""Goal: a peer that has fallen silent is let go and dialled anew, by an idle node and by one amid a backlog, and without farewell."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from pydantic import ValidationError

from landfall.node.node import Node
from landfall.node.peers.session_manager import BACKOFF_FIRST_S
from landfall.node.settings import LinkSettings
from streams.config.roles import LAN
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.fleet import address, readings, settings, until
from tests.support.proxy import Proxy
from tests.support.refusals import refusal

QUICK = LinkSettings(ping_every_s=0.3, dead_after_s=1.2)
LASTING_S = 60.0


async def impatient(name: str, folder: Path) -> Node:
    """A node that knows soon that a peer is gone."""
    node = Node(settings(name, folder).model_copy(update={"links": {"lan": QUICK}}))
    await node.start()
    return node


def backlog(rows: int) -> Append:
    chance = random.Random(rows)
    return Append("events", to_batch([Record("MSKU1234565", body={"x": chance.randbytes(4_000).hex()}) for _ in range(rows)]))


def test_by_default_a_lan_is_dialled_again_three_seconds_after_the_last_byte() -> None:
    assert LAN.pace.dead_after_s + BACKOFF_FIRST_S <= 3.0


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a backlog"])
async def test_a_silent_link_is_let_go_and_dialled_anew_while_it_is_silent(tmp_path: Path, busy: bool) -> None:
    ship, tokyo = await impatient("ship-a", tmp_path), await impatient("tokyo", tmp_path)
    proxy = Proxy(int(tokyo.url.rpartition(":")[2]))
    if busy:
        for _ in range(4):
            await ship.append([backlog(250)])
    ship.link([address("ship-a", "tokyo", await proxy.start())])
    await until(lambda: bool(ship.links.status().get("tokyo", {}).get("open")))
    if busy:
        await until(lambda: proxy.out.taken_bytes > 1_000_000)
        assert tokyo.log.position("events") != ship.log.position("events"), "the backlog is under way"
    silence = asyncio.create_task(proxy.outage(LASTING_S, silent=True))
    await until(lambda: not tokyo.links.status())
    await until(lambda: len(proxy.connections) >= 2)
    assert not ship.links.status(), "who is silent is not said goodbye to, nor waited for"
    silence.cancel()
    await ship.append([readings(0, 10)])
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    await until(lambda: tokyo.log.position("events") == ship.log.position("events"))
    for end in (ship, tokyo, proxy):
        await end.stop()


@pytest.mark.parametrize(
    ("link", "silence_and_interval"),
    [
        ({"ping_every_s": 5.0}, ("2.5 s", "5 s")),
        ({"dead_after_s": 1.0}, ("1 s", "1 s")),
    ],
)
def test_a_silence_is_longer_than_from_ping_to_ping(tmp_path: Path, link: dict[str, float], silence_and_interval: tuple[str, str]) -> None:
    whole = settings("tokyo", tmp_path).model_dump() | {"links": {"lan": link}}
    [setting] = link
    with refusal(ValidationError, f"links.lan.{setting}", *silence_and_interval):
        type(settings("tokyo", tmp_path)).model_validate(whole)


def test_each_class_of_link_has_its_own_patience(tmp_path: Path) -> None:
    node = settings("tokyo", tmp_path).model_copy(update={"links": {"satellite": LinkSettings(dead_after_s=240.0)}})
    paces = [node.policy(link).pace for link in ("lan", "port", "satellite")]
    assert [(pace.ping_every_s, pace.dead_after_s) for pace in paces] == [(1.0, 2.5), (5.0, 15.0), (30.0, 240.0)]
