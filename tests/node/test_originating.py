"""Goal: what a node may not write, who writes through its door is told so; what sensors say is kept all the same, counted and told of, and
goes out once headquarters lets the node write again, all without a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from landfall.node.node import Node
from landfall.node.services.definition_watcher import Defining
from landfall.node.write_authorization import KEPT_HERE
from landfall.transport.http_client import AppendDoor, ReadDoor
from streams.config.definition_format import read_fields
from streams.consumers import CONSUMERS
from streams.log import Append, LogReader
from streams.model.errors import NotAllowed
from streams.model.identifiers import Origin
from streams.model.records import Record, to_batch
from tests.node.test_definitions import bodies, define
from tests.support.fleet import address, introduced, readings, started, until
from tests.support.refusals import refusal

QUAYS = "quays"


def quay_readings(first: int, count: int, stream: str = QUAYS) -> Append:
    return Append(stream, readings(first, count).records)


def told(node: Node) -> list[str]:
    """What its `exceptions` say of who may write."""
    return [body for body in bodies(node, "exceptions") if '"code":"stream_' in body.replace('": "', '":"')]


async def test_a_stream_set_narrower_and_wider_again(tmp_path: Path) -> None:
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    tokyo.link([address("tokyo", "hq", hq.url)])
    door, reader = AppendDoor(tokyo.url, "door-of-tokyo"), ReadDoor(tokyo.url, "door-of-tokyo")
    await asyncio.to_thread(door.append, [quay_readings(0, 3)])
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 3)
    assert (await asyncio.to_thread(reader.health))["kept_here"] == []

    await define(hq, QUAYS, 1, originate=("hq",))
    await until(lambda: tokyo.definitions.of(QUAYS).originate == ("hq",))
    with refusal(NotAllowed, "stream_not_own", "tokyo", "quays", "originate="):
        await asyncio.to_thread(door.append, [quay_readings(3, 1, "events"), quay_readings(3, 3)])
    with refusal(NotAllowed, "stream_not_own", "registry"):
        await asyncio.to_thread(door.append, [quay_readings(3, 1, "registry")])
    assert tokyo.log.position(QUAYS)[tokyo.log.origin] == 3, "what was refused is nowhere"
    assert not tokyo.log.position("events")[tokyo.log.origin], "nor what was to be written with it"
    await tokyo.append([quay_readings(3, 3)])
    await tokyo.append([quay_readings(6, 1)])
    assert tokyo.log.position(QUAYS)[tokyo.log.origin] == 7, "what is acknowledged is kept"
    assert (await asyncio.to_thread(reader.health))["kept_here"] == [QUAYS]
    assert tokyo.metrics.body(0, 0)["counts"]["kept_here"] == 4
    await until(lambda: len(told(tokyo)) == 1)
    assert "stream_kept_here" in told(tokyo)[0]
    assert hq.log.position(QUAYS)[tokyo.log.origin] == 3

    await define(hq, QUAYS, 2, originate=("hq", "port"))
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 7)
    await until(lambda: len(told(tokyo)) == 2)
    assert (await asyncio.to_thread(reader.health))["kept_here"] == []
    await asyncio.to_thread(door.append, [quay_readings(7, 1)])
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 8)
    for node in (tokyo, hq):
        await node.stop()


async def test_a_session_that_begins_while_settings_are_read_goes_by_them_once_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings come by another link, before the one that they concern is up."""
    hq, singapore, tokyo = [await started(name, tmp_path) for name in ("hq", "singapore", "tokyo")]
    await introduced(tokyo, hq)
    singapore.link([address("singapore", "hq", hq.url)])
    to_singapore, to_hq = address("tokyo", "singapore", singapore.url), address("tokyo", "hq", hq.url)
    tokyo.link([to_singapore])
    await define(hq, QUAYS, 1, originate=("hq",), replicate=("hq",))
    await until(lambda: tokyo.definitions.of(QUAYS).originate == ("hq",))
    await tokyo.append([quay_readings(0, 7)])
    loop, read, met = asyncio.get_running_loop(), Defining._read, 0

    async def meet() -> None:
        nonlocal met
        tokyo.link([to_singapore, to_hq])
        await until(lambda: "hq" in tokyo.links.settled((QUAYS, tokyo.log.origin)))
        met += 1

    def read_as_one_begins(self: Defining, log: LogReader) -> None:
        read(self, log)
        if self._definitions is tokyo.definitions and self._unlearnt:
            asyncio.run_coroutine_threadsafe(meet(), loop).result()

    monkeypatch.setattr(Defining, "_read", read_as_one_begins)
    await define(hq, QUAYS, 2, originate=("hq", "port"), replicate=("hq",))
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 7)
    assert met == 1
    for node in (tokyo, singapore, hq):
        await node.stop()


