"""Goal: the crew's console is served over TLS by settings, and behind a proxy that is named each crew member has an address of its own."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from pydantic import ValidationError

from edge.console.console_status import Console
from edge.console.crew_api import CrewDoor
from landfall.cli.login_prompt import basic
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from streams.model.clock import WallClock
from tests.node.test_certificates import run, secured
from tests.support.credentials import PASSWORD, allow_crew
from tests.support.fleet import settings, until
from tests.support.refusals import refusal


async def aboard(chosen: NodeSettings) -> Node:
    """A ship's node with its console, started."""
    allow_crew(chosen.folder, "anna", "Anna Lind, master")
    node, nothing = Node(chosen, WallClock()), cast(Any, None)
    CrewDoor(node, nothing)
    Console(node, nothing, nothing, nothing, nothing)
    await node.start()
    return node


async def test_the_console_speaks_tls_and_wants_no_certificate_of_a_browser(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    run("certs", "authority", str(certs))
    run("certs", "node", "hq", "tokyo", "ship-a", "--folder", str(certs), "--host", "127.0.0.1")
    node = await aboard(secured("ship-a", tmp_path, shutil.copytree(certs, tmp_path / "own")))
    trusted = ssl.create_default_context(cafile=str(certs / "authority.pem"))
    async with aiohttp.ClientSession(node.tls_url) as browser:
        for headers in ({}, {"Host": "elsewhere.example"}):
            async with browser.get("/console", ssl=trusted, headers=headers, allow_redirects=False) as page:
                assert page.status == 200
                assert "elsewhere" not in str(page.headers)
        async with browser.get("/ship/board", ssl=trusted) as closed:
            assert closed.status == 401
    await node.stop()


@pytest.mark.parametrize(
    ("trusted", "address"),
    [((), "127.0.0.1"), (("10.9.0.0/16",), "127.0.0.1"), (("127.0.0.1", "10.9.0.0/16"), "203.0.113.9"), (("127.0.0.1",), "10.9.1.1")],
)
async def test_only_a_trusted_proxy_names_who_shows_a_wrong_password(tmp_path: Path, trusted: tuple[str, ...], address: str) -> None:
    """Of several in a row the last that is no trusted proxy counts; what is no address is not believed."""
    node = await aboard(settings("ship-a", tmp_path).model_copy(update={"trusted_proxies": trusted}))
    async with aiohttp.ClientSession(node.url) as browser:
        for user, password, status in (("anna", "a guess", 401), ("anna", PASSWORD, 200)):
            headers = {"Authorization": basic(user, password), "X-Forwarded-For": "198.51.100.1, 203.0.113.9, 10.9.1.1"}
            async with browser.get("/streams", headers=headers) as answer:
                assert answer.status == status
    reported = f'"address":"{address}"'
    await until(lambda: any(reported in body for body in node.log.history("ship-a.node").rows.column("body").to_pylist()))
    await node.stop()


def test_a_proxy_that_is_no_address_is_told(tmp_path: Path) -> None:
    told = settings("ship-a", tmp_path).model_dump(exclude={"known"})
    with refusal(ValidationError, "trusted_proxies", "proxy.example"):
        NodeSettings.model_validate({**told, "trusted_proxies": ["proxy.example"]})
