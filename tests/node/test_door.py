"""Goal: local processes append and read through the node's door, a retry changes nothing, and every refusal says why."""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
import pyarrow as pa
import pytest

from landfall.access.credentials import Credential, CredentialFile, operator_token
from landfall.node.node import Node
from landfall.system.http_headers import DATA_HEADERS
from landfall.transport import http_client as link_door
from landfall.transport.http_client import APPEND_BYTES_MAX, AppendDoor, ReadDoor, WireAppend, WireAppends
from streams.arrow_ipc import to_ipc
from streams.log import Append
from streams.model.errors import LandfallError, Misuse, NotAllowed, RetryLater
from streams.model.identifiers import Coordinates, Origin, Position
from streams.model.records import Record, to_batch
from streams.skipped_records import NODE, floor_topic
from tests.support.fleet import SINCE_AT_MS, readings, settings, started, until
from tests.support.refusals import refusal

FOLLOW = b'{"position": {}, "skipped": {}, "limit": 1, "wait_ms": 0}'


async def test_append_is_durable_and_a_retry_is_no_second_copy(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, "door-of-hq")
    append = Append("states", to_batch([Record("MSKU1234565", signals={"return_c": 4.5}, body={"kind": "container"})]), "spark", 7)
    first = await asyncio.to_thread(door.append, [append])
    again = await asyncio.to_thread(door.append, [append])
    assert (first[0].first, first[0].count, first[0].repeated) == (0, 1, False)
    assert again[0].repeated
    assert node.log.history("MSKU1234565").rows.num_rows == 1
    await node.stop()


async def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    record = Record("MSKU1234565", "TRK-1", SINCE_AT_MS, {"return_c": 4.5, "power_on": True}, {"flags": ["check_digit"]})
    await node.append([Append("containers", to_batch([record])), readings(1, 3)])
    reader = ReadDoor(node.url, "door-of-hq")
    rows = await asyncio.to_thread(lambda: list(reader.read("containers")))
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["signals"] == {"return_c": 4.5, "power_on": True}
    assert rows[0]["body"] == {"flags": ["check_digit"]}
    position = await asyncio.to_thread(reader.position, "containers")
    assert position == Position({node.log.origin: 4})
    assert [row["offset"] for row in await asyncio.to_thread(lambda: list(reader.read("containers", Position({node.log.origin: 2}))))] == [
        2,
        3,
    ]
    history = await asyncio.to_thread(lambda: list(reader.history("MSKU1234565", until_at_ms=SINCE_AT_MS + 1500)))
    assert [row["device_at_ms"] - SINCE_AT_MS for row in history] == [0, 1000]
    assert "containers" in await asyncio.to_thread(reader.streams)
    health = await asyncio.to_thread(reader.health)
    assert (health["node"], health["origin"]) == ("hq", str(node.log.origin))
    await node.stop()


