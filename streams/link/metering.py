"""Sockets whose every byte is allowed beforehand by a budget, and counted: TLS, upgrade and all that TCP carries, both ways."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from typing import Any

from streams.budget import Purse

RECEIVE_BUFFER_BYTES = 32 << 10
"""What is asked for as receive buffer: the other side can not send more unasked than fits it, and so much is allowed for ahead."""

OPENING_BYTES = 96 << 10
"""With less than this left, a link is not opened for more than alerts."""


def window_bytes() -> int:
    """What this system makes of RECEIVE_BUFFER_BYTES, and a link is held for."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


class BudgetSpent(ConnectionAbortedError):
    """The link's budget does not allow what would pass the socket next: the connection ends here."""


class Meter:
    """Makes sockets that spend from `purse`; with `alerts` beyond all it has."""

    def __init__(self, purse: Purse, alerts: bool) -> None:
        self.purse, self.alerts = purse, alerts

    def socket(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for one of `getaddrinfo`'s addresses. Raises BudgetSpent when there is nothing left to open it for."""
        family, kind, protocol = address[:3]
        return _MeteredSocket(self, family, kind, protocol)


class _MeteredSocket(socket.socket):
    def __init__(self, meter: Meter, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._meter = meter
        window = self.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if not meter.purse.hold(window, meter.alerts):
            self.close()
            raise BudgetSpent("the day's budget of this link is spent")
        self._window = window

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._allow(len(memoryview(data)))
        sent = super().send(data, flags)
        self._meter.purse.passed(sent)
        return sent

    def sendmsg(self, buffers: Any, *others: Any) -> int:
        """What asyncio sends by from Python 3.12 on, once it has had to wait."""
        data = list(buffers)
        self._allow(sum(len(memoryview(one)) for one in data))
        sent = super().sendmsg(data, *others)
        self._meter.purse.passed(sent)
        return sent

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        self._came(len(data))
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        received = super().recv_into(buffer, size, flags)
        self._came(received)
        return received

    def close(self) -> None:
        window, self._window = getattr(self, "_window", 0), 0
        if window:
            self._meter.purse.passed(self._unread())
            self._meter.purse.release(window, self._meter.alerts)
        super().close()

    def _unread(self) -> int:
        """Bytes that have come and that nobody will read any more."""
        return int(struct.unpack("i", fcntl.ioctl(self, termios.FIONREAD, bytes(4)))[0])

    def _came(self, bytes_: int) -> None:
        self._meter.purse.passed(bytes_)
        self._allow(0)

    def _allow(self, bytes_: int) -> None:
        """Raises BudgetSpent; then what may be on its way to this socket counts as come, for nobody reads it."""
        if not self._meter.purse.ahead(bytes_, self._meter.alerts):
            window, self._window = self._window, 0
            self._meter.purse.release(window, self._meter.alerts)
            self._meter.purse.passed(window)
            raise BudgetSpent("the day's budget of this link is spent")
