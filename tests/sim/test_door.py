"""Goal: the clock's HTTP door tells the time, takes orders, and says in words what it does not take."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from pydantic import SecretStr

from landfall.access import wrong_secrets
from landfall.access.wrong_secrets import SLOWED_S, WrongSecrets
from landfall.system.http_headers import DATA_HEADERS
from sim.door import clock_door
from sim.settings import BEGINS_AT_MS
from sim.story import chapters
from sim.story_clock import Setting, StoryClock
from sim.voyages import timeline
from streams.model.clock import StillClock
from streams.model.metrics import Metrics

Door = TestClient[Any, Any]
TOKEN = SecretStr("a token of forty characters, or nearly so")
WRONG = WrongSecrets(StillClock(), Metrics("sim"), lambda *_, **__: None)
SHOWN = {"Authorization": f"Bearer {TOKEN.get_secret_value()}"}


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    times = timeline(BEGINS_AT_MS)
    clock = StoryClock(times.ends_at_ms, chapters(times), times.falls_at_ms + 1, Setting(4_000.0, paused=False), StillClock())
    async with TestClient(TestServer(clock_door(clock, TOKEN, WRONG)), headers=SHOWN) as client:
        yield client


async def test_it_tells_the_time(door: Door) -> None:
    told = await (await door.get("/clock")).json()
    assert {"wall_at_ms", "fleet_at_ms", "speed", "chapter", "state"} <= told.keys()
    assert (await door.get("/healthz")).status == 200


async def test_its_answers_have_the_security_headers(door: Door) -> None:
    for path, status in (("/clock", 200), ("/nothing", 404), ("/control", 405)):
        answer = await door.get(path)
        assert answer.status == status
        assert DATA_HEADERS.items() <= dict(answer.headers).items()


async def test_it_takes_orders(door: Door) -> None:
    told = await (await door.post("/control", json={"action": "pause"})).json()
    assert told["state"] == "paused"
    told = await (await door.post("/control", json={"action": "speed", "speed": 250})).json()
    assert told["speed_set"] == 250
    told = await (await door.post("/control", json={"action": "resume"})).json()
    assert told["state"] in ("running", "waiting")
    assert (await door.post("/control", data=codecs.BOM_UTF8 + b'{"action": "pause"}')).status == 200


async def test_only_who_shows_its_token_moves_it_and_no_web_page(door: Door) -> None:
    """The time anybody may ask."""
    order = {"action": "pause"}
    foreign = {"Origin": "https://evil.example"}
    refused = [
        await door.post("/control", json=order, headers={"Authorization": "Bearer wrong"}),
        await door.post("/control", json=order, headers=foreign),
        await door.post("/control", data="{", headers=foreign | {"Authorization": "", "Content-Type": "text/plain"}),
    ]
    assert [(one.status, (await one.json())["code"]) for one in refused] == [
        (401, "control_token_wrong"),
        (403, "foreign_origin"),
        (403, "foreign_origin"),
    ]
    assert (await (await door.get("/clock", headers={"Authorization": ""})).json())["state"] != "paused"


async def test_a_wrong_token_is_counted_slowed_and_reported() -> None:
    times, metrics, waits, reports = timeline(BEGINS_AT_MS), Metrics("sim"), list[float](), list[dict[str, Any]]()

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    wrong = WrongSecrets(StillClock(), metrics, lambda *_, **details: reports.append(details), wait)
    clock = StoryClock(times.ends_at_ms, chapters(times), BEGINS_AT_MS, Setting(4_000.0, paused=False), StillClock())
    async with TestClient(TestServer(clock_door(clock, TOKEN, wrong))) as client:
        for token in ("Bearer wrong", "Bearer guess", "Basic guess"):
            answer = await client.post("/control", json={"action": "pause"}, headers={"Authorization": token})
            assert answer.status == 401
        assert (await client.post("/control", json={"action": "pause"})).status == 401
        assert (await client.post("/control", json={"action": "pause"}, headers=SHOWN)).status == 200
    assert waits == [0, SLOWED_S, 2 * SLOWED_S]
    assert [one["address"] for one in reports] == ["127.0.0.1"]
    assert metrics.body(0, 0)["counts"]["secrets_wrong"] == 3


async def test_beyond_the_answers_that_wait_a_wrong_token_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, door: Door) -> None:
    monkeypatch.setattr(wrong_secrets, "SLOWED_MAX", 0)
    answer = await door.post("/control", json={"action": "pause"}, headers={"Authorization": "Bearer wrong"})
    assert (answer.status, (await answer.json())["code"]) == (429, "secrets_too_many")


async def test_without_a_token_in_its_settings_nobody_moves_it() -> None:
    times = timeline(BEGINS_AT_MS)
    clock = StoryClock(times.ends_at_ms, chapters(times), BEGINS_AT_MS, Setting(4_000.0, paused=False), StillClock())
    async with TestClient(TestServer(clock_door(clock, None, WRONG)), headers={"Authorization": "Bearer "}) as client:
        answer = await client.post("/control", json={"action": "pause"})
        assert (answer.status, (await answer.json())["code"]) == (403, "control_closed")


async def test_it_starts_a_story_that_is_held() -> None:
    times = timeline(BEGINS_AT_MS)
    clock = StoryClock(times.ends_at_ms, chapters(times), BEGINS_AT_MS, Setting(4_000.0, paused=False), StillClock(), hold=True)
    clock.confirm(BEGINS_AT_MS)
    async with TestClient(TestServer(clock_door(clock, TOKEN, WRONG)), headers=SHOWN) as client:
        told = await (await client.get("/clock")).json()
        assert (told["state"], told["stops_at_ms"]) == ("waiting", told["fleet_at_ms"])
        told = await (await client.post("/control", json={"action": "start"})).json()
        assert told["state"] == "running"
        assert told["stops_at_ms"] > told["fleet_at_ms"]


@pytest.mark.parametrize(
    ("order", "status", "says"),
    [
        ({"action": "jump", "chapter": "C"}, 409, "--fresh"),
        ({"action": "jump"}, 409, "chapter"),
        ({"action": "speed", "speed": -1}, 409, "above 0"),
        ({"action": "dance"}, 400, "action"),
        ({"action": "pause", "why": "tea"}, 400, "why"),
        ("nonsense", 400, "action"),
    ],
)
async def test_it_says_what_it_does_not_take(door: Door, order: object, status: int, says: str) -> None:
    answer = await door.post("/control", json=order)
    assert answer.status == status
    assert says in await answer.text()