async def test_refusals(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)

    def ask(path: str, token: str = "door-of-hq", body: bytes | None = None) -> tuple[int, str]:
        request = urllib.request.Request(node.url + path, data=body, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, json.loads(problem.read())["problem"]

    assert (await asyncio.to_thread(ask, "/healthz", ""))[0] == 200
    for path, token, body, status, sentence in (
        ("/streams", "", None, 401, "credential"),
        ("/streams", "token-of-nobody", None, 401, "credential"),
        ("/streams", "token-of-tokyo", None, 403, "node:tokyo has nothing to do here"),
        ("/ledger/no such", "door-of-hq", None, 400, "stream's name"),
        ("/read/containers?position=5", "door-of-hq", None, 400, ""),
        ("/read/containers?limit=-1", "door-of-hq", None, 400, "limit"),
        (f"/read/containers?limit={'9' * 5000}", "door-of-hq", None, 400, "limit"),
        (f"/read/containers?position=%7B%22hq@1%22:{10**30}%7D", "door-of-hq", None, 400, "position"),
        (f"/history/MSKU1234565?since_at_ms={10**30}", "door-of-hq", None, 400, "since_at_ms"),
        (f"/history/MSKU1234565?until_at_ms={-(10**30)}", "door-of-hq", None, 400, "until_at_ms"),
        (f"/history/MSKU1234565?since_at_ms={(1 << 63) - 1}", "door-of-hq", None, 200, ""),
        ("/append", "door-of-hq", b"rubbish", 400, ""),
        ("/follow/containers", "door-of-hq", FOLLOW, 200, ""),
        ("/follow/containers", "door-of-hq", codecs.BOM_UTF8 + FOLLOW, 200, ""),
        ("/sync", "door-of-hq", None, 403, "not known"),
    ):
        answer = await asyncio.to_thread(ask, path.replace(" ", "%20"), token, body)
        assert answer[0] == status, (path, answer)
        assert sentence in answer[1], (path, answer)
    door = AppendDoor(node.url, "door-of-hq")
    stamped = to_batch([Record("x")]).append_column("offset", to_batch([Record("x")]).column("device_at_ms"))
    with refusal(Misuse, "column_stamped", "offset"):
        await asyncio.to_thread(door.append, [Append("containers", stamped)])
    with refusal(Misuse, "sequence_invalid"):
        await asyncio.to_thread(door.append, [Append("containers", to_batch([Record("x")]), "spark", 1 << 63)])
    with pytest.raises(NotAllowed):
        await asyncio.to_thread(AppendDoor(node.url, "wrong").append, [])
    await node.stop()
    with pytest.raises(RetryLater):
        await asyncio.to_thread(door.append, [])


async def test_what_the_node_says_of_its_own_records_no_other_program_writes(tmp_path: Path) -> None:
    """One odd record among what is signed, and nothing of that stream would be believed any more."""
    node = await started("tokyo", tmp_path)
    door = AppendDoor(node.url, "door-of-tokyo")
    for stream in ("containers.heads", "containers.kept", "ships.waiting", "homes"):
        with refusal(NotAllowed, "stream_of_node", stream):
            await asyncio.to_thread(door.append, [Append(stream, to_batch([Record("x", signals={"v": 1})]))])
        assert node.log.own_end(stream, node.log.origin) == 0
    await node.stop()


async def test_what_a_process_never_read_is_reported_by_its_own_principal_alone(tmp_path: Path) -> None:
    """An operator may report it too: that is how a person accepts it."""
    credentials = CredentialFile(tmp_path / "hq")
    for name in ("projector", "fanout"):
        credentials.put(Credential.of_token(f"user:{name}", {"produce": ("*",)}, f"of-{name}"))
    node = await started("hq", tmp_path)

    def append(token: str, *topics: str) -> None:
        rows = to_batch([Record(topic, body={"reason": "nothing", "outcome": "went on"}) for topic in topics])
        AppendDoor(node.url, token).append([Append("exceptions", rows)])

    for token, process in (("of-projector", "fanout"), ("of-projector", NODE), ("of-fanout", "projector")):
        with refusal(NotAllowed, "topic_not_own"):
            await asyncio.to_thread(append, token, "fine", floor_topic(process))
        assert not node.log.latest("exceptions", "fine"), "nothing of a refused request is kept"
    await asyncio.to_thread(append, "of-projector", "fine", floor_topic("projector"))
    await asyncio.to_thread(append, operator_token(tmp_path / "hq"), floor_topic("fanout"), floor_topic(NODE))
    kept = [bool(node.log.latest("exceptions", floor_topic(process))) for process in ("projector", "fanout", NODE)]
    assert kept == [True, True, True]
    await node.stop()


async def test_raw_columns_are_looked_at_as_records_are(tmp_path: Path) -> None:
    """Whoever appends columns, and no records: what no record could say is refused, and nothing of that request is in the log."""
    node = await started("tokyo", tmp_path)
    door, source = AppendDoor(node.url, "door-of-tokyo"), Coordinates("events", Origin("hq", 1), 7)
    rows = to_batch([Record("MSKU1234565", signals={"v": 1}, source=source), Record("MSKU7654321", signals={"v": 1}, source=source)])
    for column, value, code in (
        ("topic", "a\nb", "topic_invalid"),
        ("topic", "", "topic_invalid"),
        ("source_stream", "no such!", "stream_invalid"),
        ("source_origin", "junk", "origin_invalid"),
    ):
        at = rows.schema.get_field_index(column)
        odd = rows.set_column(at, rows.schema.field(at), pa.array([rows.column(column)[0].as_py(), value]))
        with refusal(Misuse, code):
            await asyncio.to_thread(door.append, [Append("containers", rows), Append("containers", odd)])
        assert node.log.own_end("containers", node.log.origin) == 0, (column, value)
    await node.stop()


async def test_every_answer_has_the_security_headers(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    async with aiohttp.ClientSession() as http:
        for path, status in (("/healthz", 200), ("/streams", 401), ("/nothing", 401)):
            async with http.get(f"{node.url}{path}") as answer:
                assert (answer.status, DATA_HEADERS.items() <= dict(answer.headers).items()) == (status, True), answer.headers
    await node.stop()


@pytest.mark.parametrize("sequence", [2**64, -(2**70)])
async def test_a_sequence_that_is_no_64_bit_number_is_told_before_it_is_sent(tmp_path: Path, sequence: int) -> None:
    append = Append("containers", to_batch([Record("x", signals={"v": 1})]), "feed", sequence)
    with refusal(Misuse, "sequence_invalid"):
        AppendDoor("http://127.0.0.1:1", "token").append([append])


async def test_bodies_are_not_unpacked(tmp_path: Path) -> None:
    """Of whatever encoding, known to a library or not: the length of a body bounds the memory that it takes."""
    node = await started("hq", tmp_path)
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer door-of-hq"}) as http:
        for encoding in ("gzip", "br", "wobble"):
            async with http.post(f"{node.url}/append", data=b"x", headers={"Content-Encoding": encoding}) as answer:
                assert (answer.status, (await answer.json())["code"]) == (415, "body_encoded")
        async with http.post(f"{node.url}/append", data=io.BytesIO(bytes(APPEND_BYTES_MAX + 1))) as answer:
            assert (answer.status, (await answer.json())["code"]) == (413, "body_too_large")
    await node.stop()


async def test_each_refusal_has_a_code_of_its_own(tmp_path: Path) -> None:
    node = await started("tokyo", tmp_path)
    await node.append([readings(0, 4)])

    def wish(origin: object, first: int, end: int) -> bytes:
        return json.dumps({"origin": str(origin), "first": first, "end": end}).encode()

    def body(stream: str) -> bytes:
        return msgspec.msgpack.encode(WireAppends([WireAppend(stream, None, None, to_ipc(to_batch([Record("x", signals={"v": 1})])))]))

    own = node.log.origin
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer door-of-tokyo"}) as http:
        for method, path, data, status, code in (
            ("GET", "/nothing", None, 404, "path_unknown"),
            ("DELETE", "/append", None, 405, "method_not_allowed"),
            ("GET", "/read/containers?position=5", None, 400, "position_invalid"),
            ("GET", "/read/containers?position=%7B%22x%22:1%7D", None, 400, "position_invalid"),
            ("GET", "/read/containers?limit=-1", None, 400, "number_invalid"),
            ("GET", "/read/customers%2Fducks", None, 503, "stream_elsewhere"),
            ("POST", "/append", body("homes"), 403, "stream_of_node"),
            ("POST", "/append", body("registry"), 403, "stream_not_own"),
            ("POST", "/lose/containers", wish(own, 0, 4), 400, "held_here"),
            ("POST", "/lose/containers", wish(own, 4, 9), 400, "offsets_not_given"),
            ("POST", "/lose/containers", wish("tokyo@1", 0, 4), 400, "origin_unknown"),
            ("POST", "/lose/containers", wish("sydney@1", 0, 4), 403, "origin_elsewhere"),
        ):
            async with http.request(method, node.url + path, data=data) as answer:
                assert (answer.status, (await answer.json())["code"]) == (status, code), path
        async with http.delete(f"{node.url}/append") as answer:
            assert answer.headers["Allow"] == "POST"
    await node.stop()


NO_POSITIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"tokyo@1": -1}, "position_invalid", "-1"),
    ({"tokyo@1": 1 << 63}, "position_invalid", "9223372036854775808"),
    ({"tokyo@1": 10**30}, "position_invalid", "1000000000"),
    ({"tokyo@1": True}, "request_invalid", "bool"),
    ({"tokyo": 3}, "origin_invalid", "tokyo"),
    ({"tokyo@0x1": 3}, "origin_invalid", "tokyo@0x1"),
    ({f"{'x' * 5_000}@1": 3}, "node_name_invalid", "xxx"),
    ({f"tokyo@{'1' * 5_000}": 3}, "origin_invalid", "tokyo@111"),
]
"""What is no position, the code of its refusal in a body, and what the refusal names."""


