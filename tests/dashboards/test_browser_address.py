"""Goal: the pages name to the API the address that a browser has, and one in `X-Forwarded-For` only from a proxy that they trust."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, TCPConnector, WSMsgType, web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates

from hq.browser_address import browser_address
from tests.support.page_stage import STARTED_S_MAX, pages_at

TOKEN = "the token that pages and API share"
PROXY, BROWSER, NAMED = "127.0.0.3", "127.0.0.2", "203.0.113.7"


class RecordingApi:
    """Takes nobody in, and keeps which address the pages name of whom; every other question is answered that there is no such thing."""

    def __init__(self) -> None:
        self.named: list[str | None] = []

    async def log_in(self, request: web.Request) -> web.Response:
        """`POST /api/token`."""
        self.named.append(browser_address(request.headers, SecretStr(TOKEN)))
        return web.json_response({"error": "No.", "code": "login_wrong"}, status=401)

    def app(self) -> web.Application:
        """What serves it."""
        app = web.Application()
        app.add_routes([web.post("/api/token", self.log_in)])
        return app


async def drawn(socket: ClientWebSocketResponse) -> dict[str, str]:
    """The widgets of one run of the page's script, to its end: label → id."""
    found: dict[str, str] = {}
    async for message in socket:
        assert message.type is WSMsgType.BINARY, message
        told = ForwardMsg.FromString(message.data)
        if told.WhichOneof("type") == "script_finished":
            return found
        element = told.delta.new_element
        kind = element.WhichOneof("type")
        if kind in ("text_input", "button"):
            found[getattr(element, kind).label] = getattr(element, kind).id
    raise AssertionError("the pages closed the socket")


async def log_in(url: str, sender: str) -> None:
    """Fill in the form of the login page as a browser does, from the address `sender`, behind a header that names another one."""
    connector = TCPConnector(local_addr=(sender, 0))
    headers = {"X-Forwarded-For": NAMED}
    async with ClientSession(connector=connector) as session, session.ws_connect(f"{url}/_stcore/stream", headers=headers) as socket:
        await socket.send_bytes(BackMsg(rerun_script=ClientState()).SerializeToString())
        ids = await drawn(socket)
        filled = [WidgetState(id=ids[label], string_value="mira") for label in ("Username", "Password")]
        states = WidgetStates(widgets=[*filled, WidgetState(id=ids["Log in"], trigger_value=True)])
        await socket.send_bytes(BackMsg(rerun_script=ClientState(widget_states=states)).SerializeToString())
        await drawn(socket)


@pytest.mark.parametrize(
    ("trusted", "senders", "named"),
    [((), ("127.0.0.1", BROWSER), [None, BROWSER]), ((PROXY,), ("127.0.0.1", BROWSER, PROXY), [None, BROWSER, NAMED])],
)
async def test_only_a_trusted_proxy_names_a_browsers_address(
    tmp_path: Path, trusted: tuple[str, ...], senders: tuple[str, ...], named: list[str | None]
) -> None:
    """Of this machine's own 127.0.0.1 the pages name none."""
    api = RecordingApi()
    async with TestServer(api.app()) as server, asyncio.timeout(2 * STARTED_S_MAX):
        pages = pages_at(tmp_path, str(server.make_url("/")), api_token=TOKEN, trusted_proxies=list(trusted))
        url = await asyncio.to_thread(pages.__enter__)
        try:
            for sender in senders:
                await log_in(url, sender)
        finally:
            await asyncio.to_thread(pages.__exit__, None, None, None)
    assert api.named == named
