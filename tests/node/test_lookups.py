"""Goal: names that do not resolve, however long that takes, hold up nothing else at a node."""

from __future__ import annotations

import errno
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import landfall.transport.name_lookups
from landfall.access.credentials import operator_token
from landfall.node.node import Node
from landfall.node.settings import KnownPeer, PeerAddress
from landfall.system.hung_calls import apart
from landfall.transport.dialer import Dialler
from landfall.transport.http_client import AppendDoor
from landfall.transport.name_lookups import LookUps
from streams.model.errors import RetryLater
from tests.support.fleet import readings, settings, until
from tests.support.refusals import refusal

PEERS = 40
"""More names than Python's shared pool has threads, on up to 32 cores."""


class DeadNameServer:
    """Every look-up of a name ending in `.invalid` hangs until `answer` is set."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked: Counter[str] = Counter()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: str, *rest: Any, **more: Any) -> Any:
        if not str(host).endswith(".invalid"):
            return self._real(host, *rest, **more)
        self.asked[str(host)] += 1
        self.answer.wait(120)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeadNameServer]:
    server = DeadNameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    yield server
    server.answer.set()


async def test_appends_and_answers_go_on_while_no_name_resolves(tmp_path: Path, dead: DeadNameServer) -> None:
    peers = tuple(KnownPeer(node=f"peer-{n}", role="port", identity=f"AAA{n:02}") for n in range(PEERS))
    node = Node(settings("hq", tmp_path).model_copy(update={"known": peers}))
    await node.start()
    node.link([PeerAddress(node=f"peer-{n}", url=f"http://peer-{n}.invalid:8770", token=SecretStr("x")) for n in range(PEERS)])
    await until(lambda: len(dead.asked) == PEERS)
    door = AppendDoor(node.url, operator_token(node.settings.folder))
    appended = await apart("client", partial(door.append, [readings(0, 10)]))
    assert appended[0].count == 10
    assert not dead.answer.is_set(), "none of the look-ups has ended"
    assert set(dead.asked.values()) == {1}
    dead.answer.set()
    await node.stop()


async def test_a_look_up_has_a_deadline_and_is_not_made_twice(monkeypatch: pytest.MonkeyPatch, dead: DeadNameServer) -> None:
    monkeypatch.setattr(landfall.transport.name_lookups, "LOOK_UP_S_MAX", 0.01)
    look_ups, dialler = LookUps(), Dialler("hq")
    for _ in range(3):
        with pytest.raises(TimeoutError) as late:
            await look_ups.resolve("tokyo.invalid", 80)
        assert late.value.errno == errno.ETIMEDOUT
        assert "tokyo.invalid" in str(late.value)
    assert dead.asked["tokyo.invalid"] == 1
    with refusal(RetryLater, "node_unreachable", "sydney.invalid"):
        await dialler.dial("http://sydney.invalid:80", "sydney", None, "port")
    await dialler.close()
    dead.answer.set()
    await look_ups.close()


async def test_names_that_resolve_do() -> None:
    look_ups = LookUps()
    found = await look_ups.resolve("localhost", 80)
    assert {"127.0.0.1", "::1"} & {one["host"] for one in found}
    with pytest.raises(socket.gaierror) as unknown:
        await look_ups.resolve("no such name", 80)
    assert unknown.value.strerror
    await look_ups.close()