async def test_what_is_no_position_is_refused_and_not_kept(tmp_path: Path) -> None:
    """Wherever one is told: as where to read from, as where to follow from, and as where a consumer stands."""
    node = await started("hq", tmp_path)
    await node.append([readings(0, 3)])
    append, asking = AppendDoor(node.url, "door-of-hq"), partial(asked, node)
    for position, code, named in NO_POSITIONS:
        body = {"stream": "containers", "position": position}
        with refusal(Misuse, "consumer_invalid", named) as refused:
            await asyncio.to_thread(append.append, [readings(3, 1), Append("consumers", to_batch([Record("client/x", body=body)]))])
        follow = {"position": position, "skipped": {}, "limit": 5, "wait_ms": 0}
        read = "/read/containers?" + urlencode({"position": json.dumps(position)})
        for path, given, expected in ((read, None, "position_invalid"), ("/follow/containers", follow, code)):
            status, answer = await asyncio.to_thread(asking, path, given)
            assert (status, answer["code"]) == (400, expected)
            assert named in answer["problem"]
            assert len(answer["problem"]) < 500
        assert len(str(refused.value)) < 500, "what is huge is not said again"
    assert not node.log.position("consumers")
    assert node.log.position("containers") == Position({node.log.origin: 3}), "all of a commit or nothing"
    await node.stop()


