"""Goal: a program follows a stream over nodes that die, and has each record once, in order; its Position outlives it."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import landfall
import landfall.client
from landfall.transport.http_client import AdmitDoor, ReadDoor
from streams.log import Append
from streams.model.errors import Corrupt, Misuse, NotAllowed, RetryLater, Trimmed
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.landfall.answering import answering
from tests.support.fleet import SINCE_AT_MS, Station, readings, started, stations
from tests.support.refusals import refusal

ROOT = Path(__file__).resolve().parents[2]
NUMBER, OTHER = "MSKU1234565", "CSQU3054383"
DEADLINE_S, WHOLE_TIME_S = 60.0, 600.0


def wait(true: Callable[[], bool], what: str) -> float:
    """Returns the seconds until `true()`."""
    began_s = time.monotonic()
    while not true():
        assert time.monotonic() - began_s < DEADLINE_S, what
        time.sleep(0.005)
    return time.monotonic() - began_s


def door(station: Station) -> landfall.NodeDoor:
    return landfall.NodeDoor(station.url, f"door-of-{station.name}")


class Following:
    """A thread that follows, as a program would."""

    def __init__(self, follower: landfall.StreamFollower) -> None:
        self.follower, self.rows = follower, list[dict[str, Any]]()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for row in self.follower:  # what it raises fails the test: pytest sees to it
            self.rows.append(row)

    def has(self, count: int) -> float:
        """Returns the seconds until `count` records have come."""
        return wait(lambda: len(self.rows) >= count, f"not all of {count} records have come")

    def close(self) -> None:
        self.follower.close()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("kills", [2, pytest.param(1_000, marks=[pytest.mark.torture, pytest.mark.timeout(14_400)])])
def test_a_port_killed_again_and_again_while_a_program_follows(tmp_path: Path, kills: int) -> None:
    """Two ports have headquarters' records; whichever it reads from is killed as records come. Each record comes once, in order."""
    hq = Station("hq", tmp_path, {})
    ports = {one.url: one for one in (Station(name, tmp_path, {"hq": hq.url}) for name in ("tokyo", "singapore"))}
    gaps_s = []
    with stations(hq, *ports.values()):
        wait(lambda: all(one.ready() for one in (hq, *ports.values())), "the nodes are up")
        following = Following(landfall.connect([door(one) for one in ports.values()]).follow("containers"))
        for turn in range(kills):
            hq.writer.append([readings(600 * turn, 300)])
            following.has(600 * turn + 1)
            at_hand = ports[following.follower.node]
            hq.writer.append([readings(600 * turn + 300, 300)])
            at_hand.kill()
            gaps_s.append(following.has(600 * turn + 600))
            at_hand.start()
            wait(at_hand.ready, "it is up again")
        truth = list(landfall.connect([door(hq)]).read("containers"))
        following.close()
    assert following.rows == truth
    assert [row["offset"] for row in truth] == list(range(600 * kills))
    print(f"{kills} kills: resumed within {max(gaps_s):.2f} s at most, {sorted(gaps_s)[kills // 2]:.2f} s in the middle")


def test_a_port_that_is_silent_and_ends_no_connection_is_left_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its host loses its power: it is suspended while the program waits for its answer. It has not the whole time of an answer,
    which is longer than this test may take."""
    monkeypatch.setattr(landfall.client, "SILENT_S", 0.3)
    monkeypatch.setattr(landfall.client, "WAIT_MS", 100)
    hq = Station("hq", tmp_path, {})
    ports = {one.url: one for one in (Station(name, tmp_path, {"hq": hq.url}) for name in ("tokyo", "singapore"))}
    with stations(hq, *ports.values()):
        wait(lambda: all(one.ready() for one in (hq, *ports.values())), "the nodes are up")
        following = Following(landfall.connect([door(one) for one in ports.values()], timeout_s=WHOLE_TIME_S).follow("containers"))
        hq.writer.append([readings(0, 10)])
        following.has(10)
        at_hand = ports[following.follower.node].process
        assert at_hand is not None
        at_hand.send(signal.SIGSTOP)
        hq.writer.append([readings(10, 10)])
        following.has(20)
        at_hand.send(signal.SIGCONT)
        following.close()
    assert [row["offset"] for row in following.rows] == list(range(20))


def test_a_node_that_comes_up_is_heard_whoever_is_silent(one: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are away, and a third takes connections and answers none, as a host whose process hangs: it has its whole time, ten minutes here,
    and nobody waits for that.
    """
    monkeypatch.setattr(landfall.client, "SILENT_S", 0.05)
    monkeypatch.setattr(landfall.client, "WAIT_MS", 50)
    one.writer.append([readings(0, 10)])
    one.kill()
    asked: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def answer_nothing() -> None:
            with suppress(OSError):  # it is closed
                while True:
                    asked.append(silent.accept()[0])

        hanging = threading.Thread(target=answer_nothing)
        hanging.start()
        nodes = [landfall.NodeDoor(f"http://127.0.0.1:{port}", "door-of-hq") for port in (silent.getsockname()[1], 1)]
        following = Following(landfall.connect([*nodes, door(one)], timeout_s=WHOLE_TIME_S).follow("containers"))
        wait(lambda: len(asked) >= 2, "it is asked once more, for its whole time")
        one.start()
        following.has(10)
        assert following.follower.node == one.url
        following.close()
        silent.shutdown(socket.SHUT_RDWR)
        hanging.join(DEADLINE_S)
    for connection in asked:
        connection.close()


