"""Goal: a move of the fleet's clock that the simulator refuses is told in the simulator's own sentence, with its own hint."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import HttpUrl, ValidationError

from hq.api.settings import ApiSettings
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import Fleet
from tests.landfall.answering import answering
from tests.support.refusals import refusal

JUMP = {"action": "jump", "chapter": "A"}
PAST = b'{"error": "the story has come past chapter A", "hint": "begin anew with --fresh"}'


@pytest.fixture
def moved(fleet: Fleet, tmp_path: Path) -> Callable[[int], httpx.Response]:
    """What the API answers to a jump, its simulator being at a port."""
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    settings = settings_for(fleet.hq_dir, tmp_path)

    def ask(port: int) -> httpx.Response:
        control = HttpUrl(f"http://127.0.0.1:{port}/control")
        with api_of(settings.model_copy(update={"control": control})) as client:
            return client.post("/api/clock", json=JUMP, headers=log_in(client, "mira"))

    return ask


@pytest.mark.parametrize("status", [400, 409])
def test_the_simulators_own_words_are_passed_on(moved: Callable[[int], httpx.Response], status: int) -> None:
    with answering(status, PAST, "application/json") as port:
        answer = moved(port)
    assert answer.status_code == 409
    assert answer.json()["code"] == "clock_refused"


@pytest.mark.parametrize(("status", "body"), [(404, b"404: Not Found"), (500, b"[]"), (409, b'{"hint": "no"}'), (409, b"\xff")])
def test_what_is_no_simulator_is_told(moved: Callable[[int], httpx.Response], status: int, body: bytes) -> None:
    with answering(status, body) as port:
        answer = moved(port)
    assert answer.status_code == 503
    assert (answer.json()["code"], f"HTTP {status}" in answer.json()["error"]) == ("simulator_foreign", True)


def test_a_simulator_that_is_away_is_told(moved: Callable[[int], httpx.Response]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        answer = moved(nobody.getsockname()[1])
    assert (answer.status_code, answer.json()["code"]) == (503, "simulator_away")


def test_a_clock_that_could_not_be_moved_for_want_of_a_token_is_told(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "log", tmp_path).model_dump() | {"token": "x", "control": "http://127.0.0.1:1/control"}
    with refusal(ValidationError, "control_token"):
        ApiSettings.model_validate(settings)
