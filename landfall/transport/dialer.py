"""The dialler of links to peers: the WebSocket upgrade, and the meaning of its refusal in a sentence for people."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from contextlib import suppress
from datetime import UTC, datetime

import aiohttp

from landfall.transport.byte_meter import Meter
from landfall.transport.certificates import doubt, doubt_of_authority
from landfall.transport.foreign_servers import no_node
from landfall.transport.name_lookups import LookUps
from landfall.transport.tls import CERTIFICATE_HINT, TlsFiles, dialling, node_host, shown_of, why
from landfall.transport.websocket import NONCE_BYTES, NONCE_HEADER, RECEIVE_BYTES_MAX, Wire, nonce_of
from streams.config.roles import LinkClass
from streams.model.errors import Misuse, NotAllowed, RetryLater
from streams.replication.link_terms import Nonces

NODE_HEADER = "X-Landfall-Node"
LINK_HEADER = "X-Landfall-Link"
DIAL_TIMEOUT_S = 15.0
_REFUSED = (400, 401, 403)
_REDIRECTS = (301, 302, 303, 307, 308)
"""Redirects that aiohttp follows, also for an upgrade. aiohttp has no option not to follow them."""


class Dialler:
    """A dialler of peers. There is one per node; `close` it at the end."""

    def __init__(self, node: str, tls: TlsFiles | None = None) -> None:
        """Make the dialler. `tls`: the certificate to show at `https://` doors, and the authority to trust there. Raises Misuse when it
        does not load.
        """
        self._node, self._tls = node, tls
        self._shown = None if tls is None else shown_of(dialling(tls), tls)
        self._https: dict[Meter | None, aiohttp.ClientSession] = {}
        self._look_ups = LookUps()

    async def dial(self, url: str, peer: str, token: str | None, link: LinkClass, meter: Meter | None = None) -> Wire:
        """Return the open link to the node `peer`, whose door is at `url`: by certificates when that is `https://`, and with the token, if
        any.

        `meter` allows and counts every byte, in both directions, from the first one on; the link is cut where it does not allow a byte.
        Raises NotAllowed when the peer refuses this node, with the peer's own sentence, or a certificate is not valid. Raises RetryLater
        when the peer can not be reached within DIAL_TIMEOUT_S, or the answer is not a node's.
        """
        http, mine = self._http(meter), secrets.token_bytes(NONCE_BYTES)
        headers = {NODE_HEADER: self._node, LINK_HEADER: link, NONCE_HEADER: mine.hex()}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        shown = node_host(peer) if url.startswith("https:") else None
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                opened = await http.ws_connect(
                    f"{url}/sync",
                    headers=headers,
                    max_msg_size=RECEIVE_BYTES_MAX,
                    compress=0,
                    autoping=True,
                    ssl=self._secured(),
                    server_hostname=shown,
                )
        except aiohttp.WSServerHandshakeError as problem:
            if problem.status in _REFUSED and (refusal := await self._refusal(http, url, headers, shown)):
                sentence, code = refusal
                raise NotAllowed(f"{url} refuses the link: {sentence}", hint="fix the token or the node's name", code=code) from None
            raise no_node(url, problem.status) from None
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            if shown and (reason := self._wrong(problem, peer) or self._doubt(problem)):
                raise NotAllowed(f"{url} is not linked to: {reason}", hint=CERTIFICATE_HINT, code="certificate_refused") from None
            raise RetryLater(f"{url} can not be reached: {str(problem) or type(problem).__name__}", code="node_unreachable") from None
        answer, line = opened._response, opened._response.connection
        transport = None if line is None else line.transport
        gone = None if line is None or line.protocol is None else line.protocol.closed
        return Wire(opened, transport, Nonces(mine, nonce_of(answer.headers)), gone)

    async def close(self) -> None:
        """Stop dialling; open links stay."""
        for http in self._https.values():
            await http.close()
        await self._look_ups.close()

    def _http(self, meter: Meter | None) -> aiohttp.ClientSession:
        if meter not in self._https:
            if meter is None:
                connector = aiohttp.TCPConnector(resolver=self._look_ups)
            else:
                connector = aiohttp.TCPConnector(resolver=self._look_ups, socket_factory=meter.socket, force_close=True)
            self._https[meter] = aiohttp.ClientSession(trust_env=False, connector=connector, middlewares=(_sent_nowhere,))
        return self._https[meter]

    def _secured(self) -> ssl.SSLContext | bool:
        """Return the context with this node's certificate as it is now, if it has one."""
        if self._shown is None:
            return True
        with suppress(Misuse):  # reported by the work that looks after the node's certificate; the last that loaded may do
            self._shown.renew()
        return self._shown.context

    def _wrong(self, problem: Exception, peer: str) -> str | None:
        """Return what is wrong with the certificates, as far as this end can know. OpenSSL does not report whether the peer's own has
        expired or its authority's.
        """
        said = why(problem, peer)
        return said and ((self._tls and doubt_of_authority(self._tls, datetime.now(UTC))) or said)

    def _doubt(self, problem: Exception) -> str | None:
        """Return why the peer may have rejected our certificate, or None: a peer that rejects it closes the connection without a
        message.
        """
        if self._tls is None or isinstance(problem, aiohttp.ClientConnectorError | TimeoutError):
            return None
        return doubt(self._tls, datetime.now(UTC))

    async def _refusal(self, http: aiohttp.ClientSession, url: str, headers: dict[str, str], shown: str | None) -> tuple[str, str] | None:
        """Return the sentence and the code of a node's refusal; None when it is no node's. The upgrade's own answer loses its body; a plain
        request for the same path shows it.
        """
        try:
            secured, timeout = self._secured(), aiohttp.ClientTimeout(total=5)
            async with http.get(f"{url}/sync", headers=headers, timeout=timeout, ssl=secured, server_hostname=shown) as answer:
                fields = json.loads(await answer.text())
                return str(fields["problem"]), str(fields["code"])
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):
            return None


async def _sent_nowhere(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise the handshake error at a redirect: a node never redirects, and the token is for it alone."""
    answer = await ask(request)
    if answer.status in _REDIRECTS:
        answer.close()
        raise aiohttp.WSServerHandshakeError(answer.request_info, answer.history, status=answer.status)
    return answer