def test_a_named_consumer_goes_on_where_it_committed_at_whichever_node(tmp_path: Path) -> None:
    """The program ends between records; the next one is told the other node alone."""
    hq, tokyo = Station("hq", tmp_path, {}), Station("tokyo", tmp_path, {})
    tokyo.links["hq"] = hq.url
    with stations(hq, tokyo):
        wait(lambda: hq.ready() and tokyo.ready(), "the nodes are up")
        hq.writer.append([readings(0, 100)])
        tokyo.writer.append([readings(1_000, 100)])
        with landfall.connect([door(tokyo), door(hq)]).follow("containers", consumer="pager") as first:
            early = [next(first) for _ in range(130)]
            first.commit()
            committed = first.standing.position
            next(first)  # given, not committed: it comes again
        wait(lambda: positions(hq, "client/pager") == [committed], "the commit is at headquarters")
        tokyo.kill()
        with landfall.connect([door(hq)]).follow("containers", consumer="pager") as second:
            late = [next(second) for _ in range(70)]
        with refusal(Misuse, "consumer_of_another", "containers", "alerts"):
            landfall.connect([door(hq)]).follow("alerts", consumer="pager")
    places = [(row["origin"], row["offset"]) for row in early + late]
    assert len(set(places)) == len(places) == 200


def positions(station: Station, topic: str) -> list[Position]:
    return [Position.from_json(row["body"]["position"]) for row in station.reader.latest("consumers", topic)]


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Station]:
    station = Station("hq", tmp_path, {})
    with stations(station):
        wait(station.ready, "the node is up")
        yield station


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    """A node for all tests that end none: each has streams and boxes of its own there."""
    station = Station("hq", tmp_path_factory.mktemp("lasting"), {})
    with stations(station):
        wait(station.ready, "the node is up")
        yield station


def test_read_and_history_pass_over_nodes_that_are_away(lasting: Station) -> None:
    """More than one answer holds."""
    count = landfall.client.ROWS_MAX + 1_000
    lasting.writer.append([readings(0, count)])
    fleet = landfall.connect([landfall.NodeDoor("http://127.0.0.1:1", "x"), door(lasting)])
    rows = list(fleet.read("containers"))
    assert [row["offset"] for row in rows] == list(range(count))
    origin = rows[0]["origin"]
    assert [row["offset"] for row in fleet.read("containers", Position.from_json({origin: count - 10}))] == list(range(count - 10, count))
    history = fleet.history(NUMBER, SINCE_AT_MS + 5_000, SINCE_AT_MS + 8_000)
    assert [row["device_at_ms"] - SINCE_AT_MS for row in history] == [5_000, 6_000, 7_000]


def test_who_follows_hears_at_once_and_can_be_ended(lasting: Station) -> None:
    """Nothing is polled: the node holds the question back until there is an answer."""
    following = Following(landfall.connect([door(lasting)]).follow("alerts"))
    lasting.writer.append([Append("quays", readings(0, 5).records)])
    lasting.writer.append([Append("alerts", readings(0, 2).records)])
    wait(lambda: len(following.rows) == 2, "the alerts come")
    following.close()
    with pytest.raises(StopIteration):
        next(following.follower)


