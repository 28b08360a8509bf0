"""Goal: at a node's door everybody may do what their credential says, and nothing else, as soon as the file says so."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.web
import msgspec
import pytest

from landfall.access import wrong_secrets
from landfall.access.credentials import CredentialFile, operator_token
from landfall.access.password_checks import Crowded
from landfall.access.principals import Principal
from landfall.access.wrong_secrets import NAME_CHARS_MAX, REPORTED_EVERY_S, REPORTS_MAX, SLOWED_MAX, SLOWED_S_MAX, WrongSecrets
from landfall.node.http import request_guard
from landfall.node.node import Node
from landfall.node.peers.peer_identification import Guest
from landfall.transport.http_client import AppendDoor, ReadDoor
from streams.config.companion_streams import parent_of
from streams.config.roles import LAN
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import NotAllowed
from streams.model.identifiers import Origin, Position
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from streams.replication.link_terms import Terms
from tests.support.credentials import PASSWORD, allow_crew, allow_peers
from tests.support.fleet import address, settings, started, until
from tests.support.refusals import refusal

ONE = to_batch([Record("MSKU1234565", body={"said": "quack"})])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_guard, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(wrong_secrets, "SLOWED_S", 0.001)


async def test_a_program_writes_its_own_streams_and_nothing_else(tmp_path: Path) -> None:
    """Of several appends in one request none is made where one is not allowed."""
    token = CredentialFile(tmp_path / "hq").give_token("user:projector", {"produce": ("metrics",)})
    node = await started("hq", tmp_path)
    door = AppendDoor(node.url, token)
    await asyncio.to_thread(door.append, [Append("metrics", ONE)])
    held = node.log.position("metrics")
    for appends in ([Append("registry", ONE)], [Append("metrics", ONE), Append("alerts", ONE)]):
        with refusal(NotAllowed, "credential_not_allowed", "user:projector", "produce"):
            await asyncio.to_thread(door.append, appends)
    assert not {"registry", "alerts"} & set(node.log.streams())
    assert node.log.position("metrics") == held
    with refusal(NotAllowed, "credential_not_allowed", "metrics"):
        await asyncio.to_thread(ReadDoor(node.url, token).position, "metrics")
    await node.stop()


async def test_a_reader_sees_the_streams_that_are_its_own(tmp_path: Path) -> None:
    """The lists and the history of a topic show no more than reading would give."""
    token = CredentialFile(tmp_path / "hq").give_token("user:warehouse", {"consume": ("events", "customers/*")})
    node = await started("hq", tmp_path)
    await node.append([Append(stream, ONE) for stream in ("events", "states", "customers/duckworks")])
    reader = ReadDoor(node.url, token)
    assert {parent_of(stream) for stream in await asyncio.to_thread(reader.streams)} == {"customers/duckworks", "events"}
    rows = await asyncio.to_thread(lambda: list(reader.history("MSKU1234565")))
    assert sorted(row["stream"] for row in rows) == ["customers/duckworks", "events"]
    with refusal(NotAllowed, "credential_not_allowed", "states"):
        await asyncio.to_thread(lambda: list(reader.read("states")))
    await node.stop()


async def test_without_admin_nothing_is_admitted_and_nothing_declared_lost(tmp_path: Path) -> None:
    token = CredentialFile(tmp_path / "hq").give_token("user:all-but", {"produce": ("*",), "consume": ("*",), "admin": ("events",)})
    node = await started("hq", tmp_path)
    await node.append([Append("states", ONE)])
    [block] = node.log.blocks("states", node.log.origin, 0, 1)
    async with aiohttp.ClientSession(headers=bearer(token)) as http:
        body = msgspec.msgpack.encode({"blocks": [block.to_bytes()], "gone": []})
        async with http.post(f"{node.url}/admit", data=body) as answer:
            assert (answer.status, (await answer.json())["code"]) == (403, "credential_not_allowed")
        lost = {"origin": str(node.log.origin), "first": 0, "end": 1, "sure": True}
        async with http.post(f"{node.url}/lose/states", json=lost) as answer:
            assert (answer.status, (await answer.json())["code"]) == (403, "credential_not_allowed")
    assert not node.log.ledger("states")[node.log.origin].gone
    await node.stop()


async def test_every_route_refuses_who_is_not_known_and_who_may_do_nothing_of_it(tmp_path: Path) -> None:
    token = CredentialFile(tmp_path / "hq").give_token("user:stranger", {"consume": ("no-such-stream",)})
    node = await started("hq", tmp_path)
    closed = [(method, path) for (method, path), need in node.guard.needs.items() if need is not None]
    assert len(closed) == 10
    async with aiohttp.ClientSession() as http:
        for method, path in closed:
            url = node.url + path.format(stream="events", topic="MSKU1234565")
            async with http.request(method, url, data=b"") as answer:
                assert (answer.status, (await answer.json())["code"]) == (401, "credential_wrong"), path
            need = node.guard.needs[method, path]
            if need is not None and need.stream is not None:
                async with http.request(method, url, data=b"", headers=bearer(token)) as answer:
                    assert (answer.status, (await answer.json())["code"]) == (403, "credential_not_allowed"), path
        async with http.get(f"{node.url}/no-such-page") as answer:
            assert answer.status == 401
    await node.stop()


async def test_a_credential_that_is_withdrawn_ends_what_is_under_way(tmp_path: Path) -> None:
    """A reader waits for records that do not come; its request ends without an answer, and its next one is refused."""
    file = CredentialFile(tmp_path / "hq")
    token, other = (file.give_token(f"user:{name}", {"consume": ("events",)}) for name in ("warehouse", "other"))
    node = await started("hq", tmp_path)
    wanted = {"position": {}, "skipped": {}, "limit": 10, "wait_ms": 30_000}
    async with aiohttp.ClientSession() as http:

        async def follow(shown: str) -> int:
            async with http.post(f"{node.url}/follow/events", json=wanted, headers=bearer(shown)) as answer:
                return answer.status

        waiting, others = asyncio.create_task(follow(token)), asyncio.create_task(follow(other))
        await until(lambda: node.guard.under_way() == ["user:other", "user:warehouse"])
        file.withdraw("user:warehouse")
        with pytest.raises(aiohttp.ClientError):
            await waiting
        assert not others.done(), "nobody else is disturbed"
        assert await follow(token) == 401
        await node.append([Append("events", ONE)])
        assert await others == 200
    await node.stop()


async def test_a_file_that_does_not_read_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path / "hq")
    token = file.give_token("user:warehouse", {"consume": ("events",)})
    node = await started("hq", tmp_path)
    file.path.write_text("{")
    await until(lambda: _reasons(node).count("credentials are not taken") == 1)
    assert await asyncio.to_thread(ReadDoor(node.url, token).streams) == []
    await node.stop()


async def test_wrong_secrets_are_counted_and_reported_by_name_and_address(tmp_path: Path) -> None:
    allow_crew(tmp_path / "hq", "anna", "Anna Lind, master")
    node = await started("hq", tmp_path)
    async with aiohttp.ClientSession() as http:
        for shown in (bearer("wrong"), bearer("wrong too"), basic("anna", "wrong"), basic("nobody", PASSWORD)):
            async with http.get(f"{node.url}/streams", headers=shown) as answer:
                assert answer.status == 401
        async with http.get(f"{node.url}/streams", headers=basic("anna", PASSWORD)) as answer:
            assert answer.status == 200
    assert node.metrics.body(0, 0)["counts"]["secrets_wrong"] == 4
    await until(lambda: _reasons(node).count("somebody shows a wrong secret at the door") == 3)
    bodies = [body for body in _told(node) if "wrong secret" in body["reason"]]
    assert [(body.get("user"), body["address"]) for body in bodies] == [(None, "127.0.0.1"), ("anna", "127.0.0.1"), ("nobody", "127.0.0.1")]
    assert "wrong too" not in str(bodies)
    await node.stop()


async def test_the_answer_to_wrong_secrets_waits_longer_each_time_and_a_crowd_of_them_is_sent_away() -> None:
    waits, reports, go = list[float](), list[dict[str, Any]](), asyncio.Event()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await go.wait()

    def report(reason: str, outcome: str, **details: Any) -> None:
        reports.append(details)

    wrong = WrongSecrets(StillClock(0), Metrics("hq.node"), report, wait)
    crowd = [asyncio.create_task(wrong.shown("", "10.0.0.7")) for _ in range(SLOWED_MAX)]
    await until(lambda: len(waits) == SLOWED_MAX)
    with pytest.raises(Crowded):
        await wrong.shown("anna", "10.0.0.8")
    go.set()
    await asyncio.gather(*crowd)
    assert waits[:3] == [0.0, wrong_secrets.SLOWED_S, 2 * wrong_secrets.SLOWED_S]
    assert max(waits) <= SLOWED_S_MAX
    unnamed, named = reports
    assert unnamed == {"code": "secret_wrong", "address": "10.0.0.7", "unreported_since": 0}
    assert named == {"code": "secret_wrong", "address": "10.0.0.8", "unreported_since": 0, "user": "anna"}


async def test_strangers_who_make_up_names_fill_no_log() -> None:
    """Each name that is new would be a report; an hour later there may be reports again. Of a long name the beginning is told."""
    reports, clock = list[dict[str, Any]](), StillClock(0)

    async def at_once(_: float) -> None:
        return

    wrong = WrongSecrets(clock, Metrics("ship"), lambda reason, outcome, **details: reports.append(details), at_once)
    for number in range(2_000):
        await wrong.shown(f"{number}" + "x" * 10_000, "10.0.0.7")
    assert len(reports) == REPORTS_MAX
    assert max(len(told["user"]) for told in reports) == NAME_CHARS_MAX
    clock.advance(REPORTED_EVERY_S)
    await wrong.shown("anna", "10.0.0.7")
    assert [told["user"] for told in reports[REPORTS_MAX:]] == ["anna"]


async def test_the_user_of_the_node_may_do_everything_on_its_machine(tmp_path: Path) -> None:
    node = await started("hq", tmp_path)
    token = operator_token(tmp_path / "hq")
    await asyncio.to_thread(AppendDoor(node.url, token).append, [Append("registry", ONE)])
    assert "registry" in await asyncio.to_thread(ReadDoor(node.url, token).streams)
    await node.stop()


async def test_where_a_persons_name_is_recorded_no_program_may_act(tmp_path: Path) -> None:
    async def acted(request: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.json_response({"by": request_guard.person_of(request)})

    allow_crew(tmp_path / "hq", "anna", "Anna Lind, master")
    node = Node(settings("hq", tmp_path))
    node.guard.route("POST", "/act", acted, request_guard.Need("produce", "alerts", person=True))
    await node.start()
    told = []
    async with aiohttp.ClientSession() as session:
        for shown in (bearer(operator_token(tmp_path / "hq")), basic("anna", PASSWORD)):
            async with session.post(f"{node.url}/act", headers=shown) as answer:
                body = await answer.json()
                told.append((answer.status, body.get("code"), body.get("by")))
    assert told == [(403, "person_expected", None), (200, None, "Anna Lind, master")]
    await node.stop()


def _is_known(node: Node, token: str, principal: str) -> bool:
    known = node.credentials.of_token(token)
    return known is not None and known.name == principal


def _told(node: Node) -> list[dict[str, Any]]:
    if "exceptions" not in node.log.streams():
        return []
    batches = node.log.read("exceptions", Position())
    return [msgspec.json.decode(body) for batch in batches for body in batch.records.column("body").to_pylist()]


def _reasons(node: Node) -> list[str]:
    return [body["reason"] for body in _told(node)]


async def test_a_peer_whose_credential_is_withdrawn_leaves_and_comes_back_with_another(tmp_path: Path) -> None:
    """Without a restart of either."""
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: bool(hq.links.status()) and bool(tokyo.links.status()))
    CredentialFile(tmp_path / "hq").withdraw("node:tokyo")
    await until(lambda: not hq.links.status() and not tokyo.links.status())
    with refusal(NotAllowed, "peer_unknown", "token"):
        hq.links.who("tokyo", None, "token-of-tokyo")
    allow_peers(tmp_path / "hq", {"tokyo": "token-of-tokyo"})
    await until(lambda: bool(hq.links.status()))
    for node in (tokyo, hq):
        await node.stop()


async def test_a_peer_has_the_streams_that_its_credential_lets_it_replicate(tmp_path: Path) -> None:
    """The port's own name, and the place it is a node of, prove it alike; another's do not."""
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    file = CredentialFile(tmp_path / "hq")
    file.withdraw("node:tokyo")
    file.give_token("port:SGSIN", {"replicate": ("*",)}, "token-of-tokyo")
    await until(lambda: _is_known(hq, "token-of-tokyo", "port:SGSIN"))
    with refusal(NotAllowed, "peer_unknown", "token"):
        hq.links.who("tokyo", None, "token-of-tokyo")
    file.withdraw("port:SGSIN")
    file.give_token("port:JPTYO", {"replicate": ("containers",)}, "token-of-tokyo")
    await until(lambda: _is_known(hq, "token-of-tokyo", "port:JPTYO"))
    tokyo.link([address("tokyo", "hq", hq.url)])
    await tokyo.append([Append("containers", ONE), Append("events", ONE)])
    await hq.append([Append("containers", ONE)])
    await until(lambda: len(hq.log.position("containers")) == len(tokyo.log.position("containers")) == 2)
    assert "events" not in hq.log.streams()
    for node in (tokyo, hq):
        await node.stop()


async def test_a_session_has_what_the_principal_of_its_peer_may_replicate(tmp_path: Path) -> None:
    """By a token as by a certificate, `may` decides."""
    hq = await started("hq", tmp_path)
    by_certificate = hq.links.who("tokyo", "tokyo", "")
    assert (by_certificate.principal.name, by_certificate.may_replicate("events")) == ("node:tokyo", True)
    by_token = Guest(by_certificate.peer, Principal("port:JPTYO", {"replicate": ("containers",)}))
    me, roles = hq.settings.me(), {"tokyo": by_token.peer.role}
    for guest, allowed in ((by_certificate, True), (by_token, False)):
        terms = Terms(me, guest.peer.peer(), LAN, roles, may_replicate=guest.may_replicate)
        assert terms.incoming(("containers", Origin("tokyo", 1)))
        assert terms.incoming(("events", Origin("tokyo", 1))) == allowed
    await hq.stop()
