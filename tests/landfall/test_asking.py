"""Goal: a clock or a node asked from the command line that does not answer as one is told of in a sentence, whatever stands there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from landfall.access.credentials import OPERATOR_TOKEN
from landfall.system.private_files import write_private
from tests.landfall.answering import answering
from tests.landfall.commands import run

VIEW = {"fleet_at_ms": 1_777_593_600_000, "speed": 1.0, "state": "running"}


WHERE = "is the demo running? give its clock's address with --url"
STRANGERS: list[tuple[int, bytes]] = [
    (200, b"<html>It works!</html>"),
    (200, b""),
    (200, b"[]"),
    (200, b'"hello"'),
    (200, b'{"hello": 1}'),
    (200, b"\xff\xfe"),
    (404, b"404: Not Found"),
    (500, b"{}"),
    (302, b""),
]


@pytest.mark.parametrize(("status", "body"), STRANGERS)
def test_a_server_that_is_no_clock_is_told(status: int, body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(status, body) as port:
        url = f"http://127.0.0.1:{port}"
        for words in (("clock",), ("pause",)):
            code, printed, told = run(capsys, "sim", *words, "--url", url)
            assert (code, printed) == (2, "")
            assert told == f"[not_a_node] landfall: what answers at {url} is not the fleet's clock (HTTP {status}) → {WHERE}"


@pytest.mark.parametrize(("status", "body"), STRANGERS)
def test_a_server_that_is_no_ship_is_told(status: int, body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(status, body) as port:
        config = tmp_path / "ship.toml"
        node = f'node = "albatross"\nrole = "ship"\nidentity = "9321483"\nfolder = "{tmp_path}"\nport = {port}\n'
        config.write_text(f"[node]\n{node}")
        write_private(tmp_path / OPERATOR_TOKEN, b"of a node that runs")
        for words in (("status",), ("status", "--json"), ("link", "none")):
            code, printed, told = run(capsys, "ship", *words, "-c", config)
            assert (code, printed, told.startswith("[not_a_node] ")) == (2, "", True)
            assert all(value in told for value in (f"http://127.0.0.1:{port}", "'albatross'", f"HTTP {status}", "`landfall ship`"))


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:port", "127.0.0.1:8790", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, told = run(capsys, "sim", "clock", "--url", url)
    assert code == 2
    assert told.startswith(f"[address_invalid] landfall: {url!r} ")


def test_a_clock_that_is_away_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, told = run(capsys, "sim", "clock", "--url", "http://127.0.0.1:1")
    assert code == 2
    assert told.startswith("[node_unreachable] ")


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        ({"error": "past A", "hint": "begin anew", "code": "chapter_past"}, "[chapter_past] landfall: past A → begin anew"),
        ({"problem": "not with this token"}, f"[misuse] landfall: not with this token → {WHERE}"),
    ],
)
def test_a_refusal_is_told_in_its_own_words(refusal: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(409, json.dumps(refusal).encode(), "application/json") as port:
        assert run(capsys, "sim", "jump", "A", "--url", f"http://127.0.0.1:{port}") == (2, "", told)


def test_a_clock_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, json.dumps(VIEW).encode(), "application/json") as port:
        code, printed, _ = run(capsys, "sim", "speed", "1", "--url", f"http://127.0.0.1:{port}")
    assert code == 0
    assert "1 x real time  running" in printed