def test_what_can_not_be_asked_is_said_at_once(lasting: Station) -> None:
    with refusal(Misuse, "nodes_missing"):
        landfall.connect([])
    with refusal(Misuse, "authority_missing", "https://hq"):
        landfall.connect([landfall.NodeDoor("https://hq:1", "x")])
    with refusal(NotAllowed, "credential_wrong"):
        list(landfall.connect([landfall.NodeDoor(lasting.url, "wrong")]).read("containers"))
    fleet = landfall.connect([door(lasting)])
    with refusal(Misuse, "consumer_missing"):
        fleet.follow("containers").commit()
    for name in ("", "x" * 194, "two\nlines"):
        with refusal(Misuse, "consumer_name_invalid"):
            fleet.follow("containers", name)
    with refusal(Misuse, "standing_ambiguous"):
        fleet.follow("containers", "pager", landfall.ReaderStanding())


def test_nobody_at_home_is_told_after_a_while() -> None:
    with refusal(RetryLater, "no_node_answers", "http://127.0.0.1:1"):
        landfall.connect([landfall.NodeDoor("http://127.0.0.1:1", "x")], patience_s=0.1).history(NUMBER)


PORTAL = b"<html>Accept our terms to go on</html>"
STRANGERS = [
    (200, PORTAL, "text/html"),
    (200, b"", "text/plain"),
    (200, b"", "application/json"),
    (200, b'{"hello": 1}', "application/json"),
    (200, b"\xff\xfe", "application/json"),
    (204, b"", "text/html"),
    (401, PORTAL, "text/html"),
    (404, b"404: Not Found", "text/plain"),
    (404, b'{"detail": "Not Found"}', "application/json"),
    (400, b"[]", "application/json"),
    (502, b"", "text/html"),
]


def test_at_whatever_stands_in_a_node_s_place_a_program_goes_on_at_the_next(lasting: Station) -> None:
    lasting.writer.append([Append("events", readings(0, 10, OTHER).records)])
    for status, body, kind in STRANGERS:
        with answering(status, body, kind) as port:
            stranger = landfall.NodeDoor(f"http://127.0.0.1:{port}", "door-of-hq")
            assert len(landfall.connect([stranger, door(lasting)]).history(OTHER)) == 10
            if body == PORTAL:
                with landfall.connect([stranger, door(lasting)]).follow("events", consumer=f"pager-{port}") as follower:
                    assert next(follower)["offset"] == 0
                with landfall.connect([stranger, door(lasting)]).follow("events", consumer=f"pager-{port}") as follower:
                    follower.commit()
                assert positions(lasting, f"client/pager-{port}") == [Position()]
            with refusal(RetryLater, "no_node_answers", stranger.url, status):
                list(landfall.connect([stranger], patience_s=0.01).read("containers"))
            reader, admit = ReadDoor(stranger.url, "x"), AdmitDoor(stranger.url, "x")
            for ask in (reader.health, reader.streams, partial(reader.position, "containers"), partial(admit.admit, [])):
                with refusal(RetryLater, "not_a_node", stranger.url, status):
                    ask()


def test_nobody_is_sent_elsewhere_with_the_token(lasting: Station) -> None:
    with answering(302, b"", location=f"{lasting.url}/streams") as port, refusal(RetryLater, "not_a_node", "HTTP 302"):
        ReadDoor(f"http://127.0.0.1:{port}", "door-of-hq").streams()


async def test_what_another_node_kept_of_a_consumer_and_does_not_read_is_named(tmp_path: Path) -> None:
    """Each door refuses it today; a node of an earlier release may have kept it, and brings it."""
    node = await started("hq", tmp_path)
    fleet = landfall.connect([landfall.NodeDoor(node.url, "door-of-hq")])
    for body in (None, {"stream": "containers"}, {"stream": "containers", "position": {"tokyo@1": -4}}):
        await node.append([Append("consumers", to_batch([Record("client/pager", body=body)]))])
        with refusal(Corrupt, "consumer_unreadable", "pager", node.log.origin):
            await asyncio.to_thread(fleet.follow, "containers", "pager")
    await node.stop()


