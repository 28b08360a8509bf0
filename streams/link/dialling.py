"""Opening a link to a peer: the WebSocket upgrade, and what its refusal means in a sentence for people."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from streams.errors import NotAllowed, RetryLater
from streams.link.wire import RECEIVE_BYTES_MAX, Wire
from streams.policy import LinkClass

NODE_HEADER = "X-Landfall-Node"
LINK_HEADER = "X-Landfall-Link"
DIAL_TIMEOUT_S = 15.0
_REFUSED = (400, 401, 403, 404, 409)


class Dialler:
    """Dials peers. One per node; `close` it at the end."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._http: aiohttp.ClientSession | None = None

    async def dial(self, url: str, token: str, link: LinkClass) -> Wire:
        """The open link to the node whose door is at `url`.

        Raises NotAllowed with the peer's own sentence when it refuses us, RetryLater when it can not be reached within DIAL_TIMEOUT_S.
        """
        if self._http is None:
            self._http = aiohttp.ClientSession(trust_env=False)
        headers = {"Authorization": f"Bearer {token}", NODE_HEADER: self._node, LINK_HEADER: link}
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                opened = await self._http.ws_connect(
                    f"{url}/sync", headers=headers, max_msg_size=RECEIVE_BYTES_MAX, compress=0, autoping=True
                )
        except aiohttp.WSServerHandshakeError as problem:
            if problem.status in _REFUSED:
                raise NotAllowed(
                    f"{url} refuses the link: {await self._why(url, headers, problem)}", hint="mend the token or the node's name"
                ) from None
            raise RetryLater(f"{url} answers {problem.status}: {problem.message}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise RetryLater(f"{url} can not be reached: {str(problem) or type(problem).__name__}") from None
        connection = opened._response.connection
        return Wire(opened, connection.transport if connection else None)

    async def close(self) -> None:
        """No more dialling; open links stay."""
        if self._http is not None:
            await self._http.close()

    async def _why(self, url: str, headers: dict[str, str], problem: aiohttp.WSServerHandshakeError) -> str:
        """The sentence behind a refusal: the upgrade's own answer loses its body, a plain request for the same shows it."""
        assert self._http is not None
        try:
            async with self._http.get(f"{url}/sync", headers=headers, timeout=aiohttp.ClientTimeout(total=5)) as answer:
                return str(json.loads(await answer.text())["problem"])
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
            return problem.message
