"""One WebSocket as the sync session uses it: whole binary messages, a send queue kept nearly empty, no compression."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from aiohttp import ClientWebSocketResponse, WebSocketError, WSMsgType, web

from landfall.system.listen_address import address
from landfall.transport.tls import expires_s
from streams.model.errors import Corrupt
from streams.replication.link_terms import Nonces
from streams.replication.sync_messages import MESSAGE_BYTES_MAX

UNSENT_BYTES_MAX = 16 << 10
"""Maximum number of unsent bytes in the operating system: an alert waits for no more than this, and one fragment."""
UNSENT_S = 0.1
"""Maximum time, seconds, that the unsent bytes take on a link of a known rate; at least one segment."""
SEGMENT_BYTES = 1_448
CLOSE_TIMEOUT_S = 2.0
NONCE_HEADER = "X-Landfall-Nonce"
"""Header by which each end of an upgrade asks the other for an answer in its Hello, in hex."""
NONCE_BYTES = 8
RECEIVE_BYTES_MAX = MESSAGE_BYTES_MAX + 1024


class Transport(Protocol):
    """The part of an asyncio transport that is tuned here."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause writers above `high` waiting bytes until there are `low`."""
        ...

    def abort(self) -> None:
        """Cut the connection at once."""
        ...


class Wire:
    """A WebSocket, opened by either side. `send` returns when the message has left this side's own queue, so that the next can still be
    chosen.

    `sent_bytes` and `received_bytes` count its frames, headers included. `counts_until_s`: the time until which the peer's certificate is
    valid (seconds since 1970); None where it shows none. `nonces`: the nonces that its ends have sent each other. `address`: the peer's
    host, if known; `endpoint`: its host and port, empty if not known.
    """

    def __init__(
        self,
        socket_: ClientWebSocketResponse | web.WebSocketResponse,
        transport: Transport | None,
        nonces: Nonces,
        gone: asyncio.Future[None] | None = None,
    ) -> None:
        """Wrap an open socket. `gone`: done once its socket is closed; None where no caller has to wait for that."""
        self._socket = socket_
        self._transport = transport
        self._gone = gone
        self.nonces = nonces
        self.address = _host(socket_.get_extra_info("peername"))
        self.endpoint = _endpoint(socket_.get_extra_info("peername"))
        self.counts_until_s = expires_s(socket_.get_extra_info("peercert"))
        self._dialled = isinstance(socket_, ClientWebSocketResponse)
        self.sent_bytes = 0
        self.received_bytes = 0
        _tune(socket_, transport)

    @classmethod
    async def accept(cls, request: web.Request) -> Wire:
        """Return the server's end of an upgrade that has been granted."""
        response = web.WebSocketResponse(max_msg_size=RECEIVE_BYTES_MAX, compress=False, autoping=True)
        mine = secrets.token_bytes(NONCE_BYTES)
        response.headers[NONCE_HEADER] = mine.hex()
        await response.prepare(request)
        return cls(response, request.transport, Nonces(mine, nonce_of(request.headers)))

    @property
    def response(self) -> web.WebSocketResponse:
        """The response that the server's handler returns at the end."""
        assert isinstance(self._socket, web.WebSocketResponse)
        return self._socket

    def keep_short(self, rate_bit_s: int) -> None:
        """Limit the unsent bytes in the operating system to UNSENT_S of a link that carries this many bits per second."""
        _limit_unsent(self._socket, unsent_bytes(rate_bit_s))

    async def send(self, data: bytes) -> bool:
        """Send one message, and return whether it was sent; False when the link is gone."""
        if self._socket.closed:
            return False
        try:
            await self._socket.send_bytes(data)
        except (ConnectionError, RuntimeError):
            return False
        self.sent_bytes += framed_bytes(len(data), masked=self._dialled)
        return True

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the incoming binary messages, until the link is gone. Raises Corrupt at what no peer sends: a text, a message of more than
        RECEIVE_BYTES_MAX, or bytes that are no WebSocket message.
        """
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY:
                if message.type is WSMsgType.TEXT or isinstance(message.data, WebSocketError):
                    raise Corrupt(
                        f"this is no message of a session: {'a text' if message.type is WSMsgType.TEXT else message.data}",
                        code="message_corrupt",
                    )
                return
            self.received_bytes += framed_bytes(len(message.data), masked=not self._dialled)
            yield message.data

    async def close(self) -> None:
        """Close the link with a closing handshake, and cut it when that takes too long. A link that has been cut gets no handshake.

        The socket of a dialled link is closed when it returns, so that no budget is held for it any more. Over TLS that is only once the
        peer has answered the handshake too.
        """
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close()
                await self._closed()
        except (TimeoutError, ConnectionError):
            self.abort()
            await self._closed()

    async def _closed(self) -> None:
        if self._gone is not None:
            await asyncio.wait((self._gone,))  # which does not end with who waits
            if not self._gone.cancelled():
                self._gone.exception()  # why it was cut, where it was: heard

    def abort(self) -> None:
        """Cut the link at once, whatever waits to be sent."""
        if self._transport is not None:
            self._transport.abort()


def nonce_of(headers: Mapping[str, str]) -> bytes:
    """Return the nonce in these headers; empty where there is none that reads."""
    try:
        return bytes.fromhex(headers.get(NONCE_HEADER, ""))[:NONCE_BYTES]
    except ValueError:
        return b""


def framed_bytes(payload_bytes: int, masked: bool) -> int:
    """Return the size of a WebSocket frame (RFC 6455, 5.2); `masked`: sent by the dialling side."""
    header_bytes = 2 if payload_bytes < 126 else 4 if payload_bytes < 65_536 else 10
    return payload_bytes + header_bytes + (4 if masked else 0)


def unsent_bytes(rate_bit_s: int) -> int:
    """Return the maximum number of unsent bytes in the operating system on a link of this many bits per second."""
    return min(max(SEGMENT_BYTES, int(rate_bit_s / 8 * UNSENT_S)), UNSENT_BYTES_MAX)


def _host(peername: object) -> str | None:
    return str(peername[0]) if isinstance(peername, tuple) else None


def _endpoint(peername: object) -> str:
    return address(str(peername[0]), int(peername[1])) if isinstance(peername, tuple) else ""


def _tune(socket_: ClientWebSocketResponse | web.WebSocketResponse, transport: Transport | None) -> None:
    raw = socket_.get_extra_info("socket")
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _limit_unsent(socket_, UNSENT_BYTES_MAX)
    if transport is not None:
        # TLS takes a limit of 0 to be reached for ever, and what it has encrypted waits in the transport beneath, which it does not show.
        beneath = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        transport.set_write_buffer_limits(high=1 if beneath else 0, low=0)
        if beneath is not None:
            beneath.set_write_buffer_limits(high=0)
    # aiohttp lets a server choose when a writer waits for the transport, and a client not: it is the same number of the same class.
    setattr(socket_._writer, "_limit", 0)  # noqa: B010


def _limit_unsent(socket_: ClientWebSocketResponse | web.WebSocketResponse, bytes_: int) -> None:
    raw, unsent = socket_.get_extra_info("socket"), getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if unsent and raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, unsent, bytes_)