def asked(node: Node, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(node.url + path, data=data, headers={"Authorization": "Bearer door-of-hq"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, json.loads(problem.read())


NO_CONSUMERS: list[tuple[str, dict[str, Any], str]] = [
    ("client/x", {"stream": "no such!", "position": {}}, "consumer_invalid"),
    ("client/x", {"stream": "s" * 5_000, "position": {}}, "consumer_invalid"),
    ("client/x", {"stream": "containers", "position": {}, "skipped": {"tokyo@1": [[-1, 3]]}}, "consumer_invalid"),
    ("client/x", {"stream": "containers", "position": {}, "skipped": {"tokyo@1": [[0, 1 << 63]]}}, "consumer_invalid"),
    ("client/x", {"position": {}}, "consumer_invalid"),
    ("client/x", {}, "consumer_invalid"),
    ("client/", {"stream": "containers", "position": {}}, "consumer_name_invalid"),
    ("watch/containers", {"stream": "containers", "position": {}}, "consumer_name_invalid"),
]


async def test_what_no_programs_consumer_is_is_not_kept(tmp_path: Path) -> None:
    """Nor is what the node's own consumers go by."""
    node = await started("hq", tmp_path)
    await node.append([readings(0, 3)])
    door = AppendDoor(node.url, "door-of-hq")
    for topic, body, code in NO_CONSUMERS:
        with refusal(Misuse, code):
            await asyncio.to_thread(door.append, [Append("consumers", to_batch([Record(topic, body=body)]))])
    assert not node.log.position("consumers")
    await node.stop()


async def test_a_consumer_of_what_is_not_here_is_for_another_node_to_keep(tmp_path: Path) -> None:
    """Unless it has read nothing yet."""
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, "door-of-hq")

    def stands(position: dict[str, int]) -> list[Append]:
        return [Append("consumers", to_batch([Record("client/x", body={"stream": "contaniers", "position": position})]))]

    with refusal(RetryLater, "stream_unknown", "contaniers"):
        await asyncio.to_thread(door.append, stands({"tokyo@1": 3}))
    assert not node.log.position("consumers")
    await asyncio.to_thread(door.append, stands({}))
    assert node.log.position("consumers")
    await node.stop()


async def test_metrics_and_failures_are_told_in_the_log(tmp_path: Path) -> None:
    node = await started("tokyo", tmp_path)
    node.metrics.count("boxes", 3)
    node.report("a sensor speaks gibberish", "kept", payload=b"\xff", n=1)
    await until(lambda: bool(node.log.position("exceptions")) and bool(node.log.position("metrics")))
    rows = node.log.history("tokyo.node").rows.to_pylist()
    bodies = {row["stream"]: json.loads(row["body"]) for row in rows}
    assert bodies["exceptions"]["reason"] == "a sensor speaks gibberish"
    assert bodies["exceptions"]["outcome"] == "kept"
    assert bodies["metrics"]["process"] == "tokyo.node"
    assert {"counts", "gauges", "histograms", "wall_at_ms", "at_ms"} <= bodies["metrics"].keys()
    await node.stop()


async def test_background_work_that_fails_stops_the_node_and_says_why(tmp_path: Path) -> None:
    node = Node(settings("tokyo", tmp_path))

    async def fails() -> None:
        raise Misuse("its settings are wrong", code="wrong")

    node.add_background("doomed", fails)
    await node.start()
    with refusal(LandfallError, "wrong"):
        async with asyncio.timeout(60):
            await node.run_until_stopped()


async def test_background_work_that_fails_for_now_is_begun_anew_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.node.services.background_work.AGAIN_S", 0.01)
    node, begun = Node(settings("tokyo", tmp_path)), 0

    async def fails_at_first() -> None:
        nonlocal begun
        begun += 1
        if begun < 4:
            raise RetryLater("the disk gives EIO")
        await asyncio.Event().wait()

    node.add_background("patient", fails_at_first)
    await node.start()
    await until(lambda: begun == 4 and bool(node.log.position("exceptions")))
    [row] = node.log.history("tokyo.node", streams=["exceptions"]).rows.to_pylist()
    body = json.loads(row["body"])
    assert (body["code"], body["problem"]) == ("background_work_failed", "the disk gives EIO")
    assert node.metrics.body(0, 0)["counts"]["background_retries"] == 3
    await node.stop()


async def test_a_history_longer_than_an_answer_comes_whole_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two streams with the same offsets at the same instants, so that every part ends in the midst of one."""
    monkeypatch.setattr(link_door, "HISTORY_ROWS", 4)
    monkeypatch.setattr(link_door, "ROWS_MAX", 8)
    node = await started("hq", tmp_path)
    rows = [Record("MSKU1234565", f"TRK-{at}", SINCE_AT_MS + at // 3 * 1_000, {"return_c": float(at)}) for at in range(30)]
    await node.append([Append(stream, to_batch(rows)) for stream in ("containers", "events")])
    reader = ReadDoor(node.url, "door-of-hq")
    told = await asyncio.to_thread(lambda: list(reader.history("MSKU1234565", SINCE_AT_MS + 1_000)))
    whole = node.log.history("MSKU1234565", SINCE_AT_MS + 1_000).rows
    assert [(row["stream"], row["offset"]) for row in told] == [(row["stream"], row["offset"]) for row in whole.to_pylist()]
    assert len(told) == 54
    await node.append([Append("events", to_batch(rows[:3])), Append("states", to_batch(rows[:3]))])
    with refusal(Misuse, "instant_crowded", "MSKU1234565"):
        await asyncio.to_thread(lambda: list(reader.history("MSKU1234565")))
    await node.stop()
