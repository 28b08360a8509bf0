"""Sockets whose every byte is counted, and allowed in advance where there is a budget: TLS, upgrade and all that TCP carries, both ways."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any

from streams.link_budget.daily_budget import RemainingBudget

RECEIVE_BUFFER_BYTES = 32 << 10
"""Requested size of the receive buffer, bytes. The other side can not send more than fits it unasked, and this much is allowed in
advance.
"""

OPENING_BYTES = 96 << 10
"""Minimum remaining budget, bytes, below which a link is not opened for more than alerts."""


def window_bytes() -> int:
    """Return the size that this system makes of RECEIVE_BUFFER_BYTES, which is held for a link."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


class BudgetSpent(ConnectionAbortedError):
    """The link's budget does not allow the next bytes at the socket: the connection ends here."""


Count = Callable[[int, int], None]
"""A function that receives each piece that has passed: bytes sent, bytes received."""


class Meter:
    """A maker of sockets that report passed bytes to `count`, and spend from `budget`, if there is one; with `alerts` beyond all it has."""

    def __init__(self, budget: RemainingBudget | None, alerts: bool, count: Count) -> None:
        self.budget, self.alerts, self.count = budget, alerts, count

    def socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket for one of `getaddrinfo`'s addresses. Raises BudgetSpent when there is nothing left to open it for."""
        family, kind, protocol = address[:3]
        if self.budget is None:
            return _CountedSocket(self.count, family, kind, protocol)
        return _MeteredSocket(self.budget, self.alerts, self.count, family, kind, protocol)


class _CountedSocket(socket.socket):
    def __init__(self, count: Count, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._count = count

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._allow(len(memoryview(data)))
        sent = super().send(data, flags)
        self._passed(sent, 0)
        return sent

    def sendmsg(self, buffers: Any, *others: Any) -> int:
        """Send buffers. asyncio sends with this from Python 3.12 on, once it has had to wait."""
        data = list(buffers)
        self._allow(sum(len(memoryview(one)) for one in data))
        sent = super().sendmsg(data, *others)
        self._passed(sent, 0)
        return sent

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        self._came(len(data))
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        received = super().recv_into(buffer, size, flags)
        self._came(received)
        return received

    def _came(self, bytes_: int) -> None:
        self._passed(0, bytes_)
        self._allow(0)

    def _passed(self, sent: int, received: int) -> None:
        self._count(sent, received)

    def _allow(self, bytes_: int) -> None:
        """Raise BudgetSpent where that many bytes may not pass now."""


class _MeteredSocket(_CountedSocket):
    def __init__(self, budget: RemainingBudget, alerts: bool, count: Count, family: int, kind: int, protocol: int) -> None:
        super().__init__(count, family, kind, protocol)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._budget, self._alerts = budget, alerts
        window = self.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if not budget.hold(window, alerts):
            self.close()
            raise BudgetSpent("the day's budget of this link is spent")
        self._window = window

    def close(self) -> None:
        window, self._window = getattr(self, "_window", 0), 0
        if window:
            if unread := self._unread():
                self._passed(0, unread)
            self._budget.release(window, self._alerts)
        super().close()

    def _unread(self) -> int:
        """Return the number of bytes that have come and will not be read any more."""
        return int(struct.unpack("i", fcntl.ioctl(self, termios.FIONREAD, bytes(4)))[0])

    def _passed(self, sent: int, received: int) -> None:
        super()._passed(sent, received)
        self._budget.passed(sent + received)

    def _allow(self, bytes_: int) -> None:
        """Raise BudgetSpent where that many bytes may not pass now. Bytes that may be on their way to this socket then count as received in
        the `budget`, because they are not read.
        """
        if not self._budget.ahead(bytes_, self._alerts):
            window, self._window = self._window, 0
            self._budget.release(window, self._alerts)
            self._budget.passed(window)
            raise BudgetSpent("the day's budget of this link is spent")