async def test_what_an_earlier_process_kept_here_is_known_and_not_told_again(tmp_path: Path) -> None:
    """Nor after the next start, under a new generation; that it may write again is told by whichever process hears so."""
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    tokyo.link([address("tokyo", "hq", hq.url)])
    await tokyo.append([quay_readings(0, 3)])
    await define(hq, QUAYS, 1, originate=("node/singapore",))
    await until(lambda: tokyo.originating.kept_here() == [QUAYS])
    await until(lambda: len(tokyo.log.latest(CONSUMERS, KEPT_HERE)) == 1)
    for _ in range(2):
        await tokyo.stop()
        (tmp_path / "tokyo" / "marker").unlink()
        tokyo = await started("tokyo", tmp_path)
        assert tokyo.originating.kept_here() == [QUAYS]
        await tokyo.append([quay_readings(0, 1)])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await define(hq, QUAYS, 2, originate=("port",))
    await until(lambda: len(told(tokyo)) >= 2)
    assert ["stream_kept_here" in body for body in told(tokyo)] == [True, False]
    assert tokyo.originating.kept_here() == []
    for node in (tokyo, hq):
        await node.stop()


async def test_a_node_and_its_programs_may_always_tell_of_themselves(tmp_path: Path) -> None:
    """Headquarters may let nobody else's `metrics` travel: they are in the log of who wrote them."""
    hq, ducks = await started("hq", tmp_path), await started("ducks", tmp_path)
    own = [Append(stream, to_batch([Record("api", body={"counts": {}})])) for stream in ("metrics", "exceptions")]
    own.append(Append("consumers", to_batch([Record("client/map", body={"stream": "exceptions", "position": {}})])))
    for node, name in ((hq, "hq"), (ducks, "ducks")):
        door = AppendDoor(node.url, f"door-of-{name}")
        await asyncio.to_thread(door.append, own)
    with refusal(NotAllowed, "stream_not_own", "ducks", "customers/duckworks", "hq"):
        await asyncio.to_thread(door.append, [quay_readings(0, 1, "customers/duckworks")])
    assert (ducks.originating.kept_here(), told(ducks)) == ([], []), "who tells nobody anything keeps nothing from them"
    for node in (ducks, hq):
        await node.stop()


def test_what_headquarters_own_programs_write_it_takes_from_no_program() -> None:
    for name in ("alerts", "reports"):
        for refused in (["ship"], ["ship", "port"], ["node/hq"]):
            with pytest.raises(ValueError, match=rf"^originate: [^\n]*\b{name}\b"):
                read_fields(name, {"originate": refused})
        for taken in (["hq"], ["ship", "hq"], ["*"]):
            read_fields(name, {"originate": taken})
    fields: dict[str, Any] = read_fields("events", {"originate": ["ship"]})
    assert fields["originate"] == ("ship",)


async def test_a_retry_of_what_is_committed_is_told_so_whoever_may_write_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what was waiting for its commit when the node heard that it may not write any more."""
    tokyo = await started("tokyo", tmp_path)
    door = AppendDoor(tokyo.url, "door-of-tokyo")
    sent = [replace(quay_readings(4 * number, 4), producer="gateway", sequence=number) for number in range(4)]
    slow, go_on, checked, check = threading.Event(), threading.Event(), list[str](), tokyo.originating.check

    def watched_check(stream: str) -> None:
        checked.append(stream)
        check(stream)

    def slow_disk(stream: str, origin: Origin, rows: Sequence[pa.RecordBatch], end: object) -> None:
        slow.set()
        go_on.wait()

    monkeypatch.setattr(tokyo.originating, "check", watched_check)
    first = await asyncio.to_thread(door.append, sent[:1])
    tokyo.log.witnessed_by(slow_disk)
    under_way = asyncio.create_task(asyncio.to_thread(door.append, sent[1:2]))
    await until(slow.is_set)
    waiting = asyncio.create_task(asyncio.to_thread(door.append, sent[2:3]))
    await until(lambda: len(checked) == 3)
    tokyo.definitions.take(QUAYS, 1, read_fields(QUAYS, {"originate": ["hq"]}))
    again = asyncio.create_task(asyncio.to_thread(door.append, sent[2:3]))
    await until(lambda: len(checked) == 4)
    go_on.set()
    [second], [third], [repeated] = await under_way, await waiting, await again
    assert (first[0].first, second.first, third.first) == (0, 4, 8)
    assert repeated == replace(third, count=0, repeated=True)
    assert await asyncio.to_thread(door.append, sent[:2]) == [replace(third, count=0, repeated=True)] * 2
    for new in (sent[3:], [sent[2], sent[3]], [quay_readings(0, 1)]):
        with refusal(NotAllowed, "stream_not_own", "tokyo", "quays"):
            await asyncio.to_thread(door.append, new)
    assert tokyo.log.position(QUAYS)[tokyo.log.origin] == 12
    await tokyo.stop()