async def test_who_has_read_nothing_begins_where_what_is_still_kept_begins(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    await node.append([readings(0, 100)])
    node.log.trim("containers", node.log.origin, 50)
    fleet = landfall.connect([landfall.NodeDoor(node.url, "door-of-hq")])
    rows = await asyncio.to_thread(lambda: list(fleet.read("containers")))
    assert [row["offset"] for row in rows] == list(range(50, 100))
    with await asyncio.to_thread(fleet.follow, "containers", "pager") as pager:
        assert (await asyncio.to_thread(next, pager))["offset"] == 50
        await asyncio.to_thread(pager.commit)
        assert pager.standing.position == Position({node.log.origin: 51})
    with await asyncio.to_thread(fleet.follow, "containers", "pager") as pager:
        assert (await asyncio.to_thread(next, pager))["offset"] == 51
    await node.stop()


async def test_what_every_node_has_dropped_before_it_was_read_is_told(tmp_path: Path) -> None:
    """Who would go on all the same begins where what is still kept begins."""
    node = await started("hq", tmp_path)
    await node.append([readings(0, 100)])
    fleet = landfall.connect([landfall.NodeDoor(node.url, "door-of-hq")])
    with fleet.follow("containers") as reader:
        await asyncio.to_thread(next, reader)
    node.log.trim("containers", node.log.origin, 50)
    with pytest.raises(Trimmed):
        await asyncio.to_thread(next, fleet.follow("containers", standing=reader.standing))
    with pytest.raises(Trimmed):
        await asyncio.to_thread(lambda: list(fleet.read("containers", reader.standing.position)))
    begins = await asyncio.to_thread(fleet.start, "containers")
    row = await asyncio.to_thread(next, fleet.follow("containers", standing=begins.merged(reader.standing)))
    assert row["offset"] == 50
    await node.stop()


async def test_a_node_that_is_not_given_a_stream_is_passed_by(tmp_path: Path) -> None:
    """Named first, it would be waited at for ever, as one is that is given the stream and has nothing of it yet."""
    hq, tokyo = [await started(name, tmp_path) for name in ("hq", "tokyo")]
    await hq.append([Append("customers/duckworks", readings(0, 3).records)])
    doors = [landfall.NodeDoor(node.url, f"door-of-{node.settings.node}") for node in (tokyo, hq)]
    fleet, without = landfall.connect(doors), landfall.connect(doors[:1], patience_s=0.1)
    assert len(await asyncio.to_thread(lambda: list(fleet.read("customers/duckworks")))) == 3
    fleet = landfall.connect(doors)
    assert (await asyncio.to_thread(next, fleet.follow("customers/duckworks")))["offset"] == 0
    with refusal(RetryLater, "no_node_answers", "tokyo", "customers/duckworks", "customer/duckworks"):
        await asyncio.to_thread(lambda: list(without.read("customers/duckworks")))
    assert await asyncio.to_thread(lambda: list(without.read("events"))) == []
    for node in (hq, tokyo):
        await node.stop()


async def test_it_begins_at_the_node_that_has_dropped_least(tmp_path: Path) -> None:
    nodes = [await started(name, tmp_path) for name in ("hq", "tokyo", "sydney")]
    for node, floor in zip(nodes, (50, 20, 0), strict=True):
        if floor:
            await node.append([readings(0, 100)])
            node.log.trim("containers", node.log.origin, floor)
    fleet = landfall.connect([landfall.NodeDoor(node.url, f"door-of-{node.settings.node}") for node in nodes])
    assert await asyncio.to_thread(fleet.start, "containers") == landfall.ReaderStanding(Position({nodes[1].log.origin: 20}))
    assert await asyncio.to_thread(fleet.start, "events") == landfall.ReaderStanding()
    for node in nodes:
        await node.stop()


def test_what_the_docs_name_is_there() -> None:
    named = re.findall(r"\blandfall\.([A-Za-z]\w*)", (ROOT / "docs" / "guide" / "client.md").read_text())
    assert {"connect", "ReaderStanding"} <= set(named)
    assert [name for name in named if not hasattr(landfall, name)] == []


def test_the_example_in_the_docs_runs(one: Station, capsys: pytest.CaptureFixture[str]) -> None:
    """As printed, but for the nodes' addresses and a last alert that ends it."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide" / "client.md").read_text(), re.DOTALL)
    example = re.sub(r'NodeDoor\("http://tokyo[^)]*\)', 'NodeDoor("http://127.0.0.1:1", "x")', example)
    example = re.sub(r'NodeDoor\("http://hq[^)]*\)', f'NodeDoor("{one.url}", "door-of-hq")', example)
    one.writer.append([Append("alerts", readings(0, 3).records)])
    rung: list[str] = []

    def ring(record: dict[str, Any]) -> None:
        rung.append(record["topic"])
        if len(rung) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exec(example, {"ring": ring})
    assert rung == [NUMBER] * 3
    (origin,) = {row["origin"] for row in one.reader.read("alerts")}
    assert positions(one, "client/pager") == [Position.from_json({origin: 2})]
